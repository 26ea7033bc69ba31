"""The measurements for the fidelity list on one machine, in files that outlive the checkout's build folder."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fidelity_report import Outcome, Run

DIGITS = 7  # of a second: the tenth of a microsecond


def machine() -> str:
    """The processor and how many of its cores there are, as the name of a folder: 'amd-epyc-2'."""
    name = platform.processor() or platform.machine()
    try:
        cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        name = re.search(r"^model name\s*: (.*)$", cpus, re.MULTILINE)[1]  # type: ignore[index]
    except (OSError, TypeError):
        pass
    words = re.sub(r"\((?:r|tm)\)|\b(?:cpu|processor)\b|@.*", " ", name.lower())
    return "-".join([*re.findall(r"[a-z0-9.]+", words), str(len(os.sched_getaffinity(0)))])


def known(folder: Path, model: str) -> list[Outcome]:
    """The results of earlier runs for this model."""
    path = _file(folder, model)
    if not path.exists():
        return []
    found = json.loads(path.read_text("utf-8"))
    return [Outcome(**{**o, "runs": tuple(_run(run) for run in o["runs"])}) for o in found]


def _run(found: dict[str, Any]) -> Run:
    times = {name: tuple(found[name]) for name in ("steps", "reference_kernels")}
    return Run(**{**found, **times})


def keep(folder: Path, model: str, outcomes: Sequence[Outcome]) -> None:
    """All of one model, in place of what its file had: a line for each run."""
    text = ",\n".join(_written(outcome) for outcome in outcomes)
    path = _file(folder, model)
    whole = path.with_suffix(".new")
    whole.write_text(f"[\n{text}\n]\n", encoding="utf-8")
    whole.replace(path)


def _written(outcome: Outcome) -> str:
    plan = asdict(outcome)
    runs = ",\n  ".join(json.dumps(_rounded(run)) for run in plan.pop("runs"))
    return json.dumps(plan)[:-1] + f', "runs": [\n  {runs}]}}'


def _rounded(run: dict[str, Any]) -> dict[str, Any]:
    times = {name: [round(each, DIGITS) for each in run[name]] for name in ("steps", "reference_kernels")}
    return {**run, **times, "others": round(run["others"], 4)}


def last_day(folder: Path) -> str:
    """On which one of the profiles there was measured."""
    dates = [json.loads(path.read_text("utf-8"))["date"] for path in folder.glob("*.profile.json")]
    return max(dates)[:10]


def _file(folder: Path, model: str) -> Path:
    return folder / f"{model}.outcomes.json"
