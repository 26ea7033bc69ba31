"""Which core a rank computes on."""

from __future__ import annotations

import os
from pathlib import Path


def pin_to_core(local_rank: int) -> None:
    """More ranks than cores share them in turn. Only the thread that computes is pinned: gloo's own,
    which the communicator has started, poll while another one holds their lock, and would keep it
    from the core for milliseconds. Hence they also give way to all others."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[local_rank % len(cores)]})
    for thread in Path("/proc/self/task").iterdir():
        if (thread / "comm").read_text(encoding="utf-8").startswith("gloo_tcp"):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), 19)
