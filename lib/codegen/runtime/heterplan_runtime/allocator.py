"""How the C library keeps memory that was freed."""

from __future__ import annotations

import ctypes

# malloc.h of the GNU C library
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -2, -3, -4


def keep_freed_memory() -> None:
    """Has blocks that were freed used again. By default large ones go back to the system and come
    back page by page, cleared: a fifth of a step of ResNet-50 on one core. Holes between blocks of
    different sizes cost memory: up to as much again as the tensors have. Does nothing with another C
    library."""
    _set({_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: -1, _M_TOP_PAD: 16 << 20})


def give_back_freed_memory() -> None:
    """Has the process take no more memory than its tensors: each large block is the system's again
    as soon as it is freed. (By default the C library keeps them once it has seen a few.)"""
    _set({_M_MMAP_THRESHOLD: 256 << 10})


def _set(options: dict[int, int]) -> None:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    for option, value in options.items():
        mallopt(option, value)
