"""`heterplan replan`: plans for changed clusters, the state that moves to them, and trainings that go on."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from binary import BINARY, heterplan, needs_binary
from numpy.typing import NDArray
from test_generated_models import Builder

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


def compiled(folder: Path, on: Path, *options: object, model: Path = MODEL) -> Path:
    plan = folder / f"plan{len(list(folder.glob('plan*')))}"
    heterplan("compile", model, "--cluster", on, "--batch", 48, "--optimizer", "adam", *options, "-o", plan)
    return plan


def replanned(plan: Path, on: Path, *options: object, model: Path = MODEL) -> dict[str, Any]:
    return json.loads(heterplan("replan", plan, "--model", model, "--cluster", on, "--json", *options))


def devices(plan: Path) -> set[tuple[str, str, int]]:
    stages = json.loads((plan / "plan.json").read_text())["stages"]
    return {
        (device["type"], device["node"], device.get("index", 0))
        for stage in stages for replica in stage["replicas"] for device in replica["devices"]
    }  # fmt: skip


FOUR = {"w": "a: 1", "x": "a: 1", "y": "b: 1", "z": "b: 1"}


def goes_on(before: Path, after: Path, said: dict[str, Any], within: float = 0.02) -> None:
    """Trains both plans, which have the same degree. As many bytes move as predicted."""
    heterplan("run", before, "--steps", 3, "--checkpoint-every", 3, "--data", "fixed", "--no-save")
    found = json.loads(
        heterplan("run", after, "--steps", 6, "--resume", "--checkpoint-dir", before / "checkpoints", "--data", "fixed",
                  "--no-save", "--json")
    )  # fmt: skip
    assert found["firstStep"] == 3 and len(found["losses"]) == 3
    assert found["resumedBytes"] == pytest.approx(said["heldBytes"], rel=within)
    assert found["movedBytes"] == pytest.approx(said["movedBytes"], rel=within)


@pytest.mark.parametrize(  # else nothing moves
    "sharding", ["parameters", pytest.param("optimizer", marks=pytest.mark.sweep)]
)
def test_goes_on_from_the_checkpoint_of_the_old_plan(tmp_path: Path, sharding: str):
    """After a lost node: as many bytes move as predicted, and the training goes on."""
    before = compiled(tmp_path, cluster(tmp_path, FOUR), "--schedule", "data-parallel", "--shard-state", sharding)
    left = cluster(tmp_path, {name: what for name, what in FOUR.items() if name != "w"})
    after = tmp_path / "after"
    said = replanned(before, left, "-o", after, "--shard-state", sharding)
    assert ("a", "w", 0) not in devices(after)
    goes_on(before, after, said, within=0.05)
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


SHARED = {"w": "a: 2", "x": "a: 2", "y": "a: 2"}


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose layers two or four devices divide."""
    builder = Builder()
    x = builder.input("x", [64])
    for layer, (rows, columns) in enumerate([(64, 256), (256, 64), (64, 256), (256, 8)]):
        names = [builder.weight(f"{layer}.weight", rows, columns), builder.weight(f"{layer}.bias", columns)]
        x = builder.node("Gemm", x, *names)
        x = x if columns == 8 else builder.node("Tanh", x)
    path = tmp_path_factory.mktemp("mlp") / "mlp.onnx"
    builder.save(path, x)
    return path


def degrees(plan: Path) -> set[int]:
    return {stage.get("shardDegree") or 1 for stage in json.loads((plan / "plan.json").read_text())["stages"]}


@pytest.mark.parametrize("sharding", ["none", "optimizer"])
def test_devices_that_share_layers_go_on(mlp: Path, tmp_path: Path, sharding: str) -> None:
    """A node is lost: two replicas of two devices each are left, with other parts of the state."""
    options = ("--schedule", "data-parallel", "--shard-state", sharding)
    before = compiled(tmp_path, cluster(tmp_path, SHARED), *options, "--tensor-parallel", 2, model=mlp)
    assert degrees(before) == {2} and len(devices(before)) == 6
    left = cluster(tmp_path, {name: what for name, what in SHARED.items() if name != "w"})
    after = tmp_path / "after"
    said = replanned(before, left, "-o", after, model=mlp)
    assert degrees(after) == {2} and len(devices(after)) == 4
    assert {each["name"] for each in said["candidates"]} == {"from nothing", "old stages", "old device types"}
    assert (said["movedBytes"] > 0) == (sharding == "optimizer")
    goes_on(before, after, said)


