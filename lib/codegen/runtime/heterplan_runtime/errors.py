"""Errors that end a run with one line instead of a stack trace."""

from __future__ import annotations


class RuntimeFault(Exception):
    """Bad input or a failed run; the message names the file or the instruction."""


class CheckFailed(Exception):
    """The losses of the distributed run differ from those of one process (exit status 2)."""


class Ended(Exception):
    """A signal ended the training, which was saved."""
