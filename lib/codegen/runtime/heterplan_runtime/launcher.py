"""Starts the ranks of a plan on this machine when nobody else (torchrun, Slurm) has."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import tempfile
import uuid
from pathlib import Path

import torch
from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

PACKAGE = Path(__file__).resolve().parent


def launch(world_size: int, arguments: list[str], restarts: int = 0, on_cpu: bool = False) -> int:
    """Does what torchrun does on one machine: starts all ranks, again up to `restarts` times when one
    fails; returns the exit status of the first rank that failed, or 0. Ranks that compute `on_cpu` are
    copies of this process, which has imported what they need; CUDA does not survive being copied."""
    paths = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // world_size)))
    try:
        with tempfile.TemporaryDirectory(prefix="heterplan-ranks-") as logs:
            config = LaunchConfig(
                min_nodes=1, max_nodes=1, nproc_per_node=world_size, run_id=str(uuid.uuid4()), rdzv_backend="c10d",
                rdzv_endpoint="localhost:0", max_restarts=restarts, start_method="fork",
                logs_specs=DefaultLogsSpecs(log_dir=logs),
            )  # fmt: skip
            if on_cpu:
                _import_all()
                elastic_launch(config, _rank)(arguments)
            else:
                elastic_launch(config, sys.executable)("-u", "-m", PACKAGE.name, *arguments)
    except SignalException as error:
        print(f"heterplan: ended by signal {error.sigval}; the ranks were stopped", file=sys.stderr)
        return 1
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        print(f"heterplan: rank {rank} {_end(failure.exitcode)}; the others were stopped", file=sys.stderr)
        return failure.exitcode if failure.exitcode > 0 else 1
    return 0


def _import_all() -> None:
    """What each rank would import by itself; optimizers import the compiler of PyTorch when first used."""
    for name in ("torch._dynamo", f"{PACKAGE.name}.training"):
        importlib.import_module(name)
    # The agent logs a traceback of what a rank has said in its own words.
    logging.getLogger("torch.distributed.elastic.multiprocessing.api").setLevel(logging.CRITICAL)


def _rank(arguments: list[str]) -> None:
    """In a copy of the launcher."""
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(name, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))  # which the import did before it was set
    from .main import leave, main

    if status := main(arguments):
        leave(status)


def _end(status: int) -> str:
    """How a rank ended."""
    if status >= 0:
        return "failed"
    name = signal.Signals(-status).name
    return f"was ended by {name}" + (
        ", which is probably the system's answer to memory that ran out" if name == "SIGKILL" else ""
    )
