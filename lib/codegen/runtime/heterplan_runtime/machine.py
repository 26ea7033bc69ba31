"""How busy this machine was with other work during a run: why a step took longer than predicted."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

STAT = Path("/proc/stat")
IDLE = (3, 4)  # fields of the line "cpu": idle, waiting for a disk
GUESTS = 8  # those of guests from here on are in the others already
NOTICEABLE = 0.1  # of the cores, and of the time of the reference kernel


def _busy_seconds() -> float | None:
    """Busy time of all cores since the machine started; None if the system does not tell."""
    try:
        fields = [int(field) for field in STAT.read_text().splitlines()[0].split()[1:]]
    except (OSError, ValueError, IndexError):
        return None
    busy = sum(ticks for index, ticks in enumerate(fields[:GUESTS]) if index not in IDLE)
    return busy / float(os.sysconf("SC_CLK_TCK"))


class Usage:
    """Counts from when it is made."""

    def __init__(self) -> None:
        self._begin = (time.perf_counter(), time.process_time(), _busy_seconds())

    def read(self) -> tuple[float, float, float]:
        """Seconds gone by, of this process on its cores, and of all cores (0: not known)."""
        wall, own, busy = self._begin
        now = _busy_seconds()
        everything = now - busy if now is not None and busy is not None else 0.0
        return time.perf_counter() - wall, time.process_time() - own, everything


def describe(usages: list[tuple[float, float, float]], kernels: list[list[float]]) -> str:
    """One line about all ranks of this machine, and the readings of their reference kernels;
    "" where there is nothing to tell."""
    cores = os.cpu_count() or 1
    wall, _, busy = max(usages)
    others = (busy - sum(own for _, own, _ in usages)) / wall if busy and wall > 0 else 0.0
    readings = [reading for rank in kernels for reading in rank if reading > 0]
    medians = [statistics.median(rank) for rank in kernels if rank and min(rank) > 0]
    slower = max(medians) / min(readings) - 1 if medians else 0.0
    parts = []
    if others > NOTICEABLE * cores:
        parts.append(f"other processes took {others:.1f} of the {cores} cores")
    if slower > NOTICEABLE:
        parts.append(f"a fixed piece of work took {1 + slower:.2f} times what it took at its best")
    if not parts:
        return ""
    return f"the machine was busy: {'; '.join(parts)}: steps take longer than on a quiet one"
