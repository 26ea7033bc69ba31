"""Samples of a batch for unequal workers, so that the slowest of them is done soonest (LB-BSP, Chen
et al., SoCC 2020, section 3). lib/search/balance/Balance.cpp has the same rule."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TimeModel:
    """Seconds for b samples: max(floor, slope·b) + constant, and 0 for none. A CPU has no floor; a GPU
    has one, below which fewer samples save nothing."""

    slope: float
    constant: float = 0.0
    floor: float = 0.0

    def __call__(self, samples: int) -> float:
        return max(self.floor, self.slope * samples) + self.constant if samples else 0.0

    def within(self, seconds: float, most: int) -> int:
        """Most samples of at most `most` that take at most `seconds`."""
        left = seconds - self.constant
        if left < self.floor or left <= 0:
            return 0
        count = most if self.slope <= 0 else min(most, math.floor(min(left / self.slope, 2.0**53)))
        while count and self(count) > seconds:
            count -= 1
        while count < most and self(count + 1) <= seconds:
            count += 1
        return count


def fill(models: Sequence[TimeModel], samples: int, most: Sequence[int]) -> list[int]:
    """Shares that sum to `samples`, none above its `most`, and minimise the largest time. Exact: the
    samples are those that are done first when each worker takes them one by one; of equal ones, those
    of the last worker. So a worker that becomes faster never has fewer. The caller has checked that
    they fit."""
    low, high = 0.0, max(model(limit) for model, limit in zip(models, most, strict=True))
    for _ in range(48):
        middle = (low + high) / 2
        if sum(m.within(middle, limit) for m, limit in zip(models, most, strict=True)) <= samples:
            low = middle
        else:
            high = middle
    shares = [model.within(low, limit) for model, limit in zip(models, most, strict=True)]
    if sum(shares) > samples:
        shares = [0] * len(shares)  # all of it takes no time
    queue = [
        (models[i](share + 1), -i) for i, share in enumerate(shares) if share < most[i]
    ]
    heapq.heapify(queue)
    for _ in range(samples - sum(shares)):
        _, negative = heapq.heappop(queue)
        worker = -negative
        shares[worker] += 1
        if shares[worker] < most[worker]:
            heapq.heappush(queue, (models[worker](shares[worker] + 1), negative))
    return shares


def even(samples: int, workers: int) -> list[int]:
    """The larger ones first."""
    return [(samples + workers - 1 - i) // workers for i in range(workers)]


def scaled(shares: Sequence[int], samples: int) -> list[int]:
    """The same parts of another number of samples that is not larger: none grows."""
    total, before = sum(shares), 0
    bounds = [0]
    for share in shares:
        before += share
        bounds.append(before * samples // total)
    return [end - begin for begin, end in zip(bounds, bounds[1:], strict=False)]
