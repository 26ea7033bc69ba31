"""`simulate --speeds` decides as the runtime does: the same predictors and shares, in another language."""

from __future__ import annotations

import csv
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from binary import heterplan, needs_binary
from heterplan_runtime.predictors import PREDICTORS, Observation
from heterplan_runtime.shares import TimeModel, even, fill

SOURCE = Path(__file__).resolve().parents[2]
WORKERS, ITERATIONS, EVERY, HYSTERESIS = 4, 120, 3, 0.05
CLUSTER = """
name: workers
device_types: {worker: {kind: cpu, memory: 64GiB, catalogue: cpu-core}}
nodes: [{name: worker, count: 4, devices: {worker: 1}}]
network: {bandwidth: 100Gbit/s, latency: 5us}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("simulated")
    (folder / "workers.yaml").write_text(CLUSTER)
    heterplan(
        "compile", SOURCE / "test/data/small/cnn.onnx", "--cluster", folder / "workers.yaml",
        "--batch", 512, "--micro-batches", 2, "--schedule", "data-parallel", "--shard-state", "none",
        "-o", folder / "plan",
    )  # fmt: skip
    return folder / "plan"


def simulate(plan: Path, kind: str, trace: Path, *options: object) -> dict[str, Any]:
    text = heterplan(
        "simulate", plan, "--speeds", kind, "--iterations", ITERATIONS, "--seed", 3, "--write-speeds",
        trace, "--balance-every", EVERY, "--balance-hysteresis", HYSTERESIS, "--json", *options,
    )  # fmt: skip
    return {each["policy"]: each for each in json.loads(text)["policies"]}


def replica_times(plan: Path) -> tuple[list[float], list[float], list[int]]:
    """Of each rank: passes for a sample of each micro-batch, update, and share of a micro-batch."""
    samples, updates, shares = [], [], []
    for rank in range(WORKERS):
        program = json.loads((plan / "ranks" / f"{rank:04d}.json").read_text())
        share = program["parts"][0]["samples"]["count"]
        by_op: dict[str, float] = {}
        for each in program["instructions"]:
            by_op[each["op"]] = by_op.get(each["op"], 0.0) + each.get("seconds", 0.0)
        samples.append(sum(by_op.get(op, 0.0) for op in ("load", "forward", "backward")) / share)
        updates.append(by_op["step"])
        shares.append(share)
    return samples, updates, shares


def read(trace: Path) -> list[list[tuple[float, float, float]]]:
    """By iteration and worker: speed, CPU and memory use."""
    with trace.open() as file:
        rows = [[float(cell) for cell in row[1:]] for row in list(csv.reader(file))[1:]]
    return [[tuple(row[3 * w : 3 * w + 3]) for w in range(WORKERS)] for row in rows]  # type: ignore[misc]


@needs_binary
@pytest.mark.parametrize("kind", ["steps", "heavy-tailed"])
@pytest.mark.parametrize("name", list(PREDICTORS))
def test_decisions_are_those_of_the_runtime(plan: Path, tmp_path: Path, name: str, kind: str) -> None:
    found = simulate(plan, kind, tmp_path / "t.csv", "--balance", f"lb-bsp-{name}")
    states = read(tmp_path / "t.csv")
    samples, updates, shares = replica_times(plan)
    predictors = [PREDICTORS[name]() for _ in range(WORKERS)]
    wanted = []
    for step in range(EVERY, ITERATIONS, EVERY):
        models = []
        for rank, predictor in enumerate(predictors):
            times = [samples[rank] / states[i][rank][0] for i in range(step - EVERY, step)]
            last = states[step - 1][rank]
            predictor.observe(Observation(1 / statistics.median(times), last[1], last[2]))
            models.append(TimeModel(1 / predictor.predict(), updates[rank] / last[0]))
        better = fill(models, sum(shares), [sum(shares)] * WORKERS)
        before = max(model(share) for model, share in zip(models, shares, strict=True))
        after = max(model(share) for model, share in zip(models, better, strict=True))
        if better != shares and after <= before * (1 - HYSTERESIS):
            shares = better
            wanted.append((step, shares, before, after))
    decisions = found[f"lb-bsp-{name}"]["decisions"]
    assert len(wanted) > 5 and len(decisions) == len(wanted)
    for each, (step, own, before, after) in zip(decisions, wanted, strict=True):
        assert (each["step"], each["shares"]) == (step, own)
        assert each["beforeSeconds"] == pytest.approx(before, rel=1e-9)
        assert each["seconds"] == pytest.approx(after, rel=1e-9)


@needs_binary
def test_iterations_take_what_their_slowest_worker_takes(plan: Path, tmp_path: Path) -> None:
    """By hand: the slowest worker, then the sum of the gradients; and nobody beats the oracle."""
    found = simulate(plan, "bursts", tmp_path / "t.csv")
    states = read(tmp_path / "t.csv")
    samples, updates, planned = replica_times(plan)
    program = json.loads((plan / "ranks/0000.json").read_text())
    reducing = sum(e.get("seconds", 0.0) for e in program["instructions"] if e["op"] == "allReduce")
    shares = even(sum(planned), WORKERS)
    for state, taken in zip(states, found["even"]["stepSeconds"], strict=True):
        passes = max(samples[w] * shares[w] / state[w][0] for w in range(WORKERS))
        update = max(updates[w] / state[w][0] for w in range(WORKERS))
        assert taken == pytest.approx(passes + reducing + update, rel=1e-9)
    for name in ("plan", "even", "static", *(f"lb-bsp-{p}" for p in PREDICTORS)):
        assert found["oracle"]["totalSeconds"] <= found[name]["totalSeconds"] * (1 + 1e-9)
    assert found["static"]["totalSeconds"] <= found["even"]["totalSeconds"] * 1.05
    assert found["asp"]["totalSeconds"] <= found["ssp"]["totalSeconds"] * (1 + 1e-9)
    assert found["lb-bsp-last"]["totalSeconds"] < found["even"]["totalSeconds"]


@needs_binary
def test_ssp_by_hand(plan: Path, tmp_path: Path) -> None:
    """At constant speeds, the fastest worker gets `staleness` ahead of the slowest and then waits
    for it."""
    trace = tmp_path / "constant.csv"
    trace.write_text("speed,a,b,c,d\n" + "".join(f"{i},1,1,1,0.25\n" for i in range(60)))
    text = heterplan("simulate", plan, "--speeds", trace, "--balance", "ssp", "--staleness", 2, "--json")
    (found,) = json.loads(text)["policies"]
    samples, updates, planned = replica_times(plan)
    program = json.loads((plan / "ranks/0000.json").read_text())
    reducing = sum(e.get("seconds", 0.0) for e in program["instructions"] if e["op"] == "allReduce")
    slowest = (samples[3] * sum(planned) / WORKERS + updates[3]) / 0.25 + reducing
    done = 59.0  # mini-batches of the slowest when all 240 are done: three others are some ahead
    assert found["totalSeconds"] == pytest.approx(slowest * done, rel=0.03)
