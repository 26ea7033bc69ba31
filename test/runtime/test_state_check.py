"""Tests of the comparison that --check makes of the state at the end of training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from heterplan_runtime.state_check import STATE_TOLERANCE, ExpectedState, StateEntry
from packages import awkward, linear
from torch import Tensor

GENERATOR = torch.Generator().manual_seed(1)
START, MOVED = (torch.randn(40, generator=GENERATOR, dtype=torch.float64) for _ in range(2))


def entry(values: Tensor, kind: str = "value", name: str = "w", begin: int = 0) -> StateEntry:
    return StateEntry(0, kind, name, begin, values)


def expected(**more: Tensor) -> ExpectedState:
    """A weight that has moved by a thousandth, a bias whose gradient is rounding, and a count."""
    final = [
        entry(START + 1e-3 * MOVED),
        entry(1e-15 * MOVED[:4], name="bias"),
        entry(torch.tensor([3]), name="count"),
        *(entry(values, kind) for kind, values in more.items()),
    ]
    initial = [entry(START), entry(torch.zeros(4), name="bias"), entry(torch.tensor([0]), name="count")]
    return ExpectedState(initial, final)


@pytest.mark.parametrize("begin", [0, 7, 39])
def test_rounding_is_accepted(begin: int):
    final = START + 1e-3 * MOVED
    assert expected().difference(entry(final[begin:], begin=begin)) == 0
    rounded = (final * (1 + 1e-13))[begin:]
    assert 0 < expected().difference(entry(rounded, begin=begin)) < 1


def test_values_that_a_file_has_rounded_are_accepted():
    """A tensor that has moved by a millionth of its values lies in a file as float32."""
    final = START + 1e-6 * MOVED
    small = ExpectedState([entry(START)], [entry(final)])
    assert small.difference(entry(final.float())) == 0
    assert not small.difference(entry(START.float())) <= 1
    assert not small.difference(entry((START - 1e-6 * MOVED).float())) <= 1


@pytest.mark.parametrize(
    "values",
    [
        START,  # it has not learned
        START + 0.999e-3 * MOVED,  # by a thousandth too little
        START - 1e-3 * MOVED,
        (START + 1e-3 * MOVED).roll(1),
        START * float("nan"),
    ],
)
def test_other_training_is_not_accepted(values: Tensor):
    assert not expected().difference(entry(values)) <= 1


def test_movements_that_are_rounding_do_not_count():
    assert expected().difference(entry(-1e-15 * MOVED[:4], name="bias")) < 1
    assert expected().difference(entry(1e-7 * MOVED[:4], name="bias")) > 1


def test_integers_are_equal():
    assert expected().difference(entry(torch.tensor([3]), name="count")) == 0
    assert expected().difference(entry(torch.tensor([4]), name="count")) == float("inf")


@pytest.mark.parametrize(
    "found", [entry(START, name="other"), entry(START, "exp_avg"), entry(START, begin=1)]
)
def test_state_that_one_process_has_not_is_found(found: StateEntry):
    assert expected().difference(found) == float("inf")


def test_gradients_that_one_process_has_not_may_be_zero():
    assert expected().difference(entry(torch.zeros(4), "gradient", "unused")) == 0
    assert expected().difference(entry(torch.ones(4), "gradient", "unused")) == float("inf")
    assert expected().difference(entry(torch.zeros(4), name="unused")) == float("inf")


def test_infinite_constants_are_equal():
    mask = torch.tensor([0.0, -float("inf")], dtype=torch.float64)
    state = ExpectedState([entry(mask, name="mask")], [entry(mask.clone(), name="mask")])
    assert state.difference(entry(mask.clone(), name="mask")) == 0
    assert state.difference(entry(torch.zeros(2), name="mask")) == float("inf")


def test_adam_counts_where_gradients_are_more_than_rounding():
    squares = torch.ones(40, dtype=torch.float64)
    squares[5] = 1e-14
    state = expected(exp_avg_sq=squares)
    final = START + 1e-3 * MOVED
    final[5] += 1  # moved by rounding alone
    assert state.difference(entry(final)) == 0
    final[6] += 1
    assert state.difference(entry(final)) > 1
    assert state.difference(entry(squares * 1.1, "exp_avg_sq")) > 1


# Ranks.


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_step_without_a_sum_is_found_at_once(fail, tmp_path: Path, optimizer: str):
    """The losses of one step do not tell."""
    folder = linear([3, 1], micro_batches=2, optimizer=optimizer).write(tmp_path / "plan")
    for path in sorted((folder / "ranks").iterdir()):
        program = json.loads(path.read_text())
        program["instructions"] = [i for i in program["instructions"] if i["op"] != "allReduce"]
        path.write_text(json.dumps(program))
    outcomes = fail(folder, 2, "--loss", "mse", "--steps", "1", "--check", stop_on_failure=False)
    assert [outcome.status for outcome in outcomes] == [2, 2]
    assert "has not moved as in one process" in outcomes[0].err
    assert "of stage 0, rank " in outcomes[0].err


@pytest.mark.parametrize("sharding", ["none", "optimizer"])
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_state_of_all_ranks_is_compared(train, sharding: str, optimizer: str):
    package = awkward([[1, 3], [4], [2, 2]], 2, optimizer).sharded(sharding)
    result = train(package, "--steps", "3", "--check")
    assert 0 < result["stateDifference"] < STATE_TOLERANCE
    assert "parameters, buffers and optimizer state" in result["out"]
