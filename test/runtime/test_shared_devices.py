"""Plans in which a device runs several stages: written by hand, lowered, simulated and really run."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from generated import BINARY, SOURCE
from ranks import run_ranks

EMIT_PLAN = BINARY.with_name("emit-plan")
DATA = SOURCE / "test/data"
PLANS = {"nested-cnn": "cnn", "interleaved-mlp": "mlp"}


@pytest.fixture(params=PLANS)
def package(request: Any, tmp_path: Path) -> Path:
    """The directory of a plan, as `compile` would write it."""
    return emit(request.param, DATA / f"parts/{request.param}.plan.json", tmp_path)


def emit(name: str, plan: Path, tmp_path: Path) -> Path:
    if not EMIT_PLAN.is_file():
        pytest.skip(f"{EMIT_PLAN} is not built")
    folder = tmp_path / name
    run = subprocess.run(
        [
            EMIT_PLAN, plan, DATA / f"small/{PLANS[name]}.onnx", DATA / "parts/four-cores.yaml", folder,
        ],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    planned, simulated = map(float, re.findall(r"([0-9.e-]+) s,", run.stdout))
    assert planned == pytest.approx(simulated, rel=1e-6), "the plan states what is simulated"
    return folder


def programs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((folder / "ranks").iterdir())]


def test_it_trains_as_one_process(package: Path, tmp_path: Path):
    ranks = programs(package)
    result, trace = tmp_path / "result.json", tmp_path / "trace.json"
    outcomes = run_ranks(
        len(ranks), tmp_path / "logs",
        [str(package), "--json", str(result), "--trace", str(trace), "--check", "--steps", "6", "--lr", "0.05"],
    )  # fmt: skip
    assert [outcome.status for outcome in outcomes] == [0] * len(ranks), outcomes
    found = json.loads(result.read_text())
    assert found["checkPassed"]
    assert found["losses"] == pytest.approx(found["referenceLosses"], rel=1e-4)
    assert found["losses"][-1] != pytest.approx(found["losses"][0], rel=1e-3), "nothing trained"
    events = json.loads(trace.read_text())["traceEvents"]
    for rank, program in enumerate(ranks):
        own = [event for event in events if event["ph"] == "X" and event["tid"] == rank]
        assert [event["name"] for event in own] == [i["op"] for i in program["instructions"]]
        stages = [part["stage"] for part in program["parts"]]
        assert [event["pid"] for event in own] == [
            stages[i["part"]] for i in program["instructions"]
        ]


def test_shares_of_several_stages_of_a_device_move(package: Path, tmp_path: Path):
    """The shares of each stage move by themselves; the last stage of each step but the first has
    all samples."""
    ranks = programs(package)
    stages: dict[int, list[int]] = {}
    for program in ranks:
        for part in program["parts"]:
            stages.setdefault(part["stage"], []).append(part["samples"]["count"])
    decisions = []
    for step, wanted in enumerate((range(1, 9), range(8, 0, -1), (0, 0, 0, 0, 0, 0, 0, 1)), 1):
        for stage, own in stages.items():
            weights = list(wanted)[-len(own) :]
            bounds = [sum(own) * sum(weights[:i]) // sum(weights) for i in range(len(own) + 1)]
            shares = [b - a for a, b in zip(bounds, bounds[1:])]
            decisions.append({"step": step, "stage": stage, "shares": shares})
    replay, result = tmp_path / "replay.json", tmp_path / "result.json"
    replay.write_text(json.dumps({"balance": {"decisions": decisions}}))
    outcomes = run_ranks(
        len(ranks), tmp_path / "logs",
        [str(package), "--json", str(result), "--check", "--steps", "5", "--balance", f"replay:{replay}"],
    )  # fmt: skip
    assert [outcome.status for outcome in outcomes] == [0] * len(ranks), outcomes
    assert json.loads(result.read_text())["checkPassed"]


def smaller(name: str, divisor: int, missing: int) -> dict[str, Any]:
    """The plan with a part of its samples, of which so many are missing: the last replica of each stage
    has them less."""
    plan = json.loads((DATA / f"parts/{name}.plan.json").read_text())
    plan["globalBatch"] = plan["globalBatch"] // divisor - missing
    plan["throughput"] = plan["objectiveValue"] = plan["globalBatch"] / plan["iterationSeconds"]
    for stage in plan["stages"]:
        for replica in stage["replicas"]:
            replica["share"] //= divisor
        stage["replicas"][-1]["share"] -= missing
    return plan


@pytest.mark.parametrize(
    ("name", "divisor", "missing"), [("nested-cnn", 1, 1), ("interleaved-mlp", 1, 4)]
)
def test_micro_batches_that_differ_train_as_one_process(name: str, divisor: int, missing: int, tmp_path: Path):
    path = tmp_path / "changed.plan.json"
    path.write_text(json.dumps(smaller(name, divisor, missing)))
    folder = emit(name, path, tmp_path)
    ranks = programs(folder)
    counts = [
        {each["samples"].get("count", 0) for each in program["instructions"] if each["op"] == "forward"}
        for program in ranks
    ]
    assert any((0 in own) == (divisor == 2) and len(own) > 1 for own in counts), counts
    result = tmp_path / "result.json"
    outcomes = run_ranks(
        len(ranks), tmp_path / "logs",
        [str(folder), "--json", str(result), "--check", "--steps", "4", "--lr", "0.05"],
    )  # fmt: skip
    assert [outcome.status for outcome in outcomes] == [0] * len(ranks), outcomes
    assert json.loads(result.read_text())["checkPassed"]


def test_devices_run_several_stages(package: Path):
    parts = [[part["stage"] for part in program["parts"]] for program in programs(package)]
    nested = [[0, 1, 2], [0, 1, 2], [0, 2], [0, 2]]
    assert parts == (nested if package.name == "nested-cnn" else [[0, 2], [1, 3]])


def test_the_simulator_reads_the_directory(package: Path):
    run = subprocess.run(
        [BINARY, "simulate", package, "--json"], capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout)
    assert found["iterationSeconds"] == pytest.approx(found["plannedSeconds"], rel=1e-6)
    assert found["eagerSeconds"] == found["iterationSeconds"]
    assert 0 <= found["bubbleShare"] < 1
    ranks = [sum(stage in p for p in map(stages_of, programs(package))) for stage in range(4)]
    assert [stage["ranks"] for stage in found["stages"]] == [count for count in ranks if count]


def stages_of(program: dict[str, Any]) -> list[int]:
    return [part["stage"] for part in program["parts"]]


def test_a_damaged_order_is_refused(package: Path):
    """The rank executes its last part first: it would wait for itself."""
    path = package / "ranks/0000.json"
    program = json.loads(path.read_text())
    last = len(program["parts"]) - 1
    program["instructions"].sort(key=lambda each: each["part"] != last)
    path.write_text(json.dumps(program))
    run = subprocess.run([BINARY, "simulate", package], capture_output=True, text=True)
    assert run.returncode == 1
    assert "wait for each other for ever" in run.stderr
