"""Robust figures of repeated measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable


def trimmed_mean(values: Iterable[float]) -> float:
    """Without the tenth at each end; of three or more, without one at least. A core that others
    slow down half of the time has two speeds: a median would be one of them, and a step of many
    layers meets both."""
    ordered = sorted(values)
    outside = math.ceil(len(ordered) / 10) if len(ordered) > 2 else 0
    return statistics.fmean(ordered[outside : len(ordered) - outside])


def spread_of(values: list[float]) -> float:
    """Relative half-width of the interval that holds the median with 95%, by order statistics;
    with few values it is their whole range."""
    ordered = sorted(values)
    median = statistics.median(ordered)
    outside = max(0, math.floor((len(ordered) - 1.96 * math.sqrt(len(ordered))) / 2))
    width = ordered[len(ordered) - 1 - outside] - ordered[outside]
    return width / 2 / median if median > 0 else 0.0
