"""Plans whose stages have degrees of their own, against a list of all such plans; what else is said about them."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from compare import BINARY
from degrees import Instance, Kind, Prices, check, compiled, instance_of, judge


def example(folder: Path) -> tuple[list[str], dict]:
    """A body that one device has no room for, and a head that gains nothing from two."""
    shard = {"degree": 2, "parameterBytes": 50e6, "activationBytes": 1e6}
    head = {"degree": 2, "parameterBytes": 1e6, "activationBytes": 1e5}
    instance = Instance(
        [
            {"name": "l0", "parameterBytes": 100e6, "activationBytes": 2e6, "shards": [shard]},
            {"name": "l1", "parameterBytes": 1e6, "activationBytes": 1e5, "shards": [head]},
        ],
        [1e4],
        {"a": Kind(1, 3, 200e6, (1e10, 1e-6))},
        (1e9, 1e-5),
        8,
        {(layer, "a", degree): (0, 1e-3) for layer in (0, 1) for degree in (1, 2)},
    )
    arguments = instance.files(folder)
    plan = compiled(folder, arguments)
    assert plan is not None and [stage.get("shardDegree", 1) for stage in plan["stages"]] == [2, 1]
    return arguments, plan


def verified(folder: Path, arguments: list[str]) -> subprocess.CompletedProcess:
    model, *costs = arguments[: arguments.index("--batch")]
    command = [str(BINARY), "verify", str(folder / "out" / "plan.json"), "--model", model, *costs]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("seed", range(7000, 7012))
def test_auto_keeps_the_best_of_each_degree_and_of_all(tmp_path: Path, seed: int):
    """Plans of one degree may have neighbours in a node, which plans of all degrees have not."""
    instance = instance_of(seed)
    arguments = instance.files(tmp_path)
    most = max(kind.per_node for kind in instance.kinds.values())
    options = [[], *(["--tensor-parallel", str(degree)] for degree in (1, 2, 4) if degree <= most)]
    plans = [plan for more in options if (plan := compiled(tmp_path, arguments, *more))]
    best = compiled(tmp_path, arguments, "--tensor-parallel", "auto")
    assert (best is None) == (not plans)
    if best:
        assert best["throughput"] == pytest.approx(max(plan["throughput"] for plan in plans), rel=1e-12)
        assert best["lowerBound"] >= max(plan["throughput"] for plan in plans) * (1 - 1e-12)
        run = verified(tmp_path, arguments)
        assert run.returncode == 0, run.stdout + run.stderr


def test_auto_passes_over_a_degree_that_a_pin_rules_out(tmp_path: Path):
    arguments, plan = example(tmp_path)
    pinned = compiled(tmp_path, arguments, "--tensor-parallel", "auto", "--pin", "l0=a×2")
    assert pinned is not None and pinned["throughput"] == plan["throughput"]


def test_the_checker_finds_planted_faults(tmp_path: Path):
    arguments, plan = example(tmp_path)
    run = verified(tmp_path, arguments)
    assert run.returncode == 0, run.stdout + run.stderr
    (tmp_path / "out" / "manifest.json").unlink(missing_ok=True)

    def faulty(spoil) -> str:
        spoiled = json.loads(json.dumps(plan))
        spoil(spoiled)
        (tmp_path / "out" / "plan.json").write_text(json.dumps(spoiled))
        run = verified(tmp_path, arguments)
        assert run.returncode == 2 or (run.returncode == 1 and "error" in run.stderr), run.stdout
        return run.stdout + run.stderr

    def device(of: dict, stage: int, number: int = 0) -> dict:
        return of["stages"][stage]["replicas"][0]["devices"][number]

    alone = device(plan, 1).get("index", 0)
    inside = device(plan, 0, 1)["index"]
    assert alone != inside
    assert "the other stage" in faulty(lambda of: device(of, 1).update(index=inside))
    assert "not in the cluster" in faulty(lambda of: device(of, 1).update(index=7))
    assert "a replica of 2 devices" in faulty(lambda of: of["stages"][0].update(shardDegree=1))
    assert "memory" in faulty(lambda of: of["stages"][0].update(memoryBytes=1e6))
    assert "timing" in faulty(lambda of: of["stages"][0].update(forwardSeconds=1e-9))


def test_plans_of_unequal_degrees_have_a_program_for_each_device(tmp_path: Path):
    _, plan = example(tmp_path)
    ranks = [json.loads(path.read_text()) for path in sorted((tmp_path / "out/ranks").iterdir())]
    devices = [device for stage in plan["stages"] for device in stage["replicas"][0]["devices"]]
    assert [rank["device"] for rank in ranks] == devices
    run = subprocess.run(
        [str(BINARY), "simulate", str(tmp_path / "out"), "--json"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    simulated = json.loads(run.stdout)["iterationSeconds"]
    assert simulated == pytest.approx(plan["iterationSeconds"], rel=1e-6)


def test_the_simulator_overlaps_transfers_of_shards(tmp_path: Path):
    arguments, waiting = example(tmp_path)
    plan = compiled(tmp_path, arguments, "--overlap-transfers")
    assert plan is not None and [stage.get("shardDegree", 1) for stage in plan["stages"]] == [2, 1]
    assert plan["iterationSeconds"] < waiting["iterationSeconds"]
    run = subprocess.run(
        [str(BINARY), "simulate", str(tmp_path / "out"), "--json"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["iterationSeconds"] == pytest.approx(plan["iterationSeconds"], rel=1e-6)
    assert verified(tmp_path, arguments).returncode == 0


def test_degrees_of_a_file_are_asked_for(tmp_path: Path):
    arguments, _ = example(tmp_path)
    one = compiled(tmp_path, arguments, "--tensor-parallel", "1")
    assert one is None, "a device has no room for the body"
    two = compiled(tmp_path, arguments, "--tensor-parallel", "2")
    assert two is not None and all(stage["shardDegree"] == 2 for stage in two["stages"])
    joint = compiled(tmp_path, arguments, "--tensor-parallel", "auto", "--threads", "2")
    assert joint.pop("degreesCompared"), "each degree of all stages is compared, too"
    assert joint == compiled(tmp_path, arguments, "--threads", "1")
    refused = subprocess.run(
        [str(BINARY), "compile", *arguments, "--tensor-parallel", "4", "-o", str(tmp_path / "o")],
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 1 and "no layers of one of 4 devices" in refused.stderr


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.sweep) for n in (40, 80))])
def test_plans_are_the_best_of_all_degrees(tmp_path: Path, first: int):
    counts: Counter = Counter()
    for seed in range(first, first + 40):
        verdict = judge(seed, tmp_path)
        assert not verdict.disagreements, seed
        counts.update(verdict.counts)
    assert counts["stages of unequal degrees"] > 2
    assert counts["sharded parameters"] > 10
    assert counts["overlapped transfers"] > 10


def test_the_list_finds_planted_faults(tmp_path: Path):
    prices = Prices(instance_of(0))
    prices.list_all()
    plan = compiled(tmp_path, prices.of.files(tmp_path))
    assert plan is not None and not check(plan, prices).disagreements

    def faulty(**changes: float) -> list[str]:
        return check({**plan, **changes}, prices).disagreements

    seconds = plan["iterationSeconds"]
    assert "the bound is not one" in faulty(lowerBound=prices.of.batch / (prices.best * 1.01))
    assert "not optimal" in faulty(iterationSeconds=seconds * 1.001, optimal=True)
    assert "more than 1 % behind" in faulty(iterationSeconds=seconds * 1.02)
    assert "better than the best" in faulty(iterationSeconds=seconds * 0.999)
    assert check(None, prices).disagreements
