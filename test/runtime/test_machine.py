"""The word on how busy the machine was, and data that can be learned."""

from __future__ import annotations

import os

from heterplan_runtime.machine import Usage, describe

from packages import linear


def test_a_quiet_machine_is_not_mentioned() -> None:
    cores = os.cpu_count() or 1
    assert describe([(10.0, 10.0, 20.0 if cores > 1 else 10.0)] * 2, [[1.0, 1.05], [1.0]]) == ""
    assert describe([(10.0, 1.0, 0.0)], [[0.0, 0.0]]) == ""


def test_other_processes_and_slow_cores_are_told() -> None:
    cores = os.cpu_count() or 1
    text = describe([(10.0, 5.0, 5.0 + 10.0 * cores)], [[1.0, 1.5, 1.5]])
    assert f"other processes took {cores:.1f} of the {cores} cores" in text
    assert "took 1.50 times what it took at its best" in text


def test_usage_counts_this_process() -> None:
    usage = Usage()
    sum(range(10**6))
    wall, own, _ = usage.read()
    assert 0 < own <= wall * (os.cpu_count() or 1) * 1.5


def test_fixed_data_are_learned(train) -> None:
    package = linear([2, 2], micro_batches=1)
    losses = train(package, "--steps", "12", "--data", "fixed", "--lr", "0.1", "--loss", "mse")["losses"]
    assert losses[-1] < 0.9 * losses[0]
