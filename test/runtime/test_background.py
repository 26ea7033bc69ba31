"""Background jobs in the gaps of burst plans: what `compile` writes, the feedback by which the copies give
way, and a real run of both jobs on four CPU ranks."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from generated import BINARY, SOURCE
from ranks import run_ranks

DATA = SOURCE / "test/data"
CLUSTER = DATA / "parts/burst-cores.yaml"
MODEL = DATA / "small/cnn.onnx"
BACKGROUND = DATA / "small/mlp.onnx"


def heterplan(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True)


def compiled(folder: Path, *options: str) -> dict[str, Any]:
    run = heterplan(
        "compile", MODEL, "--cluster", CLUSTER, "--batch", "16", "--schedule", "burst",
        "--amplification-limit", "1.5", "-o", folder, "--json", *options,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr + run.stdout
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("background") / "plan"
    return folder, compiled(
        folder, "--background", str(BACKGROUND), "--background-batch", "2", "--max-slowdown", "10%"
    )


def test_the_plan_says_what_the_copies_do(planned: tuple[Path, dict[str, Any]]):
    folder, plan = planned
    job = plan["background"]
    assert job["maxSlowdown"] == pytest.approx(0.1) and job["predictedSlowdown"] <= 0.1
    assert job["batch"] == 2 and job["memoryBytes"] > 0
    rates = [copy["samplesPerSecond"] for copy in job["copies"]]
    assert rates and min(rates) > 0
    assert job["samplesPerSecond"] == pytest.approx(sum(rates))
    beside = plan["throughput"] / (1 + job["predictedSlowdown"])
    assert job["clusterThroughput"] == pytest.approx(beside + sum(rates))
    assert job["clusterThroughput"] > plan["throughput"]
    idle = {json.dumps(gap["device"]) for gap in plan["idle"]}
    assert {json.dumps(copy["device"]) for copy in job["copies"]} <= idle
    copy = json.loads((folder / "background/plan.json").read_text())
    assert copy["iterationSeconds"] == pytest.approx(job["iterationSeconds"])
    assert len(copy["stages"]) > 1 and all(len(stage["replicas"]) == 1 for stage in copy["stages"])
    names = {check["name"] for check in plan["checks"]}
    assert {"background-memory", "background-idle", "background-slowdown"} <= names


def test_the_simulator_runs_both_programs(planned: tuple[Path, dict[str, Any]]):
    folder, plan = planned
    run = heterplan("simulate", folder, "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)["background"]
    assert found["slowdown"] == pytest.approx(plan["background"]["predictedSlowdown"])
    assert found["samplesPerSecond"] == pytest.approx(plan["background"]["samplesPerSecond"])


def verify(folder: Path, *options: object) -> subprocess.CompletedProcess[str]:
    return heterplan("verify", folder, "--model", MODEL, "--cluster", CLUSTER, *options)


def test_verification_takes_the_background_model(planned: tuple[Path, dict[str, Any]]):
    folder, _ = planned
    run = verify(folder, "--verbose")
    assert run.returncode == 0, run.stdout
    assert "background-copy: not checked" in run.stdout
    run = verify(folder, "--verbose", "--background", BACKGROUND)
    assert run.returncode == 0, run.stdout
    assert "background-copy" in run.stdout and "background-copy: not checked" not in run.stdout


@pytest.mark.parametrize(
    ("field", "value", "check"),
    [
        ("memoryBytes", 1e12, "background-memory"),
        ("iterationSeconds", 1e3, "background-idle"),
        ("predictedSlowdown", 0.5, "background-slowdown"),
        ("clusterThroughput", 1e9, "background-throughput"),
    ],
)
def test_a_changed_job_fails(
    planned: tuple[Path, dict[str, Any]], tmp_path: Path, field: str, value: float, check: str
):
    plan = json.loads((planned[0] / "plan.json").read_text())
    plan["background"][field] = value
    changed = tmp_path / "plan.json"
    changed.write_text(json.dumps(plan))
    run = verify(changed)
    assert run.returncode == 2
    assert any(line.startswith(f"{check} FAILS:") for line in run.stdout.splitlines()), run.stdout


def test_too_large_a_job_has_no_copies(tmp_path: Path):
    plan = compiled(
        tmp_path / "plan", "--background", str(BACKGROUND), "--background-batch", "100000000"
    )
    assert not plan["background"].get("copies")
    assert not (tmp_path / "plan/background").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--background", str(BACKGROUND)], "add --schedule burst"),
        (["--schedule", "burst", "--max-slowdown", "5%"], "name one by --background"),
        (["--schedule", "burst", "--background", "none.onnx"], "none.onnx"),
        (["--schedule", "burst", "--background", str(BACKGROUND), "--max-slowdown", "x"], "--max-slowdown"),
        (
            ["--schedule", "burst", "--background", str(BACKGROUND), "--pareto"],
            "--background with --pareto is not supported",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, options: list[str], message: str):
    run = heterplan("compile", MODEL, "--cluster", CLUSTER, "--batch", "16", "-o", tmp_path / "none", *options)
    assert run.returncode == 1
    assert message in run.stderr
    assert not (tmp_path / "none").exists()


def control(**values: Any) -> Any:
    from heterplan_runtime.background import SlowdownControl

    return SlowdownControl(**values)


def test_the_copies_wait_until_it_is_known_how_long_steps_take():
    from heterplan_runtime.background import BASELINE

    feedback = control(max_slowdown=0.1, warmup=2)
    for _ in range(2 + BASELINE):
        assert feedback.share == 0
        feedback.after_step(1.0)
    assert feedback.share == 1 and feedback.baseline == 1 and feedback.slowdown is None


def test_steps_that_are_too_long_take_gaps_back_and_others_return_them():
    from heterplan_runtime.background import BASELINE, LEAST_SHARE, WINDOW

    feedback = control(max_slowdown=0.1, warmup=0)
    for _ in range(BASELINE):
        feedback.after_step(1.0)
    shares = []
    for _ in range(3 * WINDOW):
        feedback.after_step(1.5)
        shares.append(feedback.share)
    assert shares[-1] == 1 / 8
    for _ in range(3 * WINDOW):
        feedback.after_step(1.05)
    assert feedback.share > shares[-1]
    for _ in range(20 * WINDOW):
        feedback.after_step(1.5 if feedback.share else 1.0)
    assert feedback.share in (0.0, LEAST_SHARE)
    assert feedback.slowdown == pytest.approx(0.5)


def test_a_machine_that_becomes_slower_is_not_taken_for_the_copies():
    from heterplan_runtime.background import AGAIN, BASELINE, REPEAT

    feedback = control(max_slowdown=0.1, warmup=0)
    for _ in range(BASELINE + REPEAT):
        feedback.after_step(1.0)
    assert feedback.share == 0, "measured anew now and then"
    for _ in range(20 * (REPEAT + AGAIN)):
        feedback.after_step(2.0)
    assert feedback.baseline == 2 and feedback._granted == 1


class FakeGate:
    def __init__(self, **values: float) -> None:
        self.values = {"gap_end": 0.0, "share": 1.0, "stop": 0.0} | values

    def get(self, name: str) -> float:
        return self.values[name]


def test_a_pass_is_begun_where_the_gap_is_long_enough():
    from heterplan_runtime.gap_filling import PATIENCE, LaunchControl

    gate: Any = FakeGate()
    launches = LaunchControl(gate, overrun=0.0)
    assert not launches._may_begin(0, 0.0), "the rank is busy"
    gate.values["gap_end"] = time.monotonic() + 60
    assert launches._may_begin(0, 0.0)
    launches._durations[0] = 100.0
    assert not launches._may_begin(0, 0.0), "it takes longer than the gap"
    assert launches._may_begin(0, PATIENCE + 1), "and has waited long enough"
    assert LaunchControl(gate, overrun=50.0)._may_begin(0, 0.0)
    gate.values["share"] = 0.0
    assert not launches._may_begin(0, PATIENCE + 1), "the copies are to wait"
    gate.values["stop"] = 1.0
    assert launches._may_begin(0, 0.0), "the rank has ended"


def test_gates_are_shared(tmp_path: Path):
    from heterplan_runtime.gap_gate import Gate

    one = Gate(tmp_path / "gate", create=True)
    other = Gate(tmp_path / "gate")
    assert other.get("share") == 0
    one.set("share", 0.25)
    other.set("samples", 7)
    assert (other.get("share"), one.get("samples")) == (0.25, 7)
    with pytest.raises(FileExistsError):
        Gate(tmp_path / "gate", create=True)


def test_both_jobs_train(planned: tuple[Path, dict[str, Any]], tmp_path: Path):
    folder, plan = planned
    result = tmp_path / "result.json"
    outcomes = run_ranks(
        4, tmp_path / "logs",
        [
            str(folder), "--json", str(result), "--check", "--steps", "30", "--no-save", "--threads", "1",
            "--background-options", "--lr 0.02",
        ],
    )  # fmt: skip
    assert [outcome.status for outcome in outcomes] == [0] * 4, outcomes
    found = json.loads(result.read_text())
    assert found["checkPassed"]
    assert found["losses"] == pytest.approx(found["referenceLosses"], rel=1e-4)
    job = found["background"]
    assert job["copies"] == len(plan["background"]["copies"])
    assert min(job["steps"]) > 0, job
    assert job["slowdown"] is not None and job["clusterThroughput"] > job["samplesPerSecond"]
    assert "cluster throughput" in outcomes[0].out


def test_without_it_the_plan_trains_alone(planned: tuple[Path, dict[str, Any]], tmp_path: Path):
    result = tmp_path / "result.json"
    outcomes = run_ranks(
        4, tmp_path / "logs",
        [str(planned[0]), "--json", str(result), "--steps", "2", "--no-save", "--no-background", "--threads", "1"],
    )  # fmt: skip
    assert [outcome.status for outcome in outcomes] == [0] * 4, outcomes
    assert "background" not in json.loads(result.read_text())
