"""Zones with links of their own: what talks much stays in one zone, and a slow zone never harms."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import BINARY, MODELS, bundled

FAR = {"bandwidth": "1Gbit/s", "latency": "20ms"}
ZONES = ["north", "east", "south", "west", "remote"]
NEAR = {"bandwidth": "100Gbit/s", "latency": "5us"}


@pytest.fixture
def compile(tmp_path: Path):
    def run(model: str | dict, machines: dict, *options: str) -> tuple[int, dict]:
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(machines, sort_keys=False))
        path = MODELS / f"{model}.onnx"
        if isinstance(model, dict):
            path = tmp_path / "m.layers.json"
            path.write_text(json.dumps(model))
        done = subprocess.run(
            [BINARY, "compile", path, "--cluster", tmp_path / "c.yaml", "-o", tmp_path / "out", "--force", "--json",
             *options],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode in (0, 2), done.stderr
        return done.returncode, json.loads(done.stdout)

    return run


def zones_of(plan: dict, machines: dict) -> list[set[str]]:
    """By stage, the zones that its devices are in."""
    zone = {}
    for group in machines["nodes"]:
        count = group.get("count", 1)
        for i in range(count):
            zone[group["name"] if count == 1 else f"{group['name']}-{i}"] = group["zone"]
    return [
        {zone[device["node"]] for replica in stage["replicas"] for device in replica["devices"]}
        for stage in plan["stages"]
    ]


def without(machines: dict, zone: str) -> dict:
    """As somebody would drop a zone by hand."""
    nodes = [group for group in machines["nodes"] if group["zone"] != zone]
    used = {kind for group in nodes for kind in group["devices"]}
    return machines | {
        "zones": [each for each in machines["zones"] if each["name"] != zone],
        "nodes": nodes,
        "links": [link for link in machines["links"] if zone not in link["between"]],
        "device_types": {name: facts for name, facts in machines["device_types"].items() if name in used},
    }


def chatty_halves() -> dict:
    """Eight layers; much passes between them but in the middle."""
    layers = [
        {
            "name": f"l{i}", "kind": "matmul", "forwardFlops": 4e10, "backwardFlops": 8e10, "forwardBytes": 1e7,
            "backwardBytes": 2e7, "parameterBytes": 1e9, "activationBytes": 1e7,
        }
        for i in range(8)
    ]  # fmt: skip
    tensors = [
        {"name": f"t{i}", "producer": f"l{i}", "consumers": [f"l{i + 1}"], "bytesPerSample": 2e3 if i == 3 else 2e6}
        for i in range(7)
    ]
    return {"schemaVersion": "1.0", "model": "halves", "layers": layers, "tensors": tensors}


def five_zones() -> dict:
    """Four devices each, of which four hold half of the model."""
    return {
        "name": "zones",
        "device_types": {
            "gpu": {"kind": "gpu", "memory": "5GB", "price_per_hour": 3, "fp32": "20TFLOP/s", "bandwidth": "900GB/s"}
        },
        "zones": [{"name": name, "network": dict(NEAR)} for name in ZONES],
        "nodes": [{"name": f"n-{zone}", "zone": zone, "count": 4, "devices": {"gpu": 1}} for zone in ZONES],
        "links": [{"between": ["north", "south"], "network": {"bandwidth": "10Gbit/s", "latency": "1ms"}}],
        "network": dict(FAR),
    }


def test_what_talks_much_stays_in_one_zone(compile):
    machines = five_zones()
    _, plan = compile(chatty_halves(), machines, "--batch", "64", "--schedule", "pipeline", "--micro-batches", "16")
    zones = zones_of(plan, machines)
    assert plan["optimal"] and all(len(each) == 1 for each in zones)
    order = [next(iter(each)) for each in zones]
    ends = [stage["layers"][-1] for stage in plan["stages"]]
    crossed = [ends[i] for i in range(len(order) - 1) if order[i] != order[i + 1]]
    assert crossed == ["l3"], "where little passes"
    assert set(order) == {"north", "south"}, "the only two with a good link"


def test_a_stated_link_is_what_a_plan_pays(compile):
    """The same without that link takes longer, with a better one less."""
    seconds = []
    for bandwidth in (None, "10Gbit/s", "100Gbit/s"):
        machines = five_zones()
        if bandwidth is None:
            del machines["links"]
        else:
            machines["links"][0]["network"] = {"bandwidth": bandwidth, "latency": "1ms"}
        options = ["--batch", "64", "--schedule", "pipeline", "--micro-batches", "16"]
        seconds.append(compile(chatty_halves(), machines, *options)[1]["iterationSeconds"])
    assert seconds == sorted(seconds, reverse=True) and len(set(seconds)) == 3


@pytest.mark.parametrize("objective", ["throughput", "cost"])
@pytest.mark.parametrize(
    "model", ["resnet50", *(pytest.param(name, marks=pytest.mark.sweep) for name in ("vgg16", "mobilenet_v2"))]
)
def test_dropping_a_slow_zone_by_hand_never_improves_a_plan(compile, model: str, objective: str):
    machines = bundled("five-zones")
    options = ["--batch", "256", "--objective", objective]
    _, whole = compile(model, machines, *options)
    for zone in ("tokyo", "ireland"):
        _, less = compile(model, without(machines, zone), *options)
        sign = 1 if objective == "throughput" else -1
        assert sign * less["objectiveValue"] <= sign * whole["objectiveValue"] * (1 + sign * 1e-9), zone


def test_bundled_zones_are_kept_apart(compile):
    """Between regions each message takes 40 ms and more, an iteration of this model less."""
    machines = bundled("five-zones")
    _, plan = compile("vgg16", machines, "--batch", "256")
    zones = set.union(*zones_of(plan, machines))
    assert plan["iterationSeconds"] < 0.4 and zones <= {"virginia-a", "virginia-b"}
