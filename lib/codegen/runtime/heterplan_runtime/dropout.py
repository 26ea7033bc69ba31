"""Dropout whose masks do not depend on the split.

Whether an element is dropped is a hash of the seed, the step, the node, the number of the sample within
the global batch and the place within the sample: counter-based random numbers (Salmon et al., SC 2011),
so that every rank, every replica and a second forward pass draw what one process draws.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from .model import seed_of

_LOW_31 = 0x7FFFFFFF


@dataclass
class Position:
    """The position of the current pass, updated by the caller that runs the stage."""

    step: int = 0
    first_sample: int = 0  # within the global batch


def _mixed(x: Tensor) -> Tensor:
    """A bijection of 32-bit numbers, in place: each bit that goes in changes half of those that come out.
    (The multipliers are those of lowbias32, Wellons 2018, improved by Tromp.)"""
    x ^= (x >> 16) & 0xFFFF
    x *= 0x21F0AAAD
    x ^= (x >> 15) & 0x1FFFF
    x *= 0x735A2D97
    x ^= (x >> 15) & 0x1FFFF
    return x


@functools.lru_cache(maxsize=64)
def _places(count: int, device: torch.device) -> Tensor:
    """A number of each element of a sample."""
    return _mixed(torch.arange(count, dtype=torch.int32, device=device))


def _sample_keys(name: str, seed: int, step: int, samples: range, device: torch.device) -> Tensor:
    """A number of each sample."""
    key = seed_of("dropout", name, seed, step)
    numbers = torch.arange(samples.start, samples.stop, dtype=torch.int32, device=device)
    low, high = (((key >> shift) & 0xFFFFFFFF) - (1 << 31) for shift in (0, 31))
    return _mixed(_mixed(numbers ^ low) ^ high)


class SampleDropout:
    """Takes the place of a stage's `dropout`."""

    def __init__(self, seed: int, position: Position) -> None:
        self._seed, self._position = seed, position

    def held(self) -> SampleDropout:
        """The same, but it stays where it is now."""
        return SampleDropout(self._seed, replace(self._position))

    def __call__(
        self, name: str, x: Tensor, ratio: float, training: bool, axis: int | None, rows: int
    ) -> Tensor:
        """The samples lie on `axis`, each has `rows` elements of it; None: `x` is of no sample."""
        if not training or ratio <= 0:
            return x
        if ratio >= 1:
            return x * 0
        keeps = self.kept(name, x, ratio, axis, rows)
        return x * (keeps.to(x.dtype) / (1 - ratio))

    def kept(self, name: str, x: Tensor, ratio: float, axis: int | None, rows: int) -> Tensor:
        """Which elements are not dropped."""
        first = -1 if axis is None else self._position.first_sample
        place = axis or 0
        count = 1 if axis is None else x.shape[place] // rows
        rows = x.shape[0] if axis is None and x.dim() else rows
        keys = _sample_keys(name, self._seed, self._position.step, range(first, first + count), x.device)
        before, after = math.prod(x.shape[:place]), math.prod(x.shape[place + 1 :])
        hashed = _places(before * rows * after, x.device)[None] ^ keys[:, None]
        drawn = _mixed(hashed) & _LOW_31
        kept = drawn >= int(ratio * 2**31)
        return kept.view(count, before, rows, after).transpose(0, 1).reshape(x.shape)


def drop_by_sample(stage: nn.Module, seed: int, position: Position) -> None:
    """Has the dropout of the stage, if it has any, follow `position`."""
    described: Any = stage
    if hasattr(described, "dropout"):
        described.dropout = SampleDropout(seed, position)