def elements(model: Path, plan: Path) -> dict[tuple[str, int], dict[str, NDArray[np.bool_]]]:
    """The elements of each parameter that the devices of a plan of one stage have."""
    (degree,) = degrees(plan)
    slices: dict[str, Any] = {}
    if degree > 1:
        text = heterplan("import", model, "--tensor-parallel", degree, "--json")
        slices = json.loads(text)["tensorParallel"]["slices"]
    (stage,) = json.loads((plan / "plan.json").read_text())["stages"]
    found: dict[tuple[str, int], dict[str, NDArray[np.bool_]]] = {}
    for replica in stage["replicas"]:
        for shard, device in enumerate(replica["devices"]):
            own = found[device["node"], device.get("index", 0)] = {}
            for parameter in onnx.load(model).graph.initializer:
                own[parameter.name] = np.ones(parameter.dims, bool)
                if (known := slices.get(parameter.name)) is None:
                    continue
                places = np.concatenate([np.arange(length) * degree // length for length in known["segments"]])
                along = np.resize(places, parameter.dims[known["axis"]]) == shard
                own[parameter.name] &= np.expand_dims(
                    along, [axis for axis in range(len(parameter.dims)) if axis != known["axis"]]
                )
    return found


@pytest.mark.parametrize(("old", "new"), [(4, 2), (2, 4), (1, 2), (2, 1)])
def test_slices_move_if_the_degree_changes(mlp: Path, tmp_path: Path, old: int, new: int) -> None:
    """A device keeps what its old slice and its new one have in common, element by element."""
    node = cluster(tmp_path, {"w": "a: 4"})
    options = ("--schedule", "data-parallel", "--shard-state", "none")
    before = compiled(tmp_path, node, *options, "--tensor-parallel", old, model=mlp)
    after = tmp_path / "after"
    said = replanned(before, node, "-o", after, "--tensor-parallel", new, model=mlp)
    assert (degrees(before), degrees(after)) == ({old}, {new})
    assert [each["name"] for each in said["candidates"]] == ["from nothing"]
    had, has = elements(mlp, before), elements(mlp, after)
    got = sum(
        np.count_nonzero(own & ~had[device][name] if device in had else own)
        for device, parameters in has.items()
        for name, own in parameters.items()
    )
    assert said["movedBytes"] == pytest.approx(got * 4 * 3)  # values, and two moments of adam
    assert said["movedBytes"] > 0 or new > old


def test_the_best_degree_is_looked_for_again(mlp: Path, tmp_path: Path) -> None:
    """Nodes of one device have no shared layers: a plan of the best degree is replanned without
    them, and a plan of a stated degree says what to do."""
    pair, singles = cluster(tmp_path, {"w": "a: 2"}), cluster(tmp_path, {"x": "a: 1", "y": "a: 1"})
    options = ("--schedule", "data-parallel", "--shard-state", "none", "--max-memory-fraction", 0.0006)
    best = compiled(tmp_path, pair, *options, "--tensor-parallel", "auto", model=mlp)
    assert degrees(best) == {2}
    after = tmp_path / "after"
    replanned(best, singles, "--max-memory-fraction", 1, "-o", after, model=mlp)
    assert degrees(after) == {1}
    assert json.loads((after / "plan.json").read_text())["degreesCompared"] is True
    stated = compiled(tmp_path, pair, *options, "--tensor-parallel", 2, model=mlp)
    arguments = ["replan", str(stated), "--model", str(mlp), "--cluster", str(singles)]
    refused = subprocess.run([BINARY, *arguments], capture_output=True, text=True)
    assert refused.returncode == 1
    assert "no node has 2 devices of one type to share layers" in refused.stderr
    assert "--tensor-parallel" in refused.stderr


def test_fallbacks_of_devices_that_share_layers(mlp: Path, tmp_path: Path) -> None:
    nodes = cluster(tmp_path, SHARED)
    options = ("--schedule", "data-parallel", "--shard-state", "none", "--tensor-parallel", 2)
    plan = compiled(tmp_path, nodes, *options, model=mlp)
    text = heterplan("replan", plan, "--model", mlp, "--cluster", nodes, "--fallbacks", 1)
    assert "a step on 4 devices" in text
    for lost in "wxy":
        fallback = plan / "fallbacks" / f"{lost}-1"
        assert degrees(fallback) == {2}
        assert {node for _, node, _ in devices(fallback)} == set("wxy") - {lost}
