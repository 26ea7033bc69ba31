"""A model that was written for a batch of one computes for each sample what it did for that one, or
it is refused with the line that exports it with a symbolic batch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import ModelProto, TensorProto
from onnx.reference import ReferenceEvaluator
from test_shapes import BINARY, FEATURES, LENGTH, Builder

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))

import generated  # noqa: E402

SAMPLES = 3


def resized() -> ModelProto:
    """To the size of a skip, which the exporter folds."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, 3, 5, 4]), b.weight(4, 4))
    sizes = b.constant([1, 3, 9, 7])
    return b.model(b.op("Resize", x, "", "", sizes, mode="linear"))


def row_of_all() -> ModelProto:
    """A row of the tokens of all samples: of the first one alone."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, LENGTH, FEATURES]), b.weight(FEATURES, FEATURES))
    rows = b.op("Gather", b.reshape(x, -1, FEATURES), b.constant([2]))
    return b.model(b.op("Add", x, rows))


def last_token() -> ModelProto:
    """The rows where sequences end, by their numbers among all tokens: 0·LENGTH is folded."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, LENGTH, FEATURES]), b.weight(FEATURES, FEATURES))
    ends = b.input("ends", [1], TensorProto.INT64)
    rows = b.op("Gather", b.reshape(x, LENGTH, FEATURES), ends)
    return b.model(b.op("MatMul", rows, b.weight(FEATURES, 2)))


def first_sample() -> ModelProto:
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, FEATURES]), b.weight(FEATURES, FEATURES))
    first = b.op("Slice", x, b.constant([0]), b.constant([1]), b.constant([0]))
    return b.model(b.op("Add", b.op("Relu", x), first))


def assigned() -> ModelProto:
    """x[:, 1:3] = ..., as indices into the sample of the export."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, FEATURES]), b.weight(FEATURES, FEATURES))
    places = b.constant([[[0, 1], [0, 2]]])
    two = b.op("Slice", x, b.constant([4]), b.constant([6]), b.constant([1]))
    return b.model(b.op("ScatterND", x, places, two))


def assigned_to_first() -> ModelProto:
    """x[0, 1:3] = constants: the same indices, but what is written is of no sample."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, FEATURES]), b.weight(FEATURES, FEATURES))
    return b.model(b.op("ScatterND", x, b.constant([[[0, 1], [0, 2]]]), b.weight(1, 2)))


def put_together() -> ModelProto:
    """Two halves written into zeros: where samples lead, and where they are last."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, FEATURES]), b.weight(FEATURES, FEATURES))
    half = FEATURES // 2
    left, right = b.op("Split", x, outputs=2, axis=1), f"Split{len(b.nodes) - 1}_1"
    zeros = b.constant(np.zeros((1, FEATURES)), np.float32)
    places = np.stack([np.zeros(half), np.arange(half)], -1)[None]
    first = b.op("ScatterND", zeros, b.constant(places), left)
    last = b.constant(np.arange(half, FEATURES)[:, None])
    columns = b.op("Transpose", first, perm=[1, 0])
    both = b.op("ScatterND", columns, last, b.op("Transpose", right, perm=[1, 0]))
    return b.model(b.op("Transpose", both, perm=[1, 0]))


def chosen_groups() -> ModelProto:
    """The best of three groups of every token, as the gate of a mixture of experts marks them."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, LENGTH, FEATURES]), b.weight(FEATURES, 3))
    tokens = b.reshape(x, LENGTH, 3)
    b.op("TopK", tokens, b.constant([1]), outputs=2, axis=1)
    best = f"TopK{len(b.nodes) - 1}_1"
    ones = b.constant(np.ones((LENGTH, 1)), np.float32)
    none = b.constant(np.zeros((LENGTH, 3)), np.float32)
    marks = b.op("ScatterElements", none, best, ones, axis=1)
    return b.model(b.reshape(b.op("Mul", marks, tokens), 1, LENGTH, 3))


def filled() -> ModelProto:
    """x[:, 1:3] = constants, the samples behind the axis that indices count."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, FEATURES]), b.weight(FEATURES, FEATURES))
    columns = b.op("Transpose", x, perm=[1, 0])
    y = b.op("ScatterND", columns, b.constant([[1], [2]]), b.weight(2, 1))
    return b.model(b.op("Transpose", y, perm=[1, 0]))


def marked() -> ModelProto:
    """Constants at constant places of every row."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, FEATURES]), b.weight(FEATURES, FEATURES))
    return b.model(b.op("ScatterElements", x, b.constant([[1, 4]]), b.weight(1, 2), axis=1))


