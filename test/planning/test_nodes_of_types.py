"""Stages of several types, and neighbours of unlike types, in one of several nodes that have these: its link is theirs, as
in a single node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_nodes import Case, link, nodes_of, verifies_where_it_lies

PINS = ("--pin", "l0=gpu", "--pin", "l1=cpu")


def cluster_of(nodes: list[dict]) -> dict:
    kinds = {
        "gpu": {"kind": "gpu", "memory": "16GB", "price_per_hour": 1},
        "cpu": {"kind": "cpu", "memory": "16GB", "price_per_hour": 1},
    }
    return {"name": "c", "device_types": kinds, "nodes": nodes, "network": link("1GB/s")}


def node(count: int, devices: dict[str, int], name: str = "n") -> dict:
    return {"name": name, "count": count, "devices": devices, "link": link("100GB/s")}


def case_of(folder: Path, layers: int, nodes: list[dict], parameters: float = 0) -> Case:
    """10 MB a sample between layers; links of nodes are a hundred times as fast as the network."""
    folder.mkdir()
    case = Case(folder, layers, 10e6, parameters, cluster_of(nodes))
    profile = json.loads((folder / "chain.profile.json").read_text())
    profile["entries"] += [entry | {"deviceType": "cpu"} for entry in profile["entries"]]
    (folder / "chain.profile.json").write_text(json.dumps(profile))
    return case


def seconds(layers: int, slow: int, share: int = 4) -> float:
    """One micro-batch of four samples, at most `share` on a device; `slow` boundaries over the network."""
    return layers * 0.002 * share + 2 * ((layers - 1 - slow) * 1e-4 + slow * 1e-2) * 4


ONE_OF_EACH = ("--max-devices", "gpu=1", "--max-devices", "cpu=1")
BATCH = ("--batch", "4", "--micro-batches", "1")


@pytest.mark.parametrize("strategy", ["auto", "exhaustive", "local-search"])
def test_unlike_neighbours_lie_in_one_node_however_many_there_are(tmp_path: Path, strategy: str):
    for count in (1, 2, 3):
        case = case_of(tmp_path / str(count), 2, [node(count, {"gpu": 1, "cpu": 1})])
        _, plan = case.compile(*BATCH, *PINS, *ONE_OF_EACH, "--strategy", strategy)
        assert plan["iterationSeconds"] == pytest.approx(seconds(2, slow=0))
        assert len(set.union(*nodes_of(plan))) == 1
        assert plan["optimal"] or strategy == "local-search"


@pytest.mark.parametrize("strategy", ["auto", "exhaustive"])
def test_a_node_holds_what_it_has_of_each_type(tmp_path: Path, strategy: str):
    """A layer on a device each, gpu and cpu in turn: a node has two of them, or three, or all four."""
    pins = (*PINS, "--pin", "l2=gpu", "--pin", "l3=cpu", "--separate", "l0,l1", "l1,l2", "l2,l3")
    limits = ("--max-devices", "gpu=2", "--max-devices", "cpu=2")
    for gpus, cpus, slow in ((1, 1, 1), (2, 1, 1), (2, 2, 0)):
        case = case_of(tmp_path / f"{gpus}-{cpus}", 4, [node(2, {"gpu": gpus, "cpu": cpus})])
        _, plan = case.compile(*BATCH, *pins, *limits, "--strategy", strategy)
        assert plan["iterationSeconds"] == pytest.approx(seconds(4, slow))
        assert plan["optimal"]


@pytest.mark.parametrize("strategy", ["auto", "exhaustive"])
def test_only_nodes_that_have_both_types_are_shared(tmp_path: Path, strategy: str):
    """There is a second cpu, but without a gpu beside it; the first gpu lies with either neighbour."""
    nodes = [node(1, {"gpu": 1, "cpu": 1}), node(1, {"cpu": 1}, "m")]
    case = case_of(tmp_path / "two", 2, nodes)
    _, plan = case.compile(*BATCH, *PINS, "--strategy", strategy)
    assert plan["iterationSeconds"] == pytest.approx(seconds(2, slow=0))
    assert plan["optimal"] and set.union(*nodes_of(plan)) == {"n"}


@pytest.mark.parametrize("strategy", ["auto", "exhaustive"])
def test_what_each_type_has_room_for_may_not_have_room_together(tmp_path: Path, strategy: str):
    """Each type has a whole node left, but not the same one: two pairs need a node with a gpu and a cpu each."""
    nodes = [node(1, {"gpu": 1, "cpu": 1}), node(1, {"gpu": 1}, "g"), node(1, {"cpu": 1}, "c")]
    pins = (*PINS, "--pin", "l2=gpu", "--pin", "l3=cpu", "--separate", "l1,l2")
    case = case_of(tmp_path / "three", 4, nodes)
    _, plan = case.compile(*BATCH, *pins, "--strategy", strategy)
    assert plan["iterationSeconds"] == pytest.approx(seconds(4, slow=2))
    assert plan["lowerBound"] <= plan["throughput"] * (1 + 1e-9) or plan["objective"] == "throughput"
    assert plan["optimal"]


def test_the_checker_looks_where_unlike_neighbours_lie(tmp_path: Path):
    case = case_of(tmp_path / "c", 2, [node(2, {"gpu": 1, "cpu": 1})])
    case.compile(*BATCH, *PINS)
    verifies_where_it_lies(case, stage=1, replica=0)


def test_families_of_many_chains_are_left_out_and_said(tmp_path: Path):
    """129 and more ways to fill a node: neighbours of unlike types are not looked for, and the plan says so."""
    case = case_of(tmp_path / "c", 2, [node(2, {"gpu": 12, "cpu": 12})])
    _, plan = case.compile(*BATCH, *PINS)
    assert "neighbours of unlike types in one node" in plan["searchSpaceLimits"]


def seconds_together(share: int = 2) -> float:
    """A layer of 50 MB on a gpu and a cpu of one node, which halve four samples; over the network it took 50 ms more."""
    return 0.002 * share + 50e6 / 100e9


@pytest.mark.parametrize("strategy", ["auto", "exhaustive"])
def test_a_stage_of_several_types_lies_in_one_node_however_many_there_are(tmp_path: Path, strategy: str):
    for count in (1, 2, 3):
        case = case_of(tmp_path / str(count), 1, [node(count, {"gpu": 1, "cpu": 1})], parameters=50e6)
        _, plan = case.compile(*BATCH, *ONE_OF_EACH, "--strategy", strategy)
        assert plan["iterationSeconds"] == pytest.approx(seconds_together())
        assert len(set.union(*nodes_of(plan))) == 1
        assert plan["optimal"]


@pytest.mark.parametrize("strategy", ["auto", "exhaustive"])
def test_a_stage_of_several_types_shares_its_node_with_a_neighbour(tmp_path: Path, strategy: str):
    limits = ("--max-devices", "gpu=2", "--max-devices", "cpu=1", "--pin", "l0=gpu", "--separate", "l0,l1")
    case = case_of(tmp_path / "two", 2, [node(2, {"gpu": 2, "cpu": 1})], parameters=50e6)
    _, plan = case.compile(*BATCH, *limits, "--strategy", strategy)
    boundary = 2 * 4 * 10e6 / 100e9
    assert plan["iterationSeconds"] == pytest.approx(0.008 + 0.004 + boundary)  # the first hides what the second sums
    assert len(set.union(*nodes_of(plan))) == 1
    assert plan["optimal"]


def test_a_stated_stage_of_several_types_lies_in_one_node(tmp_path: Path):
    case = case_of(tmp_path / "c", 1, [node(2, {"gpu": 1, "cpu": 1})], parameters=50e6)
    placement = {"microBatches": 1, "stages": [{"layers": ["l0"], "devices": {"gpu": 1, "cpu": 1}}]}
    (case.folder / "p.yaml").write_text(json.dumps(placement))
    _, plan = case.run(f"evaluate {case.folder}/p.yaml", "--model", f"{case.folder}/chain.layers.json", "--batch", "4")
    assert plan["iterationSeconds"] == pytest.approx(seconds_together())


def test_the_checker_looks_where_a_stage_of_several_types_lies(tmp_path: Path):
    case = case_of(tmp_path / "c", 1, [node(2, {"gpu": 1, "cpu": 1})], parameters=50e6)
    case.compile(*BATCH, *ONE_OF_EACH)
    verifies_where_it_lies(case, stage=0, replica=1)
