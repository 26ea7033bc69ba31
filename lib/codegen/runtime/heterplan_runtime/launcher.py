"""Starts the ranks of a plan on this machine: all of them, or those of one host that launch.sh names."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .errors import RuntimeFault
from .fallbacks import Fallback
from .launched import host_counts, host_name
from .meeting import listen
from .rank_process import PACKAGE, RankProcess, start_copy, start_python

TO_END = 15.0  # seconds that ranks have to end after another has failed
TO_SAVE = 60.0  # after a signal: a rank may write a checkpoint
BETWEEN_LOOKS = 0.05
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class Host:
    """The ranks that one host runs, `count` from `first` on, and where rank 0 listens."""

    world_size: int
    first: int
    count: int
    address: str = "127.0.0.1"
    port: int = 0  # any free one

    @property
    def has_all(self) -> bool:
        return self.count == self.world_size


def this_host(world_size: int) -> Host:
    """The ranks of this machine: the part of a host if launch.sh has named one, else all."""
    hosts = list(host_counts(os.environ.get("HETERPLAN_HOSTS", "")))
    index = os.environ.get("HETERPLAN_HOST_INDEX", "")
    if not hosts or not index:
        return Host(world_size, 0, world_size)
    counts = [count for _, count in hosts]
    if sum(counts) != world_size:
        raise RuntimeFault(f"HETERPLAN_HOSTS has {sum(counts)} ranks; the plan has {world_size}")
    first = sum(counts[: int(index)])
    return Host(world_size, first, counts[int(index)], hosts[0][0], int(os.environ.get("HETERPLAN_PORT", "29400")))


class Launcher:
    """Starts ranks, and ends all when one fails or a signal comes."""

    def __init__(
        self, host: Host, arguments: Sequence[str], on_cpu: bool, fallback: Callable[[int], Fallback | None]
    ) -> None:
        """Ranks that compute `on_cpu` are copies of this process, which has imported what they need. `fallback`:
        the plan with which to go on when a rank is lost; None: the same."""
        self._host, self._arguments, self._fallback = host, list(arguments), fallback
        self._start = start_copy if on_cpu else start_python
        self._signal: int | None = None
        self._ranks: list[RankProcess] = []
        self._listener = self._listen()
        paths = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, _cores() // host.count)))
        if on_cpu:
            _import_all()
        for name in SIGNALS:
            signal.signal(name, self._receive)

    def run(self, restarts: int) -> int:
        """Returns the exit status of the first rank that failed, or 0. Starts all ranks again up to `restarts`
        times when one fails."""
        for attempt in range(restarts + 1):
            self._begin(attempt)
            failed = self._wait()
            self._end_others(TO_SAVE if self._signal else TO_END)
            if self._signal:
                name = signal.Signals(self._signal).name
                print(f"heterplan: ended by signal {name}; the ranks were stopped", file=sys.stderr)
                return 1
            if failed is None:
                return 0
            rank, status = failed
            where = "" if self._host.has_all else f" on {host_name()}"
            print(f"heterplan: rank {rank}{where} {_end(status)}; the others were stopped", file=sys.stderr)
            if attempt < restarts:
                self._choose_plan(rank, status)
                print(f"heterplan: restart {attempt + 1} of {restarts}", file=sys.stderr)
        return status if status > 0 else 1

    def _choose_plan(self, rank: int, status: int) -> None:
        """A killed rank is lost, one that fails by itself would fail on other devices, too."""
        found = self._fallback(rank) if status < 0 else None
        if found is not None:
            print(f"heterplan: going on with the plan {found.directory}", file=sys.stderr)
            self._host = Host(found.world_size, 0, found.world_size)
            self._arguments = found.arguments

    def _listen(self) -> int | None:
        """The socket of rank 0, made before any rank starts: a port in use is reported at once."""
        if self._host.first:
            return None
        address = "127.0.0.1" if self._host.has_all else ""
        try:
            return listen(self._host.port, address).detach()
        except OSError as error:
            raise RuntimeFault(
                f"port {self._host.port} of {host_name()}, at which the ranks meet, cannot be used: "
                f"{os.strerror(error.errno or 0)}; choose another by --port"
            ) from error

    def _begin(self, attempt: int) -> None:
        host, port = self._host, self._host.port
        if self._listener is not None:
            with socket.socket(fileno=os.dup(self._listener)) as bound:
                port = bound.getsockname()[1]
        self._ranks = []
        for local in range(host.count):
            variables = {
                "RANK": str(host.first + local), "WORLD_SIZE": str(host.world_size), "LOCAL_RANK": str(local),
                "LOCAL_WORLD_SIZE": str(host.count), "MASTER_ADDR": host.address, "MASTER_PORT": str(port),
                "TORCHELASTIC_RESTART_COUNT": str(attempt),
            }  # fmt: skip
            if self._listener is not None and host.first + local == 0:
                variables["HETERPLAN_LISTENER"] = str(self._listener)
            self._ranks.append(self._start(self._arguments, variables))

    def _wait(self) -> tuple[int, int] | None:
        """The first rank that fails, with its status; None when all are done or a signal has come."""
        while not self._signal:
            statuses = [rank.poll() for rank in self._ranks]
            if any(statuses):
                return self._first_failure()
            if all(status == 0 for status in statuses):
                return None
            time.sleep(BETWEEN_LOOKS)
        return None

    def _first_failure(self) -> tuple[int, int]:
        """A rank that was killed comes first: others fail because of it."""
        failed = [(rank.poll() or 0, local) for local, rank in enumerate(self._ranks) if rank.poll()]
        status, local = min(failed, key=lambda each: (each[0] > 0, each[1]))
        return self._host.first + local, status

    def _end_others(self, seconds: float) -> None:
        """Ranks may take their time to save what they have; then they are killed."""
        self._send(signal.SIGTERM)
        end = time.monotonic() + seconds
        while any(rank.poll() is None for rank in self._ranks):
            if time.monotonic() > end:
                self._send(signal.SIGKILL)
            time.sleep(BETWEEN_LOOKS)

    def _send(self, number: int) -> None:
        for rank in self._ranks:
            rank.send_signal(number)

    def _receive(self, number: int, _: object) -> None:
        if self._signal is not None:  # an impatient user
            self._send(signal.SIGKILL)
        self._signal = number


def launch(
    host: Host, arguments: Sequence[str], restarts: int = 0, on_cpu: bool = False,
    fallback: Callable[[int], Fallback | None] = lambda rank: None,
) -> int:  # fmt: skip
    """Starts the ranks of `host`; see Launcher.run()."""
    return Launcher(host, arguments, on_cpu, fallback).run(restarts)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _import_all() -> None:
    """Imports the modules that each rank would otherwise import by itself; optimizers import the
    compiler of PyTorch when first used."""
    for name in ("torch._dynamo", f"{PACKAGE.name}.training"):
        importlib.import_module(name)


def _end(status: int) -> str:
    """How a rank ended."""
    if status >= 0:
        return "failed"
    name = signal.Signals(-status).name
    return f"was ended by {name}" + (
        ", which is probably the system's answer to memory that ran out" if name == "SIGKILL" else ""
    )
