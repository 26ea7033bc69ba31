"""A copy of a background job: trains at low priority in the idle gaps of the rank beside it.

Each instruction is one that the device does not interrupt. The next one is begun in a gap that is still
long enough for it, by what it took before; one that fits into no gap is begun at the start of a gap after
a while, and the rank's feedback decides how often.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from .device_classes import class_of
from .gap_gate import Gate
from .program import Instruction, RankProgram
from .recorder import Recorder

POLL = 2e-4  # seconds between two looks at the gate
REST = 1e-2  # the same wait while no gap is to be used: polling takes time from the ranks, too
PATIENCE = 0.25  # seconds after which an instruction that fits into no gap is begun all the same
NEWEST = 0.2  # weight of the newest duration of an instruction


def yield_to_others() -> None:
    """This process, and threads that it starts later, compute when nobody else does."""
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        except OSError:
            pass  # a system that does not let it still has the niceness


def compute_normally() -> None:
    """As far as the system lets this process, which keeps its niceness: the rank beside it has ended."""
    if hasattr(os, "SCHED_IDLE"):
        try:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        except OSError:
            pass


class LaunchControl:
    """When the copy may begin what."""

    def __init__(self, gate: Gate, overrun: float) -> None:
        """`overrun`: seconds by which an instruction may outlast its gap."""
        self._gate = gate
        self._overrun = overrun
        self._ended = False  # the rank, and this process knows
        self._durations: dict[int, float] = {}  # by instruction

    def wait(self, index: int) -> None:
        """Until instruction `index` may begin."""
        asked = time.monotonic()
        if self._gate.get("stop") and not self._ended:
            self._ended = True
            compute_normally()
        while not self._may_begin(index, time.monotonic() - asked):
            time.sleep(POLL if self._gate.get("share") > 0 else REST)

    def done(self, index: int, seconds: float) -> None:
        known = self._durations.get(index, seconds)
        self._durations[index] = known + NEWEST * (seconds - known)
        share = self._gate.get("share")
        if 0 < share < 1 and not self._gate.get("stop"):
            time.sleep(min(PATIENCE, seconds * (1 / share - 1)))

    def _may_begin(self, index: int, waited: float) -> bool:
        if self._gate.get("stop"):
            return True
        gap_end = self._gate.get("gap_end")
        if gap_end == 0 or self._gate.get("share") <= 0:
            return False
        left = gap_end + self._overrun - time.monotonic()
        return waited > PATIENCE or self._durations.get(index, 0.0) <= left


class GapFillingRecorder(Recorder):
    """The interpreter asks it around each instruction."""

    def __init__(self, program: RankProgram, device: torch.device, gate: Gate, overrun: float) -> None:
        super().__init__(program, device)
        self._gate = gate
        self._launches = LaunchControl(gate, overrun)
        self._last = len(program.instructions) - 1
        self._batch = program.global_batch

    @contextmanager
    def instruction(self, index: int, instruction: Instruction) -> Iterator[None]:
        if index == 0:
            self._gate.set("ready", 1)
        self._launches.wait(index)
        begin = time.monotonic()
        with super().instruction(index, instruction):
            yield
            class_of(self._device).synchronize(self._device)
        self._launches.done(index, time.monotonic() - begin)
        if index == self._last:
            self._gate.set("samples", self._gate.get("samples") + self._batch)
            self._gate.set("steps", self._gate.get("steps") + 1)


def gap_filling_recorder(
    program: RankProgram, device: torch.device, gate: Path, overrun: float
) -> GapFillingRecorder:
    yield_to_others()
    return GapFillingRecorder(program, device, Gate(gate), overrun)
