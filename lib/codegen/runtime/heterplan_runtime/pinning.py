"""Which cores a rank computes on."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

_NODES = Path("/sys/devices/system/node")


def cores_of(local_rank: int, threads: int, cores: Collection[int], nodes: dict[int, int]) -> set[int]:
    """As many as it has threads, next to those of the rank before it and, as far as it goes, of one NUMA
    node (`nodes`: by core). More ranks than cores share them in turn."""
    ordered = sorted(cores, key=lambda core: (nodes.get(core, 0), core))
    first = local_rank * threads
    return {ordered[(first + thread) % len(ordered)] for thread in range(threads)}


def _numa_nodes() -> dict[int, int]:
    """By core; empty where the system does not say."""
    found: dict[int, int] = {}
    for node in _NODES.glob("node[0-9]*"):
        number = int(node.name.removeprefix("node"))
        try:
            text = (node / "cpulist").read_text(encoding="ascii")
        except OSError:
            continue
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
            found.update(dict.fromkeys(range(int(first), int(last or first) + 1), number))
    return found


def pin_to_cores(local_rank: int, threads: int) -> None:
    """Only threads that compute are pinned, this one and those that it starts: gloo's own, which the
    communicator has started, poll while another one holds their lock, and would keep it from the core
    for milliseconds. Hence they also give way to all others."""
    os.sched_setaffinity(0, cores_of(local_rank, threads, os.sched_getaffinity(0), _numa_nodes()))
    for thread in Path("/proc/self/task").iterdir():
        if (thread / "comm").read_text(encoding="utf-8").startswith("gloo_tcp"):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), 19)
