"""Choosing and placing elements by values that are known only at run time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .operators_support import Number

__all__ = [
    "bit_shift",
    "compress",
    "gather_nd",
    "non_max_suppression",
    "reverse_sequence",
    "scatter_nd",
    "tensor_scatter",
    "tf_idf",
    "unique",
]


def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    if axis is None:
        x, axis = x.flatten(), 0
    return x.index_select(axis, condition.nonzero().flatten())


def unique(
    x: Tensor, *, axis: int | None = None, sorted: int = 1
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The values, where each comes first, the value of each element, how often each occurs."""
    values, inverse, counts = torch.unique(
        x, sorted=True, return_inverse=True, return_counts=True, dim=axis
    )
    inverse = inverse.flatten()
    positions = torch.arange(inverse.numel(), device=x.device)
    first = torch.full_like(counts, inverse.numel())
    first = first.scatter_reduce(0, inverse, positions, "amin")
    if not sorted:
        order = first.argsort()
        rank = torch.empty_like(order).scatter(0, order, torch.arange(len(order), device=x.device))
        values = values.index_select(axis or 0, order)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return values, first, inverse, counts


def padded_rows(rows: Tensor, indices: Tensor, padding: int) -> Tensor:
    """Rows that a lookup has read, of which row `padding` of the table gets no gradient."""
    return torch.where((indices == padding)[..., None], rows.detach(), rows)


def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    subscripts = list(indices.to(torch.int64).unbind(-1))
    for axis in range(batch_dims):
        shape = [1] * (indices.dim() - 1)
        shape[axis] = -1
        subscripts.insert(axis, torch.arange(x.shape[axis], device=x.device).reshape(shape))
    return x[tuple(subscripts)]


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str) -> Tensor:
    """With reduction mul, max or min."""
    depth = indices.shape[-1]
    flat = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=x.device)
    for axis in range(depth):
        flat = flat * x.shape[axis] + indices[..., axis].remainder(x.shape[axis])
    rows = x.reshape(math.prod(x.shape[:depth]), -1)
    values = updates.reshape(flat.numel(), -1)
    how = {"mul": "prod", "max": "amax", "min": "amin"}[reduction]
    index = flat.reshape(-1, 1).expand_as(values)
    return rows.scatter_reduce(0, index, values, how).reshape(x.shape)


def tensor_scatter(
    past: Tensor,
    update: Tensor,
    write_indices: Tensor | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """Writes `update` into a cache, from the given place of each sample on."""
    dim = axis % past.dim()
    steps = torch.arange(update.shape[dim], device=past.device)
    starts = (
        torch.zeros(past.shape[0], dtype=torch.int64, device=past.device)
        if write_indices is None
        else write_indices
    )
    places = starts.unsqueeze(1) + steps
    if mode == "circular":
        places = places.remainder(past.shape[dim])
    shape = [1] * past.dim()
    shape[0], shape[dim] = places.shape
    return past.scatter(dim, places.reshape(shape).expand_as(update), update)


def reverse_sequence(
    x: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    values = x.movedim((time_axis, batch_axis), (0, 1))
    steps = torch.arange(values.shape[0], device=x.device).unsqueeze(1)
    order = torch.where(steps < sequence_lens, sequence_lens - 1 - steps, steps)
    samples = torch.arange(values.shape[1], device=x.device)
    return values[order, samples].movedim((0, 1), (time_axis, batch_axis))


def bit_shift(x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    return x << y if direction == "LEFT" else x >> y


def _corners(boxes: Tensor, center_point_box: int) -> tuple[Tensor, Tensor]:
    """Least and greatest corner of each box."""
    if center_point_box:
        centre, half = boxes[:, :2], boxes[:, 2:] / 2
        return centre - half, centre + half
    a, b = boxes[:, :2], boxes[:, 2:]
    return torch.minimum(a, b), torch.maximum(a, b)


def _overlaps(low: Tensor, high: Tensor, box: int) -> Tensor:
    """Intersection over union of one box with all."""
    sides = (torch.minimum(high, high[box]) - torch.maximum(low, low[box])).clamp(min=0)
    common = sides.prod(-1)
    areas = (high - low).prod(-1)
    union = areas + areas[box] - common
    return torch.where(union > 0, common / union, torch.zeros_like(common))


def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Number | None = None,
    iou_threshold: Number | None = None,
    score_threshold: Number | None = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """(sample, class, box) of each box that is kept, best first within a class."""
    most = 0 if max_output_boxes_per_class is None else int(max_output_boxes_per_class)
    limit = 0.0 if iou_threshold is None else float(iou_threshold)
    kept = []
    for sample in range(boxes.shape[0]):
        low, high = _corners(boxes[sample], center_point_box)
        for label in range(scores.shape[1]):
            values = scores[sample, label]
            order = values.sort(descending=True, stable=True).indices
            if score_threshold is not None:
                order = order[values[order] > float(score_threshold)]
            found = 0
            while found < most and order.numel():
                box = int(order[0])
                kept.append((sample, label, box))
                found += 1
                order = order[1:]
                order = order[_overlaps(low, high, box)[order] <= limit]
    return torch.tensor(kept, dtype=torch.int64, device=boxes.device).reshape(-1, 3)


def tf_idf(
    x: Tensor,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: tuple[int, ...],
    ngram_indexes: tuple[int, ...],
    pool_int64s: tuple[int, ...],
    weights: tuple[float, ...] = (),
) -> Tensor:
    """Counts of the n-grams of the pool in each row."""
    grams: list[tuple[int, ...]] = []
    for index, begin in enumerate(ngram_counts):
        end = ngram_counts[index + 1] if index + 1 < len(ngram_counts) else len(pool_int64s)
        size = index + 1
        grams += [pool_int64s[at : at + size] for at in range(begin, end, size)]
    column = {gram: ngram_indexes[number] for number, gram in enumerate(grams)}
    rows = x.reshape(-1, x.shape[-1]).tolist()
    result = torch.zeros(len(rows), max(ngram_indexes) + 1)
    for row, values in enumerate(rows):
        for size in range(min_gram_length, max_gram_length + 1):
            for skip in range(1, (max_skip_count + 1 if size > 1 else 1) + 1):
                for at in range(len(values) - (size - 1) * skip):
                    gram = tuple(values[at : at + (size - 1) * skip + 1 : skip])
                    if gram in column:
                        result[row, column[gram]] += 1
    counts = result
    if mode != "TF":
        scale = torch.ones(result.shape[1])
        for weight, index in zip(weights, ngram_indexes):
            scale[index] = weight
        counts = (result > 0) * scale if mode == "IDF" else result * scale
    return counts.to(x.device).reshape(*x.shape[:-1], -1)
