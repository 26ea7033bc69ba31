"""A torch module as the ONNX file that trains what the module trains."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
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

    Parameters that no gradient reaches, as those that forward() uses under torch.no_grad(), are not trained.

    The export is in training mode (batch normalisation and dropout stay what they are) and folds no
    constants, so that each parameter is one initializer with the name and the values that it has in
    `module.state_dict()`. A module on the meta device gives a file without values, which can be planned
    in seconds whatever its size. The metadata of the file say which tensors are trained (`requires_grad`), and
    which are tied. The module itself is not changed: a copy on the CPU is traced.

    Raises ValueError where `inputs` are no such example, HeterplanError where the file would train
    something else than the module. Needs PyTorch and the package onnx.
    """
    return export_by((_export, export_newer), module, inputs, path, output_names, opset)


def export_by(
    exporters: Sequence[Callable[..., None]],
    module: nn.Module,
    inputs: Inputs,
    path: str | os.PathLike[str],
    output_names: Sequence[str] | None = None,
    opset: int = _OPSET,
) -> Path:
    """See export(). The first of `exporters` that does not fail writes the file."""
    import torch

    example, named, has_values = example_of(module, inputs)
    forward, accepted = example.forward, inspect.signature(example.forward).parameters
    samples = _samples(named)
    attempts = [named]
    takes_mask = "attention_mask" in accepted or any(each.kind is each.VAR_KEYWORD for each in accepted.values())
    if "input_ids" in named and takes_mask and "attention_mask" not in named:
        # Models of Hugging Face look at positions where there is no mask, by operators that ONNX has not.
        mask = {**named, "attention_mask": torch.ones_like(named["input_ids"])}
        order = [name for name in accepted if name in mask]
        attempts.append({name: mask[name] for name in [*order, *(name for name in mask if name not in order)]})
    example.forward = taking(forward, named)
    reached = reached_parameters(example, named) if has_values else None
    failure: Exception | None = None
    for exporter in exporters:
        for each in attempts:
            example.forward = taking(forward, each)
            try:
                exporter(example, each, samples, path, output_names, opset, has_values)
                state_parameters(path, module, has_values, reached)
                return Path(path)
            except (RuntimeError, torch.onnx.OnnxExporterError) as error:
                failure = failure or error
    assert failure is not None
    raise _refusal(module, failure) from failure


def example_of(module: nn.Module, inputs: Inputs) -> tuple[nn.Module, dict[str, Tensor], bool]:
    """Returns a copy of `module` that returns no cache, its inputs by name, and whether it has values."""
    has_values = not any(each.is_meta for each in (*module.parameters(), *module.buffers()))
    device = "cpu" if has_values else "meta"
    example = copy.deepcopy(module).to(device)
    _return_no_cache(example)
    if not has_values:
        _name_buffers(example)
    return example, _named_inputs(example, inputs, device), has_values


def reached_parameters(example: nn.Module, named: Mapping[str, Tensor]) -> set[str] | None:
    """Returns the names of the parameters that outputs of `example` have gradients for: not those that it uses without
    gradients, under torch.no_grad() or before detach(). None: a reentrant checkpoint hides them."""
    import torch
    from torch.utils import _pytree

    with torch.enable_grad():
        leaves = _pytree.tree_leaves(example.eval()(**named))
    waiting = [leaf.grad_fn for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None]
    seen, found = set(waiting), {id(leaf) for leaf in leaves}
    while waiting:
        function: Any = waiting.pop()
        if "CheckpointFunction" in function.name():
            return None
        if hasattr(function, "variable"):
            found.add(id(function.variable))
        for each, _ in function.next_functions:
            if each is not None and each not in seen:
                seen.add(each)
                waiting.append(each)
    return {name for name, each in example.named_parameters(remove_duplicate=False) if id(each) in found}


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


def export_newer(
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


def _name_buffers(module: nn.Module) -> None:
    """Has the state of `module` hold all buffers. The TorchScript exporter would copy the values of the others."""
    for each in module.modules():
        each._non_persistent_buffers_set.clear()


def taking(forward: Callable[..., Any], named: Mapping[str, Tensor]) -> Callable[..., Any]:
    """Returns `forward` with the arguments `named` alone. The exporter makes inputs of the default values of others."""
    own = inspect.signature(forward).parameters
    rest = next((name for name, each in own.items() if each.kind is each.VAR_POSITIONAL), None)
    numbered = {f"{rest}{i}" for i in range(len(named))} if rest else set()
    signature = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in named]
    )

    def restricted(*values: Tensor, **others: Tensor) -> Any:
        bound = signature.bind(*values, **others).arguments
        if numbered & bound.keys():  # forward(*arguments)
            return forward(*bound.values())
        return forward(**bound)

    restricted.__signature__ = signature  # type: ignore[attr-defined]
    return restricted


def _return_no_cache(module: nn.Module) -> None:
    """Models of Hugging Face return a cache of keys and values that no loss reads and no file can hold."""
    config = getattr(module, "config", None)
    if getattr(config, "use_cache", False):
        config.use_cache = False  # type: ignore[union-attr]


def _named_inputs(module: nn.Module, inputs: Inputs, device: str) -> dict[str, Tensor]:
    """By the names of the arguments of `forward`, in its order, which is the exporter's too."""
    import torch

    parameters = inspect.signature(module.forward).parameters
    kinds = {each.kind: name for name, each in parameters.items()}
    keywords = kinds.pop(inspect.Parameter.VAR_KEYWORD, None)
    rest = kinds.pop(inspect.Parameter.VAR_POSITIONAL, None)
    accepted = [name for name in parameters if name not in (keywords, rest)]
    if isinstance(inputs, Mapping):
        unknown = [name for name in inputs if name not in accepted]
        if unknown and keywords is None:
            raise ValueError(f"forward has no argument '{unknown[0]}', only {', '.join(parameters)}")
        named: dict[str, Any] = {name: inputs[name] for name in [*accepted, *unknown] if name in inputs}
    else:
        values = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
        if rest is not None:
            accepted += [f"{rest}{i}" for i in range(len(values) - len(accepted))]
        if len(values) > len(accepted):
            raise ValueError(f"forward takes {len(accepted)} arguments, not {len(values)}")
        named = dict(zip(accepted, values, strict=False))
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
def _silenced() -> Iterator[None]:
    """Drops what is written to the standard output, by C++ too."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextlib.contextmanager
def _exporter_errors() -> Iterator[None]:
    """Raises RuntimeError for any error inside an exporter, such as the KeyError of an unknown type. Drops the
    output of the exporter, such as the graph that it cannot write."""
    try:
        with _silenced():
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
