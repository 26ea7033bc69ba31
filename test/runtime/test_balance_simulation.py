"""`simulate --speeds` decides as the runtime does: the same predictors and shares, in another language."""

from __future__ import annotations

import csv
import json
import statistics
from dataclasses import dataclass
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
nodes: [{name: worker, count: 4, devices: {worker: DEGREE}, link: {bandwidth: 300GB/s, latency: 1us}}]
network: {bandwidth: 100Gbit/s, latency: 5us}
"""


@dataclass(frozen=True)
class SharedPlan:
    """A plan of WORKERS replicas, each of `degree` devices that share every layer."""

    folder: Path
    degree: int


@pytest.fixture(scope="module", params=[1, 2], ids=["whole layers", "shared layers"])
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SharedPlan:
    degree: int = request.param
    folder: Path = tmp_path_factory.mktemp("simulated")
    (folder / "workers.yaml").write_text(CLUSTER.replace("DEGREE", str(degree)))
    heterplan(
        "compile", SOURCE / "test/data/small/cnn.onnx", "--cluster", folder / "workers.yaml",
        "--batch", 512, "--micro-batches", 2, "--schedule", "data-parallel", "--shard-state", "none",
        "--tensor-parallel", degree, "-o", folder / "plan",
    )  # fmt: skip
    return SharedPlan(folder / "plan", degree)


def simulate(plan: SharedPlan, kind: str, trace: Path, *options: object) -> dict[str, Any]:
    text = heterplan(
        "simulate", plan.folder, "--speeds", kind, "--iterations", ITERATIONS, "--seed", 3, "--write-speeds",
        trace, "--balance-every", EVERY, "--balance-hysteresis", HYSTERESIS, "--json", *options,
    )  # fmt: skip
    return {each["policy"]: each for each in json.loads(text)["policies"]}


def program_of(plan: SharedPlan, replica: int) -> Any:
    """The program of the first of the devices that share the layers of a replica."""
    return json.loads((plan.folder / "ranks" / f"{replica * plan.degree:04d}.json").read_text())


def replica_times(plan: SharedPlan) -> tuple[list[float], list[float], list[int]]:
    """The times of each replica for a sample of each micro-batch and for the update, and its share."""
    samples, updates, shares = [], [], []
    for replica in range(WORKERS):
        program = program_of(plan, replica)
        share = program["parts"][0]["samples"]["count"]
        by_op: dict[str, float] = {}
        for each in program["instructions"]:
            by_op[each["op"]] = by_op.get(each["op"], 0.0) + each.get("seconds", 0.0)
        samples.append(sum(by_op.get(op, 0.0) for op in ("load", "forward", "backward")) / share)
        updates.append(by_op["step"])
        shares.append(share)
    return samples, updates, shares


def read(trace: Path, plan: SharedPlan) -> list[list[tuple[float, float, float]]]:
    """By iteration and replica: speed, CPU and memory use of the slowest of its workers."""
    workers = WORKERS * plan.degree
    with trace.open() as file:
        rows = [[float(cell) for cell in row[1:]] for row in list(csv.reader(file))[1:]]
    states = [[(row[3 * w], row[3 * w + 1], row[3 * w + 2]) for w in range(workers)] for row in rows]
    return [
        [min(own[first : first + plan.degree], key=lambda state: state[0]) for first in range(0, workers, plan.degree)]
        for own in states
    ]


@needs_binary
@pytest.mark.parametrize("kind", ["steps", "heavy-tailed"])
@pytest.mark.parametrize("name", list(PREDICTORS))
def test_decisions_are_those_of_the_runtime(plan: SharedPlan, tmp_path: Path, name: str, kind: str) -> None:
    found = simulate(plan, kind, tmp_path / "t.csv", "--balance", f"lb-bsp-{name}")
    states = read(tmp_path / "t.csv", plan)
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
def test_iterations_take_what_their_slowest_worker_takes(plan: SharedPlan, tmp_path: Path) -> None:
    """By hand: the slowest worker, then the sum of the gradients; and nobody beats the oracle."""
    found = simulate(plan, "bursts", tmp_path / "t.csv")
    states = read(tmp_path / "t.csv", plan)
    samples, updates, planned = replica_times(plan)
    program = program_of(plan, 0)
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
def test_ssp_by_hand(plan: SharedPlan, tmp_path: Path) -> None:
    """At constant speeds, the fastest worker gets `staleness` ahead of the slowest and then waits
    for it."""
    trace = tmp_path / "constant.csv"
    names = ",".join(f"w{worker}" for worker in range(WORKERS * plan.degree))
    speeds = ",".join(["1"] * (WORKERS * plan.degree - 1)) + ",0.25"
    trace.write_text(f"speed,{names}\n" + "".join(f"{i},{speeds}\n" for i in range(60)))
    text = heterplan("simulate", plan.folder, "--speeds", trace, "--balance", "ssp", "--staleness", 2, "--json")
    (found,) = json.loads(text)["policies"]
    samples, updates, planned = replica_times(plan)
    program = program_of(plan, 0)
    reducing = sum(e.get("seconds", 0.0) for e in program["instructions"] if e["op"] == "allReduce")
    slowest = (samples[3] * sum(planned) / WORKERS + updates[3]) / 0.25 + reducing
    done = 59.0  # mini-batches of the slowest when all 240 are done: three others are some ahead
    assert found["totalSeconds"] == pytest.approx(slowest * done, rel=0.03)
