"""Tensors that the shards of a stage divide among them (tensor parallelism).

The generated code of a shard calls the methods of Shards between operators. Each is an autograd function:
the backward pass takes the transposed collective. A sharded tensor is divided along an axis that consists
of segments, whose lengths repeat to its end; a shard has its part of each segment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Segments = tuple[int, ...]
Map = Callable[[Tensor], Tensor]


def part(whole: Tensor, axis: int, segments: Segments, degree: int, index: int) -> Tensor:
    """Returns what shard `index` of `degree` has of a tensor."""
    periods = whole.unflatten(axis, (-1, sum(segments)))
    parts = [
        segment.narrow(axis + 1, index * (length // degree), length // degree)
        for segment, length in zip(periods.split(list(segments), axis + 1), segments, strict=True)
    ]
    return torch.cat(parts, axis + 1).flatten(axis, axis + 1)


def joined(parts: Sequence[Tensor], axis: int, segments: Segments) -> Tensor:
    """Returns the tensor of which `parts` are the shards, in their order."""
    lengths = [length // len(parts) for length in segments]
    periods = [each.unflatten(axis, (-1, sum(lengths))).split(lengths, axis + 1) for each in parts]
    whole = [piece for pieces in zip(*periods, strict=True) for piece in pieces]
    return torch.cat(whole, axis + 1).flatten(axis, axis + 1)


@dataclass(frozen=True)
class Slicing:
    """How `degree` shards divide a tensor, whose whole shape is `shape`."""

    axis: int
    segments: Segments
    shape: tuple[int, ...]
    degree: int

    @property
    def is_possible(self) -> bool:
        """Whether there is such a part for each shard."""
        if not (0 <= self.axis < len(self.shape) and self.degree > 0 and sum(self.segments) > 0):
            return False
        even = all(length % self.degree == 0 for length in self.segments)
        return even and self.shape[self.axis] % sum(self.segments) == 0

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of what a shard has."""
        length = self.shape[self.axis] // self.degree
        return (*self.shape[: self.axis], length, *self.shape[self.axis + 1 :])

    @property
    def local_size(self) -> int:
        return math.prod(self.local_shape)

    def part(self, whole: Tensor, shard: int) -> Tensor:
        """Returns what a shard has of `whole`, which may be flat."""
        return part(whole.reshape(self.shape), self.axis, self.segments, self.degree, shard)

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Returns the whole tensor from the parts of all shards, which may be flat."""
        return joined([each.reshape(self.local_shape) for each in parts], self.axis, self.segments)


class _Step(torch.autograd.Function):
    """Applies one map in the forward pass, and another one to the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Map, backward: Map) -> Tensor:
        ctx.map = backward
        return forward(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return ctx.map(gradients[0]), None, None


def _same(x: Tensor) -> Tensor:
    return x.view_as(x)


def _as_operand(x: Tensor, half: bool) -> Tensor:
    """Returns `x` in the type of the operands of products, if `half` and autocast is on."""
    kind = x.device.type
    if half and x.dtype == torch.float32 and torch.is_autocast_enabled(kind):
        return x.to(torch.get_autocast_dtype(kind))
    return x


class Shards:
    """One shard among `degree`, as the generated code sees it. The collectives of subclasses are called in
    the same order by all shards."""

    def __init__(self, degree: int, index: int) -> None:
        self.degree, self.index = degree, index

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum over the shards."""
        raise NotImplementedError

    def collect(self, x: Tensor) -> list[Tensor]:
        """Returns the tensors of all shards."""
        raise NotImplementedError

    def sum_own(self, parts: Sequence[Tensor]) -> Tensor:
        """Returns the sum over the shards of the part that has the number of this shard."""
        raise NotImplementedError

    def _own(self, axis: int, segments: Segments) -> Map:
        return lambda x: part(x, axis, segments, self.degree, self.index)

    def _whole(self, axis: int, segments: Segments) -> Map:
        return lambda x: joined(self.collect(x.contiguous()), axis, segments)

    def _own_sum(self, axis: int, segments: Segments) -> Map:
        return lambda x: self.sum_own(
            [part(x, axis, segments, self.degree, index) for index in range(self.degree)]
        )

    def all_reduce(self, x: Tensor) -> Tensor:
        return _Step.apply(x, self.sum, _same)

    def copy(self, x: Tensor) -> Tensor:
        return _Step.apply(x, _same, self.sum)

    def slice(self, x: Tensor, axis: int, segments: Segments) -> Tensor:
        return _Step.apply(x, self._own(axis, segments), self._whole(axis, segments))

    def gather(self, x: Tensor, axis: int, segments: Segments, half: bool = False) -> Tensor:
        """`half`: products alone use the result, so that autocast would cast it."""
        return _Step.apply(_as_operand(x, half), self._whole(axis, segments), self._own(axis, segments))

    def gather_sum(self, x: Tensor, axis: int, segments: Segments, half: bool = False) -> Tensor:
        return _Step.apply(_as_operand(x, half), self._whole(axis, segments), self._own_sum(axis, segments))

    def reduce_scatter(self, x: Tensor, axis: int, segments: Segments) -> Tensor:
        return _Step.apply(x, self._own_sum(axis, segments), self._whole(axis, segments))

    def summand(self, x: Tensor) -> Tensor:
        return _Step.apply(x, lambda y: y / self.degree, _same)

    def dropout(
        self, drop: Any, name: str, x: Tensor, ratio: float, training: bool, axis: int | None, rows: int,
        sharded: int, segments: Segments,
    ) -> Tensor:  # fmt: skip
        """Dropout of a tensor that is sharded along axis `sharded`, by a part of the mask of the whole."""
        if not training:
            return x
        shape = list(x.shape)
        shape[sharded] *= self.degree
        mask = drop(name, x.new_ones(shape), ratio, training, axis, rows * (self.degree if axis == sharded else 1))
        return x * part(mask, sharded, segments, self.degree, self.index)


class LoneShard(Shards):
    """The first of `degree` shards by itself, so that its layers can be measured. All others have what it has,
    and messages take no time."""

    def __init__(self, degree: int) -> None:
        super().__init__(degree, 0)

    def sum(self, x: Tensor) -> Tensor:
        return x.contiguous().clone()

    def collect(self, x: Tensor) -> list[Tensor]:
        return [x] * self.degree

    def sum_own(self, parts: Sequence[Tensor]) -> Tensor:
        flat = torch.cat([each.reshape(-1) for each in parts])
        return flat[: parts[0].numel()].view(parts[0].shape)
