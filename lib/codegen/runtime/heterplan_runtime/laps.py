"""What each of several calls in a row takes of a device.

A processor has done what it was told when the call returns. A GPU is told ahead of time: in a long step
a call takes what the GPU computes for it, or what telling it takes, whichever is longer, and neither
waits for the other. So both are measured: the GPU is kept busy for as long as it is told, by a kernel
that only waits, and then says by events how long it computed.
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
        """Of the laps, since they were last asked for; without what telling the device takes of itself."""


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
    """The GPU waits until all laps are told, as far as the ones before say. Where a lap itself waits for the
    GPU, as one that reads a number from it does, that would be counted: it is found out, and left off."""

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
