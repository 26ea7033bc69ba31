"""Distributed runs give the losses of one process, whatever the split."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packages import awkward, linear, tables

CHECK = ("--check", "--steps", "10", "--lr", "0.05")


@pytest.mark.parametrize(
    "widths",
    [
        [[4], [4], [4]],  # a pipeline
        [[3, 1], [4], [2, 2]],  # re-sharding 2 -> 1 -> 2
        [[1, 3], [3, 1], [2, 2]],  # ranges that overlap askew
        [[4], [1, 3], [4]],  # one rank gets gradients of two
    ],
)
def test_awkward_pipeline_equals_one_process(train, widths):
    result = train(awkward(widths, micro_batches=3, optimizer="momentum"), *CHECK)
    assert result["checkPassed"]
    assert len(result["losses"]) == 10
    assert result["losses"][-1] != pytest.approx(result["losses"][0], rel=1e-3), "nothing trained"


@pytest.mark.parametrize(("widths", "optimizer"), [([2, 5], "adam"), ([1, 2, 4], "sgd")])
def test_uneven_data_parallel_equals_one_process(train, widths, optimizer):
    result = train(linear(widths, micro_batches=2, optimizer=optimizer), "--loss", "mse", *CHECK)
    assert result["checkPassed"]


@pytest.mark.parametrize(
    ("widths", "short"),
    [
        ([[3], [3], [3]], 2),  # 3, 2, 2 samples
        ([[1, 2], [3], [2, 1]], 1),
        ([[1, 1, 1], [3], [2, 1]], 2),  # the third replica has none of the last two
        ([[3], [1, 1, 1], [1, 1, 1]], 2),  # likewise in the middle and at the end
    ],
)
def test_micro_batches_that_differ_equal_one_process(train, widths, short):
    package = awkward(widths, micro_batches=3, optimizer="momentum").shortened(short)
    result = train(package, "--check", "--steps", "4", "--lr", "0.05")
    assert result["checkPassed"]
    wall = result["wallSeconds"][1:]
    assert result["samplesPerSecond"] * sum(wall) / len(wall) == pytest.approx(9 - short)


@pytest.mark.parametrize("sharding", ["none", "gradients"])
def test_replicas_without_samples_recompute_and_divide_their_state(train, sharding):
    package = awkward([[1, 1], [1, 1], [2]], micro_batches=3, optimizer="adam").shortened(2)
    result = train(package.recomputed().sharded(sharding), "--check", "--steps", "4", "--lr", "0.05")
    assert result["checkPassed"]


def test_replicas_without_samples_look_up_no_other_rows(train):
    package = tables([[1, 1], [2]], [7, 6], [4, 3], micro_batches=3, optimizer="adam").shortened(2)
    result = train(package, "--loss", "mse", "--check", "--steps", "6", "--lr", "0.05")
    assert result["checkPassed"]


def test_widths_1_to_3_with_a_trace(train, tmp_path: Path):
    trace_path = tmp_path / "trace.json"
    package = awkward([[1, 2], [3], [1, 1, 1]], micro_batches=2)
    result = train(package, "--check", "--steps", "3", "--trace", str(trace_path))
    assert result["checkPassed"]
    trace = json.loads(trace_path.read_text())
    assert trace["otherData"]["measured"] is True
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = [event for event in trace["traceEvents"] if event["ph"] == "M"]
    assert {event["name"] for event in names} == {"process_name", "thread_name"}
    assert {event["args"]["name"] for event in names} >= {"stage 0", "stage 2", "rank 0", "rank 5"}
    for rank, program in enumerate(package.programs()):
        own = [event for event in events if event["tid"] == rank]
        assert [event["name"] for event in own] == [i["op"] for i in program["instructions"]]
        assert {event["pid"] for event in own} == {program["parts"][0]["stage"]}
        ends = [event["ts"] + event["dur"] for event in own]
        assert all(later["ts"] >= end - 0.01 for end, later in zip(ends, own[1:]))


def test_losses_do_not_depend_on_the_cut(train, tmp_path: Path):
    split = train(awkward([[1, 3], [4], [4]], micro_batches=2), "--steps", "4")
    package = awkward([[4], [4], [4]], micro_batches=2)
    assert "referenceLosses" not in split
    from ranks import run_ranks

    folder = package.write(tmp_path / "whole")
    result = tmp_path / "whole.json"
    outcomes = run_ranks(
        3, tmp_path / "logs2", [str(folder), "--steps", "4", "--json", str(result)]
    )
    assert [outcome.status for outcome in outcomes] == [0, 0, 0], outcomes
    whole = json.loads(result.read_text())
    assert split["losses"] == pytest.approx(whole["losses"], rel=1e-4)


def test_report(train):
    result = train(linear([3, 2], micro_batches=1), "--steps", "3", "--warmup", "2", "--pin")
    assert result["measuredSeconds"] == result["stepSeconds"][2]
    assert result["samplesPerSecond"] == pytest.approx(5 / result["wallSeconds"][2])
    assert result["wallSeconds"][2] >= result["stepSeconds"][2] > 0 < result["dataSeconds"][2]
    assert result["predictedSeconds"] == 0.001
    assert result["out"].count("samples/s  ") == 3 and "of the time went by waiting" in result["out"]
    assert [len(rank) for rank in result["referenceKernelSeconds"]] == [4, 4]  # around each step
    assert min(seconds for rank in result["referenceKernelSeconds"] for seconds in rank) > 0
    assert "predicted 1.00 ms, measured" in result["out"]


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("sharding", ["none", "optimizer", "gradients"])
def test_clipped_and_decayed_gradients_equal_one_process(train, optimizer: str, sharding: str):
    package = awkward([[3, 1], [4], [2, 2]], 2, optimizer).sharded(sharding)
    options = ("--check", "--steps", "5", "--lr-schedule", "cosine,warmup=2,steps=8", "--lr", "0.1")
    clipped = train(package, *options, "--gradient-clip", "0.05", "--weight-decay", "0.1")
    assert clipped["checkPassed"]


@pytest.mark.parametrize("limit", ["0.05", "1e-6"])
def test_clipped_rows_equal_one_process(train, limit: str):
    package = tables([[1, 3], [4]], [7, 6], [4, 3], 2, "sgd")
    options = ("--check", "--steps", "5", "--lr", "0.5", "--data", "fixed", "--gradient-clip", limit)
    result = train(package, *options)
    assert result["checkPassed"]
    assert (result["losses"][-1] == pytest.approx(result["losses"][0], rel=1e-5)) == (limit == "1e-6")


@pytest.mark.parametrize(
    ("text", "factors"),
    [
        ("constant", [1, 1, 1, 1]),
        ("linear", [1, 0.75, 0.5, 0.25]),
        ("cosine,warmup=2", [0.5, 1, 1, 0.5]),
        ("cosine,steps=2,floor=0.1", [1, 0.55, 0.1, 0.1]),
    ],
)
def test_schedules(text: str, factors: list[float]):
    from heterplan_runtime.update_rule import parse_schedule

    schedule = parse_schedule(text, 4)
    assert [schedule.factor(step) for step in range(4)] == pytest.approx(factors)


@pytest.mark.parametrize("text", ["", "cubic", "linear,warmup", "linear,warmup=-1", "linear,warmup=0.5",
                                  "cosine,steps=nan", "cosine,ceiling=2"])  # fmt: skip
def test_bad_schedules(text: str):
    from heterplan_runtime.errors import RuntimeFault
    from heterplan_runtime.update_rule import parse_schedule

    with pytest.raises(RuntimeFault, match="--lr-schedule"):
        parse_schedule(text, 4)
