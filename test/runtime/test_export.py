"""`heterplan export`: the ONNX model computes what was trained. Judged by ONNX's own checker, its
reference evaluator and onnxruntime, which share no code with this project."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from binary import BINARY, heterplan, needs_binary
from generated import forward, load
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file, save_file

SMALL = Path(__file__).resolve().parents[1] / "data/small"
PAIR = """
name: pair
device_types:
  a: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 2MFLOP/s, bandwidth: 2MB/s}
nodes:
  - {name: one, devices: {a: 1}, link: {bandwidth: 1000GB/s, latency: 1ns}}
  - {name: two, devices: {a: 1}, link: {bandwidth: 1000GB/s, latency: 1ns}}
network: {bandwidth: 1000GB/s, latency: 1ns}
"""

pytestmark = needs_binary


def refused(*arguments: object) -> str:
    run = subprocess.run(
        [BINARY, "export", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 1, run.stdout
    return run.stderr


def by_reference(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return ReferenceEvaluator(str(path)).run(None, inputs)


def by_onnxruntime(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    runtime = pytest.importorskip("onnxruntime")
    return runtime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)


# ONNX's reference evaluator is off by 2 % on the untrained cnn.onnx, too; onnxruntime is not.
@pytest.mark.parametrize(
    ("name", "evaluate"), [("cnn", by_onnxruntime), ("transformer", by_reference), ("mlp", by_onnxruntime)]
)
def test_exported_model_computes_what_was_trained(tmp_path: Path, name: str, evaluate) -> None:
    model, plan = SMALL / f"{name}.onnx", tmp_path / "plan"
    (tmp_path / "c.yaml").write_text(PAIR)
    heterplan("compile", model, "--cluster", tmp_path / "c.yaml", "--batch", 8, "-o", plan)
    heterplan("run", plan, "--steps", 3, "--lr", 0.05)
    out = tmp_path / "trained.onnx"
    heterplan("export", plan, "--model", model, "-o", out)
    onnx.checker.check_model(out, full_check=True)
    weights = load_file(plan / "trained/model.safetensors")
    before = {each.name: numpy_helper.to_array(each) for each in onnx.load(model).graph.initializer}
    assert any(not np.allclose(before[key], weights[key]) for key in weights if key in before)
    inputs = random_inputs(load(plan))
    module = load(plan)
    stages = []
    for stage_class in module.STAGES:
        stage = stage_class()
        stage.load_state_dict(
            {key: torch.from_numpy(weights[key]) for key in stage.state_dict() if key in weights},
            strict=not getattr(stage, "constants_spec", {}),
        )
        stages.append(stage.eval())
    with torch.no_grad():
        wanted = forward(stages, inputs)
    found = evaluate(out, {key: value.numpy() for key, value in inputs.items()})
    for values, key in zip(found, module.OUTPUTS):
        np.testing.assert_allclose(values, wanted[key].numpy(), rtol=1e-5, atol=1e-5)


def random_inputs(module) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    inputs = {}
    for name, (dtype, dims) in module.INPUTS.items():
        shape = [4 * per_sample + fixed for per_sample, fixed in dims]
        if dtype.startswith("int"):
            bound = module.INPUT_BOUNDS.get(name, 2)
            inputs[name] = torch.randint(0, bound, shape, generator=generator, dtype=getattr(torch, dtype))
        else:
            inputs[name] = torch.randn(shape, generator=generator)
    return inputs


# Files by hand: y = dropout(batch_norm(x·w + b)) and what models say of w and b.

TRAINED = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4) / 7,
    "b": np.array([1, 2, 3, 4], np.float32),
    "scale": np.array([1, 2, 1, 2], np.float32),
    "mean": np.array([0, 1, 0, 1], np.float32),
}
WAYS = ["initializer", "external", "identity", "constant", "input"]


def made(way: str, folder: Path, location: str = "weights.bin") -> Path:
    zeros = {name: np.zeros_like(values) for name, values in TRAINED.items()}
    ones = np.ones(4, np.float32)
    initializers = [numpy_helper.from_array(zeros[name], name) for name in ("w", "scale", "mean")]
    initializers += [numpy_helper.from_array(ones, name) for name in ("bias", "variance")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])]
    nodes = []
    if way == "identity":  # as PyTorch's exporter shares equal vectors
        nodes.append(helper.make_node("Identity", ["mean"], ["b"]))
    elif way == "constant":
        value = numpy_helper.from_array(zeros["b"], "value")
        nodes.append(helper.make_node("Constant", [], ["b"], value=value))
    elif way == "input":
        inputs.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [4]))
    else:
        initializers.append(numpy_helper.from_array(zeros["b"], "b"))
    nodes += [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
        helper.make_node(
            "BatchNormalization", ["h", "scale", "bias", "mean", "variance"], ["n", "m2", "v2"],
            training_mode=1,
        ),
        helper.make_node("Dropout", ["n", "ratio", "training"], ["y"]),
    ]  # fmt: skip
    initializers += [
        numpy_helper.from_array(np.array(0.5, np.float32), "ratio"),
        numpy_helper.from_array(np.array(True), "training"),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "model.onnx"
    onnx.save(
        model, path, save_as_external_data=way == "external", location=location, size_threshold=0
    )
    return path


def weights_in(folder: Path, tensors: dict[str, np.ndarray], **facts: str) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", facts)
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_values_are_written_wherever_the_model_has_them(tmp_path: Path, way: str) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    model, out = made(way, tmp_path / "here"), tmp_path / "there/out.onnx"
    weights = weights_in(tmp_path / "weights", TRAINED)
    said = heterplan("export", weights, "--model", model, "-o", out)
    assert "4 trained tensors" in said and "2 nodes" in said
    assert (tmp_path / "there/out.onnx.data").exists() == (way == "external")
    onnx.checker.check_model(out, full_check=True)
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    (found,) = by_reference(out, {"x": x})
    h = x @ TRAINED["w"] + TRAINED["b"]
    wanted = (h - TRAINED["mean"]) / np.sqrt(1 + 1e-5) * TRAINED["scale"] + 1
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("tensors", "facts", "message"),
    [
        ({"other": np.zeros(2, np.float32)}, {}, "[HP1802]"),
        ({"h": np.zeros(2, np.float32)}, {}, "the first of which is 'h'"),
        ({"w": np.zeros((4, 3), np.float32)}, {}, "another type or shape than the initializer"),
        ({"w": np.zeros((3, 4), np.float64)}, {}, "another type or shape than the initializer"),
        (TRAINED, {"modelFingerprint": "0" * 64}, "is not the file that was planned and trained"),
    ],
)
def test_weights_of_another_model_are_refused(tmp_path: Path, tensors, facts, message) -> None:
    model, out = made("initializer", tmp_path), tmp_path / "out.onnx"
    said = refused(weights_in(tmp_path / "weights", tensors, **facts), "--model", model, "-o", out)
    assert message in said
    assert not out.exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "[HP1003]"),
        (b"\xff" * 8, "is cut short"),
        ((50).to_bytes(8, "little") + b"{}", "is cut short"),
        ((2).to_bytes(8, "little") + b"[]", "not a JSON object"),
        ((2).to_bytes(8, "little") + b'{"', "not a JSON object"),
        ('{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}', "do not hold 3 elements"),
        ('{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}', "no proper dtype"),
        ('{"w":{"dtype":"F32","shape":[1e30],"data_offsets":[0,4]}}', "no proper dtype"),
        ('{"w":{"dtype":"Q7","shape":[1],"data_offsets":[0,4]}}', "no proper dtype"),
        ('{"w":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}}', "do not hold 1 elements"),
        ('{"w":7}', "no proper dtype"),
        ('{"w":{"dtype":"F32","shape":[9007199254740992,9007199254740992],"data_offsets":[0,4]}}',
         "[HP1106]"),
    ],
)  # fmt: skip
def test_files_are_not_trusted(tmp_path: Path, data: bytes | str, message: str) -> None:
    model, folder = made("initializer", tmp_path), tmp_path / "weights"
    folder.mkdir()
    if isinstance(data, str):
        data = len(data).to_bytes(8, "little") + data.encode() + b"1234"
    (folder / "model.safetensors").write_bytes(data)
    assert message in refused(folder, "--model", model, "-o", tmp_path / "out.onnx")


def test_model_is_not_overwritten(tmp_path: Path) -> None:
    model = made("initializer", tmp_path)
    before = model.read_bytes()
    weights = weights_in(tmp_path / "weights", TRAINED)
    assert "is the model itself" in refused(weights, "--model", model, "-o", model)
    assert model.read_bytes() == before
    (tmp_path / "empty").mkdir()
    said = refused(tmp_path / "empty", "--model", model, "-o", tmp_path / "out.onnx")
    assert "there are no trained weights in it" in said


def test_values_of_the_model_are_not_overwritten(tmp_path: Path) -> None:
    """The model has been renamed, its values have not."""
    model, values = made("external", tmp_path, "out.onnx.data"), tmp_path / "out.onnx.data"
    before = values.read_bytes()
    weights = weights_in(tmp_path / "weights", TRAINED)
    said = refused(weights, "--model", model, "-o", tmp_path / "out.onnx")
    assert "holds values of the model itself" in said
    assert values.read_bytes() == before and not (tmp_path / "out.onnx").exists()


def test_values_stay_outside_where_all_that_were_are_trained(tmp_path: Path) -> None:
    model = made("initializer", tmp_path)
    onnx.save(
        onnx.load(model), model, save_as_external_data=True, location="weights.bin", size_threshold=40
    )
    weights = weights_in(tmp_path / "weights", TRAINED)
    heterplan("export", weights, "--model", model, "-o", tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx.data").exists()
