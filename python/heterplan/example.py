"""A copy of a module that an exporter can trace, and which of its parameters gradients reach."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .inputs import named_inputs

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .inputs import Inputs


def example_of(module: nn.Module, inputs: Inputs) -> tuple[nn.Module, dict[str, Tensor], bool]:
    """Returns a copy of `module` that returns no cache, its inputs by name, and whether it has values."""
    has_values = not any(each.is_meta for each in (*module.parameters(), *module.buffers()))
    device = "cpu" if has_values else "meta"
    example = copy.deepcopy(module).to(device)
    _return_no_cache(example)
    _write_out_bags(example)
    if not has_values:
        _name_buffers(example)
    return example, named_inputs(example, inputs, device), has_values


def _return_no_cache(module: nn.Module) -> None:
    """Models of Hugging Face return a cache of keys and values that no loss reads and no file can hold."""
    for each in module.modules():
        config = getattr(each, "config", None)
        if getattr(config, "use_cache", False):
            config.use_cache = False  # type: ignore[union-attr]


def _write_out_bags(module: nn.Module) -> None:
    """Has each EmbeddingBag compute bags of one size, a row of a matrix each, as an Embedding and a sum do. Exporters
    write a loop over samples."""
    import torch

    for each in module.modules():
        if type(each) is not torch.nn.EmbeddingBag or each.mode == "max":
            continue
        if each.padding_idx is None and each.max_norm is None:
            each.forward = functools.partial(_bags, each, each.forward)  # type: ignore[method-assign]


def _bags(
    module: nn.EmbeddingBag,
    forward: Callable[..., Tensor],
    input: Tensor,  # noqa: A002: as callers name it
    offsets: Tensor | None = None,
    per_sample_weights: Tensor | None = None,
) -> Tensor:
    import torch

    if input.dim() != 2 or offsets is not None:
        return forward(input, offsets, per_sample_weights)
    rows = torch.nn.functional.embedding(input, module.weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    return rows.sum(1) if module.mode == "sum" else rows.mean(1)


def _name_buffers(module: nn.Module) -> None:
    """Has the state of `module` hold all buffers. The TorchScript exporter would copy the values of the others."""
    for each in module.modules():
        each._non_persistent_buffers_set.clear()


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
