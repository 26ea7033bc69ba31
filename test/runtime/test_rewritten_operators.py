"""Operators that the importer rewrites, from older sets and from com.microsoft: the generated code
computes what their own definition says, written down here in NumPy or PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import generated
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

F = nn.functional
Arrays = dict[str, torch.Tensor]
MICROSOFT = "com.microsoft"


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(shape) * 2 - 1


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(0, 2, shape, dtype=torch.int32)


def compute(
    node: onnx.NodeProto, opset: int, inputs: Arrays, weights: Arrays, directory: Path
) -> list[torch.Tensor]:
    """The outputs of a model of this one node, by generated code."""
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.numpy().dtype), ["N", *value.shape[1:]]
            )
            for name, value in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output],
        [numpy_helper.from_array(value.numpy(), name) for name, value in weights.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    onnx.save(
        helper.make_model(graph, opset_imports=imports, ir_version=8), directory / "m.onnx"
    )
    (job,) = generated.emit_all([(directory / "m.onnx", directory / "out", 1)])
    assert job.state == "generated", job.error
    module = generated.load(directory / "out")
    stages = generated.stages(module, directory / "out")
    for stage in stages:
        stage.eval()
    with torch.no_grad():
        results = generated.forward(stages, inputs)
    return [results[name] for name in node.output]


def flat_softmax(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1).softmax(1).reshape(x.shape)


def rms(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * scale


def group(x: torch.Tensor, s: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    each = x.shape[1] // len(s)
    return F.group_norm(x, len(s), s.repeat_interleave(each), b.repeat_interleave(each))


def embed(i: Any, s: Any, W: Any, P: Any, S: Any, g: Any, b: Any) -> torch.Tensor:
    return F.layer_norm(W[i.long()] + P[: i.shape[1]] + S[s.long()], g.shape, g, b, 1e-5)


def nhwc(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda x, *more: function(x.permute(0, 3, 1, 2), *more).permute(0, 2, 3, 1)


def split_gelu(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    left, right = (x + c).chunk(2, -1)
    return left * F.gelu(right)


X, C, IMAGE = rand(2, 6, 4), rand(4), rand(2, 3, 3, 6)
# op, opset (0: of com.microsoft), attributes, inputs, weights, what it computes
CASES = [
    ("Softmax", 11, {}, {"x": X}, {}, flat_softmax),
    ("LogSoftmax", 12, {}, {"x": X}, {}, lambda x: flat_softmax(x).log()),
    ("Mul", 6, {"broadcast": 1, "axis": 1}, {"x": X}, {"c": rand(6)}, lambda x, c: x * c[:, None]),
    ("PRelu", 6, {}, {"x": X}, {"c": rand(6)}, F.prelu),
    ("Upsample", 7, {"scales": [1.0, 1.0, 2.0, 2.0]}, {"x": IMAGE}, {},
     lambda x: F.interpolate(x, scale_factor=2)),
    ("Clip", 6, {"min": -0.5, "max": 0.5}, {"x": X}, {}, lambda x: x.clamp(-0.5, 0.5)),
    ("Pad", 2, {"pads": [0, 1, 0, 0, 0, 2], "value": 3.0}, {"x": X}, {},
     lambda x: F.pad(x, (0, 2, 1, 0), value=3.0)),
    ("Slice", 9, {"starts": [1], "ends": [5], "axes": [1]}, {"x": X}, {}, lambda x: x[:, 1:5]),
    ("ReduceL2", 13, {"axes": [-1], "keepdims": 0}, {"x": X}, {}, lambda x: x.norm(dim=-1)),
    ("GroupNormalization", 18, {"num_groups": 3}, {"x": X}, {"s": rand(3), "b": rand(3)}, group),
    ("SimplifiedLayerNormalization", 17, {"epsilon": 1e-5}, {"x": X}, {"g": C}, rms),
    ("BiasGelu", 0, {}, {"x": X}, {"c": C}, lambda x, c: F.gelu(x + c)),
    ("FastGelu", 0, {}, {"x": X}, {}, lambda x: F.gelu(x, approximate="tanh")),
    ("QuickGelu", 0, {}, {"x": X}, {}, lambda x: x * torch.sigmoid(1.702 * x)),
    ("BiasSplitGelu", 0, {}, {"x": X}, {"c": C}, split_gelu),
    ("SkipLayerNormalization", 0, {"epsilon": 1e-5}, {"x": X, "k": rand(2, 6, 4)},
     {"g": C, "b": rand(4), "c": rand(4)},
     lambda x, k, g, b, c: F.layer_norm(x + k + c, g.shape, g, b, 1e-5)),
    ("SkipSimplifiedLayerNormalization", 0, {"epsilon": 1e-5}, {"x": X, "k": rand(2, 6, 4)},
     {"g": C}, lambda x, k, g: rms(x + k, g)),
    ("EmbedLayerNormalization", 0, {"epsilon": 1e-5}, {"i": tokens(2, 3), "s": tokens(2, 3)},
     {"W": rand(9, 4), "P": rand(7, 4), "S": rand(2, 4), "g": rand(4), "b": rand(4)}, embed),
    ("FusedGemm", 0, {"transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.25},
     {"x": rand(3, 4)}, {"w": rand(5, 4), "b": rand(5)},
     lambda x, w, b: F.leaky_relu(F.linear(x, w, b), 0.25)),
    ("FusedConv", 0, {"activation": "Relu"}, {"x": rand(2, 2, 5, 5)},
     {"w": rand(3, 2, 3, 3), "b": rand(3)}, lambda x, w, b: F.relu(F.conv2d(x, w, b))),
    ("NhwcConv", 0, {}, {"x": rand(1, 5, 5, 2)}, {"w": rand(3, 2, 3, 3)}, nhwc(F.conv2d)),
    ("GroupNorm", 0, {"groups": 2, "activation": 1}, {"x": IMAGE}, {"g": rand(6), "b": rand(6)},
     nhwc(lambda x, g, b: F.silu(F.group_norm(x, 2, g, b)))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_rewritten_operators_compute_what_they_did(case: Any, tmp_path: Path) -> None:
    op, opset, attributes, inputs, weights, expected = case
    node = helper.make_node(
        op, [*inputs, *weights], ["y"], domain="" if opset else MICROSOFT, **attributes
    )
    (found,) = compute(node, opset or 17, inputs, weights, tmp_path)
    torch.testing.assert_close(found, expected(*inputs.values(), *weights.values()))


def test_sums_of_skips_are_results_too(tmp_path: Path) -> None:
    inputs, weights = {"x": X, "k": rand(2, 6, 4)}, {"g": C}
    named = helper.make_node(
        "SkipLayerNormalization", ["x", "k", "g"], ["y", "m", "v", "z"], domain=MICROSOFT
    )
    *_, total = compute(named, 17, inputs, weights, tmp_path)
    np.testing.assert_allclose(total, X + inputs["k"], 1e-6, 1e-6)
