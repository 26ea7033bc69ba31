"""Starts the ranks of a plan on this machine when nobody else (torchrun, Slurm) has."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main as torchrun


def launch(world_size: int, arguments: list[str], restarts: int = 0) -> int:
    """Runs torchrun here, which starts all ranks again up to `restarts` times when one fails; returns
    the exit status of the first rank that failed, or 0."""
    package = Path(__file__).resolve().parent
    paths = [str(package.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // world_size)))
    options = ["--standalone", f"--nproc-per-node={world_size}", f"--max-restarts={restarts}"]
    try:
        torchrun([*options, "-m", package.name, *arguments])
    except SignalException as error:
        print(f"heterplan: ended by signal {error.sigval}; the ranks were stopped", file=sys.stderr)
        return 1
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        print(f"heterplan: rank {rank} {_end(failure.exitcode)}; the others were stopped", file=sys.stderr)
        return failure.exitcode if failure.exitcode > 0 else 1
    return 0


def _end(status: int) -> str:
    """How a rank ended."""
    if status >= 0:
        return "failed"
    name = signal.Signals(-status).name
    return f"was ended by {name}" + (
        ", which is probably the system's answer to memory that ran out" if name == "SIGKILL" else ""
    )
