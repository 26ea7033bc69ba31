"""A rank as a process of the launcher: a copy of it, or a new Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from .process import end_with_parent

PACKAGE = Path(__file__).resolve().parent


class RankProcess(Protocol):
    """A child process; subprocess.Popen is one."""

    def poll(self) -> int | None:
        """The exit status once it has ended: negative for a signal."""

    def send_signal(self, sig: int) -> None:
        """Signals it unless it has ended."""


class _Copy:
    """A forked copy of the launcher. torch is imported already."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._status: int | None = None

    def poll(self) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self._pid, sig)


def start_copy(arguments: Sequence[str], variables: Mapping[str, str]) -> RankProcess:
    """Forks a rank with the environment variables `variables` added."""
    sys.stdout.flush()
    sys.stderr.flush()
    launcher = os.getpid()
    pid = os.fork()
    if pid:
        return _Copy(pid)
    try:
        os.environ.update(variables)
        _become_rank(arguments, launcher)
    finally:
        os._exit(1)


def start_python(arguments: Sequence[str], variables: Mapping[str, str]) -> RankProcess:
    """Starts a rank in a Python of its own: CUDA does not survive being copied."""
    listener = variables.get("HETERPLAN_LISTENER")
    return subprocess.Popen(
        [sys.executable, "-u", "-m", PACKAGE.name, *arguments], env={**os.environ, **variables},
        start_new_session=True, pass_fds=[int(listener)] if listener else [],
    )  # fmt: skip


def _become_rank(arguments: Sequence[str], launcher: int) -> NoReturn:
    import torch

    from .main import leave, main

    os.setsid()  # Ctrl-C reaches the launcher, which passes it on
    end_with_parent()
    if os.getppid() != launcher:
        os._exit(1)
    signal.set_wakeup_fd(-1)
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(name, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))  # which the import did before it was set
    leave(main(list(arguments)))
