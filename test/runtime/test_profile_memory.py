"""How it is measured what ranks take beyond their tensors."""

from __future__ import annotations

import torch
from heterplan_runtime.memory_workloads import WORKLOADS, Counter
from heterplan_runtime.profile_memory import HEAP, MEBI, Overhead, Point, overhead_above
from torch import nn

POINTS = [
    Point(tensors * MEBI, workspace * MEBI, (304 + 1.5 * tensors + 8 * workspace) * MEBI)
    for tensors, workspace in ((0, 0), (10, 1), (100, 2), (50, 20), (200, 5))
]


def test_what_was_taken_is_found_again():
    assert overhead_above(POINTS) == Overhead(304 * MEBI + HEAP, 1.5, 8.0)


def test_no_rank_takes_more():
    worst = Point(60 * MEBI, 3 * MEBI, 900 * MEBI)
    overhead = overhead_above([*POINTS, worst])
    assert all(overhead.of(point) >= point.resident for point in [*POINTS, worst])
    assert overhead.constant % HEAP == 0


def test_a_rank_takes_its_tensors_at_least():
    overhead = overhead_above([Point(0, 0, 5 * MEBI), Point(100 * MEBI, 10 * MEBI, 6 * MEBI)])
    assert overhead.factor >= 1 and overhead.under_way >= 1


def test_tensors_count_as_in_plans():
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
    counter = Counter(module)
    for _ in range(2):  # the second pass keeps no more
        with counter.counting():
            module(torch.ones(4, 8)).sum()
    parameters = (8 * 16 + 16) * 4
    kept = (4 * 8 + 4 * 16) * 4  # the input, and the output of the last layer
    assert counter.tensors == 3 * parameters + kept  # it is the largest layer
    assert counter.workspace == (4 * 16 + 4 * 16) * 4 + 2 * 4 * 16 * 4  # of the last layer and the loss


def test_workloads_are_told_apart():
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)
