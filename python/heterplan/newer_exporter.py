"""The newer exporter of PyTorch (torch.export)."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import warnings
from typing import TYPE_CHECKING, Any

from .exporter_session import Export, exporter_errors, output_names_of

if TYPE_CHECKING:
    from torch import nn


def export_newer(export: Export) -> None:
    """By torch.export, in training mode."""
    import torch

    if importlib.util.find_spec("onnxscript") is None:
        raise RuntimeError("the newer exporter of PyTorch needs the package onnxscript")

    dims = {symbol: torch.export.Dim(symbol) for each in export.symbols.values() for symbol in each.values()}
    with warnings.catch_warnings(), exporter_errors():
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            export.module.train(), (), kwargs=export.inputs, dynamo=True, optimize=False, verbose=False,
            dynamic_shapes={
                name: {axis: dims[symbol] for axis, symbol in export.symbols[name].items()} for name in export.inputs
            },
            opset_version=max(export.opset, 18),
        )  # fmt: skip
    graph = program.model.graph
    if any(node.op_type == "ConcatFromSequence" for node in graph.all_nodes()):
        # A result of a loop, piece by piece, has no shape that is known before it runs.
        raise RuntimeError("the newer exporter of PyTorch writes an operator, such as EmbeddingBag, as a loop")
    for value, name in zip(graph.outputs, output_names_of(export.output_names, len(graph.outputs)), strict=True):
        if not value.is_graph_input() and not value.is_initializer():
            value.name = name
    _name_tied(graph, export.module)
    _train_statistics(graph)
    _name_nodes(graph)
    if export.has_values:
        program.save(os.fspath(export.path))
    else:
        _save_without_values(program, export.path)


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
