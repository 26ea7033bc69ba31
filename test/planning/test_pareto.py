"""compile --pareto: the Pareto front, the files of each point, and what becomes of the options."""

from __future__ import annotations

import json
import subprocess

import pytest

from conftest import BINARY, bundled, pool

HETERPS = ("--iteration-model", "steady-state")


def points_of(asked) -> list[dict]:
    status, front = asked.run()
    assert status == 0
    assert front == json.loads((asked.folder / "out/pareto.json").read_text())
    return front["points"]


@pytest.mark.parametrize("extra", [[], [HETERPS]], ids=["heterplan", "heterps"])
def test_every_point_is_a_plan_that_holds_and_none_is_dominated(extra, job) -> None:
    asked = job("mobilenet_v2", bundled("mixed-small"), [("--pareto", ""), *extra])
    points = points_of(asked)
    assert len(points) > 3
    for slower, faster in zip(points, points[1:]):
        assert slower["throughput"] < faster["throughput"]
        assert slower["costPerMillionSamples"] < faster["costPerMillionSamples"]
    for point in points:
        file = asked.folder / "out" / point["path"]
        plan = json.loads(file.read_text())
        for field in ("throughput", "costPerMillionSamples", "costPerHour", "lowerBound", "gap"):
            assert plan.get(field, 0) == point[field]
        assert plan["throughput"] >= point["minThroughput"] * (1 - 1e-9)
        model = ["--model", asked.command()[2]]
        cluster = ["--cluster", asked.folder / "cluster.yaml"]
        subprocess.run([BINARY, "verify", file, *model, *cluster], check=True)
    report = (asked.folder / "out/report.html").read_text()
    assert report.count("<circle") == len(points)
    assert "Cost against throughput" in report


def test_each_floor_alone_gives_the_same_cost(job) -> None:
    asked = job("tower", pool(), [("--pareto", ""), ("--pareto-points", "5")])
    for point in points_of(asked):
        alone = job("tower", pool(), [("--min-throughput", repr(point["minThroughput"])), ("--objective", "cost")])
        status, plan = alone.run()
        assert status == 0
        assert plan["costPerMillionSamples"] == pytest.approx(point["costPerMillionSamples"], rel=1e-9)


@pytest.mark.parametrize("objective, place", [("cost", 0), ("throughput", -1)])
def test_the_objective_chooses_the_end(objective: str, place: int, job) -> None:
    asked = job("tower", pool(), [("--pareto", ""), ("--objective", objective)])
    points = points_of(asked)
    plan = json.loads((asked.folder / "out/plan.json").read_text())
    assert plan["throughput"] == points[place]["throughput"]


def test_limits_hold_for_every_point(job) -> None:
    limits = [("--min-throughput", "100"), ("--max-cost-per-hour", "7")]
    asked = job("tower", pool(), [("--pareto", ""), *limits])
    for point in points_of(asked):
        assert point["throughput"] >= 100 * (1 - 1e-9)
        assert point["costPerHour"] <= 7


def test_it_is_deterministic_and_an_ordinary_plan_replaces_it(job) -> None:
    asked = job("tower", pool(), [("--pareto", ""), ("--pareto-points", "4")])
    first = points_of(asked)
    assert points_of(asked) == first
    asked.options = []
    assert asked.run()[0] == 0
    assert not (asked.folder / "out/pareto.json").exists()
    assert not (asked.folder / "out/pareto").exists()


def test_no_plan_is_explained(job) -> None:
    asked = job("tower", pool(), [("--pareto", ""), ("--max-cost-per-hour", "0.5")])
    status, told = asked.run()
    assert status == 2
    assert told["conflict"] == ["at most 0.5 dollars/hour"]
    assert not (asked.folder / "out").exists()


def test_a_time_limit_that_is_over_leaves_the_ends(job) -> None:
    asked = job("tower", pool(), [("--pareto", ""), ("--time-limit", "1e-6")])
    points = points_of(asked)
    assert 1 <= len(points) <= 2
