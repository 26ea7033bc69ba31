"""Records of each step and each evaluation for programs that draw curves: a line of JSON, or events
of TensorBoard."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from .errors import RuntimeFault


class Log(Protocol):
    """A log, which only rank 0 writes."""

    def write(self, step: int, **facts: Any) -> None:
        """After `step` steps. Facts are numbers, or, by name, several."""


class Logs:
    """Several at once, or none."""

    def __init__(self, logs: list[Log]) -> None:
        self._logs = logs

    def write(self, step: int, **facts: Any) -> None:
        for log in self._logs:
            log.write(step, **facts)


class JsonLines:
    """A training that goes on adds to the file."""

    def __init__(self, path: Path, goes_on: bool) -> None:
        try:
            self._file = path.open("a" if goes_on else "w", encoding="utf-8")
        except OSError as error:
            raise RuntimeFault(f"--log-file {path}: {error.strerror}") from error

    def write(self, step: int, **facts: Any) -> None:
        """Numbers that JSON has none for are null."""
        self._file.write(json.dumps(_finite({"step": step, **facts})) + "\n")
        self._file.flush()


class TensorBoard:
    """A training that goes on after `first_step` steps takes the place of later ones in the folder."""

    def __init__(self, folder: Path, first_step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise RuntimeFault("--tensorboard needs the package tensorboard: pip install tensorboard") from error
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = SummaryWriter(str(folder), purge_step=first_step + 1 if first_step else None)
        except OSError as error:
            raise RuntimeFault(f"--tensorboard {folder}: {error.strerror}") from error

    def write(self, step: int, **facts: Any) -> None:
        for name, value in _scalars(facts):
            self._writer.add_scalar(name, value, step)
        self._writer.flush()


def make_log(log_file: Path | None, tensorboard: Path | None, first_step: int) -> Logs:
    logs: list[Log] = []
    if log_file is not None:
        logs.append(JsonLines(log_file, goes_on=first_step > 0))
    if tensorboard is not None:
        logs.append(TensorBoard(tensorboard, first_step))
    return Logs(logs)


def _scalars(facts: dict[str, Any], group: str = "") -> Iterator[tuple[str, float]]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _scalars(value, f"{group}{name}/")
        else:
            yield group + name, value


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
