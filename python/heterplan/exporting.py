"""A torch module as the ONNX file that trains what the module trains."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .example import example_of, reached_parameters
from .export_failures import refusal
from .exporter_session import Export
from .inputs import samples_in, taking
from .newer_exporter import export_newer
from .older_exporter import export_older
from .parameters import state_parameters

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .inputs import Inputs

    Axes = Mapping[str, Mapping[int, str]]

_OPSET = 17


def export(
    module: nn.Module,
    inputs: Inputs,
    path: str | os.PathLike[str],
    *,
    output_names: Sequence[str] | None = None,
    opset: int = _OPSET,
    axes: Axes | None = None,
) -> Path:
    """Writes `module` to `path` as an ONNX model to be planned and trained, and returns the path.

    `inputs`: an example, of two samples or more: a tensor, a tuple of the positional arguments of
    `module.forward`, or a dictionary of its arguments by name. Axis 0 of each tensor that has axes counts
    samples, and is left symbolic; all must have the same number. The names of the arguments become those
    of the ONNX inputs. `axes`: names of further axes that are left symbolic, by input, such as
    `{"input_ids": {1: "length"}}`; `heterplan compile --dim length=128` gives one a size.

    PyTorch's newer exporter (torch.export, `optimize=False`) writes the file. If it fails, or the package
    onnxscript, which it needs, is not there, the TorchScript exporter does. A module on the meta device is exported in the other order, since the newer exporter takes
    three times as long. If a model of Hugging Face needs an attention mask, the file has one as an input.

    Parameters that no gradient reaches, as those that forward() uses under torch.no_grad(), are not trained.

    The export is in training mode (batch normalisation and dropout stay what they are) and folds no
    constants, so that each parameter is one initializer with the name and the values that it has in
    `module.state_dict()`. A module on the meta device gives a file without values, which can be planned
    in seconds whatever its size. The metadata of the file say which tensors are trained (`requires_grad`), and
    which are tied. The module itself is not changed: a copy on the CPU is traced.

    Raises ValueError where `inputs` are no such example, HeterplanError where the file would train
    something else than the module. Needs PyTorch and the package onnx.
    """
    is_meta = any(each.is_meta for each in (*module.parameters(), *module.buffers()))
    exporters = (export_older, export_newer) if is_meta else (export_newer, export_older)
    return export_by(exporters, module, inputs, path, output_names, opset, axes)


def export_by(
    exporters: Sequence[Callable[[Export], None]],
    module: nn.Module,
    inputs: Inputs,
    path: str | os.PathLike[str],
    output_names: Sequence[str] | None = None,
    opset: int = _OPSET,
    axes: Axes | None = None,
) -> Path:
    """See export(). The first of `exporters` that does not fail writes the file."""
    import torch

    example, named, has_values = example_of(module, inputs)
    forward, accepted = example.forward, inspect.signature(example.forward).parameters
    samples_in(named)
    symbols = _symbols(named, axes or {})
    attempts = [named]
    takes_mask = "attention_mask" in accepted or any(each.kind is each.VAR_KEYWORD for each in accepted.values())
    if "input_ids" in named and takes_mask and "attention_mask" not in named:
        # Models of Hugging Face look at positions where there is no mask, by operators that ONNX has not.
        mask = {**named, "attention_mask": torch.ones_like(named["input_ids"])}
        order = [name for name in accepted if name in mask]
        attempts.append({name: mask[name] for name in [*order, *(name for name in mask if name not in order)]})
    example.forward = taking(forward, named)
    reached = reached_parameters(example, named) if has_values else None
    failures: list[Exception] = []
    for each in attempts:
        symbols.setdefault("attention_mask", symbols.get("input_ids", {}))
        for exporter in exporters:
            example.forward = taking(forward, each)
            try:
                exporter(Export(example, each, symbols, path, output_names, opset, has_values))
                state_parameters(path, module, has_values, reached)
                return Path(path)
            except (RuntimeError, torch.onnx.OnnxExporterError) as error:
                failures.append(error)
    raise refusal(module, failures) from failures[0]


def _symbols(named: Mapping[str, Tensor], axes: Axes) -> dict[str, dict[int, str]]:
    """The names of the symbolic axes of each input."""
    for name, each in axes.items():
        if name not in named:
            raise ValueError(f"axes names an input '{name}'; there are {', '.join(named)}")
        for axis in each:
            if not 1 <= axis < named[name].dim():
                raise ValueError(
                    f"axes of input '{name}': {axis} is not one of its {named[name].dim()} axes, or counts samples"
                )
    return {
        name: {0: "batch", **dict(axes.get(name, {}))} if tensor.dim() else {} for name, tensor in named.items()
    }
