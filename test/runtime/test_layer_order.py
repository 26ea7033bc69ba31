"""A model whose branches are computed level by level, planned branch by branch: what reads such a plan, and a real
run on three CPU ranks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from generated import BINARY, SOURCE
from ranks import assert_trains_as_one_process

MODEL = SOURCE / "test/data/small/towers.onnx"
CLUSTER = """\
name: three
device_types:
  core: {kind: cpu, memory: 1GB, price_per_hour: 0.1, fp32: 1GFLOP/s, bandwidth: 10GB/s}
nodes:
  - {name: here, devices: {core: 3}, link: {bandwidth: 20MB/s, latency: 1us}}
"""


def heterplan(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True)


Planned = tuple[Path, Path, dict[str, Any]]


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """The plan's directory, the cluster file, and the plan."""
    folder = tmp_path_factory.mktemp("towers")
    (folder / "three.yaml").write_text(CLUSTER)
    layers = [each["name"] for each in json.loads(heterplan("import", MODEL, "--json").stdout)["layers"]]
    run = heterplan(
        "compile", MODEL, "--cluster", folder / "three.yaml", "--batch", 12, "--micro-batches", 4, "--separate",
        f"{layers[0]},{layers[6]},{layers[-1]}", "-o", folder / "plan", "--json",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    plan = json.loads(run.stdout)
    assert plan["layerOrder"] == "narrow"
    planned = [name for stage in plan["stages"] for name in stage["layers"]]
    assert sorted(planned) == sorted(layers) and planned != layers
    assert len(plan["stages"]) == 3
    return folder / "plan", folder / "three.yaml", plan


def test_it_trains_as_one_process(planned: Planned, tmp_path: Path):
    assert_trains_as_one_process(planned[0], 3, tmp_path)


def test_the_checker_and_the_simulator_agree(planned: Planned):
    folder, cluster, plan = planned
    run = heterplan("verify", folder, "--model", MODEL, "--cluster", cluster)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "verified for whole layers; the search claims 0.00 %" in run.stdout
    run = heterplan("simulate", folder, "--json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["iterationSeconds"] == pytest.approx(plan["iterationSeconds"], rel=1e-9)


def test_evaluate_and_replan_keep_the_order(planned: Planned):
    folder, cluster, plan = planned
    for command in ("evaluate", "replan"):
        run = heterplan(command, folder, "--model", MODEL, "--cluster", cluster, "--json")
        assert run.returncode == 0, run.stderr
        found = json.loads(run.stdout)
        if command == "evaluate":
            assert found["objectiveValue"] == pytest.approx(plan["objectiveValue"], rel=1e-9)
            assert found["layerOrder"] == "narrow"


def test_inspect_states_the_order(planned: Planned):
    run = heterplan("inspect", planned[0])
    assert run.returncode == 0, run.stderr
    assert "layer order    narrow" in run.stdout


def test_the_order_of_the_model_is_kept_if_asked_for(planned: Planned, tmp_path: Path):
    _, cluster, plan = planned
    run = heterplan(
        "compile", MODEL, "--cluster", cluster, "--batch", 12, "--micro-batches", 4, "--separate",
        ",".join(plan["separations"][0]["layers"]), "--layer-order", "given", "-o", tmp_path / "plan", "--json",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    given = json.loads(run.stdout)
    assert "layerOrder" not in given
    assert given["throughput"] < plan["throughput"]


def swap(plan: dict[str, Any], first: tuple[int, int], second: tuple[int, int]) -> None:
    one, other = (plan["stages"][stage]["layers"] for stage, _ in (first, second))
    one[first[1]], other[second[1]] = other[second[1]], one[first[1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plan: swap(plan, (0, 0), (1, 0)), "stages[0].layers[1]: error: [HP1102]"),
        (lambda plan: swap(plan, (2, -1), (2, -2)), "which comes later"),
        (lambda plan: plan["stages"][1]["layers"].pop(), "is in no stage"),
        (lambda plan: plan["stages"][0]["layers"].append(plan["stages"][2]["layers"][0]), "is placed twice"),
        (lambda plan: plan["stages"][1]["layers"].append("nothing"), "no layer 'nothing'"),
        (lambda plan: plan.update(layerOrder="best"), "layerOrder"),
    ],
)
def test_other_orders_are_refused(planned: Planned, tmp_path: Path, change: Any, message: str):
    folder, cluster, _ = planned
    plan = json.loads((folder / "plan.json").read_text())
    change(plan)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    for command in ("verify", "evaluate", "replan"):
        run = heterplan(command, tmp_path / "plan.json", "--model", MODEL, "--cluster", cluster)
        assert run.returncode == 1
        assert message in run.stderr


def test_an_order_that_is_not_stated_fails_the_checks(planned: Planned, tmp_path: Path):
    folder, cluster, _ = planned
    plan = json.loads((folder / "plan.json").read_text())
    del plan["layerOrder"]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    run = heterplan("verify", tmp_path / "plan.json", "--model", MODEL, "--cluster", cluster)
    assert run.returncode == 2
    assert "stage-order FAILS" in run.stdout
