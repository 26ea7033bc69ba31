"""How the C library keeps memory that was freed."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # malloc.h of the GNU C library


def keep_freed_memory() -> None:
    """Has blocks that were freed used again. By default large ones go back to the system and come
    back page by page, cleared: a fifth of a step of ResNet-50 on one core. Each step needs the same
    memory as the one before, so the peak stays what it is. Does nothing with another C library."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, -1)
    mallopt(_M_TOP_PAD, 16 << 20)
