"""Instances of the kinds that users of other planners reported, as bench/instances.py makes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import BINARY, SOURCE
from every_share import Shares, stated

sys.path.insert(0, str(SOURCE / "bench"))
import instances  # noqa: E402
from gaps import Workload  # noqa: E402


def workload(kind: str, name: str, folder: Path) -> Workload:
    (found,) = [work for work in instances.LISTS[kind](folder) if work.name == name]
    return found


def planned(work: Workload, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [BINARY, "compile", work.model, "--cluster", work.cluster, "--batch", str(work.batch), "--threads", "1", "-o",
         folder / "out", "--force", "--json", *work.options],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("nodes-1", "wide-24 throughput"),
        ("nodes-1", "hourglass-49 throughput"),
        ("nodes-1", "mixed-96 throughput"),
        ("steady-1", "nasnet-783 throughput"),
        ("zones-1", "gpt-24 throughput"),
        ("steady-1", "gpt-96 throughput"),
        ("steady-1", "random-1000 throughput"),
        ("orders-1", "towers-4x8 by branch throughput"),
        ("tables-1", "table-25.6GB on 24+8 throughput"),
        ("tables-1", "table-46.1GB on 24+24+8 throughput"),
        ("tables-1", "table-81.9GB on 80+16+8+8 throughput"),
        *(
            pytest.param(*each, marks=pytest.mark.sweep)
            for each in (
                ("steady-1", "nasnet-1238 throughput"),
                ("orders-1", "towers-8x8 by level throughput"),
                ("orders-1", "towers-16x4 by level throughput"),
            )
        ),
    ],
)
def test_plans_are_within_one_percent_of_their_bounds(kind: str, name: str, tmp_path: Path):
    assert planned(workload(kind, name, tmp_path), tmp_path)["gap"] <= 0.01


def test_a_fast_plan_that_costs_less_is_found(tmp_path: Path):
    """Memory takes so many devices that plans which are just fast enough cost more."""
    work = workload("steady-1", "gpt-96 throughput", tmp_path)
    fast = planned(work, tmp_path)
    goal = ("--objective", "cost", "--min-throughput", repr(fast["throughput"] / 2))
    cheap = planned(Workload(work.name, work.model, work.cluster, (*work.options, *goal)), tmp_path)
    assert cheap["costPerMillionSamples"] <= fast["costPerMillionSamples"] * (1 + 1e-9)


@pytest.mark.parametrize("cells", [12, pytest.param(19, marks=pytest.mark.sweep)])
def test_cuts_that_steady_state_leaves_out_do_not_matter(cells: int, tmp_path: Path):
    """The plan against devices that are never idle."""
    network = instances.nasnet(cells, 16, 4, {"fast": 2, "slow": 1})
    plan = planned(workload("steady-1", f"nasnet-{network.size} throughput", tmp_path), tmp_path)
    assert any(limit.endswith("cuts") for limit in plan["searchSpaceLimits"])
    ideal = 3 * sum(network.seconds["slow"]) * instances.BATCH / (2 * 16 + 32)
    assert ideal <= plan["iterationSeconds"] <= 1.01 * ideal


@pytest.mark.parametrize("pool", ["1a100+2t4+1v100", "1a100+1v100 and 1t4+1l4", "2v100+3t4"])
@pytest.mark.parametrize(
    "chain", ["few-2-0.2MB", "few-2-3MB", *(pytest.param(n, marks=pytest.mark.sweep) for n in ("few-3-10MB", "few-4-1MB"))]
)
def test_stages_of_several_types_have_the_best_shares(chain: str, pool: str, tmp_path: Path):
    work = workload("shares-1", f"{chain} {pool} throughput", tmp_path)
    work = Workload(work.name, work.model, work.cluster, work.options, batch=48)
    plan = planned(work, tmp_path)
    assert len(plan["stages"]) > 1 and plan["gap"] <= 0.01
    shares = Shares(BINARY, work.model, Path(work.cluster), work.batch, tmp_path)
    placement = stated(plan)
    assert shares.seconds(placement) == pytest.approx(plan["iterationSeconds"])
    assert shares.best(placement) >= plan["iterationSeconds"] * 0.99


def test_a_list_of_shares_mends_the_worst_ones(tmp_path: Path):
    work = workload("shares-1", "few-2-0.2MB 1a100+2t4+1v100 throughput", tmp_path)
    work = Workload(work.name, work.model, work.cluster, work.options, batch=48)
    plan = planned(work, tmp_path)
    placement = stated(plan)
    first = placement["stages"][0]
    assert len(first["devices"]) > 1, "a stage of several types, and another one behind it"
    best = first["shares"]
    first["shares"] = [1] * (len(best) - 1) + [sum(best) - len(best) + 1]
    shares = Shares(BINARY, work.model, Path(work.cluster), work.batch, tmp_path)
    assert shares.seconds(placement) > 1.05 * plan["iterationSeconds"]
    assert shares.best(placement) == pytest.approx(plan["iterationSeconds"], rel=0.01)
