"""The plans that the search covers: every cut of deep models, and nodes that differ."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import BINARY, MODELS


def cluster(nodes: list[dict], network: str = "100GB/s", **types: str) -> dict:
    return {
        "name": "c",
        "device_types": {
            name: {"kind": "gpu", "price_per_hour": 3, "catalogue": catalogue} for name, catalogue in types.items()
        },
        "nodes": nodes,
        "network": {"bandwidth": network, "latency": "5us"},
    }


@pytest.fixture
def compile(tmp_path: Path):
    def run(model: Path | dict, machines: dict, *options: str) -> tuple[int, dict]:
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(machines, sort_keys=False))
        if isinstance(model, dict):
            (tmp_path / "m.layers.json").write_text(json.dumps(model))
            model = tmp_path / "m.layers.json"
        done = subprocess.run(
            [BINARY, "compile", model, "--cluster", tmp_path / "c.yaml", "-o", tmp_path / "out",
             "--force", "--json", *options],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode in (0, 2), done.stderr
        return done.returncode, json.loads(done.stdout)

    return run


def test_stages_may_end_anywhere(compile):
    """Three separations at balanced places are no better than a search without them."""
    model = MODELS / "inception_v3.onnx"
    machines = cluster([{"name": "n", "count": 4, "devices": {"v100": 1}}], v100="v100-sxm2-16gb")
    options = ["--batch", "64", "--schedule", "pipeline", "--micro-batches", "64"]
    _, free = compile(model, machines, *options)
    names = [layer for stage in free["stages"] for layer in stage["layers"]]
    ends = [names.index(stage["layers"][-1]) for stage in free["stages"][:-1]]
    assert free["optimal"] and "cuts" not in " ".join(free.get("searchSpaceLimits", []))
    for shift in (-2, 2):
        pairs = [f"{names[end + shift]},{names[end + shift + 1]}" for end in ends]
        code, forced = compile(model, machines, *options, *[o for pair in pairs for o in ("--separate", pair)])
        assert code == 2 or forced["throughput"] <= free["throughput"] * (1 + 1e-9)


def equal_layers(count: int, skipped: bool) -> dict:
    """A chain; `skipped`: all layers read what the first one makes."""
    names = [f"l{i}" for i in range(count)]
    tensors = [
        {"name": f"t{i}", "producer": names[i], "consumers": [names[i + 1]], "bytesPerSample": 1e4}
        for i in range(count - 1)
    ]
    if skipped:
        tensors.append({"name": "all", "producer": names[0], "consumers": names[2:], "bytesPerSample": 1e3})
    layers = [
        {"name": name, "parameterBytes": 1e9, "activationBytes": 1e6, "forwardFlops": 1e9, "forwardBytes": 1e6}
        for name in names
    ]
    return {"schemaVersion": "1.0", "model": "equal", "layers": layers, "tensors": tensors}


@pytest.mark.parametrize("skipped", [False, True])
def test_a_chain_that_only_fits_when_it_is_cut_everywhere_is_planned(compile, skipped: bool):
    """Each device holds at most three of a hundred layers."""
    machines = cluster([{"name": "n", "count": 40, "devices": {"v100": 1}}], v100="v100-sxm2-16gb")
    options = ["--batch", "8", "--optimizer", "adam", "--recompute", "never", "--shard-state", "none"]
    code, plan = compile(equal_layers(100, skipped), machines, *options)
    assert code == 0, plan
    assert max(len(stage["layers"]) for stage in plan["stages"]) <= 3


BERT = ["--batch", "64"]


@pytest.mark.sweep
def test_a_node_more_never_makes_the_plan_slower(compile):
    """One with a single device, or with a slow link, beside one of eight."""
    model = MODELS / "bert_base.onnx"
    fast = {"name": "big", "devices": {"v100": 8}, "link": "nvlink2"}
    _, alone = compile(model, cluster([fast], "12.5GB/s", v100="v100-sxm2-16gb"), *BERT)
    for other in (
        {"name": "small", "devices": {"v100": 1}},
        {"name": "slow", "devices": {"v100": 8}, "link": {"bandwidth": "1GB/s", "latency": "50us"}},
    ):
        machines = cluster([fast, other], "12.5GB/s", v100="v100-sxm2-16gb")
        _, more = compile(model, machines, *BERT)
        assert more["throughput"] >= alone["throughput"] * (1 - 1e-9)
        floor = str(0.9 * alone["throughput"])
        code, _ = compile(model, machines, *BERT, "--min-throughput", floor)
        assert code == 0


def test_devices_of_unlike_nodes_have_the_names_of_the_file(compile, tmp_path: Path):
    machines = cluster(
        [{"name": "big", "devices": {"v100": 4}}, {"name": "small", "devices": {"v100": 1}}], v100="v100-sxm2-16gb"
    )
    model = MODELS / "resnet50.onnx"
    _, plan = compile(model, machines, "--batch", "60")
    devices = [device for stage in plan["stages"] for replica in stage["replicas"] for device in replica["devices"]]
    assert {device["type"] for device in devices} == {"v100"}
    done = subprocess.run(
        [BINARY, "verify", tmp_path / "out", "--model", model, "--cluster", tmp_path / "c.yaml"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alike", [True, False])
def test_shares_that_might_be_better_are_left_out_and_said(compile, tmp_path: Path, alike: bool):
    """Before a stage that is pinned elsewhere, a device that is fast forward and one that is fast
    backward: shares of 2 and 2 samples take 12 ms, but no device needs more than 8 ms for both
    passes. If both passes take equally long on both devices, 8 ms is the time of the stage."""
    chain = equal_layers(2, False)
    machines = {
        "name": "c",
        "device_types": {name: {"kind": "gpu", "memory": "64GB", "price_per_hour": 1} for name in "abc"},
        "nodes": [{"name": name, "devices": {name: 1}} for name in "abc"],
        "network": {"bandwidth": "1TB/s", "latency": "0us"},
    }
    for layer in chain["layers"]:
        layer["parameterBytes"] = 0
    passes = {"a": (1, 3), "b": (1, 3) if alike else (3, 1), "c": (100, 100)}
    entries = [
        {"layer": layer, "deviceType": name, "batch": samples, "forwardSeconds": forward * samples * 1e-3,
         "backwardSeconds": backward * samples * 1e-3, "updateSeconds": 0}
        for layer in ("l0", "l1") for name, (forward, backward) in passes.items() for samples in range(1, 5)
    ]  # fmt: skip
    profile = {"schemaVersion": "1.0", "model": "equal", "date": "2026-01-31", "entries": entries}
    (tmp_path / "m.profile.json").write_text(json.dumps(profile))
    options = ["--profile", tmp_path / "m.profile.json", "--require-measured", "--batch", "4", "--micro-batches", "1"]
    _, plan = compile(chain, machines, *options, "--pin", "l1=c")
    assert [len(stage["replicas"]) for stage in plan["stages"]] == [2, 1] and plan["optimal"]
    assert plan["iterationSeconds"] == pytest.approx(0.8 + (0.008 if alike else 0.012), abs=1e-6)
    assert plan.get("searchSpaceLimits", []) == ([] if alike else ["other shares of unequal devices"])
