"""Resampling of images in all modes of ONNX, and sampling on grids.

Interpolation is separable: along each axis, an output is a weighted sum of inputs. So each axis is
one product with a small matrix, which also carries the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .operators_support import Integers, integers

__all__ = ["affine_grid", "grid_sample", "resize"]


@dataclass(frozen=True)
class _Axis:
    """How one axis is resampled."""

    size: int  # before
    result: int  # after
    scale: float
    roi: tuple[float, float]
    coordinates: str

    def positions(self) -> Tensor:
        """Positions in the input from which each output is taken."""
        y = torch.arange(self.result, dtype=torch.float64)
        length = self.scale * self.size
        begin, end = self.roi
        if self.coordinates == "align_corners":
            return y * 0 if length == 1 else y * (self.size - 1) / (length - 1)
        if self.coordinates == "asymmetric":
            return y / self.scale
        if self.coordinates == "tf_crop_and_resize":
            span = (end - begin) * (self.size - 1)
            steps = y * 0 + 0.5 * span if length == 1 else y * span / (length - 1)
            return steps + begin * (self.size - 1)
        if self.coordinates == "tf_half_pixel_for_nn":
            return (y + 0.5) / self.scale
        if self.coordinates == "pytorch_half_pixel" and length == 1:
            return y * 0 - 0.5
        centred = (y + 0.5) / self.scale - 0.5
        if self.coordinates == "half_pixel_symmetric":
            centred = centred + self.size / 2 * (1 - self.result / length)
        return centred

    def outside(self) -> Tensor | None:
        """Outputs that take the extrapolation value."""
        if self.coordinates != "tf_crop_and_resize":
            return None
        positions = self.positions()
        return (positions < 0) | (positions > self.size - 1)


def _nearest(positions: Tensor, rounding: str) -> Tensor:
    if rounding == "floor":
        return positions.floor()
    if rounding == "ceil":
        return positions.ceil()
    if rounding == "round_prefer_ceil":
        return (positions + 0.5).floor()
    return (positions - 0.5).ceil()


def _cubic(distance: Tensor, a: float) -> Tensor:
    d = distance.abs()
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros_like(d)))


def _matrix(axis: _Axis, mode: str, antialias: int, a: float, exclude_outside: int) -> Tensor:
    """Weight of each input (column) in each output (row)."""
    positions = axis.positions()
    reach = 2 if mode == "cubic" else 1
    stretch = min(axis.scale, 1.0) if antialias else 1.0
    # Between them lie all inputs of weight above zero.
    first, last = math.floor(-reach / stretch) + 1, math.ceil(reach / stretch)
    base = positions.floor().unsqueeze(1)
    inputs = base + torch.arange(first, last + 1, dtype=torch.float64)
    distance = (inputs - positions.unsqueeze(1)) * stretch
    weights = _cubic(distance, a) if mode == "cubic" else (1 - distance.abs()).clamp(min=0)
    if exclude_outside:
        weights = torch.where((inputs < 0) | (inputs >= axis.size), 0.0, weights)
    if antialias or exclude_outside:
        weights = weights / weights.sum(dim=1, keepdim=True)
    columns = inputs.clamp(0, axis.size - 1).to(torch.int64)
    matrix = torch.zeros(axis.result, axis.size, dtype=torch.float64)
    return matrix.scatter_add(1, columns, weights)


def _sizes(
    x: Tensor,
    axes: Sequence[int],
    scales: Tensor | Sequence[float] | None,
    sizes: Integers | None,
    policy: str,
) -> tuple[list[int], list[float]]:
    """Size after, and scale, of each of `axes`."""
    lengths = [x.shape[axis] for axis in axes]
    if sizes is None or len(sizes) == 0:
        assert scales is not None
        factors = scales.tolist() if isinstance(scales, Tensor) else list(scales)
        return [math.floor(f * n) for f, n in zip(factors, lengths)], factors
    wanted = integers(sizes)
    factors = [size / length for size, length in zip(wanted, lengths)]
    if policy == "stretch":
        return wanted, factors
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [math.floor(factor * length + 0.5) for length in lengths], [factor] * len(axes)


def resize(
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | Sequence[float] | None = None,
    sizes: Integers | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] = (),
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    axes = [axis % x.dim() for axis in axes] or list(range(x.dim()))
    results, factors = _sizes(x, axes, scales, sizes, keep_aspect_ratio_policy)
    region = [] if roi is None else roi.tolist()
    y = x if mode == "nearest" else x.to(torch.promote_types(x.dtype, torch.float32))
    outside = torch.zeros((1,) * x.dim(), dtype=torch.bool)
    for index, (dim, result, scale) in enumerate(zip(axes, results, factors)):
        crop = (region[index], region[index + len(axes)]) if region else (0.0, 1.0)
        axis = _Axis(x.shape[dim], result, scale, crop, coordinate_transformation_mode)
        missing = axis.outside()
        if missing is not None:
            shape = [1] * x.dim()
            shape[dim] = -1
            outside = outside | missing.reshape(shape)
        if result == axis.size and scale == 1 and missing is None:
            continue
        if mode == "nearest":
            places = _nearest(axis.positions(), nearest_mode).clamp(0, axis.size - 1)
            y = y.index_select(dim, places.to(torch.int64).to(x.device))
            continue
        matrix = _matrix(axis, mode, antialias, cubic_coeff_a, exclude_outside)
        y = (y.movedim(dim, -1) @ matrix.t().to(y)).movedim(-1, dim)
    if bool(outside.any()):
        y = y.masked_fill(outside.to(x.device), extrapolation_value)
    if not x.dtype.is_floating_point and mode != "nearest":
        info = torch.iinfo(x.dtype)
        y = y.clamp(info.min, info.max)
    return y.to(x.dtype)


def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    names = {"linear": "bilinear", "cubic": "bicubic"}
    return F.grid_sample(
        x, grid, names.get(mode, mode), padding_mode, align_corners=bool(align_corners)
    )


def affine_grid(theta: Tensor, size: Integers, *, align_corners: int = 0) -> Tensor:
    return F.affine_grid(theta, integers(size), align_corners=bool(align_corners))
