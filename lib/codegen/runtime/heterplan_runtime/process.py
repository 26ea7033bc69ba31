"""The behaviour of a process when its parent ends."""

from __future__ import annotations

import ctypes
import signal
import sys


def end_with_parent() -> None:
    """A process whose parent was killed does not go on alone."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
