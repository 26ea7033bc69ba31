"""Hand-made plan directories for the tests of the runtime: what `heterplan compile` would write.

The lowering here is an independent small one (1F1B over any widths); the model has everything that
is awkward at once: batch normalisation, a skip tensor that a stage relays, an integer tensor, a
tensor without samples, and a parameter that two stages use.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

RUNTIME = Path(__file__).resolve().parents[2] / "lib/codegen/runtime"

BASE = """
import torch
from torch import nn
from torch.nn import functional as F


class Stage(nn.Module):
    receives = inputs = sends = layers = ()
    parameters_spec = {}
    buffers_spec = {}
    constants_spec = {}

    def __init__(self):
        super().__init__()
        for table, trained in ((self.parameters_spec, True), (self.buffers_spec, False),
                               (self.constants_spec, False)):
            for name, spec in table.items():
                home = self
                *path, leaf = name.split(".")
                for part in path:
                    if not hasattr(home, part):
                        home.add_module(part, nn.Module())
                    home = getattr(home, part)
                tensor = torch.empty(spec[0], dtype=getattr(torch, spec[1]))
                if trained:
                    home.register_parameter(leaf, nn.Parameter(tensor))
                else:
                    home.register_buffer(leaf, tensor)

    segments = ()

    def checkpoint(self, segment, *arguments):
        return segment(*arguments)

    def dropout(self, name, x, ratio, training, axis, rows):
        return F.dropout(x, ratio, training)

    def batch_norm(self, x, weight, bias, running_mean, running_var, momentum, eps, training):
        return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)

    def norm(self, bn, x):
        return self.batch_norm(x, bn.weight, bn.bias, bn.running_mean, bn.running_var, 0.1, 1e-5,
                               self.training)


def norm_spec(name, channels):
    shape = (channels,)
    return ({name + ".weight": (shape, "float32", "ones"),
             name + ".bias": (shape, "float32", "zeros")},
            {name + ".running_mean": (shape, "float32", "zeros"),
             name + ".running_var": (shape, "float32", "ones")})
"""

AWKWARD = (
    BASE
    + """
MODEL = "awkward"
INPUTS = {"image": ("float32", ((1, 0), (0, 3), (0, 6), (0, 6))), "kind": ("int64", ((1, 0),))}
INPUT_BOUNDS = {"kind": 5}
OUTPUTS = {"logits": ("float32", ((1, 0), (0, 7)))}
BN1, BN2 = norm_spec("bn1", 4), norm_spec("bn2", 4)


class Stage0(Stage):
    inputs = ("image", "kind")
    sends = ("a", "b", "s", "k")
    parameters_spec = {"conv1.weight": ((4, 3, 3, 3), "float32", "kaiming"),
                       "tied.scale": ((4,), "float32", "ones"), **BN1[0]}
    buffers_spec = BN1[1]

    def forward(self, image, kind):
        a = F.conv2d(image, self.conv1.weight, padding=1)
        return a, F.relu(self.norm(self.bn1, a)), self.tied.scale * 2, kind + 1


class Stage1(Stage):
    receives = ("a", "b", "s", "k")
    sends = ("a", "c", "k")
    parameters_spec = {"conv2.weight": ((4, 4, 3, 3), "float32", "kaiming"), **BN2[0]}
    buffers_spec = BN2[1]

    def forward(self, a, b, s, k):
        c = F.conv2d(b, self.conv2.weight, padding=1)
        return a, self.norm(self.bn2, c) * s.view(1, 4, 1, 1), k


class Stage2(Stage):
    receives = ("a", "c", "k")
    sends = ("logits",)
    parameters_spec = {"embedding.weight": ((6, 4), "float32", "normal"),
                       "fc.weight": ((7, 4), "float32", "kaiming"),
                       "fc.bias": ((7,), "float32", "zeros"),
                       "tied.scale": ((4,), "float32", "ones")}

    def forward(self, a, c, k):
        x = (F.relu(a + c).mean((2, 3)) + F.embedding(k, self.embedding.weight)) * self.tied.scale
        return (F.linear(x, self.fc.weight, self.fc.bias),)


STAGES = (Stage0, Stage1, Stage2)
"""
)

# Two tables of different widths, one of them read twice, by negative indices too.
TABLES = (
    BASE
    + """
MODEL = "tables"
INPUTS = {"user": ("int64", ((1, 0), (0, 3))), "item": ("int64", ((1, 0),))}
INPUT_BOUNDS = {"user": 13, "item": 7}
OUTPUTS = {"logits": ("float32", ((1, 0), (0, 5)))}


