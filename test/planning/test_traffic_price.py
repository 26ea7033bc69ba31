"""The price of traffic between zones: part of the cost, kept within budgets, checked, and a reason to stay at home."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import BINARY

BATCH = 64
BYTES = {"l0": 3e5, "l1": 1e3, "l2": 2e5}  # of a sample, behind these layers
ZONES = ("near", "far", "third")


def model() -> dict:
    layers = [
        {
            "name": f"l{i}", "kind": "matmul", "forwardFlops": 2e10, "backwardFlops": 4e10, "forwardBytes": 1e7,
            "backwardBytes": 2e7, "parameterBytes": 1e8, "activationBytes": 1e6,
        }
        for i in range(4)
    ]  # fmt: skip
    tensors = [
        {"name": f"t{i}", "producer": f"l{i}", "consumers": [f"l{i + 1}"], "bytesPerSample": size}
        for i, size in enumerate(BYTES.values())
    ]
    return {"schemaVersion": "1.0", "model": "halves", "layers": layers, "tensors": tensors}


def machines(prices: tuple[float, float, float], devices: int = 1) -> dict:
    """Equal devices in three zones."""
    fast = {"bandwidth": "100Gbit/s", "latency": "5us"}
    gpu = {"kind": "gpu", "memory": "16GB", "price_per_hour": 3, "fp32": "20TFLOP/s", "bandwidth": "900GB/s"}
    return {
        "name": "zones",
        "device_types": {"gpu": gpu},
        "zones": [
            {"name": name, "network": dict(fast), "price_per_gb": price} for name, price in zip(ZONES, prices, strict=True)
        ],
        "nodes": [{"name": name, "zone": name, "devices": {"gpu": devices}, "link": dict(fast)} for name in ZONES],
        "network": {"bandwidth": "25Gbit/s", "latency": "50us"},
    }


@pytest.fixture
def heterplan(tmp_path: Path):
    (tmp_path / "m.layers.json").write_text(json.dumps(model()))

    def run(command: str, cluster: dict, *options: object) -> subprocess.CompletedProcess[str]:
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(cluster, sort_keys=False))
        where = ["--model", tmp_path / "m.layers.json"] if command != "compile" else []
        what = [tmp_path / "m.layers.json"] if command == "compile" else []
        words = [BINARY, command, *what, *options, *where, "--cluster", tmp_path / "c.yaml"]
        return subprocess.run(list(map(str, words)), capture_output=True, text=True)

    return run


def planned(heterplan, folder: Path, cluster: dict, *options: str) -> dict:
    done = heterplan("compile", cluster, "--batch", BATCH, "--force", "--json", "-o", folder, *options)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def zone_of(stage: dict) -> str:
    (zone,) = {device["node"] for replica in stage["replicas"] for device in replica["devices"]}
    return zone


def test_the_sender_pays_both_ways(heterplan, tmp_path: Path) -> None:
    prices = dict(zip(ZONES, (0.02, 0.09, 0.5), strict=True))
    cluster = machines(tuple(prices.values()))
    plan = planned(heterplan, tmp_path / "out", cluster, "--schedule", "pipeline")
    stages = plan["stages"]
    dollars = 0.0
    for before, behind in itertools.pairwise(stages):
        size = BYTES[before["layers"][-1]] * BATCH / 1e9
        dollars += size * (prices[zone_of(before)] + prices[zone_of(behind)]) * (zone_of(before) != zone_of(behind))
    assert dollars > 0
    assert plan["trafficCostPerIteration"] == pytest.approx(dollars)
    hours = plan["iterationSeconds"] / 3600
    assert plan["costPerHour"] == pytest.approx(3 * len(stages) + dollars / hours)
    assert plan["costPerMillionSamples"] == pytest.approx(plan["costPerHour"] * hours / BATCH * 1e6)
    done = heterplan("verify", cluster, tmp_path / "out")
    assert done.returncode == 0, done.stdout
    said = subprocess.run([BINARY, "inspect", tmp_path / "out"], capture_output=True, text=True).stdout
    assert f"of it ${dollars / hours:.2f}/h for what leaves zones" in said


def test_a_wrong_price_of_traffic_fails_its_check(heterplan, tmp_path: Path) -> None:
    cluster = machines((0.02, 0.09, 0.5))
    planned(heterplan, tmp_path / "out", cluster, "--schedule", "pipeline")
    plan = json.loads((tmp_path / "out/plan.json").read_text())
    for key in ("trafficCostPerIteration", "costPerHour"):
        (tmp_path / "plan.json").write_text(json.dumps(plan | {key: plan[key] * 1.001}))
        done = heterplan("verify", cluster, tmp_path / "plan.json")
        assert done.returncode == 2 and key in done.stdout, done.stdout


def test_the_same_plan_costs_more_than_without_prices(heterplan, tmp_path: Path) -> None:
    """A price that rises never makes the cheapest plan cheaper, and in the end nothing leaves a zone that charges."""
    worth = []
    for price in (0, 0.05, 1, 1000):
        cluster = machines((price, price, price))
        plan = planned(heterplan, tmp_path / "out", cluster, "--objective", "cost", "--min-throughput", "90")
        worth.append(plan["objectiveValue"])
        assert plan["lowerBound"] <= plan["objectiveValue"] * (1 + 1e-9)
    assert worth == sorted(worth) and worth[0] < worth[-1]


def test_a_budget_counts_traffic(heterplan, tmp_path: Path) -> None:
    cluster = machines((10, 10, 10))
    free = planned(heterplan, tmp_path / "free", cluster, "--schedule", "pipeline")
    budget = ("--schedule", "pipeline", "--max-cost-per-hour", str(free["costPerHour"] * 0.99))
    plan = planned(heterplan, tmp_path / "out", cluster, *budget)
    assert plan["costPerHour"] <= free["costPerHour"] * 0.99
    assert heterplan("verify", cluster, tmp_path / "out").returncode == 0


@pytest.mark.parametrize(
    "prices",
    [(0.1, 0.2, 0.3), *(pytest.param(each, marks=pytest.mark.sweep) for each in ((0, 2, 0.1), (5, 5, 0)))],
)
@pytest.mark.parametrize("objective", ["cost", "throughput"])
def test_no_placement_beats_the_bound(heterplan, tmp_path: Path, prices, objective: str) -> None:
    """Each pipeline of two stages, priced by `evaluate`."""
    cluster = machines(prices)
    best = planned(heterplan, tmp_path / "out", cluster, "--objective", objective, "--schedule", "pipeline")
    sign = -1 if objective == "throughput" else 1
    for cut, (first, second), count in itertools.product(range(3), itertools.permutations(ZONES, 2), (1, 4, 16)):
        stages = [
            {"layers": ["l0", f"l{cut}"], "devices": {f"gpu in {first}": 1}},
            {"layers": [f"l{cut + 1}", "l3"], "devices": {f"gpu in {second}": 1}},
        ]
        (tmp_path / "p.yaml").write_text(yaml.safe_dump({"microBatches": count, "stages": stages}, sort_keys=False))
        done = heterplan("evaluate", cluster, tmp_path / "p.yaml", "--batch", BATCH, "--objective", objective, "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert sign * best["lowerBound"] <= sign * found["objectiveValue"] * (1 + sign * 1e-9)


def test_a_placement_may_name_the_zone_of_its_devices(heterplan, tmp_path: Path) -> None:
    """Nodes are called otherwise than their zones; two nodes of one zone are unlike."""
    cluster = machines((0.02, 0.09, 0.5), devices=2)
    for node in cluster["nodes"]:
        node["name"] = f"box-{node['name']}"
    cluster["nodes"].append({**cluster["nodes"][1], "name": "larger", "devices": {"gpu": 3}, "link": dict(cluster["nodes"][1]["link"])})
    cluster["nodes"].append({"name": "other", "zone": "third", "devices": {"other": 1}})
    cluster["device_types"]["other"] = dict(cluster["device_types"]["gpu"])

    def evaluated(first: dict[str, int], second: dict[str, int]) -> subprocess.CompletedProcess[str]:
        stages = [{"layers": ["l0", "l1"], "devices": first}, {"layers": ["l2", "l3"], "devices": second}]
        (tmp_path / "p.yaml").write_text(yaml.safe_dump({"microBatches": 4, "stages": stages}, sort_keys=False))
        return heterplan("evaluate", cluster, tmp_path / "p.yaml", "--batch", BATCH, "--strategy", "greedy", "--json")

    def nodes_of(first: dict[str, int], second: dict[str, int]) -> list[set[str]]:
        done = evaluated(first, second)
        assert done.returncode == 0, done.stderr
        stages = json.loads(done.stdout)["stages"]
        return [{device["node"] for each in stage["replicas"] for device in each["devices"]} for stage in stages]

    assert nodes_of({"gpu in far": 2}, {"gpu in third": 1}) == [{"box-far"}, {"box-third"}]
    assert nodes_of({"gpu in far": 3}, {"gpu in near": 1}) == [{"larger"}, {"box-near"}]
    assert nodes_of({"gpu in larger": 1}, {"other in third": 1}) == [{"larger"}, {"other"}]
    for key in ("gpu in nowhere", "other in near"):
        done = evaluated({key: 1}, {"gpu in near": 1})
        assert done.returncode == 1 and f"has no device type '{key}'" in done.stderr
    assert "1 more 'gpu" in evaluated({"gpu in near": 3}, {"gpu in far": 1}).stderr


def test_what_cannot_be_charged_is_refused(heterplan, tmp_path: Path) -> None:
    cluster = machines((0.02, 0, 0))
    for options in (("--schedule", "burst"), ("--iteration-model", "steady-state")):
        done = heterplan("compile", cluster, "--batch", BATCH, "-o", tmp_path / "out", *options)
        assert done.returncode == 1 and "price_per_gb" in done.stderr
    assert not (tmp_path / "out").exists()
    both = {"stages": [{"layers": ["l0", "l3"], "devices": {"gpu in near": 1, "gpu in far": 1}}]}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(both))
    done = heterplan("evaluate", cluster, tmp_path / "p.yaml", "--batch", BATCH)
    assert done.returncode == 1 and "a stage in several zones, of which one states price_per_gb" in done.stderr
