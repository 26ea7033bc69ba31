"""A line of JSON for each step and each evaluation, for programs that draw curves."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import IO, Any

from .errors import RuntimeFault


class Log:
    """Written by rank 0 alone; `path` None: nothing is written. A training that goes on adds to it."""

    def __init__(self, path: Path | None, goes_on: bool) -> None:
        self._file: IO[str] | None = None
        if path is None:
            return
        try:
            self._file = path.open("a" if goes_on else "w", encoding="utf-8")
        except OSError as error:
            raise RuntimeFault(f"--log-file {path}: {error.strerror}") from error

    def write(self, **facts: Any) -> None:
        """Numbers that JSON has none for are null."""
        if self._file is None:
            return
        self._file.write(json.dumps(_finite(facts)) + "\n")
        self._file.flush()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
