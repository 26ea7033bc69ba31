"""Reductions whose axes come at run time or may be empty, orders and sums along an axis."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .operators_support import Integers, Number, integers

__all__ = ["cumsum", "hardmax", "reduce", "top_k"]


def _extreme(x: Tensor, axes: tuple[int, ...], keepdims: bool, largest: bool) -> Tensor:
    """amax and amin; of no elements: the least, or greatest, value of the type."""
    if x.numel():
        return (x.amax if largest else x.amin)(dim=axes, keepdim=keepdims)
    if x.dtype == torch.bool:
        value: float | int | bool = not largest
    elif x.dtype.is_floating_point:
        value = -math.inf if largest else math.inf
    else:
        value = torch.iinfo(x.dtype).min if largest else torch.iinfo(x.dtype).max
    return torch.full_like(x.sum(dim=axes, keepdim=keepdims), value, dtype=x.dtype)


def _product(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(dim=axis, keepdim=keepdims, dtype=x.dtype)
    return x


def _reduced(x: Tensor, how: str, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    if how in ("max", "min"):
        return _extreme(x, axes, keepdims, how == "max")
    if how == "prod":
        return _product(x, axes, keepdims)
    if how == "mean":
        return x.mean(dim=axes, keepdim=keepdims)
    if how == "log_sum_exp":
        return x.logsumexp(dim=axes, keepdim=keepdims)
    values = x.abs() if how == "l1" else x.square() if how in ("l2", "sum_square") else x
    total = values.sum(dim=axes, keepdim=keepdims, dtype=None if axes == () else x.dtype)
    if how == "l2":
        return total.sqrt().to(x.dtype)
    return total.log() if how == "log_sum" else total


def reduce(
    x: Tensor,
    axes: Integers | None = None,
    *,
    how: str,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Tensor:
    dims = () if axes is None else tuple(axis % max(1, x.dim()) for axis in integers(axes))
    if dims or not noop_with_empty_axes:
        return _reduced(x, how, dims or tuple(range(x.dim())), bool(keepdims))
    if how in ("l1", "l2"):
        return x.abs()
    return x.square() if how == "sum_square" else x.log() if how == "log_sum" else x


def cumsum(x: Tensor, axis: Number, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    dim = int(axis)
    values = x.flip(dim) if reverse else x
    total = values.cumsum(dim, dtype=x.dtype)
    total = total - values if exclusive else total
    return total.flip(dim) if reverse else total


def top_k(
    x: Tensor, k: Number, *, axis: int = -1, largest: int = 1
) -> tuple[Tensor, Tensor]:
    """The largest values and their indices. Ties are broken by the lower index, which torch.topk
    does not promise."""
    values, indices = x.sort(dim=axis, descending=bool(largest), stable=True)
    return values.narrow(axis, 0, int(k)), indices.narrow(axis, 0, int(k))


def hardmax(x: Tensor, *, axis: int = -1, flat: bool = False) -> Tensor:
    """`flat`: the axes from `axis` on count as one, as until opset 12."""
    rows = x.flatten(axis) if flat else x
    dim = axis if not flat else -1
    hot = F.one_hot(rows.argmax(dim), rows.shape[dim]).movedim(-1, dim)
    return hot.to(x.dtype).reshape(x.shape)
