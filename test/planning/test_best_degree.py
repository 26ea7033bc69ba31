"""The degree of tensor parallelism that `compile` chooses by default, where layers were measured."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import BINARY, SOURCE

MODEL = SOURCE / "test/data/small/mlp.onnx"
CLUSTER = """
name: pair
device_types:
  core: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 1GFLOP/s, bandwidth: 1GB/s}
nodes: [{name: here, devices: {core: 2}, link: {bandwidth: 1000GB/s, latency: 1ns}}]
"""


def imported(*options: object) -> Any:
    run = subprocess.run([BINARY, "import", MODEL, *map(str, options), "--json"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def profile(folder: Path, seconds: dict[int, float], spared: int = 0) -> Path:
    """A profile in which each layer takes the same time, by degree; the last ones of degree 2 are spared."""
    names = [layer["name"] for layer in imported()["layers"]]
    entries = [
        {"layer": name, "deviceType": "core", "batch": batch, "forwardSeconds": each * batch,
         "backwardSeconds": each * batch, "updateSeconds": 1e-9} | ({"shardDegree": 2} if degree == 2 else {})
        for degree, each in seconds.items()
        for name in (names[: len(names) - spared] if degree == 2 else names)
        for batch in (1, 64)
    ]  # fmt: skip
    path = folder / "mlp.profile.json"
    path.write_text(json.dumps({"schemaVersion": "1.0", "model": "mlp", "entries": entries}))
    return path


def compiled(folder: Path, *options: object) -> tuple[int, dict[str, Any]]:
    """The degree of the plan, and the plan."""
    (folder / "cluster.yaml").write_text(CLUSTER)
    run = subprocess.run(
        [BINARY, "compile", MODEL, "--cluster", folder / "cluster.yaml", "--batch", "1", *map(str, options), "-o",
         folder / "plan", "--force", "--json"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    plan = json.loads(run.stdout)
    return plan["stages"][0].get("shardDegree") or 1, plan


def test_degrees_that_were_measured_are_compared(tmp_path: Path) -> None:
    for of_shards, wanted in ((5e-4, 2), (2e-3, 1)):
        measured = profile(tmp_path, {1: 1e-3, 2: of_shards})
        degree, plan = compiled(tmp_path, "--profile", measured, "--require-measured")
        assert degree == wanted
        assert "layers that 2 devices share" not in plan["searchSpaceLimits"]


@pytest.mark.parametrize("spared", [None, 1])
def test_modelled_degrees_do_not_compete_with_measured_layers(tmp_path: Path, spared: int | None) -> None:
    """The model takes a layer for much faster than it was measured."""
    measured = profile(tmp_path, {1: 1} if spared is None else {1: 1, 2: 0.1}, spared or 0)
    for options in ((), ("--require-measured",)):
        degree, plan = compiled(tmp_path, "--profile", measured, *options)
        assert degree == 1
        assert "layers that 2 devices share" in plan["searchSpaceLimits"]
    degree, plan = compiled(tmp_path, "--profile", measured, "--tensor-parallel", "auto")
    assert degree == 2  # the user takes the risk
