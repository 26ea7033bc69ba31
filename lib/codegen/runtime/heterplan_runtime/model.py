"""Loads model.py of a plan and fills the tensors of its stages.

A parameter's first values depend on its name and the seed alone, so every cut of the model, and
every replica, starts from the same point. Weights that came with the ONNX file replace them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .errors import RuntimeFault
from .program import RankProgram, TensorSpec, dtype_of
from .tensorfile import read_tensors


@dataclass(frozen=True)
class Model:
    """The generated model: its stage classes, inputs and outputs."""

    name: str
    stages: tuple[type[nn.Module], ...]
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]
    bounds: dict[str, int]  # integer inputs are below these

    @property
    def prediction(self) -> TensorSpec:
        """The output that the loss takes."""
        return next(iter(self.outputs.values()))

    def shared_parameters(self) -> dict[str, tuple[int, ...]]:
        """Parameters that more than one stage uses, with those stages."""
        names = Counter(name for stage in self.stages for name in _specs(stage, "parameters_spec"))
        return {
            name: tuple(
                index
                for index, stage in enumerate(self.stages)
                if name in _specs(stage, "parameters_spec")
            )
            for name in sorted(names)
            if names[name] > 1
        }


def _specs(stage: type[nn.Module], attribute: str) -> dict[str, Any]:
    return dict(getattr(stage, attribute, {}))


def _tensor_specs(table: dict[str, Any], where: str) -> dict[str, TensorSpec]:
    specs = {}
    for name, (dtype, dims) in table.items():
        pairs = tuple((int(per_sample), int(fixed)) for per_sample, fixed in dims)
        specs[name] = TensorSpec(name, dtype_of(dtype, where), pairs)
    return specs


def load_model(directory: Path) -> Model:
    """Imports model.py of the plan."""
    path = directory / "model.py"
    spec = importlib.util.spec_from_file_location("heterplan_model", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise RuntimeFault(f"{path}: no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["heterplan_model"] = module
    try:
        spec.loader.exec_module(module)
        return Model(
            name=str(module.MODEL),
            stages=tuple(module.STAGES),
            inputs=_tensor_specs(module.INPUTS, f"{path}: INPUTS"),
            outputs=_tensor_specs(module.OUTPUTS, f"{path}: OUTPUTS"),
            bounds={
                name: int(bound) for name, bound in getattr(module, "INPUT_BOUNDS", {}).items()
            },
        )
    except RuntimeFault:
        raise
    except Exception as error:
        raise RuntimeFault(
            f"{path}: cannot be imported: {type(error).__name__}: {error}"
        ) from error


def check_model(model: Model, program: RankProgram) -> None:
    """The model and the program must come from one plan."""
    if len(model.stages) != program.stages:
        raise RuntimeFault(f"model.py has {len(model.stages)} stages; the plan {program.stages}")
    stage: Any = model.stages[program.stage]
    outputs = len(program.sends) if not program.is_last else len(model.outputs)
    for what, found, wanted in (
        ("receives", len(stage.receives), len(program.receives)),
        ("sends", len(stage.sends), outputs),
    ):
        if found != wanted:
            raise RuntimeFault(
                f"stage {program.stage} {what} {found} tensors in model.py, {wanted} in the plan"
            )


def seed_of(*parts: object) -> int:
    """A seed that is the same on every machine."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def initial(name: str, shape: tuple[int, ...], kind: str, seed: int) -> Tensor:
    """First values of a parameter. `kaiming`: uniform within 1/sqrt(fan-in), which is PyTorch's own
    default; larger values explode in residual networks whose batch normalisation is folded away."""
    if kind == "ones":
        return torch.ones(shape)
    if kind == "zeros":
        return torch.zeros(shape)
    generator = torch.Generator().manual_seed(seed_of(name, seed))
    if kind == "normal":
        return torch.randn(shape, generator=generator) * 0.02
    if kind == "kaiming":
        fan_in = math.prod(shape[1:]) if len(shape) > 1 else shape[0] if shape else 1
        bound = 1 / math.sqrt(max(1, fan_in))
        return (torch.rand(shape, generator=generator) * 2 - 1) * bound
    raise RuntimeFault(f"model.py: parameter '{name}' has unknown initialiser '{kind}'")


def build_stage(
    model: Model, index: int, directory: Path, seed: int, device: torch.device
) -> nn.Module:
    """The stage on its device, initialised by `seed`, then with the weights of the plan."""
    stage = model.stages[index]()
    path = directory / "weights" / f"stage-{index:04d}.safetensors"
    weights = read_tensors(path) if path.exists() else {}
    tensors = stage.state_dict(keep_vars=True)
    stage_class = model.stages[index]
    trained = {**_specs(stage_class, "parameters_spec"), **_specs(stage_class, "buffers_spec")}
    with torch.no_grad():
        for name, (shape, dtype, kind) in trained.items():
            values = weights.get(name)
            if values is None:
                values = initial(name, tuple(shape), kind, seed).to(dtype_of(dtype, "model.py"))
            _fill(tensors, name, values, path)
        for name in _specs(stage_class, "constants_spec"):
            if name not in weights:
                raise RuntimeFault(f"{path}: constant '{name}' is missing")
            _fill(tensors, name, weights[name], path)
    return stage.to(device).train()


def _fill(tensors: dict[str, Any], name: str, values: Tensor, path: Path) -> None:
    if name not in tensors:
        raise RuntimeFault(f"model.py: no tensor '{name}' in the state of its stage")
    target = tensors[name]
    if target.shape != values.shape or target.dtype != values.dtype:
        raise RuntimeFault(
            f"{path}: '{name}' is {values.dtype} {list(values.shape)}; "
            f"the model has {target.dtype} {list(target.shape)}"
        )
    target.copy_(values)
