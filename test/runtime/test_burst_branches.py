"""A burst plan whose branches lie side by side: what it states, and a real run on four CPU ranks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from generated import BINARY, SOURCE
from ranks import assert_trains_as_one_process

DATA = SOURCE / "test/data"
MODEL = DATA / "small/branches.onnx"
CLUSTER = DATA / "parts/dear-messages.yaml"


def heterplan(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("branches") / "plan"
    run = heterplan(
        "compile", MODEL, "--cluster", CLUSTER, "--batch", "16", "--schedule", "burst", "-o", folder, "--json",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return folder, json.loads(run.stdout)


def test_branches_have_devices_of_their_own(planned: tuple[Path, dict[str, Any]]):
    _, plan = planned
    joins = [stage for stage in plan["stages"] if len(stage.get("inputs", [])) > 1]
    assert joins
    for join in joins:
        lanes = [
            plan["stages"][each.get("stage", 0)] for each in join["inputs"]
            if plan["stages"][each.get("stage", 0)]["inputs"] == plan["stages"][join["id"] - 1]["inputs"]
            or each.get("stage", 0) == join["id"] - 1
        ]  # fmt: skip
        devices = [device.get("index", 0) for lane in lanes for each in lane["replicas"] for device in each["devices"]]
        assert len(devices) == len(set(devices)) <= 4
    assert any("side by side" in words for words in plan["searchSpaceLimits"])


def test_the_checker_and_the_simulator_agree(planned: tuple[Path, dict[str, Any]]):
    folder, plan = planned
    run = heterplan("simulate", folder, "--json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["iterationSeconds"] == pytest.approx(plan["iterationSeconds"], rel=1e-9)
    run = heterplan("verify", folder, "--model", MODEL, "--cluster", CLUSTER)
    assert run.returncode == 0, run.stdout + run.stderr


def test_it_trains_as_one_process(planned: tuple[Path, dict[str, Any]], tmp_path: Path):
    folder, _ = planned
    assert_trains_as_one_process(folder, 4, tmp_path)


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda stage: stage["inputs"][0].update(receiveSeconds=1.0), "timing"),
        (lambda stage: stage["inputs"].pop(), ""),
        (lambda stage: stage["inputs"].reverse(), ""),
    ],
)
def test_other_inputs_are_refused(planned: tuple[Path, dict[str, Any]], tmp_path: Path, change: Any, check: str):
    plan = json.loads((planned[0] / "plan.json").read_text())
    change(next(stage for stage in plan["stages"] if len(stage.get("inputs", [])) > 1))
    changed = tmp_path / "plan.json"
    changed.write_text(json.dumps(plan))
    run = heterplan("verify", changed, "--model", MODEL, "--cluster", CLUSTER)
    if check:
        assert run.returncode == 2
        assert any(line.startswith(f"{check} FAILS:") for line in run.stdout.splitlines()), run.stdout
    else:
        assert run.returncode == 1 and "inputs" in run.stderr + run.stdout or "input" in run.stderr
