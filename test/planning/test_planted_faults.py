"""Every field of a plan is checked, or `verify` names it among the claims that it does not check."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BINARY, CLUSTERS, SOURCE

MODEL = SOURCE / "test/data/small/cnn.onnx"
CLUSTER = CLUSTERS / "mixed-small.yaml"
KINDS = {
    "pipeline": ["--batch", "64", "--schedule", "pipeline", "--max-cost-per-hour", "50", "--epochs", "2",
                 "--samples", "1000"],
    "steady-state": ["--batch", "256", "--iteration-model", "steady-state"],
    "steady-state of replicas alone": ["--batch", "256", "--iteration-model", "steady-state", "--batch-norm", "local"],
    "burst": ["--batch", "64", "--amplification-limit", "4"],
}  # fmt: skip
# The version of the form, and numbers that the reader of plans works out again.
IGNORED = {"schemaVersion", "trainingSeconds", "trainingCost"}
INVENTED = {
    "checks": [],
    "alternatives": [{"name": "../../etc", "found": True}],
    "fits": [{"type": "v100", "computeMedian": 0.5}],
    "searchSpaceLimits": ["nothing"],
}


def paths(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The paths of all figures, texts and flags below `value`; of a list those of the last entry."""
    if isinstance(value, dict):
        for key, entry in value.items():
            if path or key not in IGNORED:
                yield from paths(entry, (*path, key))
    elif isinstance(value, list):
        if value:
            yield from paths(value[-1], (*path, len(value) - 1))
    else:
        yield path


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value * 1.5 + 1000  # no index of a device that is free
    return value + "x"


def planted(plan: dict, path: tuple, value: Any = None) -> dict:
    result = copy.deepcopy(plan)
    at = result
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = changed(at[path[-1]]) if value is None else value
    return result


def verify(plan: dict, file: Path) -> tuple[int, dict]:
    file.write_text(json.dumps(plan))
    run = subprocess.run(
        [BINARY, "verify", file, "--model", MODEL, "--cluster", CLUSTER, "--json"], capture_output=True, text=True
    )
    assert run.returncode in (0, 1, 2), run.stderr
    return run.returncode, json.loads(run.stdout) if run.returncode != 1 else {}


@pytest.mark.parametrize("kind", KINDS)
def test_no_planted_fault_is_accepted(kind: str, tmp_path: Path) -> None:
    compiled = subprocess.run(
        [BINARY, "compile", MODEL, "--cluster", CLUSTER, *KINDS[kind], "-o", tmp_path / "plan"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert compiled.returncode == 0, compiled.stderr
    plan = json.loads((tmp_path / "plan/plan.json").read_text())
    status, report = verify(plan, tmp_path / "plan.json")
    assert status == 0, report
    unchecked = {field for claim in report["notChecked"] for field in claim["fields"]}
    faults = [(path, None) for path in paths(plan)]
    faults += [((name,), value) for name, value in INVENTED.items()]
    accepted = [
        path
        for path, value in faults
        if verify(planted(plan, path, value), tmp_path / "fault.json")[0] == 0
        and (path[0] not in unchecked or value is not None and path[0] != "searchSpaceLimits")
    ]
    assert not accepted
