"""Generated models for the tests: emit-model on ONNX files, the modules loaded and filled."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

SOURCE = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HETERPLAN_BINARY", SOURCE / "build/bin/heterplan"))
EMIT_MODEL = BINARY.with_name("emit-model")


def emit(jobs: list[tuple[Path, Path, int]]) -> list[str]:
    """Writes model.py for each (ONNX file, directory, stages); returns the errors, "" for none."""
    if not EMIT_MODEL.is_file():
        pytest.skip(f"{EMIT_MODEL} is not built")
    lines = "".join(f"{model}\t{directory}\t{stages}\n" for model, directory, stages in jobs)
    result = subprocess.run(
        [EMIT_MODEL, "--all"], input=lines, capture_output=True, text=True, timeout=600, check=True
    )
    return result.stdout.split("\n")[: len(jobs)]


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
