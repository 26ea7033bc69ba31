"""A torch module as the ONNX file that trains what the module trains."""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib.util
import inspect
import logging
import os
import re
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
    exporters: Sequence[Callable[..., None]],
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
    _samples(named)
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
                exporter(example, each, symbols, path, output_names, opset, has_values)
                state_parameters(path, module, has_values, reached)
                return Path(path)
            except (RuntimeError, torch.onnx.OnnxExporterError) as error:
                failures.append(error)
    raise _refusal(module, failures) from failures[0]


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


# Failures of exporters that have a simple reason, by a part of their text.
_KNOWN_FAILURES = {
    r"DynamicCache|past_key_values": "forward() returns a cache of keys and values; set config.use_cache = False",
    r"data.dependent|DataDependent|Could not guard|unbacked": "forward() decides by the values of a tensor",
    r"Constraints violated|specialized|not all values of (\w+)": "forward() computes with the size of an axis that is "
    "symbolic as if it were a constant",
    r"operator '?(aten::\w+)'? to ONNX|No ONNX function found for .*?(aten\.\w+)|"
    r"No decompositions registered for .*?(aten\.\w+)": "ONNX has no operator for",
}


def _reason(error: BaseException) -> str:
    """The cause of the failure of an exporter in one line."""
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    for each in reversed(causes):
        for pattern, reason in _KNOWN_FAILURES.items():
            if found := re.search(pattern, str(each)):
                operators = [group for group in found.groups() if group and "aten" in group]
                return f"{reason} {operators[0]}" if operators else reason
    wrapped = str(error).startswith("the exporter failed with")  # says what kind of error the cause is
    lines = str(error if wrapped else causes[-1]).strip().splitlines() or [type(causes[-1]).__name__]
    return lines[0].strip()[:300]


def _refusal(module: nn.Module, failures: Sequence[Exception]) -> HeterplanError:
    reasons = list(dict.fromkeys(_reason(each) for each in failures))
    return HeterplanError(
        f"{type(module).__name__} cannot be exported: {'; or '.join(reasons[:2])}; export a module whose forward() takes "
        "and returns tensors alone and does not look at their values"
    )


def export_older(
    example: nn.Module,
    named: dict[str, Tensor],
    symbols: Mapping[str, Mapping[int, str]],
    path: str | os.PathLike[str],
    output_names: Sequence[str] | None,
    opset: int,
    has_values: bool,
) -> None:
    """By TorchScript."""
    import torch

    outputs = _batched_outputs(example, named, _samples(named))
    names = _names(output_names, len(outputs))
    axes = {name: dict(symbols[name]) for name in named}
    axes.update({name: {0: "batch"} for name, has in zip(names, outputs, strict=True) if has})
    example.train()
    hook = _keep_buffers(example) if has_values else None
    with warnings.catch_warnings(), _apart(has_values), _exporter_errors():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            example, (), os.fspath(path), kwargs=named, dynamo=False, export_params=has_values,
            training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
            input_names=list(named), output_names=names, opset_version=opset,
            dynamic_axes={name: each for name, each in axes.items() if each},
        )  # fmt: skip
    if hook is not None:
        hook.remove()


def export_newer(
    example: nn.Module,
    named: dict[str, Tensor],
    symbols: Mapping[str, Mapping[int, str]],
    path: str | os.PathLike[str],
    output_names: Sequence[str] | None,
    opset: int,
    has_values: bool,
) -> None:
    """By torch.export, in training mode."""
    import torch

    if importlib.util.find_spec("onnxscript") is None:
        raise RuntimeError("the newer exporter of PyTorch needs the package onnxscript")

    dims = {symbol: torch.export.Dim(symbol) for each in symbols.values() for symbol in each.values()}
    with warnings.catch_warnings(), _exporter_errors():
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            example.train(), (), kwargs=named, dynamo=True, optimize=False, verbose=False,
            dynamic_shapes={
                name: {axis: dims[symbol] for axis, symbol in symbols[name].items()} for name in named
            },
            opset_version=max(opset, 18),
        )  # fmt: skip
    graph = program.model.graph
    for value, name in zip(graph.outputs, _names(output_names, len(graph.outputs)), strict=True):
        if not value.is_graph_input() and not value.is_initializer():
            value.name = name
    _name_tied(graph, example)
    _train_statistics(graph)
    _name_nodes(graph)
    if has_values:
        program.save(os.fspath(path))
    else:
        _save_without_values(program, path)


