"""Whether two orders of the same things agree."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def ranks_of(values: Sequence[float]) -> list[float]:
    """Places in ascending order; equal values share the mean of theirs."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2
        for value in values
    ]


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's coefficient; 0 where either has no order."""
    a, b = ranks_of(first), ranks_of(second)
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return statistics.correlation(a, b)
