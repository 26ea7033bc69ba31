"""The channel between a rank and the copy of the background job beside it: a few numbers in a file
that both processes map into memory. Each number has one writer."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

_NAMES = ("gap_end", "share", "stop", "ready", "samples", "steps")
_BYTES = 8


class Gate:
    """By the rank: `gap_end`, when its idle gap ends (time.monotonic(); 0: it is busy), `share` of the
    gaps that the copy may use (0: none), `stop`, 1 when the training has ended. By the copy: `ready`, 1
    once it could train, `samples` and `steps` that it has done."""

    def __init__(self, path: Path, create: bool = False) -> None:
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        file = os.open(path, flags, 0o600)
        try:
            if create:
                os.ftruncate(file, _BYTES * len(_NAMES))
            self._map = mmap.mmap(file, _BYTES * len(_NAMES))
        finally:
            os.close(file)
        self._values = memoryview(self._map).cast("d")

    def get(self, name: str) -> float:
        return float(self._values[_NAMES.index(name)])

    def set(self, name: str, value: float) -> None:
        self._values[_NAMES.index(name)] = value
