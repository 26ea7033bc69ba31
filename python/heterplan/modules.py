"""The generated stages of a plan as torch modules, with the values that a training begins with."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .errors import HeterplanError
from .program import runtime


def _part(name: str) -> Any:
    """A module of the runtime."""
    runtime()
    return importlib.import_module(f"heterplan_runtime.{name}")


def _build(directory: Path, stages: range | None, seed: int, device: Any) -> tuple[Any, list[Any]]:
    """The description of the generated model, and those of its stages (None: all)."""
    fault = _part("errors").RuntimeFault
    try:
        description = _part("model").load_whole_model(directory)
        built = []
        for index in stages or range(len(description.stages)):
            stage = _part("model").build_stage(
                description, index, directory, seed, torch.device(device), whole_tables=True
            )
            _part("recomputation").recompute_segments(stage)
            built.append(stage)
        return description, built
    except fault as error:
        raise HeterplanError(str(error)) from error


def stage_module(directory: Path, stage: int, seed: int, device: Any) -> nn.Module:
    """One stage. It takes the tensors `stage.receives` of the stage before, then the inputs
    `stage.inputs` of the model, and returns `stage.sends` as a tuple; docs/generated-code.md has the rest.
    """
    built: nn.Module = _build(directory, range(stage, stage + 1), seed, device)[1][0]
    return built


def whole_model(directory: Path, seed: int, device: Any) -> WholeModel:
    """All stages of the plan."""
    description, stages = _build(directory, None, seed, device)
    return WholeModel(description, stages)


class WholeModel(nn.Module):
    """All stages in one process. It takes the inputs of the ONNX model, in its order or by name, and
    returns what the last stage does (its outputs): a tensor, or a tuple if there are several. The keys of its state are ONNX names
    behind `stages.N.`; a parameter that several stages use is one, of the first of them."""

    def __init__(self, description: Any, stages: list[Any]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.inputs = tuple(description.inputs)
        self.outputs = tuple(description.outputs)
        for name, indices in description.shared_parameters().items():
            for index in indices[1:]:
                _tie(stages[indices[0]], stages[index], name)

    def forward(self, *arguments: Tensor, **named: Tensor) -> Any:
        inputs = {**dict(zip(self.inputs, arguments, strict=False)), **named}
        missing = [name for name in self.inputs if name not in inputs]
        if missing or len(inputs) > len(self.inputs) or len(arguments) > len(self.inputs):
            raise TypeError(f"the model takes {', '.join(self.inputs)}, not {', '.join(inputs)}")
        tensors: tuple[Tensor, ...] = ()
        for stage in self.stages:
            own = (inputs[name] for name in stage.inputs)  # type: ignore[union-attr]
            tensors = tuple(stage(*tensors, *own))
        return tensors[0] if len(tensors) == 1 else tensors


def _owners(stage: nn.Module, name: str) -> Iterator[tuple[nn.Module, str]]:
    """The modules that hold the parameter whose key in the state of `stage` is `name`."""
    wanted = dict(stage.named_parameters())[name]
    for module in stage.modules():
        for own, parameter in module._parameters.items():
            if parameter is wanted:
                yield module, own


def _tie(first: nn.Module, other: nn.Module, name: str) -> None:
    """`other` uses the parameter of `first` from now on."""
    shared = dict(first.named_parameters())[name]
    for module, own in list(_owners(other, name)):
        module._parameters[own] = shared


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Reads the tensors of a safetensors file. Raises HeterplanError if the file does not exist."""
    if not path.is_file():
        raise HeterplanError(f"{path}: is not there; Plan.run() writes it")
    tensors: dict[str, Tensor] = _part("tensorfile").read_tensors(path)
    return tensors
