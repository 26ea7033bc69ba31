"""Burst plans that `compile` makes: their files, and a real run on four CPU ranks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from generated import BINARY, SOURCE
from ranks import assert_trains_as_one_process

DATA = SOURCE / "test/data"
CLUSTER = DATA / "parts/burst-cores.yaml"
UNEQUAL = DATA / "parts/unequal-cores.yaml"


def compiled(folder: Path, *options: str, cluster: Path = CLUSTER) -> dict[str, Any]:
    run = subprocess.run(
        [
            BINARY, "compile", DATA / "small/cnn.onnx", "--cluster", cluster, "--batch", "16",
            "--schedule", "burst", "-o", folder, "--json", *options,
        ],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def widths(plan: dict[str, Any]) -> list[int]:
    return [len(stage["replicas"]) for stage in plan["stages"]]


def test_it_trains_as_one_process(tmp_path: Path):
    folder = tmp_path / "plan"
    plan = compiled(folder, "--amplification-limit", "1.5")
    assert max(widths(plan)) == 4 and len(set(widths(plan))) > 1
    assert plan["optimal"] and plan["schedule"] == "burst"
    ranks = sorted((folder / "ranks").iterdir())
    assert len(ranks) == 4
    assert_trains_as_one_process(folder, 4, tmp_path)


def types(stage: dict[str, Any]) -> set[str]:
    return {replica["devices"][0]["type"] for replica in stage["replicas"]}


def test_unequal_devices_train_as_one_process(tmp_path: Path):
    folder = tmp_path / "plan"
    plan = compiled(folder, "--amplification-limit", "3", cluster=UNEQUAL)
    widest = max(plan["stages"], key=lambda stage: len(stage["replicas"]))
    assert types(widest) == {"fast", "slow"} and len(set(widths(plan))) > 1
    assert all("fast" in types(stage) for stage in plan["stages"])
    shares = {(each["devices"][0]["type"], each["share"]) for each in widest["replicas"]}
    assert min(n for kind, n in shares if kind == "fast") > max(n for kind, n in shares if kind == "slow")
    assert all(check["holds"] for check in plan["checks"])
    run = subprocess.run([BINARY, "simulate", folder, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["iterationSeconds"] == pytest.approx(plan["iterationSeconds"], rel=1e-9)
    assert_trains_as_one_process(folder, 4, tmp_path)


def test_copies_of_a_background_job_are_on_devices_of_one_type(tmp_path: Path):
    plan = compiled(
        tmp_path / "plan", "--amplification-limit", "3", "--background", str(DATA / "small/cnn.onnx"),
        "--background-batch", "1", "--max-slowdown", "5%", cluster=UNEQUAL,
    )  # fmt: skip
    assert {copy["device"]["type"] for copy in plan["background"]["copies"]} == {"slow"}
    assert all(check["holds"] for check in plan["checks"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--schedule", "pipeline", "--amplification-limit", "2"], "with --schedule burst"),
        (["--objective", "gpu-seconds"], "is supported for bursts only"),
        (["--iteration-model", "burst"], "is not supported with schedules other than burst"),
        (["--schedule", "burst", "--strategy", "greedy"], "strategy 'greedy' is not supported"),
        (["--schedule", "burst", "--micro-batches", "4"], "4 micro-batches are not supported"),
        (["--schedule", "burst", "--recompute", "always"], "recomputation is not supported"),
        (["--schedule", "burst", "--amplification-limit", "0.5"], "--amplification-limit"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, options: list[str], message: str):
    run = subprocess.run(
        [
            BINARY, "compile", DATA / "small/cnn.onnx", "--cluster", CLUSTER, "--batch", "16",
            "-o", tmp_path / "none", *options,
        ],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 1
    assert message in run.stderr
    assert not (tmp_path / "none").exists()


def test_simulation_and_verification_agree(tmp_path: Path):
    folder = tmp_path / "plan"
    plan = compiled(folder, "--amplification-limit", "1.5")
    run = subprocess.run(
        [BINARY, "simulate", folder, "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout)["iterationSeconds"] == pytest.approx(
        plan["iterationSeconds"], rel=1e-9
    )
    verify = [
        BINARY, "verify", folder, "--model", DATA / "small/cnn.onnx", "--cluster", CLUSTER,
    ]  # fmt: skip
    run = subprocess.run(verify, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert all(stage["amplification"] <= 1.5 * (1 + 1e-9) for stage in plan["stages"])
    busy = sum(
        len(stage["replicas"])
        * (stage["forwardSeconds"] + stage["backwardSeconds"] + stage["syncSeconds"])
        for stage in plan["stages"]
    )
    assert plan["deviceSeconds"] == pytest.approx(busy, rel=1e-9)


@pytest.mark.parametrize("longest", [1.0, 1.2, 3.0])
def test_device_seconds_fall_as_more_time_is_allowed(tmp_path: Path, longest: float):
    fastest = compiled(tmp_path / "fastest")
    limit = fastest["iterationSeconds"] * longest * (1 + 1e-6)
    lean = compiled(
        tmp_path / "lean", "--objective", "gpu-seconds", "--max-iteration-time", repr(limit)
    )
    assert lean["iterationSeconds"] <= limit * (1 + 1e-9)
    assert lean["deviceSeconds"] <= fastest["deviceSeconds"] * (1 + 1e-9)
    assert lean["objectiveValue"] == lean["deviceSeconds"]


def test_a_longest_iteration_that_is_too_short_is_explained(tmp_path: Path):
    run = subprocess.run(
        [
            BINARY, "compile", DATA / "small/cnn.onnx", "--cluster", CLUSTER, "--batch", "16",
            "--schedule", "burst", "--amplification-limit", "1.2", "--max-iteration-time", "1e-4",
            "-o", tmp_path / "none",
        ],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 2, run.stderr
    assert "iterations of at most 0.0001 s" in run.stdout
    assert not (tmp_path / "none").exists()
