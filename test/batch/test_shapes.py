"""The shape of every imported tensor, at two batches, is what ONNX's reference evaluator computes.

A model of fixed batch is written anew for the other batches: what the exporter would have baked in
then is what re-batching must come to.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

SOURCE = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HETERPLAN_BINARY", SOURCE / "build/bin/heterplan"))
BATCHES = (2, 5)
Shapes = dict[str, list[list[int]]]
FEATURES, HEADS, LENGTH = 12, 3, 7


def imported(model: ModelProto, folder: Path, *options: str) -> Shapes:
    path = folder / "model.onnx"
    onnx.save(model, path)
    tool = BINARY.with_name("import-shapes")
    if not tool.is_file():
        pytest.skip(f"{tool} is not built")
    run = subprocess.run([tool, path, *options], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def sizes(dims: list[list[int]], batch: int) -> tuple[int, ...]:
    return tuple(per_sample * batch + fixed for per_sample, fixed in dims)


def true_shapes(model: ModelProto, given: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor; `given` has the values of symbolic dimensions."""
    feeds = {}
    for value in model.graph.input:
        dims = [
            given[d.dim_param] if d.dim_param else d.dim_value
            for d in value.type.tensor_type.shape.dim
        ]
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = np.ones(dims, kind)
    watched = ModelProto()
    watched.CopyFrom(model)
    produced = [name for node in model.graph.node for name in node.output if name]
    del watched.graph.output[:]
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in produced)
    results = ReferenceEvaluator(watched).run(None, feeds)
    shapes = {name: np.shape(result) for name, result in zip(produced, results)}
    return shapes | {name: array.shape for name, array in feeds.items()}


def agree(shapes: Shapes, truth: dict[str, tuple[int, ...]], batch: int) -> None:
    compared = [name for name in truth if name in shapes]
    assert compared
    wrong = {
        name: (sizes(shapes[name], batch), truth[name])
        for name in compared
        if sizes(shapes[name], batch) != truth[name]
    }
    assert not wrong, f"imported, true at a batch of {batch}"


