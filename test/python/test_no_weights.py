"""Plans that have no copy of the weights (`compile --no-weights`)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import BINARY
from onnx import helper, numpy_helper

import heterplan


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x · w + b, where w has 128 KiB."""
    generator = np.random.default_rng(0)
    weights = {
        "w": generator.normal(size=(256, 128)).astype(np.float32), "b": np.ones(128, np.float32)
    }  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="gemm")], "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 256])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 128])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def planned(model: Path, cores: Path, name: str, **options: object) -> heterplan.Plan:
    return heterplan.compile(
        model, cores, batch=8, schedule="data-parallel", output=model.with_name(name), **options
    )


def test_a_run_reads_them_from_the_model(model: Path, cores: Path) -> None:
    copied, referred = planned(model, cores, "copied"), planned(model, cores, "referred", no_weights=True)
    sizes = [(plan.directory / "weights/stage-0000.safetensors").stat().st_size for plan in (copied, referred)]
    assert sizes[0] > 128 << 10 > 1 << 10 > sizes[1]
    losses = [plan.run(steps=2, data="fixed", lr=0.1, check=True)["losses"] for plan in (copied, referred)]
    assert losses[0] == losses[1]
    shown = subprocess.run(
        [BINARY, "run", referred.directory, "--steps", "1"], capture_output=True, text=True, check=True
    )
    assert f"weights are read from {model}: the plan has no copy of them" in shown.stdout + shown.stderr
    # Stages of the plan start from the values of the model, as those of a plan with a copy do.
    states = [dict(plan.module().named_parameters()) for plan in (copied, referred)]
    assert all((states[0][name] == value).all() for name, value in states[1].items())


def test_a_run_refuses_another_model(model: Path, cores: Path) -> None:
    plan = planned(model, cores, "referred", no_weights=True, max_devices={"core": 1})
    bytes_before = model.read_bytes()
    middle = len(bytes_before) // 2
    model.write_bytes(bytes_before[:middle] + bytes([bytes_before[middle] ^ 1]) + bytes_before[middle + 1 :])
    with pytest.raises(heterplan.HeterplanError, match="the values of 'w' have changed since the plan was made"):
        plan.run(steps=1)
    model.unlink()
    with pytest.raises(heterplan.HeterplanError, match="which does not exist .*--no-weights"):
        plan.run(steps=1)
    model.write_bytes(bytes_before)
    assert plan.run(steps=1)["losses"]


@pytest.mark.parametrize("file", ["../model.onnx", "/etc/passwd"])
def test_weights_outside_of_the_models_folder_are_refused(model: Path, cores: Path, file: str) -> None:
    plan = planned(model, cores, "referred", no_weights=True, max_devices={"core": 1})
    references = plan.directory / "weights/stage-0000.json"
    text = references.read_text()
    assert f'"{model.name}"' in text
    references.write_text(text.replace(f'"{model.name}"', f'"{file}"'))
    with pytest.raises(heterplan.HeterplanError, match="is not inside the model's folder"):
        plan.run(steps=1, allow_edits=True)
