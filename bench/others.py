"""The other load of a machine during a measurement."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path


class Others:
    """CPU time since it was made that neither this process took nor children of it that have ended:
    other processes, and what a hypervisor gave to other guests (steal)."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._taken = self._now()

    @staticmethod
    def _now() -> float:
        """0 where the system does not tell."""
        try:
            line = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
            user, nice, system, _, _, irq, soft, steal = map(int, line.split()[1:9])
        except (OSError, ValueError, IndexError):
            return 0.0
        busy = (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
        own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return busy - sum(usage.ru_utime + usage.ru_stime for usage in own)

    def cores(self) -> float:
        """On average. The system's clock ticks: one tick more is nobody's."""
        taken = self._now() - self._taken - 1 / os.sysconf("SC_CLK_TCK")
        return max(0.0, taken) / max(1e-9, time.monotonic() - self._begin)
