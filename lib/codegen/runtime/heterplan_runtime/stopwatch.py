"""How long a rank computes for each of its stages, apart from what it waits for others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from .device_classes import class_of
from .program import Instruction

UPDATE = "step"  # once an iteration, whatever the samples are


class Stopwatch:
    """Counts from when it was last read. `waited`: seconds so far that sums within passes took."""

    def __init__(self, device: torch.device, waited: Callable[[], float]) -> None:
        self._device = device
        self._waited = waited
        self._passes: dict[int, float] = {}  # by part
        self._updates: dict[int, float] = {}
        self.exact = not class_of(device).runs_behind  # otherwise passes end after the calls that begin them
        """May be set: each pass then waits for the device."""

    @contextmanager
    def instruction(self, instruction: Instruction) -> Iterator[None]:
        if instruction.info.kind != "compute" or not self.exact:
            yield
            return
        waited = self._waited()
        begin = time.perf_counter()
        yield
        class_of(self._device).synchronize(self._device)
        seconds = time.perf_counter() - begin - (self._waited() - waited)
        into = self._updates if instruction.op == UPDATE else self._passes
        into[instruction.part] = into.get(instruction.part, 0.0) + seconds

    def read(self, part: int) -> tuple[float, float]:
        """Seconds of the passes and of the update of a part, which it forgets."""
        return self._passes.pop(part, 0.0), self._updates.pop(part, 0.0)
