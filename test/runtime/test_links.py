"""The measurement of links: the fit, and a run on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from binary import BINARY, needs_binary
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.link_fit import Point, fit
from packages import RUNTIME


def points(latency: float, bandwidth: float, sizes: list[float]) -> list[Point]:
    return [Point(2, size, 2 * latency + size / bandwidth) for size in sizes]


def test_the_fit_is_exact_where_the_points_are():
    found = fit(points(1e-4, 2e9, [1e3, 1e5, 1e7]))
    assert found.latency == pytest.approx(1e-4)
    assert found.bandwidth == pytest.approx(2e9)
    assert found.residual == pytest.approx(0, abs=1e-9)


def test_one_point_that_is_off_hardly_moves_it():
    measured = points(1e-4, 2e9, [1e3, 1e4, 1e5, 1e6, 1e7, 1e8])
    measured[2] = Point(2, 1e5, 40 * measured[2].seconds)
    found = fit(measured)
    assert found.latency == pytest.approx(1e-4, rel=0.05)
    assert found.bandwidth == pytest.approx(2e9, rel=0.05)


def test_a_latency_is_never_negative():
    found = fit([Point(1, 1e3, 1e-6), Point(1, 1e6, 2e-3), Point(1, 1e7, 2e-2)])
    assert found.latency == 0
    assert found.bandwidth > 0


def test_messages_of_one_time_tell_no_bandwidth():
    with pytest.raises(RuntimeFault, match="no bandwidth can be told"):
        fit([Point(1, 1e3, 3e-3), Point(1, 1e4, 2e-3), Point(1, 1e5, 1e-3)])




def link_command(output: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "heterplan_runtime.profile_link", "-o", str(output), *more]


def test_what_a_row_takes_is_told_from_what_its_bytes_take():
    shapes = [(rows, columns) for rows in (1e2, 1e3, 1e5) for columns in (64, 512)]
    found = fit([
        Point(3, rows * columns, 3e-4 + rows * columns / 1e9 + rows * 2e-7, rows) for rows, columns in shapes
    ])  # fmt: skip
    assert found.latency == pytest.approx(1e-4)
    assert found.bandwidth == pytest.approx(1e9)
    assert found.row == pytest.approx(2e-7)
    assert found.residual == pytest.approx(0, abs=1e-9)


def test_no_figure_is_below_zero():
    points = [Point(1, size, size / 1e9 - rows * 1e-9, rows) for size, rows in ((1e6, 10), (1e7, 1e3), (1e8, 1e2))]
    found = fit(points)
    assert found.row == 0 and found.latency >= 0
    assert found.bandwidth == pytest.approx(1e9, rel=1e-3)


def test_a_link_is_measured_between_three_ranks(tmp_path: Path):
    output = tmp_path / "links.profile.json"
    # sizes so far apart that even on a busy machine one takes longer than the other
    sizes = ("--sizes", "1024,67108864", "--time-budget", "5")
    command = link_command(output, "--name", "loopback", "--ranks", "3", *sizes)
    subprocess.run(command, cwd=RUNTIME, check=True, timeout=300)
    profile = json.loads(output.read_text())
    assert profile["engine"].endswith("gloo, 3 ranks")
    assert "entries" not in profile
    (link,) = profile["links"]
    assert link["name"] == "loopback"
    for kind in ("b", "allReduceB", "reduceScatterB", "allGatherB", "lookupB"):
        assert link[f"{kind}andwidthBytesPerSecond"] > 0
    for kind in ("l", "allReduceL", "reduceScatterL", "allGatherL", "lookupL"):
        assert link[f"{kind}atencySeconds"] >= 0
    for kind in ("r", "allReduceR", "reduceScatterR", "allGatherR", "lookupR"):
        assert link[f"{kind}esidual"] >= 0
    assert link["lookupRowSeconds"] >= 0
    assert 0 <= link["overlapLoss"] <= 1


def test_one_rank_is_no_link(tmp_path: Path):
    command = link_command(tmp_path / "x", "--name", "loopback", "--ranks", "1")
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    run = subprocess.run(command, cwd=RUNTIME, env=environment, capture_output=True, text=True)
    assert run.returncode == 1
    assert "--ranks: a link has two ends" in run.stderr


@needs_binary
def test_the_command_measures_the_link_beside_the_machine(tmp_path: Path):
    cluster = tmp_path / "machine.yaml"
    command = [BINARY, "profile", "--machine", "--link", "loopback", "--time-budget", "5s", "-o", str(cluster)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["HETERPLAN_PYTHON"] = sys.executable
    subprocess.run(command, check=True, timeout=400, env=environment)
    assert "link: loopback" in cluster.read_text()
    profile = json.loads((tmp_path / "machine.links.profile.json").read_text())
    assert [link["name"] for link in profile["links"]] == ["loopback"]