def _name_tied(graph: Any, example: nn.Module) -> None:
    """Gives parameters that have several names the first one, as the TorchScript exporter does. The newer exporter
    takes the last one."""
    first: dict[int, str] = {}
    for name, each in example.named_parameters(remove_duplicate=False):
        kept = first.setdefault(id(each), name)
        if kept != name and name in graph.initializers and kept not in graph.initializers:
            value = graph.initializers.pop(name)
            value.name = kept
            graph.register_initializer(value)


def _train_statistics(graph: Any) -> None:
    """Says of batch normalisation in training mode that it is, which the exporter leaves out."""
    import onnx_ir

    for node in graph.all_nodes():
        call = node.metadata_props.get("pkg.torch.onnx.fx_node", "")
        if node.op_type == "BatchNormalization" and re.search(r"_native_batch_norm_legit.*, True, [^,]+, [^,]+\)", call):
            node.attributes["training_mode"] = onnx_ir.AttrInt64("training_mode", 1)
            node.resize_outputs(3)
            for value, statistic in zip(node.outputs[1:], ("mean", "variance"), strict=True):
                value.name = f"{node.name}_{statistic}"


def _name_nodes(graph: Any) -> None:
    """Names nodes as the TorchScript exporter does, by the modules that they are of: `/layers.0/mlp/Gemm`. Drops
    the lines of the source, which lie in folders of the user's."""
    taken: dict[str, int] = {}
    for node in graph.all_nodes():
        node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)
        scopes = ast.literal_eval(node.metadata_props.get("pkg.torch.onnx.name_scopes", "[]"))
        parts, before = [""], ""
        for scope in (re.sub(r"@\d+", "", each) for each in scopes[1:-1]):
            if scope and scope != before:
                parts.append(scope[len(before) + 1 :] if before and scope.startswith(before + ".") else scope)
                before = scope
        name = "/".join([*parts, node.op_type])
        number = taken[name] = taken.get(name, -1) + 1
        node.name = f"{name}_{number}" if number else name


def _save_without_values(program: Any, path: str | os.PathLike[str]) -> None:
    """Says of each initializer that its values lie in a file that is not there."""
    import onnx_ir

    for name, value in program.model.graph.initializers.items():
        held = value.const_value
        value.const_value = onnx_ir.ExternalTensor(
            "absent.weights", 0, held.nbytes, held.dtype, shape=held.shape, name=name, base_dir=""
        )
    onnx_ir.save(program.model, os.fspath(path))


def _names(given: Sequence[str] | None, count: int) -> list[str]:
    """The names of `count` outputs."""
    if given and len(given) != count:
        raise ValueError(f"the module has {count} outputs; output_names has {len(given)}")
    return list(given or (["output"] if count == 1 else [f"output{i}" for i in range(count)]))


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
    for each in module.modules():
        config = getattr(each, "config", None)
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


def samples_of(module: nn.Module, inputs: Inputs) -> int:
    """The number of samples in an example of the inputs of `module`."""
    return _samples(_named_inputs(module, inputs, "cpu"))


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
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with _silenced():
            yield
    except (LookupError, AttributeError, TypeError, ValueError, AssertionError) as error:
        raise RuntimeError(f"the exporter failed with {type(error).__name__}: {error}") from error
    finally:
        log.setLevel(level)


def _keep_buffers(module: nn.Module) -> Any:
    """Tracing is a forward pass in training mode, which moves running statistics; they are set back
    before the file is written, past the tracer."""
    views = [buffer.detach().reshape(-1).numpy() for buffer in module.buffers() if buffer.numel()]
    values = [view.copy() for view in views]

    def restore(*_: object) -> None:
        for view, value in zip(views, values, strict=True):
            view[...] = value

    return module.register_forward_hook(restore)
