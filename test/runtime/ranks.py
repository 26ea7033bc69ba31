"""Runs the ranks of a package as processes forked from one that has torch loaded: what torchrun
does, less the seconds that each import of torch takes."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packages import RUNTIME
from ports import free_ports


@dataclass
class Outcome:
    status: int | None  # None: still running when the time was up, or killed
    out: str
    err: str


def _limit_training(size: int) -> None:
    """Limits memory from when the rank makes its stage on: threads of process groups, each with its
    stack, are there then, and so are stacks for those that training starts."""
    from heterplan_runtime import assembly

    make = assembly._make_part

    def limited(*arguments: Any) -> Any:
        _leave_stacks()
        _limit_memory(size)
        return make(*arguments)

    assembly._make_part = limited


def _leave_stacks(count: int = 4) -> None:
    """The C library keeps the stacks of threads that have ended for later ones. How many there are would else
    depend on how many of those that joining starts were there at once."""
    together = threading.Barrier(count)
    threads = [threading.Thread(target=together.wait) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _limit_memory(size: int) -> None:
    """Allocations fail that would make this process `size` bytes larger than it is now."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    now = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData:"))
    limit = now * 1024 + size
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _rank_main(
    rank: int, world: int, port: int, logs: Path, arguments: list[str], memory: int | None,
    variables: dict[str, str],
) -> None:
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(logs / f"{name}{rank}", os.O_CREAT | os.O_WRONLY), descriptor)
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
    )  # fmt: skip
    os.environ.update(variables)
    if memory is not None:
        _limit_training(memory)
    try:
        from heterplan_runtime.main import main

        status = main(arguments)
    except BaseException:
        traceback.print_exc()
        status = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _context() -> multiprocessing.context.ForkServerContext:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(RUNTIME), str(Path(__file__).parent)])
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "heterplan_runtime.training", "ranks"])
    return context


def run_ranks(
    world: int,
    logs: Path,
    arguments: list[str],
    seconds: int = 100,
    stop_on_failure: bool = True,
    memory: int | None = None,
    variables: Sequence[dict[str, str]] = (),
) -> list[Outcome]:
    """Starts `world` ranks, each with at most `memory` bytes for its training where that is given, and with
    environment variables of its own. Like torchrun, stops the others when one has failed."""
    logs.mkdir(exist_ok=True)
    context, (port,) = _context(), free_ports(1)
    processes = [
        context.Process(
            target=_rank_main, daemon=True,
            args=(rank, world, port, logs, arguments, memory, variables[rank] if variables else {}),
        )
        for rank in range(world)
    ]  # fmt: skip
    for process in processes:
        process.start()
    waiting = list(processes)
    for _ in range(seconds * 10):
        waiting = [process for process in waiting if process.exitcode is None]
        failed = any(process.exitcode for process in processes)
        if not waiting or (failed and stop_on_failure):
            break
        waiting[0].join(0.1)
    for process in processes:
        process.join(0.5)
        if process.exitcode is None:
            process.kill()
            process.join()
    return [
        Outcome(
            process.exitcode if (process.exitcode or 0) >= 0 else None,
            (logs / f"out{rank}").read_text(),
            (logs / f"err{rank}").read_text(),
        )
        for rank, process in enumerate(processes)
    ]


def assert_trains_as_one_process(folder: Path, ranks: int, logs: Path) -> None:
    """The plan in `folder` has the losses of one process, and they change."""
    result = logs / "result.json"
    outcomes = run_ranks(
        ranks, logs / "logs", [str(folder), "--json", str(result), "--check", "--steps", "4", "--lr", "0.05"]
    )
    assert [outcome.status for outcome in outcomes] == [0] * ranks, outcomes
    found = json.loads(result.read_text())
    assert found["checkPassed"]
    assert found["losses"] == pytest.approx(found["referenceLosses"], rel=1e-4)
    assert found["losses"][-1] != pytest.approx(found["losses"][0], rel=1e-3), "nothing trained"
