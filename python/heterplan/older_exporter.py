"""The older exporter of PyTorch (TorchScript)."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .exporter_session import Export, exporter_errors, output_names_of
from .inputs import samples_in

if TYPE_CHECKING:
    from torch import Tensor, nn


def export_older(export: Export) -> None:
    """By TorchScript."""
    import torch

    outputs = _batched_outputs(export.module, export.inputs, samples_in(export.inputs))
    names = output_names_of(export.output_names, len(outputs))
    axes = {name: dict(export.symbols[name]) for name in export.inputs}
    axes.update({name: {0: "batch"} for name, has in zip(names, outputs, strict=True) if has})
    export.module.train()
    hook = _keep_buffers(export.module) if export.has_values else None
    with warnings.catch_warnings(), _apart(export.has_values), _named_bounds(export.opset), exporter_errors():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            export.module, (), os.fspath(export.path), kwargs=export.inputs, dynamo=False,
            export_params=export.has_values,
            training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
            input_names=list(export.inputs), output_names=names, opset_version=export.opset,
            dynamic_axes={name: each for name, each in axes.items() if each},
        )  # fmt: skip
    if hook is not None:
        hook.remove()
    _write_bounds(export.path)


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


def _keep_buffers(module: nn.Module) -> Any:
    """Tracing is a forward pass in training mode, which moves running statistics; they are set back
    before the file is written, past the tracer."""
    views = [buffer.detach().reshape(-1).numpy() for buffer in module.buffers() if buffer.numel()]
    values = [view.copy() for view in views]

    def restore(*_: object) -> None:
        for view, value in zip(views, values, strict=True):
            view[...] = value

    return module.register_forward_hook(restore)


_DOMAIN = "heterplan"
_BOUND = "Hardtanh"  # in that domain, while the exporter writes
_FUNCTION = "heterplan.function"  # the metadata of a node that say which function of PyTorch it is


@contextlib.contextmanager
def _named_bounds(opset: int) -> Iterator[None]:
    """Keeps hardtanh() and relu6() apart from clamp(), whose gradient at a bound is another one. The exporter makes a Clip
    of all of them."""
    import torch

    def bound(g: Any, x: Any, low: Any, high: Any) -> Any:
        return g.op(f"{_DOMAIN}::{_BOUND}", x, low, high).setType(x.type())

    def number(g: Any, x: Any, value: Any) -> Any:
        from torch.onnx import symbolic_helper

        kind = x.type().dtype() or torch.float32
        held = value if isinstance(value, float) else symbolic_helper._parse_arg(value, "f")
        return g.op("Constant", value_t=torch.tensor(held, dtype=kind))

    def hardtanh(g: Any, x: Any, low: Any, high: Any) -> Any:
        return bound(g, x, number(g, x, low), number(g, x, high))

    def relu6(g: Any, x: Any) -> Any:
        return bound(g, x, number(g, x, 0.0), number(g, x, 6.0))

    symbolics = {"aten::hardtanh": hardtanh, "aten::relu6": relu6}
    for name, symbolic in symbolics.items():
        torch.onnx.register_custom_op_symbolic(name, symbolic, opset)
    try:
        yield
    finally:
        for name in symbolics:
            torch.onnx.unregister_custom_op_symbolic(name, opset)


def _write_bounds(path: str | os.PathLike[str]) -> None:
    """Makes the bounds of _named_bounds() a Clip, and says of each Clip which function of PyTorch it is."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    changed = False
    for nodes in _all_nodes(model.graph):
        taken = {node.name for node in nodes}
        for node in nodes:
            is_bound = node.domain == _DOMAIN and node.op_type == _BOUND
            if not is_bound and node.op_type != "Clip":
                continue
            entry = node.metadata_props.add()
            entry.key, entry.value = _FUNCTION, "hardtanh" if is_bound else "clamp"
            changed = True
            if is_bound:
                node.domain, node.op_type = "", "Clip"
                wanted = node.name.replace(_BOUND, "Clip")
                node.name = node.name if wanted in taken else wanted
    if not changed:
        return
    kept = [each for each in model.opset_import if each.domain != _DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    onnx.save(model, path)


def _all_nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph, and of the bodies in it."""
    yield graph.node
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g)
