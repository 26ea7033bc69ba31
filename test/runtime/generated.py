"""Generated models for the tests: emit-model on ONNX files, the modules loaded and filled."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

SOURCE = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HETERPLAN_BINARY", SOURCE / "build/bin/heterplan"))
EMIT_MODEL = BINARY.with_name("emit-model")
RUNTIME = SOURCE / "lib/codegen/runtime"
if str(RUNTIME) not in sys.path:  # as when the package lies beside model.py
    sys.path.insert(0, str(RUNTIME))


@dataclass(frozen=True)
class Emitted:
    """How far a model came: `state` is crashed, refused, imported or generated."""

    state: str
    uncosted: str  # operators without a cost
    error: str


Job = tuple[Path, Path, int] | tuple[Path, Path, int, int]


def emit_all(jobs: list[Job]) -> list[Emitted]:
    """Writes model.py for each (ONNX file, directory, stages[, layers of a segment that is computed
    again]); survives crashes of emit-model."""
    if not EMIT_MODEL.is_file():
        pytest.skip(f"{EMIT_MODEL} is not built")
    result: list[Emitted] = []
    while len(result) < len(jobs):
        lines = "".join("\t".join(map(str, job)) + "\n" for job in jobs[len(result) :])
        run = subprocess.run(
            [EMIT_MODEL, "--all"], input=lines, capture_output=True, text=True, timeout=600
        )
        result += [Emitted(*line.split("\t")) for line in run.stdout.split("\n")[:-1]]
        if run.returncode:
            result.append(Emitted("crashed", "layers", run.stderr[-2000:] or str(run.returncode)))
    return result


def emit(jobs: list[Job]) -> list[str]:
    """Generates the modules of several jobs in one process; returns their errors, "" for none."""
    return [emitted.error for emitted in emit_all(jobs)]


def load(directory: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("generated_model", directory / "model.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stages(module: ModuleType, directory: Path) -> list[nn.Module]:
    """The stages in inference mode, with the weights that were written; each must have all."""
    result = []
    for index, stage_class in enumerate(module.STAGES):
        stage = stage_class()
        path = directory / f"weights/stage-{index:04d}.safetensors"
        stage.load_state_dict(load_file(path) if path.exists() else {})
        result.append(stage.eval())
    return result


def emitted(model: Path, folder: Path) -> tuple[list[nn.Module], str]:
    """The stages of a model as generated code, and their source; written into `folder`."""
    assert emit([(model, folder, 1)]) == [""]
    return stages(load(folder), folder), (folder / "model.py").read_text()


def forward(parts: list[nn.Module], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Runs the stages one after another; each sees what it receives and the inputs only."""
    carried: dict[str, Tensor] = {}
    for part in parts:
        arguments = [carried[name] for name in part.receives]
        arguments += [inputs[name] for name in part.inputs]
        results = part(*arguments)
        assert isinstance(results, tuple)
        carried = dict(zip(part.sends, results, strict=True))
    return carried


def gradients(parts: list[nn.Module]) -> dict[str, Tensor]:
    """The gradients of the stages by name; stages that use a tied parameter hold a copy each, and the
    gradients of the copies are summed."""
    result: dict[str, Tensor] = {}
    for part in parts:
        for name, parameter in part.named_parameters():
            if parameter.grad is not None:
                result[name] = result[name] + parameter.grad if name in result else parameter.grad
    return result
