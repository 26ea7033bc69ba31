"""A torch module as the ONNX file that trains what the module trains."""

from __future__ import annotations

import copy
import inspect
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .parameters import state_parameters

if TYPE_CHECKING:
    from torch import Tensor, nn

    Inputs = Tensor | Sequence[Tensor] | Mapping[str, Tensor]

_OPSET = 17


def export(
    module: nn.Module,
    inputs: Inputs,
    path: str | os.PathLike[str],
    *,
    output_names: Sequence[str] | None = None,
    opset: int = _OPSET,
) -> Path:
    """Writes `module` to `path` as an ONNX model to be planned and trained, and returns the path.

    `inputs`: an example, of two samples or more: a tensor, a tuple of the positional arguments of
    `module.forward`, or a dictionary of its arguments by name. Axis 0 of each tensor that has axes counts
    samples, and is left symbolic; all must have the same number. The names of the arguments become those
    of the ONNX inputs.

    The export is in training mode (batch normalisation and dropout stay what they are) and folds no
    constants, so that each parameter is one initializer with the name and the values that it has in
    `module.state_dict()`. The metadata of the file say which tensors are trained (`requires_grad`), and
    which are tied. The module itself is not changed: a copy on the CPU is traced.

    Raises ValueError where `inputs` are no such example, HeterplanError where the file would train
    something else than the module. Needs PyTorch and the package onnx.
    """
    import torch

    example = copy.deepcopy(module).cpu()
    named = _named_inputs(example, inputs)
    samples = _samples(named)
    outputs = _batched_outputs(example, named, samples)
    names = list(output_names or (_default_names(len(outputs))))
    if len(names) != len(outputs):
        raise ValueError(f"the module has {len(outputs)} outputs; output_names has {len(names)}")
    batched = {name: tensor.dim() > 0 for name, tensor in named.items()}
    batched.update(zip(names, outputs, strict=True))
    example.train()
    _keep_buffers(example)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            example, (), os.fspath(path), kwargs=named, dynamo=False,
            training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
            input_names=list(named), output_names=names, opset_version=opset,
            dynamic_axes={name: {0: "batch"} for name, has in batched.items() if has},
        )  # fmt: skip
    state_parameters(path, module)
    return Path(path)


def _default_names(count: int) -> list[str]:
    return ["output"] if count == 1 else [f"output{i}" for i in range(count)]


def _named_inputs(module: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    """By the names of the arguments of `forward`, in its order, which is the exporter's too."""
    import torch

    parameters = inspect.signature(module.forward).parameters
    if isinstance(inputs, Mapping):
        unknown = [name for name in inputs if name not in parameters]
        if unknown:
            raise ValueError(f"forward has no argument '{unknown[0]}', only {', '.join(parameters)}")
        named: dict[str, Any] = {name: inputs[name] for name in parameters if name in inputs}
    else:
        values = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
        if len(values) > len(parameters):
            raise ValueError(f"forward takes {len(parameters)} arguments, not {len(values)}")
        named = dict(zip(parameters, values, strict=False))
    for name, value in named.items():
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"input '{name}' is a {type(value).__name__}; expected a tensor")
    return {name: value.detach().cpu() for name, value in named.items()}


def _samples(named: Mapping[str, Tensor]) -> int:
    counts = {name: len(tensor) for name, tensor in named.items() if tensor.dim() > 0}
    if not counts:
        raise ValueError("no input has an axis of samples")
    samples = next(iter(counts.values()))
    for name, count in counts.items():
        if count != samples:
            raise ValueError(f"input '{name}' has {count} samples along axis 0, others have {samples}")
    if samples < 2:
        raise ValueError("the example has one sample; give two, so that the batch is told from sizes of 1")
    return samples


def _batched_outputs(module: nn.Module, named: Mapping[str, Tensor], samples: int) -> list[bool]:
    """For each tensor that `module` returns, whether its axis 0 counts samples."""
    import torch
    from torch.utils import _pytree

    with torch.no_grad():
        returned = module.eval()(**named)
    leaves = [leaf for leaf in _pytree.tree_leaves(returned) if isinstance(leaf, torch.Tensor)]
    return [leaf.dim() > 0 and leaf.shape[0] == samples for leaf in leaves]


def _keep_buffers(module: nn.Module) -> None:
    """Tracing is a forward pass in training mode, which moves running statistics; they are set back
    before the file is written, past the tracer."""
    views = [buffer.detach().reshape(-1).numpy() for buffer in module.buffers() if buffer.numel()]
    values = [view.copy() for view in views]

    def restore(*_: object) -> None:
        for view, value in zip(views, values, strict=True):
            view[...] = value

    module.register_forward_hook(restore)
