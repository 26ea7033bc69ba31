"""Shapes, axes and bounds that are known only at run time. If they are constants, model.py calls
PyTorch itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .operators_support import Integers, Number, integers

__all__ = [
    "center_crop_pad",
    "expand",
    "eye_like",
    "one_hot",
    "pad",
    "reshape",
    "slice_axes",
    "split",
    "squeeze",
    "unsqueeze",
]


def reshape(x: Tensor, shape: Integers, *, allowzero: int = 0) -> Tensor:
    sizes = integers(shape)
    if not allowzero:
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return x.reshape(sizes)


def expand(x: Tensor, shape: Integers) -> Tensor:
    return x.expand(torch.broadcast_shapes(x.shape, tuple(integers(shape))))


def unsqueeze(x: Tensor, axes: Integers) -> Tensor:
    places = integers(axes)
    rank = x.dim() + len(places)
    for axis in sorted(axis % rank for axis in places):
        x = x.unsqueeze(axis)
    return x


def squeeze(x: Tensor, axes: Integers | None = None) -> Tensor:
    return x.squeeze() if axes is None else x.squeeze(tuple(integers(axes)))


def split(x: Tensor, sizes: Integers | None, *, axis: int = 0, count: int) -> tuple[Tensor, ...]:
    if sizes is not None:
        return x.split(integers(sizes), dim=axis)
    return x.split(-(-x.shape[axis] // count), dim=axis)


def slice_axes(
    x: Tensor,
    starts: Integers,
    ends: Integers,
    axes: Integers | None = None,
    steps: Integers | None = None,
) -> Tensor:
    firsts, lasts = integers(starts), integers(ends)
    which = range(len(firsts)) if axes is None else integers(axes)
    strides = [1] * len(firsts) if steps is None else integers(steps)
    for axis, first, last, step in zip(which, firsts, lasts, strides):
        picked = range(x.shape[axis])[first:last:step]
        index = torch.tensor(picked, dtype=torch.int64, device=x.device)
        plain = step == 1 and len(picked)
        x = x.narrow(axis, picked[0], len(picked)) if plain else x.index_select(axis, index)
    return x


def _folded(place: Tensor, size: int, mode: str) -> Tensor:
    """Maps a position outside an axis of `size` elements to a position inside it."""
    if mode == "edge":
        return place.clamp(0, size - 1)
    if mode == "wrap":
        return place.remainder(size)
    period = max(1, 2 * (size - 1))
    place = place.remainder(period)
    return torch.where(place < size, place, period - place)


def pad(
    x: Tensor,
    pads: Integers,
    constant_value: Number | None = None,
    axes: Integers | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """Negative padding takes elements away."""
    amounts = integers(pads)
    count = len(amounts) // 2
    which = range(count) if axes is None else integers(axes)
    ends = [0] * (2 * x.dim())
    for index, axis in enumerate(which):
        before, after = amounts[index], amounts[count + index]
        dim = axis % x.dim()
        if mode != "constant":
            places = torch.arange(-before, x.shape[dim] + after, device=x.device)
            x = x.index_select(dim, _folded(places, x.shape[dim], mode))
        else:
            ends[2 * (x.dim() - 1 - dim)] = before
            ends[2 * (x.dim() - 1 - dim) + 1] = after
    if mode != "constant":
        return x
    value = 0 if constant_value is None else constant_value
    value = value.item() if isinstance(value, Tensor) else value
    return F.pad(x, ends, value=value)


def one_hot(indices: Tensor, depth: Number, values: Tensor, *, axis: int = -1) -> Tensor:
    """Indices outside [-depth, depth) are cold everywhere."""
    count = int(depth)
    index = indices.to(torch.int64)
    index = torch.where(index < 0, index + count, index)
    hot = index.unsqueeze(-1) == torch.arange(count, device=index.device)
    return torch.where(hot.movedim(-1, axis), values[1], values[0])


def eye_like(x: Tensor, *, dtype: torch.dtype, k: int = 0) -> Tensor:
    rows, columns = (torch.arange(size, device=x.device) for size in x.shape)
    return (columns - rows.unsqueeze(1) == k).to(dtype)


def center_crop_pad(x: Tensor, shape: Integers, *, axes: Sequence[int] = ()) -> Tensor:
    ends = [0] * (2 * x.dim())
    for axis, size in zip(axes or range(x.dim()), integers(shape)):
        dim = axis % x.dim()
        extra = size - x.shape[dim]
        before = extra // 2 if extra > 0 else -(-extra // 2)
        ends[2 * (x.dim() - 1 - dim)] = before
        ends[2 * (x.dim() - 1 - dim) + 1] = extra - before
    return F.pad(x, ends)
