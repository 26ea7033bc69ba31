"""An example of the inputs of a module, by the names of the arguments of its forward()."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    Inputs = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


def named_inputs(module: nn.Module, inputs: Inputs, device: str) -> dict[str, Tensor]:
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
    return samples_in(named_inputs(module, inputs, "cpu"))


def samples_in(named: Mapping[str, Tensor]) -> int:
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
