"""Finds the program `heterplan` and runs it: beside this package where a wheel brought it, else the one
that $HETERPLAN_BINARY names, of the source tree, or on the path."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import CheckFailed, Diagnostic, HeterplanError, HeterplanWarning, parse_diagnostics

_PACKAGE = Path(__file__).resolve().parent
_SOURCE = _PACKAGE.parents[1]
_NO_ANSWER = 2  # exit status: an answer, but not the one asked for


def find_program() -> Path:
    """The executable. Raises HeterplanError where there is none."""
    stated = os.environ.get("HETERPLAN_BINARY")
    candidates = [Path(stated)] if stated else []
    candidates += [_PACKAGE / "program/bin/heterplan", _SOURCE / "build/bin/heterplan"]
    if on_path := shutil.which("heterplan"):
        candidates.append(Path(on_path))
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK) and not _is_command(candidate):
            return candidate
    raise HeterplanError(f"the program heterplan is not there; tried {', '.join(map(str, candidates))}")


def _is_command(path: Path) -> bool:
    """Whether it is the command that a wheel installs, which would look for the program in its turn, for ever."""
    with path.open("rb") as file:
        return b"heterplan.__main__" in file.read(4096)


def environment() -> dict[str, str]:
    """The environment of the program: it runs plans with this very Python."""
    return {"HETERPLAN_PYTHON": sys.executable, **os.environ}


@dataclass(frozen=True)
class Answer:
    """The standard output of the program and its messages."""

    status: int
    output: str
    errors: str

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return parse_diagnostics(self.errors)

    def json(self) -> dict[str, Any]:
        """The output as a JSON object. Raises HeterplanError if it is none."""
        try:
            facts = json.loads(self.output)
        except ValueError:
            facts = None
        if not isinstance(facts, dict):
            text = (self.errors + self.output).strip() or "the program printed nothing"
            raise HeterplanError(text, self.status)
        return facts


def run(arguments: Sequence[str], *, echo: bool = False) -> Answer:
    """Runs the program and waits. `echo`: what it writes to stderr is shown while it runs.

    Raises HeterplanError for wrong usage, bad input and internal errors; status 2, which is an answer, is
    returned. Warnings become HeterplanWarning.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            [str(find_program()), *arguments], env=environment(), text=True, encoding="utf-8",
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE,
        )  # fmt: skip
        with process:
            errors = _listen(process, echo)
        output.seek(0)
        answer = Answer(process.returncode, output.read(), errors)
    for each in answer.diagnostics:
        if each.severity == "warning":
            warnings.warn(str(each), HeterplanWarning, stacklevel=3)
    if answer.status not in (0, _NO_ANSWER):
        raise HeterplanError(answer.errors.strip(), answer.status)
    return answer


def _listen(process: subprocess.Popen[str], echo: bool) -> str:
    """Reads the standard error of the program until it ends. Ctrl-C ends it, and then this process
    as usual."""
    assert process.stderr is not None
    lines = []
    try:
        for line in process.stderr:
            lines.append(line)
            if echo:
                sys.stderr.write(line)
    except BaseException:
        process.terminate()
        raise
    return "".join(lines)


def expect_done(answer: Answer) -> Answer:
    """Raises CheckFailed where the program's status says that a check failed."""
    if answer.status == _NO_ANSWER:
        raise CheckFailed((answer.errors + answer.output).strip(), answer.status)
    return answer


def option_words(options: Mapping[str, object]) -> list[str]:
    """Keyword arguments as options: `max_devices={"v100": 2}` is `--max-devices v100=2`, `pareto=True` is
    `--pareto`, None and False are left out, lists repeat their option."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, Mapping):
            words += [word for key, each in value.items() for word in (option, f"{key}={each}")]
        elif isinstance(value, (list, tuple)):
            words += [word for each in value for word in (option, _text(each))]
        else:
            words += [option, _text(value)]
    return words


def _text(value: object) -> str:
    """The text of one value; several names (of colocate and separate) are joined."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def runtime() -> ModuleType:
    """The package heterplan_runtime that belongs to the program, imported from beside it."""
    import importlib.util

    if "heterplan_runtime" in sys.modules:
        return sys.modules["heterplan_runtime"]
    program = find_program().resolve()
    for folder in ("share/heterplan/runtime", "../lib/codegen/runtime"):
        start = program.parents[1] / folder / "heterplan_runtime/__init__.py"
        if start.is_file():
            break
    else:
        raise HeterplanError(f"the package heterplan_runtime is not beside {program}")
    spec = importlib.util.spec_from_file_location(
        "heterplan_runtime", start, submodule_search_locations=[str(start.parent)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["heterplan_runtime"] = module
    spec.loader.exec_module(module)
    return module
