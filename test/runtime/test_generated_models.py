"""Whole models, cut into one and several stages: the outputs are those of ONNX's reference
evaluator, and the gradients do not depend on the cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import generated
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import Tensor, nn

SMALL = generated.SOURCE / "test/data/small"
SAMPLES = 3


class Builder:
    """An ONNX graph with random weights; each method adds one node and returns its output."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["N", *shape]))
        return name

    def weight(self, name: str, *shape: int) -> str:
        values = self.random.normal(0, 0.3, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, name: str, values: object, dtype: type = np.int64) -> str:
        self.weights.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"/{kind.lower()}_{len(self.nodes)}/{kind}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0]

    def save(self, path: Path, *outputs: str) -> Path:
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, results, self.weights)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        )
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path


def convolutions(path: Path) -> Path:
    """Asymmetric padding, groups, a skip over several layers, pooling that rounds up."""
    b = Builder()
    x = b.input("image", [3, 15, 15])
    x = b.node("Conv", x, b.weight("stem.weight", 8, 3, 3, 3), strides=[2, 2], pads=[0, 1, 1, 0])
    skip = x = b.node("LeakyRelu", x, alpha=0.1)
    for index in range(2):
        weight = b.weight(f"body.{index}.weight", 8, 2, 3, 3)
        bias = b.weight(f"body.{index}.bias", 8)
        x = b.node("Conv", x, weight, bias, group=4, auto_pad="SAME_UPPER")
        x = b.node("HardSwish", x)
    x = b.node("Add", x, skip)
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    x = b.node("AveragePool", x, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    x = b.node("Flatten", b.node("GlobalAveragePool", b.node("Concat", x, x, axis=1)))
    x = b.node("Gemm", x, b.weight("head.weight", 16, 5), b.weight("head.bias", 5), alpha=0.5)
    return b.save(path, x)


def attention(path: Path) -> Path:
    """A masked encoder block by hand, with the shape arithmetic of an exporter."""
    b = Builder()
    ids = b.input("ids", [6], TensorProto.INT64)
    mask = b.input("mask", [6], TensorProto.INT64)
    axis = b.constant("axis12", [1, 2])
    far = b.node("Unsqueeze", b.node("Cast", mask, to=TensorProto.FLOAT), axis)
    one = b.constant("one", 1, np.float32)
    large = b.constant("large", -1e4, np.float32)
    far = b.node("Mul", b.node("Sub", one, far), large)
    x = b.node("Gather", b.weight("tokens.weight", 11, 8), ids)
    x = b.node("Add", x, b.weight("positions", 6, 8))
    qkv = b.node("MatMul", x, b.weight("onnx::MatMul_7", 8, 24))
    split = b.constant("split", [8, 8, 8])
    b.node("Split", qkv, split, outputs=3, axis=-1)
    parts = list(b.nodes[-1].output)
    batch = b.node("Gather", b.node("Shape", ids), b.constant("zero", [0]))
    heads = b.node("Concat", batch, b.constant("heads", [6, 2, 4]), axis=0)
    orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    q, k, v = (
        b.node("Transpose", b.node("Reshape", part, heads), perm=order)
        for part, order in zip(parts, orders)
    )
    scores = b.node("Div", b.node("MatMul", q, k), b.constant("scale", 2.0, np.float32))
    weights = b.node("Softmax", b.node("Add", scores, far), axis=-1)
    y = b.node("Transpose", b.node("MatMul", weights, v), perm=[0, 2, 1, 3])
    y = b.node("Reshape", y, b.constant("flat", [0, 6, 8]))
    y = b.node("LayerNormalization", b.node("Add", x, y), b.weight("ln.weight", 8), axis=-1)
    first = b.node("Slice", y, *(b.constant(n, [i]) for n, i in (("s", 0), ("e", 1), ("a", 1))))
    first = b.node("Squeeze", first, b.constant("drop", [1]))
    return b.save(path, b.node("Gemm", first, b.weight("out.weight", 4, 8), transB=1), y)


def recommendation(path: Path) -> Path:
    """Embeddings of which each reads one column, pairwise products, a large constant."""
    b = Builder()
    dense = b.input("dense", [4])
    sparse = b.input("sparse", [3], TensorProto.INT64)
    features = [b.node("Relu", b.node("Gemm", dense, b.weight("bottom", 4, 6)))]
    for index in range(3):
        column = b.node("Gather", sparse, b.constant(f"column{index}", index), axis=1)
        features.append(b.node("Gather", b.weight(f"table.{index}", 9, 6), column))
    one = b.constant("axis1", [1])
    stack = b.node("Concat", *(b.node("Unsqueeze", f, one) for f in features), axis=1)
    pairs = b.node("MatMul", stack, b.node("Transpose", stack, perm=[0, 2, 1]))
    pairs = b.node("Flatten", pairs)
    chosen = b.node("Gather", pairs, b.constant("chosen", list(range(16)) * 5), axis=1)
    x = b.node("Concat", chosen, features[0], axis=1)
    return b.save(path, b.node("Sigmoid", b.node("Gemm", x, b.weight("top", 86, 1))))


def tied(path: Path) -> Path:
    """One weight used by two layers, and names that collide with attributes of modules."""
    b = Builder()
    x = b.input("x", [5])
    weight = b.weight("layers.weight", 5, 5)
    for name in ("forward", "layers", "sends.p", "inputs.a", "a..b"):
        x = b.node("Add", x, b.weight(name, 5))
    x = b.node("Tanh", b.node("MatMul", x, weight))
    return b.save(path, b.node("MatMul", x, weight))


def early(path: Path) -> Path:
    """The first output is not that of the last layer."""
    b = Builder()
    x = b.node("MatMul", b.input("x", [5]), b.weight("first", 5, 5))
    y = x
    for index in range(3):
        y = b.node("Tanh", b.node("MatMul", y, b.weight(f"w{index}", 5, 5)))
    return b.save(path, x, y)


def packed(path: Path) -> Path:
    """Zeros with a row for each sample, in int64, as masks of packed sequences begin."""
    b = Builder()
    x = b.input("x", [5])
    bounds = [b.constant(n, [i]) for n, i in (("first", 0), ("second", 1), ("one", 1))]
    batch = b.node("Slice", b.node("Shape", x), *bounds[:2])
    rows = b.node("Concat", batch, bounds[2], axis=0)
    zeros = b.node("Expand", b.constant("zeros", [[0, 0, 0]]), rows)
    column = b.node("Slice", zeros, *bounds)
    x = b.node("Concat", x, b.node("Cast", column, to=TensorProto.FLOAT), axis=1)
    return b.save(path, b.node("MatMul", x, b.weight("w", 6, 4)))


def resized(path: Path) -> Path:
    """To a computed size, in a way that PyTorch has no function for."""
    b = Builder()
    x = b.input("x", [3, 5, 4])
    bounds = [b.constant(n, [i]) for n, i in (("first", 0), ("second", 1))]
    batch = b.node("Slice", b.node("Shape", x), *bounds)
    sizes = b.node("Concat", batch, b.constant("sizes", [3, 9, 7]), axis=0)
    how = {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}
    x = b.node("Resize", x, "", "", sizes, **how)
    return b.save(path, b.node("Conv", x, b.weight("w", 2, 3, 3, 3)))


MODELS: dict[str, Callable[[Path], Path]] = {
    "convolutions": convolutions,
    "attention": attention,
    "recommendation": recommendation,
    "tied": tied,
    "early": early,
    "packed": packed,
    "resized": resized,
    **{name: lambda _, name=name: SMALL / f"{name}.onnx" for name in ("cnn", "mlp", "transformer")},
}


def reference(path: Path, inputs: dict[str, Tensor]) -> list[np.ndarray]:
    """Outputs by ONNX's evaluator. Its batch normalisation of opset 9 to 13 mixes in the statistics
    of the batch, which the specification does not; that of opset 14 is right."""
    model = onnx.load(path)
    model.opset_import[0].version = max(14, model.opset_import[0].version)
    return ReferenceEvaluator(model).run(None, {key: x.numpy() for key, x in inputs.items()})


def sample_inputs(module: object, samples: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    result = {}
    for name, (dtype, dims) in module.INPUTS.items():  # type: ignore[attr-defined]
        shape = [per_sample * samples + fixed for per_sample, fixed in dims]
        bound = getattr(module, "INPUT_BOUNDS", {}).get(name, 2)
        result[name] = (
            torch.randn(shape, generator=generator)
            if dtype == "float32"
            else torch.randint(0, bound, shape, generator=generator)
        )
    return result


def gradients(parts: list[nn.Module], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    results = generated.forward(parts, inputs)
    next(iter(results.values())).square().sum().backward()
    return generated.gradients(parts)


@pytest.mark.parametrize("name", MODELS)
def test_stages_compute_what_onnx_says(name: str, tmp_path: Path) -> None:
    path = MODELS[name](tmp_path / f"{name}.onnx")
    counts = (1, 2, 3, 5)
    folders = [tmp_path / str(count) for count in counts]
    errors = generated.emit([(path, out, count) for out, count in zip(folders, counts)])
    assert not any(errors), errors
    whole = None
    for folder in folders:
        module = generated.load(folder)
        parts = generated.stages(module, folder)
        inputs = sample_inputs(module, SAMPLES)
        with torch.no_grad():
            results = generated.forward(parts, inputs)
        assert list(results) == list(module.OUTPUTS)
        for result, expected in zip(results.values(), reference(path, inputs)):
            np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-5)
        own = gradients(parts, inputs)
        whole = whole or own
        assert own.keys() == whole.keys()
        for key, value in own.items():
            torch.testing.assert_close(value, whole[key], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("samples", (1, 4))
def test_shapes_follow_the_batch(samples: int, tmp_path: Path) -> None:
    path = attention(tmp_path / "attention.onnx")
    assert generated.emit([(path, tmp_path / "out", 2)]) == [""]
    module = generated.load(tmp_path / "out")
    parts = generated.stages(module, tmp_path / "out")
    results = generated.forward(parts, sample_inputs(module, samples))
    for name, (dtype, dims) in module.OUTPUTS.items():
        assert list(results[name].shape) == [a * samples + b for a, b in dims]
        assert str(results[name].dtype) == f"torch.{dtype}"


def test_state_has_the_names_of_the_model(tmp_path: Path) -> None:
    path = tied(tmp_path / "tied.onnx")
    assert generated.emit([(path, tmp_path / "out", 1)]) == [""]
    stage = generated.load(tmp_path / "out").STAGES[0]()
    names = {weight.name for weight in onnx.load(path).graph.initializer}
    assert set(stage.state_dict()) == names == set(dict(stage.named_parameters()))
    assert not any("layers.weight" in part for part in stage.layers)


def test_running_statistics_follow_the_batch(tmp_path: Path) -> None:
    assert generated.emit([(SMALL / "cnn.onnx", tmp_path, 1)]) == [""]
    module = generated.load(tmp_path)
    (stage,) = generated.stages(module, tmp_path)
    name = next(name for name in stage.buffers_spec if name.endswith("running_mean"))
    before = stage.tensor(name).clone()
    stage.train()(*sample_inputs(module, SAMPLES).values())
    assert not torch.equal(stage.tensor(name), before)


def test_module_moves_to_another_type_with_its_constants(tmp_path: Path) -> None:
    path = recommendation(tmp_path / "recommendation.onnx")
    assert generated.emit([(path, tmp_path / "out", 1)]) == [""]
    (stage,) = generated.stages(generated.load(tmp_path / "out"), tmp_path / "out")
    stage.double()
    assert {tensor.dtype for tensor in stage.parameters()} == {torch.float64}
    stage.to("meta")
    assert {tensor.device.type for tensor in [*stage.parameters(), *stage.buffers()]} == {"meta"}
