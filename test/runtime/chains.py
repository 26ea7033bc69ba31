"""A chain of layers that can be cut anywhere: plans of one model with other stages, shares and ranks."""

from __future__ import annotations

from package_models import BASE
from packages import Package

LAYERS = 4
HEAD = (
    BASE
    + """
MODEL = "chain"
INPUTS = {"x": ("float32", ((1, 0), (0, 6)))}
OUTPUTS = {"y": ("float32", ((1, 0), (0, 6)))}


class Chain(Stage):
    def layer(self, i, x):
        home = getattr(self, f"l{i}")
        if i == 1:
            return self.norm(self.bn, F.linear(x, home.weight))
        return torch.tanh(F.linear(x, home.weight, home.bias))

    def forward(self, x):
        for i in self.mine:
            x = self.layer(i, x)
        return (x,)


def specs(i):
    weight = {f"l{i}.weight": ((6, 6), "float32", "kaiming")}
    return weight if i == 1 else weight | {f"l{i}.bias": ((6,), "float32", "zeros")}


BN = norm_spec("bn", 6)
"""
)
BOUNDARY = {
    "name": "x",
    "type": "float32",
    "shape": [{"perSample": 1}, {"fixed": 6}],
    "differentiable": True,
}


def chain(
    cuts: list[int], widths: list[list[int]], micro_batches: int, optimizer: str = "sgd"
) -> Package:
    """`cuts`: the first layer of each stage but the first."""
    begins, ends = [0, *cuts], [*cuts, LAYERS]
    text = HEAD
    for stage, (begin, end) in enumerate(zip(begins, ends)):
        text += f"""

class Stage{stage}(Chain):
    mine = range({begin}, {end})
    inputs = {("x",) if stage == 0 else ()}
    receives = {() if stage == 0 else ("x",)}
    sends = ("{"y" if end == LAYERS else "x"}",)
    parameters_spec = {{k: v for i in range({begin}, {end}) for k, v in specs(i).items()}}
    buffers_spec = {{}}
    if {begin} <= 1 < {end}:
        parameters_spec, buffers_spec = parameters_spec | BN[0], BN[1]
"""
    text += f"\n\nSTAGES = ({', '.join(f'Stage{i}' for i in range(len(begins)))},)\n"
    return Package(text, [[BOUNDARY]] * len(cuts), widths, micro_batches, optimizer)