class Stage0(Stage):
    inputs = ("user", "item")
    sends = ("x",)
    parameters_spec = {"mix.weight": ((6, 6), "float32", "kaiming")}
    tables_spec = {"users": ((13, 4), "float32", "normal"),
                   "items": ((7, 6), "float32", "normal")}
    lookups = ("users", "items", "users")

    def __init__(self, tables=True):
        if tables:
            self.parameters_spec = self.parameters_spec | self.tables_spec
        super().__init__()

    def tensor(self, name):
        return getattr(self, name)

    def indices(self, user, item):
        return user, item - 7, 12 - user[:, 0]

    def forward(self, user, item):
        a = self.lookup("users", user).sum(1)
        b = F.linear(self.lookup("items", item - 7), self.mix.weight)
        return (torch.cat([a, b, self.lookup("users", 12 - user[:, 0])], 1) * 20,)


class Stage1(Stage):
    receives = ("x",)
    sends = ("logits",)
    parameters_spec = {"fc.weight": ((5, 14), "float32", "kaiming")}

    def forward(self, x):
        return (F.linear(torch.tanh(x), self.fc.weight),)


STAGES = (Stage0, Stage1)
"""
)
TABLES_BOUNDARY = [
    {
        "name": "x",
        "type": "float32",
        "shape": [{"perSample": 1}, {"fixed": 14}],
        "differentiable": True,
    }
]

# Each stage is one segment that is computed again.
AGAIN = """


def again(stage):
    class Again(stage):
        segments = ("whole",)

        def forward(self, *arguments):
            return self.checkpoint(super().forward, *arguments)

    return Again


STAGES = tuple(again(stage) for stage in STAGES)
"""

MAP = [{"perSample": 1}, {"fixed": 4}, {"fixed": 6}, {"fixed": 6}]
AWKWARD_BOUNDARIES = [
    [
        {"name": "a", "type": "float32", "shape": MAP, "differentiable": True},
        {"name": "b", "type": "float32", "shape": MAP, "differentiable": True},
        {"name": "s", "type": "float32", "shape": [{"fixed": 4}], "differentiable": True},
        {"name": "k", "type": "int64", "shape": [{"perSample": 1}]},
    ],
    [
        {"name": "a", "type": "float32", "shape": MAP, "differentiable": True},
        {"name": "c", "type": "float32", "shape": MAP, "differentiable": True},
        {"name": "k", "type": "int64", "shape": [{"perSample": 1}]},
    ],
]

LINEAR = (
    BASE
    + """
MODEL = "linear"
INPUTS = {"x": ("float32", ((1, 0), (0, 6)))}
OUTPUTS = {"y": ("float32", ((1, 0), (0, 3)))}


class Whole(Stage):
    inputs = ("x",)
    sends = ("y",)
    parameters_spec = {"up.weight": ((8, 6), "float32", "kaiming"),
                       "down.weight": ((3, 8), "float32", "kaiming")}

    def forward(self, x):
        return (F.linear(torch.tanh(F.linear(x, self.up.weight)), self.down.weight),)


STAGES = (Whole,)
"""
)


# Samples lie on the second axis, two rows of each, between the stages' dropouts.
DROPOUT = (
    BASE
    + """
MODEL = "dropout"
INPUTS = {"x": ("float32", ((1, 0), (0, 6)))}
OUTPUTS = {"y": ("float32", ((1, 0), (0, 5)))}


class Stage0(Stage):
    inputs = ("x",)
    sends = ("h",)
    parameters_spec = {"up.weight": ((16, 6), "float32", "kaiming")}

    def forward(self, x):
        x = torch.tanh(F.linear(self.dropout("in", x, 0.2, self.training, 0, 1), self.up.weight))
        return (x.view(-1, 8).T,)


class Stage1(Stage):
    receives = ("h",)
    sends = ("y",)
    parameters_spec = {"down.weight": ((5, 16), "float32", "kaiming")}

    def forward(self, h):
        h = self.dropout("between", h, 0.5, self.training, 1, 2).T.reshape(-1, 16)
        weight = self.dropout("weight", self.down.weight, 0.1, self.training, None, 1)
        return (F.linear(h, weight),)


STAGES = (Stage0, Stage1)
"""
)
DROPOUT_BOUNDARY = [
    {
        "name": "h",
        "type": "float32",
        "shape": [{"fixed": 8}, {"perSample": 2}],
        "differentiable": True,
    }
]


# Layers of 2 MB of parameters that keep 4 MB a sample, with next to nothing to compute; as segments of two.
LARGE = (
    BASE
    + """
LAYERS, WIDTH = 24, 1 << 18
MODEL = "large"
INPUTS = {"x": ("float32", ((1, 0), (0, WIDTH)))}
OUTPUTS = {"y": ("float32", ((1, 0), (0, WIDTH)))}


