"""The predicted time of a rank's next samples: on a CPU by its predicted speed, on a GPU by a
fitted line with a floor (LB-BSP, Chen et al., SoCC 2020, sections 3 and 4)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch

from .predictors import PREDICTORS, Observation, Predictor
from .shares import TimeModel

DEFAULT_PREDICTOR = "last"  # docs/experiments/balance.md compares them
OPTIMISM = 1.1  # of a rank without samples, at each barrier: it is tried again some day
FITTED = 32  # periods that a line is fitted to
MEMORY = Path("/proc/meminfo")


class Forecast(Protocol):
    def note(self, samples: int, passes: float, update: float) -> None:
        """A step: samples of the part, seconds of its passes and of the update."""

    def model(self, share: int) -> TimeModel:
        """At the end of a period in which the part had `share` samples of a micro-batch: a step of the
        next one, by the samples of a micro-batch."""


class _Period:
    """The steps since the last barrier."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, float, float]] = []
        self._wall, self._own = time.perf_counter(), time.process_time()
        self.update = 0.0

    def note(self, samples: int, passes: float, update: float) -> None:
        self._steps.append((samples, passes, update))

    def sample_seconds(self) -> float:
        """Median over the steps; 0 where there were no samples."""
        times = [passes / samples for samples, passes, _ in self._steps if samples and passes > 0]
        self.update = statistics.median(update for _, _, update in self._steps)
        return statistics.median(times) if times else 0.0

    def cpu(self) -> float:
        """Share of a core that this process had while it computed or waited; at most 1."""
        wall, own = time.perf_counter() - self._wall, time.process_time() - self._own
        return min(1.0, own / wall) if wall > 0 else 0.0


def memory_use() -> float:
    """The memory use of the machine, as a fraction; 0 if the system does not tell."""
    try:
        fields = dict(line.split(":") for line in MEMORY.read_text().splitlines())
        total, free = (float(fields[key].split()[0]) for key in ("MemTotal", "MemAvailable"))
    except (OSError, ValueError, KeyError, IndexError):
        return 0.0
    return 1 - free / total if total > 0 else 0.0


class SpeedForecast:
    """Time is proportional to the samples."""

    def __init__(self, predictor: Predictor, micro_batches: int) -> None:
        self._predictor = predictor
        self._micro_batches = micro_batches
        self._period = _Period()
        self._speed = 0.0

    def note(self, samples: int, passes: float, update: float) -> None:
        self._period.note(samples, passes, update)

    def model(self, share: int) -> TimeModel:
        period, self._period = self._period, _Period()
        seconds = period.sample_seconds()
        if seconds > 0:
            self._predictor.observe(Observation(1 / seconds, period.cpu(), memory_use()))
            self._speed = self._predictor.predict()
        else:
            self._speed *= OPTIMISM
        slope = self._micro_batches / self._speed if self._speed else 0.0
        return TimeModel(slope, period.update)


class FittedForecast:
    """max(floor, slope·b) + constant, fitted to what the last periods took."""

    def __init__(self, micro_batches: int) -> None:
        self._micro_batches = micro_batches
        self._points: list[tuple[int, float]] = []
        self._period = _Period()

    def note(self, samples: int, passes: float, update: float) -> None:
        self._period.note(samples, passes, update)

    def model(self, share: int) -> TimeModel:
        period, self._period = self._period, _Period()
        seconds = period.sample_seconds()
        if seconds > 0:
            step = seconds * share * self._micro_batches
            self._points = [*self._points, (share, step)][-FITTED:]
        fitted = fit(self._points)
        return TimeModel(fitted.slope, fitted.constant + period.update, fitted.floor)


def fit(points: Sequence[tuple[int, float]]) -> TimeModel:
    """Fits a line with a floor: the floor covers the smallest batches, and the least squares decide
    how many. If fewer than two batches are known, the time is proportional to the newest point."""
    if len({batch for batch, _ in points}) < 2:
        return TimeModel(points[-1][1] / points[-1][0]) if points else TimeModel(0.0)
    batches = sorted({batch for batch, _ in points})
    models = [_with_floor(points, batch) for batch in [0, *batches[:-2]]]
    return min(models, key=lambda model: _squares(model, points))


def _with_floor(points: Sequence[tuple[int, float]], last: int) -> TimeModel:
    """Batches up to `last` take the floor, the others lie on a line. As max(floor, slope·b) + constant: the
    constant is what the line has at no samples, but never more than any point."""
    line = [(batch, seconds) for batch, seconds in points if batch > last]
    flat = [seconds for batch, seconds in points if batch <= last]
    slope, constant = _line(line)
    constant = max(0.0, min(constant, *(seconds for _, seconds in points)))
    if slope <= 0:
        return TimeModel(max(seconds / batch for batch, seconds in line))
    floor = statistics.fmean(flat) - constant if flat else 0.0
    return TimeModel(slope, constant, max(0.0, floor))


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    mean_batch = statistics.fmean(batch for batch, _ in points)
    mean_seconds = statistics.fmean(seconds for _, seconds in points)
    spread = sum((batch - mean_batch) ** 2 for batch, _ in points)
    if spread == 0:
        return mean_seconds / mean_batch, 0.0
    slope = sum((b - mean_batch) * (s - mean_seconds) for b, s in points) / spread
    return slope, mean_seconds - slope * mean_batch


def _squares(model: TimeModel, points: Sequence[tuple[int, float]]) -> float:
    return sum((model(batch) - seconds) ** 2 for batch, seconds in points)


def make_forecast(balance: str, device: torch.device, micro_batches: int) -> Forecast:
    """For a --balance of this name; `lb-bsp` alone fits lines on a GPU."""
    name = balance.removeprefix("lb-bsp").removeprefix("-")
    if name == "fit" or (balance == "lb-bsp" and device.type != "cpu"):
        return FittedForecast(micro_batches)
    return SpeedForecast(PREDICTORS.get(name, PREDICTORS[DEFAULT_PREDICTOR])(), micro_batches)
