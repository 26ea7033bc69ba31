"""How fast a worker will be in the next period, by what it was in those before (LB-BSP, Chen et al.,
SoCC 2020, section 4).

lib/search/balance/Predictors.cpp has the same formulas for the simulator, in the same order; a test
holds both to the same numbers. Everything is plain arithmetic on doubles: a period has one observation,
and tensors would take longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

SMOOTHING = 0.5  # weight of the newest observation in an exponential average
ORDER = 3  # speeds that AR and NARX look back at
WINDOW = 32  # observations that AR is fitted to
REGULARISATION = 1e-2  # of AR, towards the last value
HIDDEN = 6  # units of NARX
REPLAYED = 16  # observations that NARX learns from at each new one
RATE = 0.05  # of its gradient descent
USES = 2  # lags of the CPU and memory use that it looks at
FASTEST_CHANGE = 4.0  # a prediction is within this factor of the last value


@dataclass(frozen=True)
class Observation:
    """`speed`: samples a second, positive. `cpu`, `memory`: shares in use, 0 where not known."""

    speed: float
    cpu: float = 0.0
    memory: float = 0.0


class Predictor(Protocol):
    def observe(self, observation: Observation) -> None: ...

    def predict(self) -> float:
        """The next speed; positive. There has to be an observation."""


class LastValue:
    def __init__(self) -> None:
        self._speed = 0.0

    def observe(self, observation: Observation) -> None:
        self._speed = observation.speed

    def predict(self) -> float:
        return self._speed


class ExponentialAverage:
    def __init__(self) -> None:
        self._speed = 0.0

    def observe(self, observation: Observation) -> None:
        gap = observation.speed - self._speed
        self._speed = self._speed + SMOOTHING * gap if self._speed else observation.speed

    def predict(self) -> float:
        return self._speed


class Autoregressive:
    """AR(p) by ridge regression on the last observations. The model fits the change from the last
    value, so that it predicts the last value if little is known."""

    def __init__(self) -> None:
        self._speeds: list[float] = []

    def observe(self, observation: Observation) -> None:
        self._speeds = [*self._speeds, observation.speed][-(WINDOW + ORDER) :]

    def predict(self) -> float:
        speeds, last = self._speeds, self._speeds[-1]
        if len(speeds) <= ORDER + 1:
            return last
        scale = sum(speeds) / len(speeds)
        size = ORDER + 1
        matrix = [[REGULARISATION * (i == j) for j in range(size)] for i in range(size)]
        right = [0.0] * size
        for end in range(ORDER, len(speeds)):
            row = _lags(speeds, end, scale)
            change = (speeds[end] - speeds[end - 1]) / scale
            for i in range(size):
                for j in range(size):
                    matrix[i][j] += row[i] * row[j]
                right[i] += row[i] * change
        change = _dot(solve(matrix, right), _lags(speeds, len(speeds), scale))
        return _bounded(last + change * scale, last)


def _lags(speeds: Sequence[float], end: int, scale: float) -> list[float]:
    """1 and the speeds before `end`, the newest first."""
    return [1.0] + [speeds[end - 1 - lag] / scale for lag in range(ORDER)]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += x * y
    return total


def _bounded(speed: float, last: float) -> float:
    return min(max(speed, last / FASTEST_CHANGE), last * FASTEST_CHANGE)


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination with partial pivoting; `matrix` is regular."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for column in range(size):
        pivot = column
        for row in range(column + 1, size):
            if abs(rows[row][column]) > abs(rows[pivot][column]):
                pivot = row
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for row in range(column + 1, size):
            factor = rows[row][column] / rows[column][column]
            for k in range(column, size + 1):
                rows[row][k] -= factor * rows[column][k]
    result = [0.0] * size
    for row in reversed(range(size)):
        known = 0.0
        for k in range(row + 1, size):
            known += rows[row][k] * result[k]
        result[row] = (rows[row][size] - known) / rows[row][row]
    return result


class Narx:
    """A nonlinear autoregressive network with exogenous inputs: one layer of tanh units over the last
    speeds and the last CPU and memory uses. It gives the change from the last speed, which comes back
    as an input, and begins with none. At each observation it takes a step of gradient descent on each
    of the last ones."""

    def __init__(self) -> None:
        self._seen: list[Observation] = []
        draws = _Draws()
        self._inputs = 1 + ORDER + 2 * USES
        self._hidden = [[draws.next() for _ in range(self._inputs)] for _ in range(HIDDEN)]
        self._output = [0.0] * HIDDEN

    def observe(self, observation: Observation) -> None:
        self._seen = [*self._seen, observation][-(REPLAYED + ORDER) :]
        scale = self._scale()
        for end in range(ORDER, len(self._seen)):
            change = (self._seen[end].speed - self._seen[end - 1].speed) / scale
            self._learn(self._row(end, scale), change)

    def predict(self) -> float:
        last = self._seen[-1].speed
        if len(self._seen) < ORDER:
            return last
        scale = self._scale()
        units = self._units(self._row(len(self._seen), scale))
        return _bounded(last + _dot(self._output, units) * scale, last)

    def _scale(self) -> float:
        total = 0.0
        for each in self._seen:
            total += each.speed
        return total / len(self._seen)

    def _row(self, end: int, scale: float) -> list[float]:
        """Regressors that are known before observation `end`. Speeds as differences from their
        mean, and uses from a half, so that units begin in their middle."""
        row = [1.0]
        row += [self._seen[end - 1 - lag].speed / scale - 1.0 for lag in range(ORDER)]
        row += [self._seen[end - 1 - lag].cpu - 0.5 for lag in range(USES)]
        row += [self._seen[end - 1 - lag].memory - 0.5 for lag in range(USES)]
        return row

    def _units(self, row: Sequence[float]) -> list[float]:
        return [math.tanh(_dot(weights, row)) for weights in self._hidden]

    def _learn(self, row: Sequence[float], change: float) -> None:
        units = self._units(row)
        error = _dot(self._output, units) - change
        error = min(max(error, -1.0), 1.0)
        for unit, value in enumerate(units):
            inner = error * self._output[unit] * (1.0 - value * value)
            self._output[unit] -= RATE * error * value
            weights = self._hidden[unit]
            for i, each in enumerate(row):
                weights[i] -= RATE * inner * each


class _Draws:
    """Uniform in [-1/2, 1/2), the same everywhere (Park and Miller, CACM 1988)."""

    def __init__(self) -> None:
        self._state = 1

    def next(self) -> float:
        self._state = self._state * 48271 % 2147483647
        return self._state / 2147483647 - 0.5


PREDICTORS: Mapping[str, Callable[[], Predictor]] = {
    "last": LastValue,
    "ema": ExponentialAverage,
    "ar": Autoregressive,
    "narx": Narx,
}
