"""Batches that few numbers divide are planned as well as their neighbours."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import BINARY, CLUSTERS, MODELS, pool, tower_layers, tower_profile


def compiled(folder: Path, *arguments: object) -> dict:
    """The plan."""
    run = subprocess.run(
        [BINARY, "compile", *map(str, arguments), "-o", folder, "--force"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads((folder / "plan.json").read_text())


@pytest.mark.parametrize("objective", ["throughput", "cost"])
def test_a_prime_batch_is_as_fast_as_its_neighbour(tmp_path: Path, objective: str):
    (tmp_path / "tower.layers.json").write_text(json.dumps(tower_layers()))
    (tmp_path / "tower.profile.json").write_text(json.dumps(tower_profile()))
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(pool(), sort_keys=False))
    values = [
        compiled(
            tmp_path / "out", tmp_path / "tower.layers.json", "--cluster", tmp_path / "cluster.yaml",
            "--profile", tmp_path / "tower.profile.json", "--batch", batch, "--objective", objective,
        )["objectiveValue"]
        for batch in (1200, 1201)
    ]  # fmt: skip
    assert values[1] == pytest.approx(values[0], rel=0.01)


@pytest.mark.parametrize("model", ["resnet50", pytest.param("gpt2_small", marks=pytest.mark.sweep)])
def test_a_prime_batch_of_a_bundled_model(tmp_path: Path, model: str):
    even, prime = (
        compiled(
            tmp_path / "out", MODELS / f"{model}.onnx", "--cluster", CLUSTERS / "mixed-small.yaml",
            "--batch", batch,
        )
        for batch in (1200, 1201)
    )  # fmt: skip
    # The same plan with one sample more on one device of each stage takes at most so much longer.
    shares = [replica["share"] for stage in even["stages"] for replica in stage["replicas"]]
    assert prime["throughput"] >= even["throughput"] / (1 + 1 / min(shares))
    assert prime["throughput"] <= 1.01 * even["throughput"]


def test_a_batch_far_beyond_the_memory_of_its_device(tmp_path: Path):
    cluster = {
        "name": "one",
        "device_types": {"a100": {"catalogue": "a100-sxm4-40gb"}},
        "nodes": [{"name": "node", "count": 1, "devices": {"a100": 1}}],
        "network": {"bandwidth": "100Gbit/s", "latency": "10us"},
    }
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(cluster, sort_keys=False))
    plan = compiled(
        tmp_path / "out", MODELS / "resnet50.onnx", "--cluster", tmp_path / "one.yaml", "--batch", 100000
    )
    assert plan["microBatches"] > 100
    assert all(check["holds"] for check in plan["checks"])


def test_any_number_up_to_the_batch_is_accepted(tmp_path: Path):
    (tmp_path / "tower.layers.json").write_text(json.dumps(tower_layers()))
    (tmp_path / "tower.profile.json").write_text(json.dumps(tower_profile()))
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(pool(), sort_keys=False))
    for count in (1, 5, 6, 9, 10):
        plan = compiled(
            tmp_path / "out", tmp_path / "tower.layers.json", "--cluster", tmp_path / "cluster.yaml",
            "--profile", tmp_path / "tower.profile.json", "--batch", 10, "--micro-batches", count,
        )  # fmt: skip
        assert plan["microBatches"] == count
        for stage in plan["stages"]:
            shares = [replica["share"] for replica in stage["replicas"]]
            assert sum(shares) == 10
            assert sum(share % count != 0 for share in shares) <= 1
        assert all(check["holds"] for check in plan["checks"])
