"""Fits of message times to a line: latency, bandwidth, and for lookups the time of each row."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from .errors import RuntimeFault


@dataclass(frozen=True)
class Point:
    """A measured time and the time that the model gives it: steps · latency + bytes / bandwidth + what it takes
    to look for the rows that are read."""

    steps: float
    bytes: float
    seconds: float
    rows: float = 0.0


@dataclass(frozen=True)
class Fit:
    latency: float
    bandwidth: float
    residual: float  # median of the relative deviations of the points
    row: float = 0.0  # seconds

    def seconds(self, point: Point) -> float:
        return point.steps * self.latency + point.bytes / self.bandwidth + point.rows * self.row


def fit(points: Sequence[Point]) -> Fit:
    """Least squares of the relative deviations, no parameter below zero, repeated with less
    weight for points that are further off than most (Huber's weights)."""
    weights = [1.0] * len(points)
    found = _least_squares(points, weights)
    for _ in range(20):
        deviations = [abs(found.seconds(p) / p.seconds - 1) for p in points]
        usual = 1.4826 * statistics.median(deviations)
        weights = [1.0 if d <= 1.345 * usual else 1.345 * usual / d for d in deviations]
        found = _least_squares(points, weights)
    deviations = [abs(found.seconds(p) / p.seconds - 1) for p in points]
    return replace(found, residual=statistics.median(deviations))


def _least_squares(points: Sequence[Point], weights: Sequence[float]) -> Fit:
    parts = torch.tensor([(p.steps, p.bytes, p.rows) for p in points], dtype=torch.float64)
    weight = torch.tensor(weights, dtype=torch.float64).sqrt()
    scaled = parts * (weight / torch.tensor([p.seconds for p in points], dtype=torch.float64))[:, None]
    found = [0.0, 0.0, 0.0]
    kept = [column for column in range(3) if parts[:, column].any()]
    while kept:  # without those that would be below zero
        size = scaled[:, kept].norm(dim=0)
        solution = torch.linalg.lstsq(scaled[:, kept] / size, weight[:, None]).solution[:, 0] / size
        if (solution >= 0).all():
            for column, value in zip(kept, solution.tolist(), strict=True):
                found[column] = value
            break
        del kept[int((solution * size).argmin())]
    latency, per_byte, row = found
    if per_byte <= 0:
        raise RuntimeFault("larger messages take no longer: no bandwidth can be told")
    return Fit(latency, 1 / per_byte, 0.0, row)
