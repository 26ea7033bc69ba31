"""A torch module as the ONNX file that trains what the module trains."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import HeterplanError
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
    `module.state_dict()`. A module on the meta device gives a file without values, which can be planned
    in seconds whatever its size. The metadata of the file say which tensors are trained (`requires_grad`), and
    which are tied. The module itself is not changed: a copy on the CPU is traced.

    Raises ValueError where `inputs` are no such example, HeterplanError where the file would train
    something else than the module. Needs PyTorch and the package onnx.
    """
    import torch

    has_values = not any(each.is_meta for each in (*module.parameters(), *module.buffers()))
    example = copy.deepcopy(module).to("cpu" if has_values else "meta")
    _return_no_cache(example)
    named = _named_inputs(example, inputs, "cpu" if has_values else "meta")
    samples = _samples(named)
    attempts = [named]
    accepted = inspect.signature(example.forward).parameters
    if "input_ids" in named and "attention_mask" in accepted and "attention_mask" not in named:
        # Models of Hugging Face look at positions where there is no mask, by operators that ONNX has not.
        mask = {**named, "attention_mask": torch.ones_like(named["input_ids"])}
        attempts.append({name: mask[name] for name in accepted if name in mask})
    failure: Exception | None = None
    for exporter in (_export, _export_newer):
        for each in attempts:
            try:
                exporter(example, each, samples, path, output_names, opset, has_values)
                state_parameters(path, module, has_values)
                return Path(path)
            except (RuntimeError, torch.onnx.OnnxExporterError) as error:
                failure = failure or error
    assert failure is not None
    raise _refusal(module, failure) from failure


def _refusal(module: nn.Module, error: Exception) -> HeterplanError:
    reason = str(error).strip().splitlines()[0]
    return HeterplanError(
        f"{type(module).__name__} cannot be exported: {reason}; export a module whose forward() takes and returns "
        "tensors alone and does not look at their values"
    )


def _export(
    example: nn.Module,
    named: dict[str, Tensor],
    samples: int,
    path: str | os.PathLike[str],
    output_names: Sequence[str] | None,
    opset: int,
    has_values: bool,
) -> None:
    import torch

    outputs = _batched_outputs(example, named, samples)
    names = list(output_names or (_default_names(len(outputs))))
    if len(names) != len(outputs):
        raise ValueError(f"the module has {len(outputs)} outputs; output_names has {len(names)}")
    batched = {name: tensor.dim() > 0 for name, tensor in named.items()}
    batched.update(zip(names, outputs, strict=True))
    example.train()
    hook = _keep_buffers(example) if has_values else None
    with warnings.catch_warnings(), _apart(has_values), _exporter_errors():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            example, (), os.fspath(path), kwargs=named, dynamo=False, export_params=has_values,
            training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
            input_names=list(named), output_names=names, opset_version=opset,
            dynamic_axes={name: {0: "batch"} for name, has in batched.items() if has},
        )  # fmt: skip
    if hook is not None:
        hook.remove()


def _export_newer(
    example: nn.Module,
    named: dict[str, Tensor],
    samples: int,
    path: str | os.PathLike[str],
    output_names: Sequence[str] | None,
    opset: int,
    has_values: bool,
) -> None:
    """By torch.export, where the TorchScript exporter fails. It has no training mode, so that a module with
    batch normalisation or dropout is not exported: the file would train something else."""
    import torch

    stateful = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd)
    for name, each in example.named_modules():
        if isinstance(each, stateful) and getattr(each, "p", 1.0):
            raise RuntimeError(f"'{name}' differs in training, which torch.export does not export")
    batch = torch.export.Dim("batch")
    with warnings.catch_warnings(), _exporter_errors():
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            example.eval(), (), kwargs=named, dynamo=True, optimize=False, verbose=False,
            dynamic_shapes={name: {0: batch} if each.dim() else {} for name, each in named.items()},
            output_names=output_names, opset_version=max(opset, 18),
        )  # fmt: skip
    if has_values:
        program.save(os.fspath(path))
    else:
        _save_without_values(program, path)


def _save_without_values(program: Any, path: str | os.PathLike[str]) -> None:
    """Says of each initializer that its values lie in a file that is not there."""
    import onnx_ir

    for name, value in program.model.graph.initializers.items():
        held = value.const_value
        value.const_value = onnx_ir.ExternalTensor(
            "absent.weights", 0, held.nbytes, held.dtype, shape=held.shape, name=name, base_dir=""
        )
    onnx_ir.save(program.model, os.fspath(path))


def _default_names(count: int) -> list[str]:
    return ["output"] if count == 1 else [f"output{i}" for i in range(count)]


def _return_no_cache(module: nn.Module) -> None:
    """Models of Hugging Face return a cache of keys and values that no loss reads and no file can hold."""
    config = getattr(module, "config", None)
    if getattr(config, "use_cache", False):
        config.use_cache = False  # type: ignore[union-attr]


def _named_inputs(module: nn.Module, inputs: Inputs, device: str) -> dict[str, Tensor]:
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
    return {name: value.detach().to(device) for name, value in named.items()}


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
        if any(each.is_meta for each in named.values()):
            returned = _traced(module.eval(), named)
        else:
            returned = module.eval()(**named)
    leaves = [leaf for leaf in _pytree.tree_leaves(returned) if isinstance(leaf, torch.Tensor)]
    return [leaf.dim() > 0 and leaf.shape[0] == samples for leaf in leaves]


def _traced(module: nn.Module, named: Mapping[str, Tensor]) -> list[Tensor]:
    """Returns the outputs of `module` while it is traced: models that look at values, which tensors on the meta device
    have not, do not look at them then."""
    import torch
    from torch.utils import _pytree

    found: list[Tensor] = []

    class Recorder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recorded = module

        def forward(self, *values: Tensor) -> Tensor:
            returned = self.recorded(**dict(zip(named, values, strict=True)))
            found.extend(each for each in _pytree.tree_leaves(returned) if isinstance(each, torch.Tensor))
            return found[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(Recorder(), tuple(named.values()), check_trace=False)
    return found


@contextlib.contextmanager
def _apart(has_values: bool) -> Iterator[None]:
    """Keeps the exporter from merging parameters that lie at one address: without values all of them do,
    and those of equal shape would become one. The metadata of the file say which ones are tied."""
    import torch

    merging = "_jit_pass_onnx_deduplicate_initializers"
    original = getattr(torch._C, merging, None)
    if has_values or original is None:
        yield
        return
    setattr(torch._C, merging, lambda graph, parameters, is_training: parameters)
    try:
        yield
    finally:
        setattr(torch._C, merging, original)


@contextlib.contextmanager
def _exporter_errors() -> Iterator[None]:
    """Raises RuntimeError for any error inside an exporter, such as the KeyError of an unknown type."""
    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError, AssertionError) as error:
        raise RuntimeError(f"the exporter failed with {type(error).__name__}: {error}") from error


def _keep_buffers(module: nn.Module) -> Any:
    """Tracing is a forward pass in training mode, which moves running statistics; they are set back
    before the file is written, past the tracer."""
    views = [buffer.detach().reshape(-1).numpy() for buffer in module.buffers() if buffer.numel()]
    values = [view.copy() for view in views]

    def restore(*_: object) -> None:
        for view, value in zip(views, values, strict=True):
            view[...] = value

    return module.register_forward_hook(restore)
