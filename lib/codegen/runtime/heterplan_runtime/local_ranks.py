"""Starts the ranks of a measurement on this machine, where nobody else does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .errors import RuntimeFault


def measurement(run: Callable[[], int | None]) -> int:
    """The exit status of a program that measures. `run` gives its own where the process goes on to end by
    itself; None: a rank is done, and the process ends at once, as no thread of gloo may abort it."""
    try:
        status = run()
    except RuntimeFault as error:
        print(f"heterplan: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if status is None:
        sys.stdout.flush()
        os._exit(0)
    return status


def run_ranks(module: str, ranks: int, arguments: Sequence[str]) -> int:
    """Runs `module` of this package as so many processes; 0 when all have ended well."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
              "WORLD_SIZE": str(ranks)}  # fmt: skip
    common.setdefault("OMP_NUM_THREADS", "1")
    package = Path(__file__).resolve().parent
    common["PYTHONPATH"] = os.pathsep.join([str(package.parent), common.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", f"{package.name}.{module}", *arguments]
    processes = [
        subprocess.Popen(command, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(ranks)
    ]
    try:
        return max(abs(process.wait()) for process in processes)
    finally:
        for process in processes:
            process.kill()
