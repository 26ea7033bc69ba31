"""Functions of all gradients of a rank. A GPU gets few kernels for each, and its host waits at most
once."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def multiply(gradients: Iterable[Tensor], factor: float) -> None:
    """In place."""
    own = list(gradients)
    if own:
        torch._foreach_mul_(own, factor)


@torch.no_grad()
def are_finite(gradients: Iterable[Tensor]) -> bool:
    found = [torch.isfinite(gradient).all() for gradient in gradients]
    return not found or bool(torch.stack(found).all())


@torch.no_grad()
def sum_of_squares(gradients: Iterable[Tensor]) -> float:
    """Summed in double precision."""
    found = [gradient.double().square().sum() for gradient in gradients]
    return float(torch.stack(found).sum()) if found else 0.0