def marked_token() -> ModelProto:
    """Constants at constant places of the first token of all."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, LENGTH, FEATURES]), b.weight(FEATURES, 3))
    tokens = b.reshape(x, LENGTH, 3)
    y = b.op("ScatterElements", tokens, b.constant([[1]]), b.weight(1, 1), axis=1)
    return b.model(b.reshape(y, 1, LENGTH, 3))


def summed() -> ModelProto:
    """A reduction over all axes, as squeeze() and mean() write them."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, FEATURES]), b.weight(FEATURES, FEATURES))
    return b.model(b.op("Sub", x, b.op("ReduceMean", x, axes=[0, 1], keepdims=1)))


def softmax_of_all() -> ModelProto:
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, FEATURES]), b.weight(FEATURES, FEATURES))
    return b.model(b.op("Softmax", x, axis=0))


def squeezed() -> ModelProto:
    """Every axis of one element is taken away, that of the samples too."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, 1, FEATURES]), b.weight(FEATURES, FEATURES))
    return b.model(b.op("Softmax", b.op("Squeeze", x), axis=0))


def pairs() -> ModelProto:
    """Samples × samples."""
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, FEATURES]), b.weight(FEATURES, FEATURES))
    return b.model(b.op("MatMul", x, b.op("Transpose", x, perm=[1, 0])))


def over_time() -> ModelProto:
    """Time leads, so that it is taken for the samples."""
    b = Builder()
    x = b.input("x", [LENGTH, 1, FEATURES])
    weights = b.weight(1, 4 * 5, FEATURES), b.weight(1, 4 * 5, 5)
    return b.model(b.op("LSTM", x, *weights, hidden_size=5))


def heads() -> ModelProto:
    b = Builder()
    x = b.op("MatMul", b.input("x", [1, LENGTH, FEATURES]), b.weight(FEATURES, FEATURES))
    split = b.op("Transpose", b.reshape(x, 1, LENGTH, 3, 4), perm=[0, 2, 1, 3])
    scores = b.op("MatMul", split, b.op("Transpose", split, perm=[0, 1, 3, 2]))
    y = b.op("MatMul", b.op("Softmax", scores, axis=-1), split)
    flat = b.reshape(b.op("Transpose", y, perm=[0, 2, 1, 3]), LENGTH, FEATURES)
    return b.model(b.reshape(b.op("MatMul", flat, b.weight(FEATURES, 2)), 1, LENGTH, 2))


EQUAL = [resized, heads, assigned, put_together, chosen_groups, marked, filled]
REFUSED = [
    row_of_all, last_token, first_sample, assigned_to_first, marked_token, summed, softmax_of_all, squeezed,
    pairs, over_time,
]  # fmt: skip


def each_sample(model: ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The results of the model as written, one sample after another."""
    evaluator = ReferenceEvaluator(model)
    runs = [
        evaluator.run(None, {name: x[i : i + 1] for name, x in inputs.items()})
        for i in range(SAMPLES)
    ]
    return [np.concatenate(results) for results in zip(*runs)]


def inputs_of(model: ModelProto) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    result = {}
    for value in model.graph.input:
        dims = [SAMPLES, *(d.dim_value for d in value.type.tensor_type.shape.dim[1:])]
        real = value.type.tensor_type.elem_type == TensorProto.FLOAT
        result[value.name] = (
            draw.normal(size=dims).astype(np.float32) if real else draw.integers(0, 4, dims)
        )
    return result


@pytest.mark.parametrize("build", EQUAL, ids=lambda build: build.__name__)
def test_each_sample_is_computed_as_the_one(
    build: Callable[[], ModelProto], tmp_path: Path
) -> None:
    model = build()
    onnx.save(model, tmp_path / "model.onnx")
    assert generated.emit([(tmp_path / "model.onnx", tmp_path / "out", 1)]) == [""]
    inputs = inputs_of(model)
    parts = generated.stages(generated.load(tmp_path / "out"), tmp_path / "out")
    with torch.no_grad():
        results = generated.forward(parts, {k: torch.from_numpy(x) for k, x in inputs.items()})
    for found, expected in zip(results.values(), each_sample(model, inputs), strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("build", REFUSED, ids=lambda build: build.__name__)
def test_what_mixes_samples_is_refused(build: Callable[[], ModelProto], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(build(), path)
    cluster = generated.SOURCE / "profiles/clusters/mixed-small.yaml"
    command = [BINARY, "compile", path, "--cluster", cluster, "-o", tmp_path / "plan"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    assert "[HP1107] the model is written for a batch of" in run.stderr
    assert 'dynamo=True, optimize=False, dynamic_shapes=({0: torch.export.Dim("batch")}' in run.stderr
    assert 'dynamic_axes={"x": {0: "batch"}' in run.stderr
    assert not (tmp_path / "plan").exists()
