"""`heterplan replan`: plans for changed clusters, the state that moves to them, and trainings that go on."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from binary import heterplan, needs_binary

MODEL = Path(__file__).resolve().parents[1] / "data/small/cnn.onnx"
LINK = "link: {bandwidth: 1GB/s, latency: 1us}"
pytestmark = needs_binary


def cluster(folder: Path, nodes: dict[str, str], network: str = "10MB/s", speeds: tuple[float, float] = (20, 10),
            prices: tuple[float, float] = (1, 1)) -> Path:  # fmt: skip
    """`nodes`: the devices of each node by its name."""
    lines = [f"  - {{name: {name}, devices: {{{devices}}}, {LINK}}}" for name, devices in nodes.items()]
    types = [
        f"  {name}: {{kind: cpu, memory: 4GiB, price_per_hour: {price}, fp32: {speed}MFLOP/s, bandwidth: {speed}MB/s}}"
        for name, speed, price in zip("ab", speeds, prices)
        if any(f"{name}:" in devices for devices in nodes.values())
    ]
    path = folder / f"cluster{len(list(folder.glob('cluster*')))}.yaml"
    path.write_text(
        "name: test\ndevice_types:\n" + "\n".join(types) + "\nnodes:\n" + "\n".join(lines)
        + f"\nnetwork: {{bandwidth: {network}, latency: 1us}}\n"
    )  # fmt: skip
    return path


def compiled(folder: Path, on: Path, *options: object) -> Path:
    plan = folder / f"plan{len(list(folder.glob('plan*')))}"
    heterplan("compile", MODEL, "--cluster", on, "--batch", 48, "--optimizer", "adam", *options, "-o", plan)
    return plan


def replanned(plan: Path, on: Path, *options: object) -> dict[str, Any]:
    return json.loads(heterplan("replan", plan, "--model", MODEL, "--cluster", on, "--json", *options))


def devices(plan: Path) -> set[tuple[str, str, int]]:
    stages = json.loads((plan / "plan.json").read_text())["stages"]
    return {
        (device["type"], device["node"], device.get("index", 0))
        for stage in stages for replica in stage["replicas"] for device in replica["devices"]
    }  # fmt: skip


FOUR = {"w": "a: 1", "x": "a: 1", "y": "b: 1", "z": "b: 1"}


@pytest.mark.parametrize(  # else nothing moves
    "sharding", ["parameters", pytest.param("optimizer", marks=pytest.mark.sweep)]
)
def test_goes_on_from_the_checkpoint_of_the_old_plan(tmp_path: Path, sharding: str):
    """After a lost node: as many bytes move as predicted, and the training goes on."""
    before = compiled(tmp_path, cluster(tmp_path, FOUR), "--schedule", "data-parallel", "--shard-state", sharding)
    heterplan("run", before, "--steps", 3, "--checkpoint-every", 3, "--data", "fixed", "--no-save")
    left = cluster(tmp_path, {name: what for name, what in FOUR.items() if name != "w"})
    after = tmp_path / "after"
    said = replanned(before, left, "-o", after, "--shard-state", sharding)
    assert ("a", "w", 0) not in devices(after)
    found = json.loads(
        heterplan("run", after, "--steps", 6, "--resume", "--checkpoint-dir", before / "checkpoints", "--data", "fixed",
                  "--no-save", "--json")
    )  # fmt: skip
    assert found["firstStep"] == 3 and len(found["losses"]) == 3
    assert found["resumedBytes"] == pytest.approx(said["heldBytes"], rel=0.05)
    assert found["movedBytes"] == pytest.approx(said["movedBytes"], rel=0.05)
    assert said["movedBytes"] > 0


def test_a_new_node_gets_all_of_its_state(tmp_path: Path):
    before = compiled(tmp_path, cluster(tmp_path, {"x": "a: 1", "y": "a: 1"}), "--schedule", "data-parallel")
    heterplan("run", before, "--steps", 1, "--checkpoint-every", 1, "--no-save")
    more = cluster(tmp_path, {"w": "a: 1", "x": "a: 1", "y": "a: 1"}, network="10GB/s")
    after = tmp_path / "after"
    said = replanned(before, more, "-o", after)
    assert devices(after) == {("a", name, 0) for name in "wxy"}
    assert [node["node"] for node in said["nodes"]] == ["w"]
    found = json.loads(
        heterplan("run", after, "--steps", 2, "--resume", "--checkpoint-dir", before / "checkpoints", "--no-save",
                  "--json")
    )  # fmt: skip
    assert found["movedBytes"] == pytest.approx(said["movedBytes"], rel=0.05)


def test_state_has_a_price(tmp_path: Path):
    """A new node pays in the long run only."""
    before = compiled(tmp_path, cluster(tmp_path, {"x": "a: 1"}, network="0.008MB/s"), "--schedule", "data-parallel")
    more = cluster(tmp_path, {"x": "a: 1", "y": "a: 1"}, network="0.008MB/s")
    once, often = (replanned(before, more, "--horizon", steps) for steps in (1, 10**6))
    assert once["movedBytes"] == 0
    assert often["movedBytes"] > 0 and 1 < often["paysAfterSteps"] < 10**6


# HETERPLAN_REPLANS=50 for more of them.
@pytest.mark.parametrize("seed", range(int(os.environ.get("HETERPLAN_REPLANS", "8"))))
def test_random_changes(seed: int, tmp_path_factory: pytest.TempPathFactory):
    """Never more moves than by planning from nothing, and the time keeps the stated trade."""
    draw = random.Random(seed)
    folder = tmp_path_factory.mktemp("random")
    kinds = ["a: 1", "a: 2", "b: 1", "a: 1, b: 1"]
    names = [f"n{index}" for index in range(5)]
    nodes = {name: draw.choice(kinds) for name in draw.sample(names, draw.randint(2, 4))}
    before = compiled(folder, cluster(folder, nodes), "--schedule", draw.choice(["auto", "data-parallel", "pipeline"]))
    changed = dict(nodes)
    for _ in range(draw.randint(1, 2)):
        name = draw.choice(names)
        if name in changed and len(changed) > 1 and draw.random() < 0.6:
            del changed[name]
        else:
            changed[name] = draw.choice(kinds)
    horizon = draw.choice([1, 10, 1000])
    after = folder / "after"
    said = replanned(
        before,
        cluster(folder, changed, network=draw.choice(["0.1MB/s", "100MB/s"]),
                speeds=(draw.choice([20, 5]), draw.choice([10, 30]))),
        "-o", after, "--horizon", horizon,
    )  # fmt: skip
    fresh = said["candidates"][0]
    chosen = next(each for each in said["candidates"] if each["name"] == said["chosen"])
    assert fresh["name"] == "from nothing"
    assert chosen["movedBytes"] <= fresh["movedBytes"]
    assert chosen["total"] <= fresh["total"]
    assert chosen["total"] == min(
        each["total"] for each in said["candidates"] if each["movedBytes"] <= fresh["movedBytes"]
    )
    assert {node for _, node, _ in devices(after)} <= set(changed)
