"""heterplan evaluate: a placement of the user's own, priced by hand here, beside the best one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import BINARY, SPEEDS, TOWER, pool, tower_layers, tower_profile

BATCH = 64


@pytest.fixture
def evaluate(tmp_path: Path):
    (tmp_path / "tower.layers.json").write_text(json.dumps(tower_layers()))
    (tmp_path / "tower.profile.json").write_text(json.dumps(tower_profile()))
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(pool(), sort_keys=False))

    def run(placement: dict | Path | str, *options: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "placement.yaml"
        if isinstance(placement, Path):
            path = placement
        else:
            path.write_text(placement if isinstance(placement, str) else yaml.safe_dump(placement, sort_keys=False))
        return subprocess.run(
            [BINARY, "evaluate", path, "--model", tmp_path / "tower.layers.json",
             "--profile", tmp_path / "tower.profile.json", "--cluster", tmp_path / "cluster.yaml",
             "--batch", str(BATCH), *options],
            capture_output=True, text=True, cwd=tmp_path,
        )  # fmt: skip

    return run


def passes(device: str, samples: int, layers: list[str] | None = None) -> float:
    """Seconds of a forward and a backward pass."""
    return sum(3 * TOWER[name][0] for name in layers or TOWER) * samples / SPEEDS[device]


def test_one_device_takes_what_its_layers_take(evaluate):
    done = evaluate({"stages": [{"layers": ["embed", "head"], "devices": {"fast": 1}}]}, "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    updates = 1e-4 * len(TOWER)
    assert plan["iterationSeconds"] == pytest.approx(passes("fast", BATCH) + updates, rel=1e-6)
    assert plan["microBatches"] == 1
    assert plan["bestObjectiveValue"] > plan["objectiveValue"]
    assert plan["bestObjectiveValue"] <= plan["lowerBound"] * (1 + 1e-9)
    assert (plan["binding"], plan["bottleneckStage"]) == ("bottleneck", 0)
    assert plan["gap"] == pytest.approx(plan["lowerBound"] / plan["objectiveValue"] - 1)


@pytest.mark.parametrize("micro_batches", [1, 4, 16, 64])
def test_a_steady_iteration_is_of_the_micro_batches_that_are_stated(evaluate, micro_batches: int):
    stages = [
        {"layers": ["embed", "first"], "devices": {"fast": 1}},
        {"layers": ["second", "head"], "devices": {"slow": 1}},
    ]
    placement = {"microBatches": micro_batches, "stages": stages}
    done = evaluate(placement, "--iteration-model", "steady-state", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert all(check["holds"] for check in plan["checks"])
    assert plan["microBatches"] == micro_batches
    # Times are proportional to the samples, so that the slowest stage takes as long however they are divided.
    slowest = passes("slow", BATCH, ["second", "third", "head"])
    assert plan["iterationSeconds"] == pytest.approx(slowest, rel=0.02)


@pytest.mark.parametrize("scope", ["synchronised", "local"])
def test_a_steady_iteration_contains_the_sums_within_passes(evaluate, tmp_path, scope: str):
    """Two units sum in each pass of each micro-batch; one unit sums nothing."""
    options = ("--iteration-model", "steady-state", "--batch-norm", scope, "--json", "--strategy", "greedy")

    def seconds(devices: int) -> float:
        stages = [{"layers": ["embed", "head"], "devices": {"slow": devices}}]
        done = evaluate({"microBatches": 4, "stages": stages}, *options)
        assert done.returncode == 0, done.stderr
        plan = json.loads(done.stdout)
        assert all(check["holds"] for check in plan["checks"])
        return plan["iterationSeconds"]

    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(pool(fast=0), sort_keys=False))
    without = [seconds(1), seconds(2)]
    model = tower_layers()
    model["layers"][1] |= {"inPassAllReduces": 10, "inPassAllReduceBytes": 1e8}
    (tmp_path / "tower.layers.json").write_text(json.dumps(model))
    ring = 10 * 2 * 5e-6 + 1e8 / 10e9  # two units over the network
    sums = 0 if scope == "local" else 4 * 2 * ring
    assert seconds(1) == pytest.approx(without[0])
    assert seconds(2) == pytest.approx(without[1] + sums, rel=1e-6)


def test_stated_shares_are_what_is_priced(evaluate):
    def iteration(shares: list[int] | None) -> float:
        stage = {"layers": ["embed", "head"], "devices": {"slow": 1, "fast": 1}}
        done = evaluate({"stages": [stage | ({"shares": shares} if shares else {})]}, "--json")
        assert done.returncode == 0, done.stderr
        plan = json.loads(done.stdout)
        if shares:
            assert [r["share"] for r in plan["stages"][0]["replicas"]] == sorted(shares, reverse=True)
        return plan["iterationSeconds"]

    even, balanced = iteration([32, 32]), iteration(None)  # slow first, as in `devices`
    assert even - iteration([16, 48]) == pytest.approx(passes("slow", 32) - passes("slow", 16), rel=1e-3)
    assert balanced < iteration([16, 48]) < even  # 13 and 51 take equally long


def test_shares_may_be_those_of_a_micro_batch(evaluate):
    def run(shares: list[int]) -> dict:
        stage = {"layers": ["embed", "head"], "devices": {"fast": 2}, "shares": shares}
        return json.loads(evaluate({"microBatches": 4, "stages": [stage]}, "--json").stdout)

    assert run([40, 24]) == run([10, 6])


def test_a_plan_is_priced_as_it_was_planned(evaluate, job, tmp_path):
    planned = job("tower", pool(), [("--batch", str(BATCH))])
    status, plan = planned.run()
    assert status == 0
    done = evaluate(tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    for field in ("iterationSeconds", "objectiveValue", "lowerBound", "costPerHour", "optimal"):
        assert again[field] == plan[field], field
    assert again["bestObjectiveValue"] == plan["objectiveValue"]
    assert "change" not in again


def test_a_plan_keeps_the_schedule_and_the_micro_batches_that_it_was_asked_for(evaluate, job, tmp_path):
    """The best plan is found under the same request, so that the plan is as good as that."""
    options = [("--batch", str(BATCH)), ("--schedule", "pipeline"), ("--micro-batches", "4")]
    planned = job("tower", pool(), options)
    status, plan = planned.run()
    assert status == 0
    assert (plan["requestedSchedule"], plan["requestedMicroBatches"]) == ("pipeline", 4)
    done = evaluate(tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    assert (again["requestedSchedule"], again["requestedMicroBatches"]) == ("pipeline", 4)
    assert again["bestObjectiveValue"] == plan["objectiveValue"]
    assert again["lowerBound"] == plan["lowerBound"]


def test_what_does_not_fit_is_priced_and_said(evaluate, tmp_path):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(pool(fast_memory="1GB"), sort_keys=False))
    done = evaluate({"stages": [{"layers": ["embed", "head"], "devices": {"fast": 4}}]}, "--json", "--recompute", "never")
    assert done.returncode == 2
    plan = json.loads(done.stdout)
    assert plan["binding"] == "memory"
    assert [check["holds"] for check in plan["checks"] if check["name"] == "memory"] == [False]


def test_how_stages_run_is_that_of_the_plan(evaluate, job, tmp_path):
    planned = job("tower", pool(), [("--batch", str(BATCH)), ("--recompute", "always"), ("--shard-state", "gradients")])
    status, plan = planned.run()
    assert status == 0 and all(stage["recompute"] for stage in plan["stages"])
    done = evaluate(tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    for field in ("recompute", "shardState", "iterationSeconds", "stages"):
        assert again[field] == plan[field], field
    otherwise = json.loads(evaluate(tmp_path / "out", "--json", "--recompute", "never").stdout)
    assert otherwise["recompute"] == "never" and otherwise["iterationSeconds"] < plan["iterationSeconds"]


@pytest.mark.parametrize(("spare", "binding"), [(1.03, "bottleneck"), (1.005, "memory")])
def test_memory_binds_where_the_device_itself_is_almost_full(evaluate, tmp_path, spare: float, binding: str):
    """An 80 GB device elsewhere does not make 30 MB of 1 GB little."""
    placement = {"stages": [{"layers": ["embed", "head"], "devices": {"fast": 1}}]}
    options = ("--json", "--recompute", "never", "--shard-state", "none", "--strategy", "greedy")
    needed = json.loads(evaluate(placement, *options).stdout)["stages"][0]["memoryBytes"]
    cluster = pool(fast_memory=f"{needed * spare:.0f}B", slow_memory="400GB")
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(cluster, sort_keys=False))
    assert json.loads(evaluate(placement, *options).stdout)["binding"] == binding


@pytest.mark.parametrize("first", ["slow", "fast"])
@pytest.mark.parametrize(("slow_share", "origin"), [(8, "measured"), (24, "interpolated")])
def test_origins_of_a_mixed_stage_are_those_of_its_slowest_replica(evaluate, tmp_path, first, slow_share, origin):
    """`fast` is measured at its share; `slow` is not, and is slower where it has more than a fifth."""
    profile = tower_profile()
    fast_share = BATCH - slow_share
    profile["entries"] += [
        entry | {"batch": fast_share} | {key: entry[key] * fast_share for key in ("forwardSeconds", "backwardSeconds")}
        for entry in profile["entries"]
        if entry["batch"] == 1 and entry["deviceType"] == "fast"
    ]
    (tmp_path / "tower.profile.json").write_text(json.dumps(profile))
    devices = {first: 1, ("fast" if first == "slow" else "slow"): 1}
    shares = [slow_share if kind == "slow" else fast_share for kind in devices]
    stage = {"layers": ["embed", "head"], "devices": devices, "shares": shares}
    done = evaluate({"stages": [stage]}, "--json")
    assert done.returncode == 0, done.stderr
    origins = json.loads(done.stdout)["provenance"]
    other = "interpolated" if origin == "measured" else "measured"
    assert origins[origin] > 0.5 and origins.get(other, 0) == 0


def test_a_model_without_samples_or_parameters_is_refused(tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [result])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    (tmp_path / "p.yaml").write_text("stages: [{layers: [y], devices: {cpu: 1}}]\n")
    said = [
        subprocess.run([BINARY, *words, "--cluster", "local-cpu", "--batch-dim", "none"], capture_output=True, text=True)
        for words in (["evaluate", tmp_path / "p.yaml", "--model", tmp_path / "m.onnx"],
                      ["compile", tmp_path / "m.onnx", "-o", tmp_path / "out"])
    ]  # fmt: skip
    assert [done.returncode for done in said] == [1, 1]
    assert "no parameter to train" in said[0].stderr and said[0].stderr == said[1].stderr


def test_a_floor_that_is_missed_binds(evaluate):
    stage = {"layers": ["embed", "head"], "devices": {"slow": 1}}
    done = evaluate({"stages": [stage]}, "--json", "--min-throughput", "1000000")
    assert done.returncode == 2
    assert json.loads(done.stdout)["binding"] == "throughput-floor"


@pytest.mark.parametrize(("most", "binding"), [(3, "bottleneck"), (2, "max-devices"), (1, "max-devices")])
def test_a_limit_on_devices_binds_where_none_is_left(evaluate, most: int, binding: str):
    stage = {"layers": ["embed", "head"], "devices": {"fast": 2}}
    done = evaluate({"stages": [stage]}, "--json", "--max-devices", f"fast={most}")
    assert done.returncode == (2 if most < 2 else 0), done.stderr
    assert json.loads(done.stdout)["binding"] == binding


def test_a_burst_is_not_evaluated(evaluate, job, tmp_path):
    status, _ = job("tower", pool(), [("--batch", str(BATCH)), ("--schedule", "burst")]).run()
    assert status == 0
    done = evaluate(tmp_path / "out")
    assert done.returncode == 1 and "[HP1802] evaluate of bursts is not supported" in done.stderr


def test_the_text_names_the_bottleneck_and_the_best_change(evaluate):
    stages = [{"layers": ["embed"], "devices": {"fast": 1}}, {"layers": ["first", "head"], "devices": {"fast": 1}}]
    done = evaluate({"microBatches": 8, "stages": stages})
    assert done.returncode == 0, done.stderr
    assert "bottleneck     stage 1 with" in done.stdout
    assert "bound          no plan in the search space is better than " in done.stdout
    assert "optimal in the search space" not in done.stdout
    assert "best change    one more fast in stage 1: " in done.stdout
    assert "% better" in done.stdout


@pytest.mark.parametrize(
    ("placement", "code", "words"),
    [
        ("stages: 5\n", "HP1007", "placement.yaml:1:9: error"),
        ("stages: []\n", "HP1007", "must be a list"),
        ("stages: [{layers: [embed, head], devices: {fast: 1}}]\nmicroBatches: 65\n", "HP1216", "microBatches"),
        ("stages: [{layers: [embed, nose], devices: {fast: 1}}]\n", "HP1301", "no layer 'nose'"),
        ("stages: [{layers: [embed, head], devices: {tpu: 1}}]\n", "HP1213", "no device type 'tpu'"),
        ("stages: [{layers: [embed, head], devices: {fast: 0}}]\n", "HP1216", "fast"),
        ("stages: [{layers: [head, embed], devices: {fast: 1}}]\n", "HP1216", "order of the model"),
        ("stages: [{layers: [embed, first, third], devices: {fast: 1}}]\n", "HP1216", "does not follow"),
        ("stages: [{layers: [embed, third], devices: {fast: 1}}]\n", "HP1216", "'head' is in no stage"),
        ("stages: [{layers: [first, head], devices: {fast: 1}}]\n", "HP1216", "'embed' comes next"),
        ("stages: [{layers: [embed, head], devices: {fast: 2}, shares: [64]}]\n", "HP1216", "1 shares"),
        ("stages: [{layers: [embed, head], devices: {fast: 2}, shares: [60, 5]}]\n", "HP1216", "sum to 65"),
        ("stages: [{layers: [embed, head], devices: {fast: 5}}]\n", "HP1216", "1 more 'fast' than the 4"),
        ("stages: [{layers: [embed, head], devices: {fast: 1}, speed: 3}]\n", "HP1005", "speed"),
        ("microBatches: 2\n", "HP1004", "stages"),
    ],
)
def test_what_cannot_be_a_placement_is_refused(evaluate, placement: str, code: str, words: str):
    done = evaluate(placement)
    assert done.returncode == 1
    assert (code in done.stderr and words in done.stderr), done.stderr
    assert done.stdout == ""
