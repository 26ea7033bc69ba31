"""The time of each of several consecutive calls on a device.

On a processor, a call is complete when it returns. On a GPU, kernels are enqueued ahead: in a long
step a call takes either its time on the GPU or its enqueue time, whichever is longer, because the
two overlap. Therefore both are measured: a kernel that only waits keeps the GPU busy while the calls
are enqueued, and events then give their times on the GPU.
"""

from __future__ import annotations

import time
from typing import Protocol

import torch

from .device_classes import class_of

CYCLES_PER_SECOND = 2.0e9  # of a GPU at its highest clock, or more: it then waits longer
LEAST_AHEAD = 1e-3  # seconds


class Laps(Protocol):
    @property
    def ready(self) -> bool:
        """Whether the first laps already count."""

    def begin(self) -> None:
        """The first lap begins."""

    def lap(self) -> None:
        """A lap has ended and the next one begins."""

    def seconds(self, harness: float) -> list[float]:
        """Seconds of the laps since the last call, without the launch overhead `harness` of
        each."""


class CpuLaps:
    ready = True

    def __init__(self) -> None:
        self._ends: list[float] = []

    def begin(self) -> None:
        self._ends.append(time.perf_counter())

    def lap(self) -> None:
        self._ends.append(time.perf_counter())

    def seconds(self, harness: float) -> list[float]:
        ends, self._ends = self._ends, []
        return [max(0.0, b - a - harness) for a, b in zip(ends, ends[1:], strict=False)]


class GpuLaps:
    """Laps of a GPU, which waits until all laps are enqueued; the wait is estimated from earlier
    laps. If a lap itself synchronises with the GPU (for example because it reads a number from it),
    the wait would be counted; in this case the clock detects it and stops waiting."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._ahead: float | None = 0.0  # seconds that the GPU waits; None: never
        self._told: list[float] = []
        self._events: list[torch.cuda.Event] = []

    @property
    def ready(self) -> bool:
        return self._ahead != 0

    def begin(self) -> None:
        class_of(self._device).synchronize(self._device)
        if self._ahead:
            torch.cuda._sleep(int(self._ahead * CYCLES_PER_SECOND))
        self.lap()

    def lap(self) -> None:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._events.append(event)
        self._told.append(time.perf_counter())

    def seconds(self, harness: float) -> list[float]:
        class_of(self._device).synchronize(self._device)
        events, self._events = self._events, []
        told, self._told = self._told, []
        computed = [a.elapsed_time(b) / 1e3 for a, b in zip(events, events[1:], strict=False)]
        telling = [max(0.0, b - a - harness) for a, b in zip(told, told[1:], strict=False)]
        if self._ahead is not None:
            total = told[-1] - told[0]
            waited = 0 < self._ahead <= total
            self._ahead = None if waited else max(self._ahead, 2 * total + LEAST_AHEAD)
            if waited:
                return computed
        return [max(pair) for pair in zip(computed, telling, strict=True)]


def laps_of(device: torch.device) -> Laps:
    return GpuLaps(device) if class_of(device).runs_behind else CpuLaps()