class Builder:
    """Collects the parts of a model."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.constants: list[TensorProto] = []

    def input(self, name: str, dims: list[int | str], kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def constant(self, values: object, kind: type = np.int64) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def weight(self, *dims: int) -> str:
        ramp = np.linspace(-1, 1, int(np.prod(dims))).reshape(dims)
        return self.constant(ramp, np.float32)

    def op(self, op: str, *operands: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"{op}{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(op, operands, names, **attributes))
        return names[0]

    def reshape(self, source: str, *dims: int) -> str:
        return self.op("Reshape", source, self.constant(dims))

    def model(self, *outputs: str) -> ModelProto:
        infos = [onnx.ValueInfoProto(name=name) for name in outputs]
        for info in infos:
            info.type.tensor_type.elem_type = TensorProto.FLOAT
        graph = helper.make_graph(self.nodes, "g", self.inputs, infos, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# ---- models whose batch is a number: written for `n` samples


def attention(n: int) -> ModelProto:
    """Heads apart from the batch, then folded into it, as exporters write both."""
    b, head = Builder(), FEATURES // HEADS
    x = b.input("x", [n, LENGTH, FEATURES])
    heads = b.op("Transpose", b.reshape(x, n, LENGTH, HEADS, head), perm=[0, 2, 1, 3])
    scores = b.op("MatMul", heads, b.op("Transpose", heads, perm=[0, 1, 3, 2]))
    joined = b.op("Transpose", b.op("MatMul", scores, heads), perm=[0, 2, 1, 3])
    flat = b.reshape(joined, n, LENGTH, FEATURES)
    folded = b.reshape(heads, n * HEADS, LENGTH, head)
    product = b.op("MatMul", folded, b.op("Transpose", folded, perm=[0, 2, 1]))
    apart = b.reshape(product, n, HEADS, LENGTH, LENGTH)
    rows = b.reshape(flat, n * LENGTH, FEATURES)
    tall = b.op("MatMul", rows, b.weight(FEATURES, 4))
    return b.model(b.reshape(tall, n, LENGTH, 4), b.reshape(flat, n, -1), apart)


def class_token(n: int) -> ModelProto:
    b = Builder()
    x = b.input("x", [n, 3, 8, 8])
    patches = b.op("Conv", x, b.weight(FEATURES, 3, 4, 4), strides=[4, 4])
    tokens = b.op("Transpose", b.reshape(patches, n, FEATURES, 4), perm=[0, 2, 1])
    row = b.constant(np.ones((n, 1, FEATURES)), np.float32)
    return b.model(b.op("Add", b.op("Concat", row, tokens, axis=1), b.weight(1, 5, FEATURES)))


def class_token_spread(n: int) -> ModelProto:
    b = Builder()
    x = b.input("x", [n, 4, FEATURES])
    row = b.op("Expand", b.weight(1, 1, FEATURES), b.constant([n, -1 + 2, FEATURES]))
    tiled = b.op("Tile", b.weight(1, 2, FEATURES), b.constant([n, 1, 1]))
    return b.model(b.op("Concat", row, tiled, x, axis=1))


def masked(n: int) -> ModelProto:
    """A mask for each sample, all the same, and a causal one."""
    b = Builder()
    x = b.input("x", [n, HEADS, LENGTH, LENGTH])
    mask = b.constant(np.zeros((n, 1, 1, LENGTH)), np.float32)
    causal = b.constant(np.tri(LENGTH)[None, None], np.float32)
    return b.model(b.op("Softmax", b.op("Add", b.op("Add", x, causal), mask)))


def indexed(n: int) -> ModelProto:
    """A padding mask, looked up by constant indices of the samples, as exporters write both."""
    b = Builder()
    x = b.input("x", [n, HEADS, LENGTH, LENGTH])
    mask = b.input("mask", [n, LENGTH])
    samples, places = np.indices((n, LENGTH))
    stacked = np.stack([samples, places], -1).reshape(n, 1, 1, LENGTH, 2)
    first = b.op("GatherND", mask, b.constant(stacked))
    flat = (samples * LENGTH + places).reshape(n, 1, 1, LENGTH)
    picked = b.op("Gather", b.op("Flatten", mask, axis=2), b.constant(flat))
    second = b.reshape(b.reshape(picked, -1), n, 1, 1, LENGTH)
    last = b.op("Gather", b.reshape(x, -1, LENGTH), b.constant(HEADS * LENGTH * np.arange(n)))
    return b.model(b.op("Add", b.op("Add", x, first), second), last)


def recurrent(n: int) -> ModelProto:
    """Time leads; the initial states are zeros for the batch of the export."""
    b, hidden = Builder(), 5
    x = b.input("x", [LENGTH, n, FEATURES])
    zeros = b.constant(np.zeros((1, n, hidden)), np.float32)
    weights = (b.weight(1, 4 * hidden, FEATURES), b.weight(1, 4 * hidden, hidden))
    y = b.op("LSTM", x, *weights, "", "", zeros, zeros, outputs=3, hidden_size=hidden)
    rows = b.op("Squeeze", y, b.constant([1]))
    flat = b.reshape(rows, LENGTH * n, hidden)
    classes = b.op("MatMul", flat, b.weight(hidden, 2))
    return b.model(b.reshape(classes, LENGTH, n, 2))


def attention_behind_time(n: int) -> ModelProto:
    """As torch.nn.MultiheadAttention without batch_first."""
    b, head = Builder(), FEATURES // HEADS
    x = b.input("x", [LENGTH, n, FEATURES])
    heads = b.op("Transpose", b.reshape(x, LENGTH, n * HEADS, head), perm=[1, 0, 2])
    scores = b.op("MatMul", heads, b.op("Transpose", heads, perm=[0, 2, 1]))
    joined = b.op("Transpose", b.op("MatMul", scores, heads), perm=[1, 0, 2])
    rows = b.op("MatMul", b.reshape(joined, LENGTH * n, FEATURES), b.weight(FEATURES, FEATURES))
    return b.model(b.reshape(rows, LENGTH, n, FEATURES))


def positions_beside(n: int) -> ModelProto:
    b = Builder()
    tokens = b.input("tokens", [n, LENGTH], TensorProto.INT64)
    positions = b.input("positions", [1, LENGTH], TensorProto.INT64)
    scale = b.input("scale", [])
    table = b.weight(10, FEATURES)
    both = b.op("Add", b.op("Gather", table, tokens), b.op("Gather", table, positions))
    return b.model(b.reshape(b.op("Mul", both, scale), n, LENGTH * FEATURES))


def mask_first(n: int) -> ModelProto:
    """An input without a batch comes first."""
    b = Builder()
    mask = b.input("mask", [LENGTH, LENGTH])
    x = b.input("x", [n, LENGTH, FEATURES])
    return b.model(b.reshape(b.op("MatMul", mask, x), n, -1))


FIXED: list[tuple[Callable[[int], ModelProto], int, list[str]]] = [
    (attention, 1, []),
    (attention, 4, []),
    (class_token, 1, []),
    (class_token, 4, []),
    (class_token_spread, 1, []),
    (class_token_spread, 4, []),
    (masked, 1, []),
    (masked, 4, []),
    (indexed, 1, []),
    (indexed, 4, []),
    (recurrent, 1, ["--batch-dim", "1"]),
    (recurrent, 4, ["--batch-dim", "1"]),
    (attention_behind_time, 1, ["--batch-dim", "1"]),
    (attention_behind_time, 4, ["--batch-dim", "1"]),
    (positions_beside, 4, []),
    (positions_beside, 1, ["--batch-dim", "positions=none"]),
    (mask_first, 1, []),
    (mask_first, 4, []),
]


@pytest.mark.parametrize(
    "build, written, options", FIXED, ids=[f"{build.__name__}-{n}" for build, n, _ in FIXED]
)
def test_fixed_batch(
    build: Callable[[int], ModelProto], written: int, options: list[str], tmp_path: Path
) -> None:
    shapes = imported(build(written), tmp_path, *options)
    if written == 1:  # then an Expand or a Tile to it does nothing, and what needs rows gets them
        shapes = {name: dims for name, dims in shapes.items() if name[:4] not in ("Expa", "Tile")}
    for batch in BATCHES:
        agree(shapes, true_shapes(build(batch), {}), batch)


# ---- models whose batch is a symbol


def symbolic_attention(batch: str, length: int | str, plain: bool = False) -> ModelProto:
    """Shapes computed from those of the input; batch and length meet in one axis on the way."""
    b, head = Builder(), FEATURES // HEADS
    x = b.input("x", [batch, length, FEATURES])
    shape = b.op("Shape", x)
    n = b.op("Slice", shape, b.constant([0]), b.constant([1]))
    t = b.op("Slice", shape, b.constant([1]), b.constant([2]))
    split = b.op("Concat", n, t, b.constant([HEADS, head]), axis=0)
    heads = b.op("Transpose", b.op("Reshape", x, split), perm=[0, 2, 1, 3])
    fold = b.op("Concat", b.op("Mul", n, b.constant([HEADS])), t, b.constant([head]), axis=0)
    folded = b.op("Reshape", heads, fold)
    scores = b.op("MatMul", folded, b.op("Transpose", folded, perm=[0, 2, 1]))
    rows = b.reshape(x, -1, FEATURES)
    tall = b.op("MatMul", rows, b.weight(FEATURES, 4))
    back = b.op("Reshape", tall, b.op("Concat", n, t, b.constant([4]), axis=0))
    return b.model(back, scores)


def symbolic_positions() -> ModelProto:
    b = Builder()
    positions = b.input("positions", ["seq"], TensorProto.INT64)
    tokens = b.input("tokens", ["rows", "seq"], TensorProto.INT64)
    mask = b.input("mask", ["rows", "past + seq"])
    table = b.weight(10, FEATURES)
    both = b.op("Add", b.op("Gather", table, tokens), b.op("Gather", table, positions))
    wide = b.op("Concat", b.op("ReduceSum", both, b.constant([2]), keepdims=0), mask, axis=1)
    return b.model(wide)


def symbolic_time_first() -> ModelProto:
    b, hidden = Builder(), 5
    x = b.input("x", ["time", "batch", FEATURES])
    zeros = b.constant(np.zeros((1, 1, hidden)), np.float32)
    weights = (b.weight(1, 3 * hidden, FEATURES), b.weight(1, 3 * hidden, hidden))
    y = b.op("GRU", x, *weights, "", "", zeros, outputs=2, hidden_size=hidden)
    return b.model(b.op("Squeeze", y, b.constant([1])))


def pairs() -> ModelProto:
    """Each sample with each, and twice as many rows."""
    b = Builder()
    a, c = b.input("a", ["s0", FEATURES]), b.input("c", ["s0", FEATURES])
    logits = b.op("MatMul", a, b.op("Transpose", c, perm=[1, 0]))
    return b.model(b.op("Concat", a, c, axis=0), logits)


SYMBOLIC = [
    (symbolic_attention("batch_size", LENGTH), {"batch_size": 0}, []),
    (symbolic_attention("s77", LENGTH), {"s77": 0}, []),
    (symbolic_attention("s77", "s12"), {"s77": 0, "s12": 9}, []),
    (symbolic_positions(), {"rows": 0, "seq": 6, "past": 3, "past + seq": 9}, []),
    (symbolic_positions(), {"rows": 0, "seq": 6, "past + seq": 9}, ["past + seq"]),
    (pairs(), {"s0": 0}, []),
]


@pytest.mark.parametrize("model, dims, whole", SYMBOLIC)
def test_symbolic_batch(
    model: ModelProto, dims: dict[str, int], whole: list[str], tmp_path: Path
) -> None:
    options = [
        part
        for name, size in dims.items()
        if size and (name in whole or " " not in name)
        for part in ("--dim", f"{name}={size}")
    ]
    shapes = imported(model, tmp_path, *options)
    for batch in BATCHES:
        truth = true_shapes(model, {name: size or batch for name, size in dims.items()})
        agree(shapes, truth, batch)


def test_batch_behind_time(tmp_path: Path) -> None:
    """The reference does not spread the initial state: only what follows from it is compared."""
    shapes = imported(symbolic_time_first(), tmp_path, "--dim", f"time={LENGTH}")
    assert sizes(shapes["GRU0"], 4) == (LENGTH, 1, 4, 5)
    assert sizes(shapes["c0_row"], 4) == (1, 4, 5)


def test_batch_baked_behind_a_symbol(tmp_path: Path) -> None:
    """The input leaves the batch open, the Reshape has that of the example."""
    for written in (1, 3):
        b = Builder()
        x = b.input("x", ["N", LENGTH, FEATURES])
        y = b.reshape(x, written, LENGTH, HEADS, FEATURES // HEADS)
        z = b.reshape(b.op("Relu", y), written, -1)
        shapes = imported(b.model(b.op("MatMul", z, b.weight(LENGTH * FEATURES, 2))), tmp_path)
        assert sizes(shapes[y], 5) == (5, LENGTH, HEADS, FEATURES // HEADS)
        assert sizes(shapes[z], 5) == (5, LENGTH * FEATURES)


@pytest.mark.parametrize(
    "dims, options, message",
    [
        (["N", "seq", 4], [], "--dim seq=128"),
        (["N", "s1", "s2"], [], "--dim s1=128 --dim s2=128"),
        (["N", "2*past + 1", 4], [], "--dim past=128"),
        (["N", "", 4], [], "--dim x.1=128"),
        ([1, "seq", 4], [], "--dim seq=128"),
        (["N", "seq", 4], ["--dim", "sequence=8"], "symbolic are: N, seq"),
        (["N", 4], ["--batch-dim", "M"], "symbolic are: N"),
        (["N", 4], ["--batch-dim", "y=1"], "no input called 'y'"),
        ([], [], "--batch-dim"),
    ],
)
def test_messages(
    dims: list[int | str], options: list[str], message: str, tmp_path: Path
) -> None:
    b = Builder()
    x = b.input("x", dims)
    for dim in b.inputs[0].type.tensor_type.shape.dim:
        if dim.dim_param == "":
            dim.ClearField("dim_param")
    path = tmp_path / "model.onnx"
    onnx.save(b.model(b.op("Relu", x)), path)
    tool = BINARY.with_name("import-shapes")
    run = subprocess.run([tool, path, *options], capture_output=True, text=True)
    assert run.returncode == 1 and message in run.stderr, run.stderr
