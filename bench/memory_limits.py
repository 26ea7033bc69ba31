"""Runs the ranks of a plan here, each in a control group with a limit of memory of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


class NoLimits(Exception):
    """This machine lets nobody make control groups of memory."""


class LimitedGroup:
    """A control group; what is in it may have so many bytes, and is killed where it takes more."""

    def __init__(self, name: str, limit: int) -> None:
        first = V1.is_dir()
        self._path = (V1 if first else V2) / name
        try:
            self._path.mkdir(exist_ok=True)
            setting = "memory.limit_in_bytes" if first else "memory.max"
            (self._path / setting).write_text(str(limit), encoding="ascii")
        except OSError as error:
            raise NoLimits(f"{self._path}: {error.strerror}") from error

    def enter(self) -> None:
        """Moves this process into it."""
        (self._path / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def remove(self) -> None:
        self._path.rmdir()


def run_ranks(plan: Path, limits: Sequence[int | None], arguments: Sequence[str]) -> list[int]:
    """The exit status of each rank of the plan in folder `plan`; -9 where it was killed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = str(len(limits))
    common = {
        **os.environ, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(plan),
    }  # fmt: skip
    command = [sys.executable, "-m", "heterplan_runtime", str(plan), *arguments]
    groups = [
        LimitedGroup(f"heterplan-{os.getpid()}-{rank}", limit) if limit is not None else None
        for rank, limit in enumerate(limits)
    ]
    ranks = [
        subprocess.Popen(
            command, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL, preexec_fn=group.enter if group else None,
        )
        for rank, group in enumerate(groups)
    ]  # fmt: skip
    try:
        return _ends(ranks)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
        for group in groups:
            if group:
                group.remove()


def _ends(ranks: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    """One that fails leaves the others waiting: they are stopped."""
    waiting = list(ranks)
    while waiting:
        for rank in waiting:
            try:
                rank.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        if any(rank.returncode for rank in ranks):
            break
        waiting = [rank for rank in waiting if rank.returncode is None]
    return [rank.returncode if rank.returncode is not None else 1 for rank in ranks]
