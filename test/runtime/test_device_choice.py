"""Which device a rank takes, on hosts with GPUs that are told by their names alone."""

from __future__ import annotations

import pytest
from heterplan_runtime.device_choice import choose_index, of_type
from heterplan_runtime.pinning import cores_of
from heterplan_runtime.program import PlannedDevice

V, A = "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-40GB"


def planned(*devices: tuple[str, str, int]) -> list[PlannedDevice]:
    return [PlannedDevice(*device) for device in devices]


def chosen(peers: list[PlannedDevice], names: list[str]) -> list[int]:
    return [choose_index(peer, own, peers, names)[0] for own, peer in enumerate(peers)]


def notes(peers: list[PlannedDevice], names: list[str]) -> list[str]:
    return [choose_index(peer, own, peers, names)[1] for own, peer in enumerate(peers)]


def test_types_are_found_in_names():
    assert of_type("v100", [V, A, V]) == [0, 2]
    assert of_type("a100-sxm4-40gb", [V, A]) == [1]
    assert of_type("h200", [V, A]) == of_type("fast", [V, A]) == []


def test_a_rank_takes_the_planned_device():
    peers = planned(("v100", "n0", 3), ("v100", "n0", 1))
    assert chosen(peers, [V] * 4) == [3, 1] and notes(peers, [V] * 4) == ["", ""]


def test_types_of_one_host_are_not_mixed_up():
    peers = planned(("a100", "n0", 0), ("v100", "n0", 1), ("a100", "n0", 1))
    assert chosen(peers, [V, V, A, A]) == [2, 1, 3]
    assert notes(peers, [V, V, A, A]) == ["", "", ""]


def test_one_visible_device_is_that_of_the_only_rank():
    assert choose_index(PlannedDevice("v100", "n0", 3), 0, planned(("v100", "n0", 3)), [V]) == (0, "")


def test_nodes_that_share_a_host_take_turns_and_say_so():
    peers = planned(("v100", "n0", 0), ("v100", "n1", 0), ("v100", "n2", 0))
    assert chosen(peers, [V, V]) == [0, 1, 0]
    assert all("of type 'v100' of n" in note and "which ranks share" in note for note in notes(peers, [V, V]))


def test_another_type_is_told():
    peers = planned(("h200", "n0", 0), ("h200", "n0", 1))
    assert chosen(peers, [V, V]) == [0, 1]
    assert notes(peers, [V, V]) == [f"planned for 'h200', runs on '{V}'"] * 2


@pytest.mark.parametrize(
    ("rank", "threads", "cores", "expected"),
    [(0, 1, {0, 1, 2, 3}, {0}), (1, 1, {0, 1, 2, 3}, {2}), (1, 2, {0, 1, 2, 3}, {1, 3}), (5, 1, {4, 6}, {6})],
)
def test_cores_are_those_of_one_numa_node(rank: int, threads: int, cores: set[int], expected: set[int]):
    nodes = {0: 0, 1: 1, 2: 0, 3: 1}
    assert cores_of(rank, threads, cores, nodes) == expected
