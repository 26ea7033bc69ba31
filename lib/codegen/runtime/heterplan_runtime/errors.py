"""Errors that end a run with one line instead of a stack trace."""

from __future__ import annotations


class RuntimeFault(Exception):
    """Bad input or a failed run; the message names the file or the instruction."""


class CheckFailed(Exception):
    """The losses of the distributed run differ from those of one process (exit status 2)."""


class Ended(Exception):
    """A signal ended the training, which was saved."""


class LaunchFault(RuntimeFault):
    """The ranks cannot meet; all ranks of a host fail by the same, and its first one says so."""


class PeerLost(Exception):
    """Another rank is gone, which has been said already."""


def is_broken_connection(error: BaseException) -> bool:
    """Whether an operation failed because another rank ended or cannot be reached."""
    text = f"{type(error).__name__}: {error}"
    return isinstance(error, RuntimeError) and any(word in text for word in ("gloo", "NCCL", "Dist", "Connection"))