class Whole(Stage):
    inputs = ("x",)
    sends = ("y",)
    parameters_spec = {
        f"{name}{i}": ((WIDTH,), "float32", "normal") for i in range(LAYERS) for name in ("w", "b")
    }

    def segment(self, x, first):
        for i in (first, first + 1):
            y = torch.sin(x * getattr(self, f"w{i}")) + getattr(self, f"b{i}")
            x = x + torch.tanh(y)
        return (x,)

    def forward(self, x):
        for first in range(0, LAYERS, 2):
            (x,) = self.checkpoint(self.segment, x, first)
        return (x,)


STAGES = (Whole,)
"""
)


@dataclass
class Package:
    """A plan directory to be written: `widths` holds the samples of each replica of each stage."""

    model: str
    boundaries: list[list[dict[str, Any]]]
    widths: list[list[int]]
    micro_batches: int
    optimizer: str = "sgd"
    # By stage: its sparse tables with the rows of each replica.
    tables: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    segments: list[str] = field(default_factory=list)  # of each stage
    sharding: str = "none"
    precision: str = "fp32"
    batch_norm: str = "synchronised"
    short: int = 0  # micro-batches, the last ones, that have a sample less

    def shortened(self, short: int) -> Package:
        """The same, but so many micro-batches have one sample less."""
        return replace(self, short=short)

    def recomputed(self) -> Package:
        """The same, but each stage is a segment that is computed again in the backward pass."""
        return replace(self, model=self.model + AGAIN, segments=["whole"])

    def sharded(self, sharding: str) -> Package:
        """The same, with the state of stages that have several replicas divided among them."""
        return replace(self, sharding=sharding)

    @property
    def samples(self) -> int:
        return sum(self.widths[0])

    @property
    def world_size(self) -> int:
        return sum(len(stage) for stage in self.widths)

    def write(self, folder: Path) -> Path:
        (folder / "ranks").mkdir(parents=True)
        (folder / "model.py").write_text(self.model)
        plan = {
            "schemaVersion": "1.0",
            "iterationSeconds": 0.001,
            "optimizer": self.optimizer,
            "precision": self.precision,
            "batchNorm": self.batch_norm,
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        for rank, program in enumerate(self.programs()):
            (folder / "ranks" / f"{rank:04d}.json").write_text(json.dumps(program))
        shutil.copytree(
            RUNTIME / "heterplan_runtime",
            folder / "heterplan_runtime",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        return folder

    def ranks(self, stage: int) -> list[int]:
        first = sum(len(s) for s in self.widths[:stage])
        return list(range(first, first + len(self.widths[stage])))

    def ranges(self, stage: int, i: int) -> list[tuple[int, int]]:
        """Of micro-batch `i`: where it has a sample less, so has the last of the widest replicas."""
        widths = list(self.widths[stage])
        if i >= self.micro_batches - self.short:
            widths[len(widths) - 1 - widths[::-1].index(max(widths))] -= 1
        begins = [sum(widths[:replica]) for replica in range(len(widths))]
        return list(zip(begins, widths))

    def overlaps(self, stage: int, own: tuple[int, int], i: int) -> list[tuple[int, dict[str, int]]]:
        """Ranks of `stage` whose samples of micro-batch `i` meet those of `own`, with the common
        range."""
        found = []
        for rank, (begin, count) in zip(self.ranks(stage), self.ranges(stage, i)):
            low, high = max(begin, own[0]), min(begin + count, own[0] + own[1])
            if low < high:
                found.append((rank, {"begin": low, "count": high - low}))
        return found

    def programs(self) -> list[dict[str, Any]]:
        return [
            self.program(stage, replica)
            for stage in range(len(self.widths))
            for replica in range(len(self.widths[stage]))
        ]

    def program(self, stage: int, replica: int) -> dict[str, Any]:
        last = len(self.widths) - 1
        own = self.ranges(stage, 0)[replica]
        part = {
            "stage": stage,
            "replica": replica,
            "samples": {"begin": own[0], "count": own[1]},
            "receives": self.boundaries[stage - 1] if stage else [],
            "sends": self.boundaries[stage] if stage < last else [],
            "tables": self.tables.get(stage, []),
            "recompute": self.segments,
            "stateSharding": self.sharding_of(stage),
        }
        program: dict[str, Any] = {
            "schemaVersion": "1.0",
            "rank": self.ranks(stage)[replica],
            "worldSize": self.world_size,
            "stages": len(self.widths),
            "deviceKind": "cpu",
            "globalBatch": self.samples * self.micro_batches - self.short,
            "microBatches": self.micro_batches,
            "optimizer": self.optimizer,
            "parts": [part],
        }
        program["instructions"] = self.instructions(stage, replica)
        return program

    def instructions(self, stage: int, replica: int) -> list[dict[str, Any]]:
        m = self.micro_batches
        ahead = min(m, len(self.widths) - stage)
        order = [("F", i) for i in range(ahead)]
        for i in range(m):
            order.append(("B", i))
            if i + ahead < m:
                order.append(("F", i + ahead))
        steps: list[dict[str, Any]] = []
        for kind, i in order:
            own = self.ranges(stage, i)[replica]
            steps += self.forward(stage, own, i) if kind == "F" else self.backward(stage, own, i)
        group, sharding = self.ranks(stage), self.sharding_of(stage)
        if len(group) > 1 and sharding != "gradients":
            steps.append({"op": "allReduce" if sharding == "none" else "reduceScatter", "group": group})
        steps.append({"op": "step"})
        if sharding != "none":
            steps.append({"op": "allGather", "group": group})
        return steps

    def sharding_of(self, stage: int) -> str:
        return self.sharding if len(self.widths[stage]) > 1 else "none"

    def sums(self, stage: int, i: int) -> list[dict[str, Any]]:
        if self.sharding_of(stage) != "gradients":
            return []
        return [{"op": "gradientReduceScatter", "microBatch": i, "group": self.ranks(stage)}]

    def transfers(
        self, op: str, boundary: int, stage: int, own: tuple[int, int], i: int
    ) -> list[dict[str, Any]]:
        """With the ranks of `stage`, over the boundary."""
        if not 0 <= stage < len(self.widths):
            return []
        return [
            {"op": op, "microBatch": i, "peer": peer, "samples": part, "boundary": boundary}
            for peer, part in self.overlaps(stage, own, i)
        ]

    def lookups(self, op: str, stage: int, i: int) -> list[dict[str, Any]]:
        if stage not in self.tables:
            return []
        return [{"op": op, "microBatch": i, "group": self.ranks(stage)}]

    def forward(self, stage: int, own: tuple[int, int], i: int) -> list[dict[str, Any]]:
        loads = stage in (0, len(self.widths) - 1)
        return [
            *([_pass("load", own, i)] if loads else []),
            *self.lookups("lookup", stage, i),
            *self.transfers("receive", stage - 1, stage - 1, own, i),
            _pass("forward", own, i),
            *self.transfers("send", stage, stage + 1, own, i),
        ]

    def backward(self, stage: int, own: tuple[int, int], i: int) -> list[dict[str, Any]]:
        return [
            *self.transfers("receiveGradient", stage, stage + 1, own, i),
            _pass("backward", own, i),
            *self.sums(stage, i),
            *self.lookups("lookupGradient", stage, i),
            *self.transfers("sendGradient", stage - 1, stage - 1, own, i),
        ]


def _pass(op: str, own: tuple[int, int], i: int) -> dict[str, Any]:
    return {"op": op, "microBatch": i, "samples": {"begin": own[0], "count": own[1]}}


def awkward(widths: list[list[int]], micro_batches: int, optimizer: str = "sgd") -> Package:
    return Package(AWKWARD, AWKWARD_BOUNDARIES, widths, micro_batches, optimizer)


def dropout(widths: list[list[int]], micro_batches: int, optimizer: str = "sgd") -> Package:
    return Package(DROPOUT, [DROPOUT_BOUNDARY], widths, micro_batches, optimizer)


def linear(widths: list[int], micro_batches: int, optimizer: str = "sgd") -> Package:
    return Package(LINEAR, [], [widths], micro_batches, optimizer)


def large(widths: list[int], micro_batches: int, recompute: bool, sharding: str) -> Package:
    segments = [f"w{i}" for i in range(0, 24, 2)] if recompute else []
    model = LARGE.replace('sends = ("y",)', f'sends = ("y",)\n    segments = {tuple(segments)!r}')
    return Package(
        model, [], [widths], micro_batches, "adam", segments=segments, sharding=sharding
    )  # fmt: skip


def tables(
    widths: list[list[int]],
    users: list[int],
    items: list[int],
    micro_batches: int,
    optimizer: str = "sgd",
) -> Package:
    """`users`, `items`: the rows of the tables on each replica of the first stage."""
    shards = [
        {"name": "users", "type": "float32", "columns": 4, "rows": users},
        {"name": "items", "type": "float32", "columns": 6, "rows": items},
    ]
    return Package(TABLES, [TABLES_BOUNDARY], widths, micro_batches, optimizer, {0: shards})
