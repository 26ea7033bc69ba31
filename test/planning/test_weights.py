"""Weights that are missing or cut short are said: training would start at random values in silence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import BINARY


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x @ w + b, its parameters in weights.bin."""
    weight = numpy_helper.from_array(numpy.ones((64, 64), numpy.float32), "w")
    bias = numpy_helper.from_array(numpy.ones(64, numpy.float32), "b")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 64])],
        [weight, bias],
    )
    path = tmp_path / "model.onnx"
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(
        whole, path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )  # fmt: skip
    return path


def said_by_compile(model: Path, *options: str) -> str:
    done = subprocess.run(
        [BINARY, "compile", model, "--cluster", "local-cpu", "--batch", "16", "-o", model.parent / "out", *options],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_whole_weights_are_not_mentioned(model: Path) -> None:
    assert said_by_compile(model) == ""
    assert (model.parent / "out/weights/stage-0000.safetensors").exists()


def test_missing_weights_are_said(model: Path) -> None:
    (model.parent / "weights.bin").unlink()
    assert f"note: {model.name} has no weights; training will start from random values" in said_by_compile(model)


def test_weights_that_are_cut_short_are_said(model: Path) -> None:
    weights = model.parent / "weights.bin"
    weights.write_bytes(weights.read_bytes()[:1000])
    said = said_by_compile(model, "--verbose")
    assert "note: the external data 'weights.bin' are cut short" in said
    assert "model.onnx has no weights" in said
