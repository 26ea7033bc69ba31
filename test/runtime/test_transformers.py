"""Models from transformers' configurations, exported both ways, against the modules they came
from: imported, compiled for a large cluster, and run as the modules that were generated."""

from __future__ import annotations

import subprocess
from pathlib import Path

import generated
import pytest
import torch
from binary import BINARY, needs_binary

pytest.importorskip("transformers")

import zoo  # noqa: E402

CLUSTER = generated.SOURCE / "profiles/clusters/cloud-large.yaml"
SAMPLES = 3  # not the batch of the export
LARGE = ("mixtral", "whisper")  # half a minute each by the newer exporter
CASES = [
    pytest.param(name, exporter, marks=[pytest.mark.sweep] if name in LARGE and exporter == "dynamo" else [])
    for exporter in zoo.EXPORTERS
    for name in zoo.TINY
]

pytestmark = needs_binary


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> zoo.Exports:
    return zoo.Exports(tmp_path_factory.mktemp("zoo"))


def compile_plan(model: Path, folder: Path, cluster: Path, *options: object) -> None:
    arguments = [BINARY, "compile", model, "--cluster", cluster, "-o", folder, *options]
    run = subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr


def check_outputs(folder: Path, example: zoo.Example, module: torch.nn.Module) -> None:
    inputs = example.sample(SAMPLES)
    with torch.no_grad():
        parts = generated.stages(generated.load(folder), folder)
        results = generated.forward(parts, inputs)
        expected = module(*inputs.values())
    for name, value in zip(example.outputs, expected, strict=True):
        torch.testing.assert_close(results[name], value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "exporter"), CASES)
def test_compiled_module_computes_the_same(
    name: str, exporter: str, exports: zoo.Exports, tmp_path: Path
) -> None:
    path, module = exports(name, exporter)
    compile_plan(path, tmp_path / "plan", CLUSTER)
    check_outputs(tmp_path / "plan", zoo.TINY[name], module)


# Written for a batch: masks index its samples, folded constants have a row for each.
FIXED = [
    *(pytest.param(name, 2, marks=[pytest.mark.sweep] if name in LARGE else []) for name in zoo.TINY),
    ("bert", 1), ("gpt2", 1), ("bert", 4),
]  # fmt: skip


@pytest.mark.parametrize("exporter", zoo.EXPORTERS)
@pytest.mark.parametrize(("name", "batch"), FIXED)
def test_batch_of_the_export_is_made_symbolic(
    name: str, batch: int, exporter: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    module = zoo.export(zoo.TINY[name], path, exporter, dynamic=False, samples=batch)
    errors = generated.emit([(path, tmp_path / str(count), count) for count in (1, 2)])
    assert not any(errors), errors
    for count in (1, 2):
        check_outputs(tmp_path / str(count), zoo.TINY[name], module)


def gradients(parts: list[torch.nn.Module], inputs: dict[str, torch.Tensor]) -> dict:
    result = next(iter(generated.forward(parts, inputs).values()))
    result.square().mean().backward()
    return generated.gradients(parts)


@pytest.mark.parametrize(("name", "exporter"), CASES)
def test_stages_compute_what_the_whole_does(
    name: str, exporter: str, exports: zoo.Exports, tmp_path: Path
) -> None:
    path, module = exports(name, exporter)
    folders = {count: tmp_path / str(count) for count in (1, 2, 3)}
    errors = generated.emit([(path, folder, count) for count, folder in folders.items()])
    assert not any(errors), errors
    inputs = zoo.TINY[name].sample(SAMPLES)
    whole: dict[str, torch.Tensor] = {}
    for folder in folders.values():
        check_outputs(folder, zoo.TINY[name], module)
        own = gradients(generated.stages(generated.load(folder), folder), inputs)
        whole = whole or own
        assert own.keys() == whole.keys()
        for key, value in own.items():
            torch.testing.assert_close(value, whole[key], rtol=1e-4, atol=1e-6)
