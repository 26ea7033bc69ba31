"""`heterplan calibrate` on real runs: what it writes is a profile that plans are made of."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest
from binary import BINARY, heterplan, needs_binary
from slow_cluster import slow_cluster
from test_generated_models import Builder

SOURCE = Path(__file__).resolve().parents[2]
MODEL = SOURCE / "test/data/small/cnn.onnx"
# One device: passes of several replicas have sums of batch normalisation in them, which the ratio of the link
# corrects, and measured times decide how many replicas are best.
CLUSTER = """
name: one-core
device_types:
  core: {kind: cpu, memory: 4GiB, price_per_hour: 1, catalogue: cpu-core}
nodes:
  - {name: localhost, devices: {core: 1}, link: loopback}
"""

pytestmark = needs_binary


def test_runs_of_a_plan_make_a_profile_that_plans(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    base, corrected = tmp_path / "base.profile.json", tmp_path / "corrected.profile.json"
    inputs = [MODEL, "--cluster", tmp_path / "cluster.yaml", "--profile", base]
    compiling = ["--batch", 16, "--micro-batches", 2, "--schedule", "data-parallel", "--json"]
    heterplan("profile", MODEL, "--device", "cpu", "--batches", "4,8", "--time-budget", 3, "-o", base)
    plan = json.loads(heterplan("compile", *inputs, *compiling, "-o", tmp_path / "plan"))
    for step in (1, 2):
        heterplan("run", tmp_path / "plan", "--steps", 2, "--trace", tmp_path / f"plan/{step}.trace.json")

    said = json.loads(
        heterplan("calibrate", tmp_path / "plan", "--model", *inputs, "-o", corrected, "--json")
    )
    assert said["timelines"] == 2
    [stage] = said["stages"]
    assert stage["deviceType"] == "core" and stage["passes"] == 2 * 2
    for ratio in (stage["forward"], stage["backward"], stage["update"]):
        assert math.isfinite(ratio) and ratio > 0
    assert said["measuredSeconds"] > 0 and said["correctedSeconds"] > 0

    profile = json.loads(corrected.read_text())
    assert {entry["layer"] for entry in profile["entries"]} == set(plan["stages"][0]["layers"])
    assert all(entry["calibrated"] for entry in profile["entries"])
    assert all(math.isfinite(entry["forwardSeconds"]) for entry in profile["entries"])

    again = json.loads(heterplan("compile", *inputs, corrected, *compiling, "-o", tmp_path / "again"))
    for name in ("forward", "backward"):  # the stage takes what the ratios say
        first, second = (p["stages"][0]["replicas"][0][f"{name}Seconds"] for p in (plan, again))
        assert second == pytest.approx(first * stage[name], rel=1e-6)
    command = [BINARY, "profile", "--check", corrected, "--json"]
    check = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    noise = [text for text in check["failures"] if "spreads are above" in text]
    assert check["failures"] == noise  # which is that of this machine


def test_runs_of_devices_that_share_layers(tmp_path: Path) -> None:
    """The layers of the degree of the plan are corrected; messages within layers take next to nothing here."""
    (tmp_path / "cluster.yaml").write_text(slow_cluster("{a: 4}"))
    builder, corrected = Builder(), tmp_path / "corrected.profile.json"
    x = builder.input("x", [64])
    for layer, (rows, columns) in enumerate([(64, 256), (256, 8)]):
        names = [builder.weight(f"{layer}.weight", rows, columns), builder.weight(f"{layer}.bias", columns)]
        x = builder.node("Gemm", x, *names)
    builder.save(tmp_path / "mlp.onnx", x)
    inputs = [tmp_path / "mlp.onnx", "--cluster", tmp_path / "cluster.yaml"]
    compiling = ["--batch", 8, "--micro-batches", 2, "--schedule", "data-parallel", "--tensor-parallel", 2, "--json"]
    plan = json.loads(heterplan("compile", *inputs, *compiling, "-o", tmp_path / "plan"))
    assert [len(replica["devices"]) for replica in plan["stages"][0]["replicas"]] == [2, 2]
    heterplan("run", tmp_path / "plan", "--steps", 2, "--trace", tmp_path / "plan/1.trace.json")
    said = json.loads(heterplan("calibrate", tmp_path / "plan", "--model", *inputs, "-o", corrected, "--json"))
    [stage] = said["stages"]
    assert stage["passes"] == 2 * 2 and said["measuredSeconds"] > 0
    profile = json.loads(corrected.read_text())
    assert {entry["layer"] for entry in profile["entries"]} == set(plan["stages"][0]["layers"])
    assert {entry["shardDegree"] for entry in profile["entries"]} == {2}
    again = json.loads(
        heterplan("compile", *inputs, "--profile", corrected, *compiling, "-o", tmp_path / "again")
    )
    for name in ("forward", "backward"):
        first, second = (p["stages"][0]["replicas"][0][f"{name}Seconds"] for p in (plan, again))
        assert second == pytest.approx(first * stage[name], rel=0.01)
