"""Branched networks are cut anywhere: plans against dynamic programming over every cut."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from branched import Network, best_pipeline, crossing, nasnet
from conftest import BINARY

MICRO_BATCHES = 32


def plan_of(network: Network, devices: dict[str, int], folder: Path) -> dict:
    (folder / "n.layers.json").write_text(json.dumps(network.layers_file()))
    (folder / "n.profile.json").write_text(json.dumps(network.profile()))
    (folder / "c.yaml").write_text(yaml.safe_dump(network.cluster(devices)))
    count = str(MICRO_BATCHES)
    done = subprocess.run(
        [BINARY, "compile", folder / "n.layers.json", "--profile", folder / "n.profile.json", "--cluster",
         folder / "c.yaml", "--batch", count, "--micro-batches", count, "--layer-order", "given", "-o", folder / "out", "--force", "--json"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("devices", [{"fast": 6}, {"fast": 3, "slow": 3}, {"slow": 8, "fast": 2}])
def test_plans_are_as_good_as_the_best_of_all_cuts(devices: dict[str, int], tmp_path: Path):
    network = nasnet(6, 5, 4, {kind: {"fast": 2, "slow": 1}[kind] for kind in devices})
    assert network.size == 129
    plan = plan_of(network, devices, tmp_path)
    assert plan["gap"] <= 0.01
    best = best_pipeline(network, devices, MICRO_BATCHES)
    assert best / 1.003 <= plan["iterationSeconds"] <= best * 1.01
    names = [layer["name"] for layer in network.layers_file()["layers"]]
    ends = [names.index(stage["layers"][-1]) + 1 for stage in plan["stages"]]
    narrow = min(crossing(network)[1:-1])
    assert any(crossing(network)[end] > 2 * narrow for end in ends[:-1]), "some lie inside of cells"


def test_a_deep_network_on_two_types_is_cut_where_its_work_asks(tmp_path: Path):
    """With too many stages for all cuts, the narrowest cuts alone would leave most layers in one stage."""
    network = nasnet(12, 16, 4, {"fast": 2, "slow": 1})
    assert network.size == 783
    plan = plan_of(network, {"fast": 4, "slow": 4}, tmp_path)
    stage = 3 * sum(network.seconds["fast"]) / (4 + 4 / 2)  # of eight that take equally long
    assert len(plan["stages"]) > 4
    assert plan["iterationSeconds"] < 1.1 * (MICRO_BATCHES + 8 - 1) * stage


def test_dynamic_programming_finds_what_a_list_of_all_cuts_finds():
    from itertools import combinations

    network = nasnet(1, 2, 3, {"fast": 1})
    n, moved, work = network.size, crossing(network), network.seconds["fast"]

    def takes(position: int) -> float:
        return 5e-6 + moved[position] / 12.5e9 if moved[position] else 0

    def iteration(ends: tuple[int, ...]) -> float:
        bounds = [0, *ends, n]
        times = [3 * sum(work[a:b]) + takes(a) + takes(b) for a, b in zip(bounds, bounds[1:])]
        return sum(times) + (MICRO_BATCHES - 1) * max(times)

    listed = min(iteration(ends) for k in range(3) for ends in combinations(range(1, n), k))
    assert best_pipeline(network, {"fast": 3}, MICRO_BATCHES) == pytest.approx(listed, rel=0.002)
