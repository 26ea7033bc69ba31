"""Pooling with indices, its inverse, regions of interest, deformable convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .operators_support import Integers, integers

__all__ = [
    "col2im",
    "deform_conv",
    "max_pool_with_indices",
    "max_roi_pool",
    "max_unpool",
    "roi_align",
]


def max_pool_with_indices(
    x: Tensor,
    *,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    storage_order: int = 0,
) -> tuple[Tensor, Tensor]:
    """The maxima, and where each stands in the flattened input."""
    ends = [end for pair in zip(reversed(before), reversed(after)) for end in pair]
    least = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    padded = F.pad(x, ends, value=least)
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel) - 1]
    y, flat = function(
        padded, tuple(kernel), tuple(stride), dilation=tuple(dilation), return_indices=True
    )
    places = []
    for axis in range(len(kernel) - 1, -1, -1):
        places.append(flat % padded.shape[2 + axis] - before[axis])
        flat = flat // padded.shape[2 + axis]
    order = list(zip(range(len(kernel)), reversed(places)))
    plane = torch.zeros_like(flat)
    for axis, place in reversed(order) if storage_order else order:
        plane = plane * x.shape[2 + axis] + place
    planes = torch.arange(x.shape[0] * x.shape[1], device=x.device)
    planes = planes.reshape(x.shape[0], x.shape[1], *[1] * len(kernel))
    return y, planes * math.prod(x.shape[2:]) + plane


def max_unpool(
    x: Tensor,
    indices: Tensor,
    output_shape: Integers | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> Tensor:
    axes = len(kernel_shape)
    pads, strides = pads or [0] * 2 * axes, strides or [1] * axes
    shape = list(x.shape[:2]) + [
        (x.shape[2 + i] - 1) * strides[i] - pads[i] - pads[axes + i] + kernel_shape[i]
        for i in range(axes)
    ]
    flat = x.new_zeros(math.prod(shape)).scatter(0, indices.flatten(), x.flatten())
    y = flat.reshape(shape)
    if output_shape is None:
        return y
    ends: list[int] = []
    for wanted, size in zip(integers(output_shape), shape):
        ends = [0, wanted - size, *ends]
    return F.pad(y, ends)


def _sample(plane: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The four neighbours of each point of C x H x W and their weights (last axis); points more
    than one beyond the edge have no weight."""
    height, width = plane.shape[-2:]
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    top, left = y.floor().to(torch.int64), x.floor().to(torch.int64)
    bottom, right = (top + 1).clamp(max=height - 1), (left + 1).clamp(max=width - 1)
    down, along = y - top, x - left
    weights = torch.stack(
        [(1 - down) * (1 - along), (1 - down) * along, down * (1 - along), down * along], dim=-1
    )
    corners = ((top, left), (top, right), (bottom, left), (bottom, right))
    values = torch.stack([plane[:, row, column] for row, column in corners], dim=-1)
    return values, weights * inside.unsqueeze(-1).to(weights.dtype)


def _points(start: Tensor, size: Tensor, bins: int, samples: int) -> Tensor:
    """`samples` evenly spaced points in each of `bins` equal parts: bins · samples positions."""
    step = size / bins
    inner = (torch.arange(samples, device=start.device, dtype=start.dtype) + 0.5) / samples
    outer = torch.arange(bins, device=start.device, dtype=start.dtype)
    return (start + (outer.unsqueeze(1) + inner) * step).flatten()


def roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    half = coordinate_transformation_mode == "half_pixel"
    results = []
    for roi, sample in zip(rois, batch_indices.tolist()):
        left, top, right, bottom = roi * spatial_scale - (0.5 if half else 0.0)
        width, height = right - left, bottom - top
        if not half:
            width, height = width.clamp(min=1), height.clamp(min=1)
        rows = sampling_ratio or max(1, math.ceil(float(height) / output_height))
        columns = sampling_ratio or max(1, math.ceil(float(width) / output_width))
        y = _points(top, height, output_height, rows).unsqueeze(1)
        across = _points(left, width, output_width, columns).unsqueeze(0)
        values, weights = _sample(x[sample], *torch.broadcast_tensors(y, across))
        products = (values * weights).unflatten(1, (output_height, rows))
        products = products.unflatten(3, (output_width, columns))
        results.append(
            products.sum(-1).mean((2, 4)) if mode == "avg" else products.amax((2, 4, 5))
        )
    shape = (0, x.shape[1], output_height, output_width)
    return torch.stack(results) if results else x.new_zeros(shape)


