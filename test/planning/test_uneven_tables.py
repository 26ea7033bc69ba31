"""A sparse table over devices whose memory differs: rows follow memory where even parts do not fit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import BINARY

ROW_BYTES = 512


def layers(*rows: int) -> dict:
    """Two layers, the first of which looks rows up in a table of each of `rows`."""
    tables = [{"parameter": f"t{i}", "rows": count, "columns": 128, "lookups": 4} for i, count in enumerate(rows)]
    return {
        "schemaVersion": "1.0",
        "model": "ctr",
        "layers": [
            {
                "name": "emb", "parameters": [each["parameter"] for each in tables], "tables": tables,
                "parameterBytes": sum(rows) * ROW_BYTES, "activationBytes": 8192,
                "forwardFlops": 1e6, "backwardFlops": 2e6, "forwardBytes": 1e5, "backwardBytes": 2e5,
            },
            {
                "name": "top", "parameterBytes": 40e6, "activationBytes": 20000,
                "forwardFlops": 1e9, "backwardFlops": 2e9, "forwardBytes": 1e5, "backwardBytes": 2e5,
            },
        ],
        "tensors": [{"name": "e", "producer": "emb", "consumers": ["top"], "bytesPerSample": 8192}],
    }  # fmt: skip


def cluster(**memories: str) -> dict:
    return {
        "name": "unequal",
        "device_types": {
            name: {"kind": "gpu", "memory": memory, "price_per_hour": 1, "fp32": "10TFLOP/s", "bandwidth": "300GB/s"}
            for name, memory in memories.items()
        },
        "nodes": [{"name": "box", "devices": {name: 1 for name in memories}, "link": {"bandwidth": "10GB/s", "latency": "5us"}}],
    }


@pytest.fixture
def plan_of(tmp_path: Path):
    def run(model: dict, devices: dict, *options: str) -> tuple[subprocess.CompletedProcess[str], dict | None]:
        (tmp_path / "ctr.layers.json").write_text(json.dumps(model))
        (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(devices, sort_keys=False))
        done = subprocess.run(
            [BINARY, "compile", tmp_path / "ctr.layers.json", "--cluster", tmp_path / "cluster.yaml", "--batch", "2048",
             *options, "-o", tmp_path / "out"],
            capture_output=True, text=True,
        )  # fmt: skip
        path = tmp_path / "out/plan.json"
        return done, json.loads(path.read_text()) if path.exists() else None

    return run


def verify(tmp_path: Path, plan: dict) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(plan))
    return subprocess.run(
        [BINARY, "verify", path, "--model", tmp_path / "ctr.layers.json", "--cluster", tmp_path / "cluster.yaml"],
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "memories"),
    [
        ((50_000_000,), {"big": "24GB", "small": "8GB"}),
        ((30_000_000, 20_000_000, 7), {"big": "24GB", "small": "8GB"}),
        ((50_000_000,), {"big": "16GB", "mid": "10GB", "small": "6GB"}),
    ],
)
def test_rows_follow_memory(plan_of, tmp_path: Path, rows, memories):
    done, plan = plan_of(layers(*rows), cluster(**memories))
    assert done.returncode == 0, done.stderr
    (stage,) = (each for each in plan["stages"] if each.get("tables"))
    assert [sum(table["rows"]) for table in stage["tables"]] == list(rows)
    held = [sum(of) * ROW_BYTES for of in zip(*(table["rows"] for table in stage["tables"]))]
    for replica, part in zip(stage["replicas"], held):
        assert part < float(memories[replica["devices"][0]["type"]].removesuffix("GB")) * 1e9
    assert verify(tmp_path, plan).returncode == 0


def test_even_rows_stay_where_they_fit(plan_of):
    done, plan = plan_of(layers(1_000_001), cluster(big="24GB", small="8GB"))
    assert done.returncode == 0, done.stderr
    for stage in plan["stages"]:
        for table in stage.get("tables", []):
            assert max(table["rows"]) - min(table["rows"]) <= 1


def test_uneven_rows_cost_what_the_busiest_device_exchanges(plan_of, tmp_path: Path):
    done, plan = plan_of(layers(50_000_000), cluster(big="24GB", small="8GB"))
    assert done.returncode == 0, done.stderr
    (stage,) = plan["stages"]
    # Each of two devices looks up as many rows. The larger part is what its owner sends.
    busiest = max(stage["tables"][0]["rows"]) / 50_000_000
    most = max(replica["share"] for replica in stage["replicas"]) / plan["microBatches"]
    bandwidth, latency = 10e9, 5e-6
    moved = most * 4 * ROW_BYTES * busiest / bandwidth
    assert stage["lookupGradientSeconds"] == pytest.approx(moved + latency, rel=1e-6)
    for field in ("lookupSeconds", "lookupGradientSeconds"):
        planted = json.loads(json.dumps(plan))
        planted["stages"][0][field] *= 1.1
        assert verify(tmp_path, planted).returncode == 2
    rows = plan["stages"][0]["tables"][0]["rows"]
    plan["stages"][0]["tables"][0]["rows"] = [rows[1], rows[0]]
    assert "memory" in verify(tmp_path, plan).stdout


def test_a_table_beyond_all_memory_has_no_plan(plan_of):
    done, plan = plan_of(layers(70_000_000), cluster(big="24GB", small="8GB"))
    assert done.returncode == 2
    assert plan is None
    assert "memory" in done.stdout
