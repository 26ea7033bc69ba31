"""A model whose training does not fit under an enforced limit of memory does with recomputed segments
and sharded state, and not with one of them alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from binary import BINARY, needs_binary
from packages import large
from ranks import Outcome, run_ranks
from test_generated_models import Builder

# Of each of four ranks with two samples: parameters 48 MiB, and as much for gradients and each of two
# moments; activations 24 layers of 6 MiB. Either feature takes away about a hundred MiB.
LIMIT = 170 << 20


def run(folder: Path, recompute: bool, sharding: str) -> list[Outcome]:
    package = large([2, 2, 2, 2], 1, recompute, sharding).write(folder / "plan")
    options = ["--loss", "mse", "--steps", "2", "--threads", "1"]
    return run_ranks(4, folder / "logs", [str(package), *options], memory=LIMIT)


def test_it_fits_with_both(tmp_path: Path):
    outcomes = run(tmp_path, True, "gradients")
    assert [outcome.status for outcome in outcomes] == [0] * 4, outcomes


@pytest.mark.parametrize(
    ("recompute", "sharding"), [(False, "none"), (False, "gradients"), (True, "none")]
)
def test_it_does_not_fit_otherwise(tmp_path: Path, recompute: bool, sharding: str):
    outcomes = run(tmp_path, recompute, sharding)
    failed = [outcome for outcome in outcomes if outcome.status == 1]
    assert failed and all("allocate" in outcome.err for outcome in failed[:1]), outcomes


# From an ONNX file.

CLUSTER = """
name: small
device_types:
  core: {kind: cpu, memory: %dMiB, price_per_hour: 1, fp32: 10GFLOP/s, bandwidth: 10GB/s}
nodes:
  - {name: here, devices: {core: 4}, link: {bandwidth: 10GB/s, latency: 1us}}
"""
# 24 layers of 1 MiB. A quarter of Gelu, built from its parts, keeps activations near 1. With Adam a
# rank needs 96 MiB for these layers, and 90 MiB for the activations of 320 samples.
LAYERS, WIDTH, BATCH = 24, 512, 1280
DEVICE = 90 << 20
BESIDE = 20 << 20  # samples, messages and the workspace of operators


def write_model(path: Path) -> Path:
    b = Builder()
    x = b.input("x", [WIDTH])
    half, one, root = (b.constant(n, v, np.float32) for n, v in (("h", 0.125), ("o", 1), ("r", 2**0.5)))
    for i in range(LAYERS):
        x = b.node("Gemm", x, b.weight(f"{i}.weight", WIDTH, WIDTH), b.weight(f"{i}.bias", WIDTH))
        gate = b.node("Add", b.node("Erf", b.node("Div", x, root)), one)
        x = b.node("Mul", b.node("Mul", x, gate), half)
    return b.save(path, x)


def compile_here(folder: Path, *options: str, memory: int = DEVICE) -> tuple[int, dict]:
    """The exit status and the plan of an attempt to train on four cores at once."""
    model, cluster, out = folder / "deep.onnx", folder / "cluster.yaml", folder / "plan"
    if not model.exists():
        write_model(model)
    cluster.write_text(CLUSTER % (memory >> 20))
    command = [
        BINARY, "compile", model, "--cluster", cluster, "--batch", BATCH, "--optimizer", "adam",
        "--schedule", "data-parallel", "--micro-batches", "1", "--objective", "throughput", "--tensor-parallel", "1",
        "--force", *options, "-o", out,
    ]  # fmt: skip
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    plan = json.loads((out / "plan.json").read_text()) if run.returncode == 0 else {}
    return run.returncode, plan


def train_limited(folder: Path, plan: Path, world: int) -> list[float]:
    """The losses under the limit, which are those of a run without it that passes --check, which computes
    in double precision."""
    losses = []
    for more, limit in (([], DEVICE + BESIDE), (["--check"], None)):
        result = folder / "result.json"
        options = ["--loss", "mse", "--steps", "2", "--threads", "1", "--lr", "0.001"]
        outcomes = run_ranks(
            world, folder / "logs", [str(plan), *options, *more, "--json", str(result)],
            memory=limit,
        )  # fmt: skip
        assert [outcome.status for outcome in outcomes] == [0] * world, outcomes
        losses.append(json.loads(result.read_text())["losses"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    return losses[0]


@needs_binary
@pytest.mark.sweep
def test_edited_plan_trains_under_the_limit(tmp_path: Path):
    status, plan = compile_here(tmp_path, memory=1 << 30)
    assert status == 0
    (stage,) = plan["stages"]
    assert len(stage["replicas"]) == 4
    stage["recompute"], stage["stateSharding"] = stage["layers"], "gradients"
    (tmp_path / "edited.json").write_text(json.dumps(plan))
    emit_plan = Path(BINARY).with_name("emit-plan")
    arguments = ("edited.json", "deep.onnx", "cluster.yaml", "edited")
    subprocess.run([emit_plan, *(tmp_path / name for name in arguments)], check=True)
    assert train_limited(tmp_path, tmp_path / "edited", 4)[1] > 0


def plans_memory() -> bool:
    text = subprocess.run([BINARY, "compile", "--help"], capture_output=True, text=True).stdout
    return "--shard-state" in text and "--recompute" in text


@needs_binary
def test_model_that_fits_no_device_is_planned_and_trained(tmp_path: Path):
    if not plans_memory():
        pytest.skip("this heterplan does not search recomputation and sharded state")
    never, whole = ("--recompute", "never"), ("--shard-state", "none")
    gradients = ("--shard-state", "gradients")  # with sharded parameters it fits
    for options in ((*never, *whole), (*never, *gradients), whole):
        assert compile_here(tmp_path, *options)[0] == 2, options
    status, plan = compile_here(tmp_path, *gradients)
    assert status == 0 and plan["stages"][0]["recompute"]
    status, plan = compile_here(tmp_path)
    assert status == 0
    (stage,) = plan["stages"]
    assert stage.get("recompute") or stage["stateSharding"] == "parameters"
    assert stage["memoryBytes"] <= DEVICE
    train_limited(tmp_path, tmp_path / "plan", len(stage["replicas"]))