def max_roi_pool(
    x: Tensor, rois: Tensor, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0
) -> Tensor:
    results = []
    for roi in rois:
        sample = int(roi[0])
        left, top, right, bottom = (int(torch.floor(v * spatial_scale + 0.5)) for v in roi[1:])
        bins = []
        for axis, (begin, end) in enumerate(((top, bottom), (left, right))):
            size, limit = max(end - begin + 1, 1) / pooled_shape[axis], x.shape[2 + axis]
            bins.append(
                [
                    slice(
                        min(max(math.floor(i * size) + begin, 0), limit),
                        min(max(math.ceil((i + 1) * size) + begin, 0), limit),
                    )
                    for i in range(pooled_shape[axis])
                ]
            )
        cells = [
            [_largest(x[sample, :, rows, columns]) for columns in bins[1]] for rows in bins[0]
        ]
        results.append(torch.stack([torch.stack(row, dim=-1) for row in cells], dim=1))
    return torch.stack(results)


def _largest(part: Tensor) -> Tensor:
    return part.amax((1, 2)) if part.numel() else part.new_zeros(part.shape[0])


def col2im(
    x: Tensor,
    image_shape: Integers,
    block_shape: Integers,
    *,
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> Tensor:
    """Adds up overlapping blocks: N x C·block x L -> N x C x image."""
    image, block = integers(image_shape), integers(block_shape)
    axes = len(image)
    dilations, strides = dilations or [1] * axes, strides or [1] * axes
    pads = pads or [0] * 2 * axes
    padded = [image[i] + pads[i] + pads[axes + i] for i in range(axes)]
    flat = torch.zeros((), dtype=torch.int64, device=x.device)
    for i in range(axes):
        count = (padded[i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        inner = torch.arange(block[i], device=x.device) * dilations[i]
        outer = torch.arange(count, device=x.device) * strides[i]
        place = inner.unsqueeze(1) + outer  # block x count
        shape = [1] * (2 * axes)
        shape[i], shape[axes + i] = block[i], count
        flat = flat * padded[i] + place.reshape(shape)
    channels = x.shape[1] // math.prod(block)
    values = x.reshape(x.shape[0], channels, -1)
    result = x.new_zeros(x.shape[0], channels, math.prod(padded))
    result = result.index_add(2, flat.flatten(), values).reshape(x.shape[0], channels, *padded)
    for i in range(axes):
        result = result.narrow(2 + i, pads[i], image[i])
    return result


def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Sequence[int] = (),
    group: int = 1,
    kernel_shape: Sequence[int] = (),
    offset_group: int = 1,
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> Tensor:
    """Convolution of an image in which each point of the kernel has an offset of its own."""
    n, channels, height, width = x.shape
    kernel = list(kernel_shape) or list(w.shape[2:])
    dilations, strides, pads = dilations or (1, 1), strides or (1, 1), pads or (0, 0, 0, 0)
    rows, columns = offset.shape[-2:]
    points = kernel[0] * kernel[1]
    shift = offset.reshape(n, offset_group, points, 2, rows, columns)
    places = []
    for axis, count in enumerate((rows, columns)):
        inner = torch.arange(kernel[axis], device=x.device) * dilations[axis] - pads[axis]
        outer = torch.arange(count, device=x.device) * strides[axis]
        inner = inner.repeat_interleave(kernel[1]) if axis == 0 else inner.repeat(kernel[0])
        outer = outer.unsqueeze(1) if axis == 0 else outer.unsqueeze(0)
        places.append(inner.reshape(-1, 1, 1) + outer + shift[:, :, :, axis])
    grid = torch.stack(  # F.grid_sample counts from the centre of the corner pixels: -1 to 1
        [2 * places[1] / max(width - 1, 1) - 1, 2 * places[0] / max(height - 1, 1) - 1], dim=-1
    )
    grid = grid.flatten(0, 1).flatten(1, 2)  # n·offset_group x points·rows x columns x 2
    parts = x.reshape(n * offset_group, channels // offset_group, height, width)
    values = F.grid_sample(parts, grid.to(x.dtype), align_corners=True)
    values = values.reshape(n, offset_group, -1, points, rows, columns)
    if mask is not None:
        values = values * mask.reshape(n, offset_group, 1, points, rows, columns)
    values = values.reshape(n, group, -1, rows * columns)  # channels of the group · points
    y = w.reshape(group, w.shape[0] // group, -1) @ values
    y = y.reshape(n, w.shape[0], rows, columns)
    return y if b is None else y + b.reshape(-1, 1, 1)
