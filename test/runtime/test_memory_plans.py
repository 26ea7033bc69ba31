"""Plans with recomputed segments and sharded state, lowered, simulated and run against one process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from binary import BINARY, needs_binary
from generated import SOURCE
from ranks import run_ranks
from test_compiled import CASES, MODELS, compile_plan

EMIT_PLAN = Path(BINARY).with_name("emit-plan")
pytestmark = needs_binary
CHECK = ["--check", "--steps", "6", "--lr", "0.05"]


def edit(plan: dict, optimizer: str, sharding: str, segment: int) -> None:
    """Every `segment`-th layer of a stage begins one that is computed again."""
    plan["optimizer"] = optimizer
    for stage in plan["stages"]:
        stage["stateSharding"] = sharding
        stage["recompute"] = stage["layers"][::segment] if segment else []


def run(plan: dict, model: Path, folder: Path) -> dict:
    """The result of a run that passes --check."""
    (folder / "edited.plan.json").write_text(json.dumps(plan))
    out = folder / "edited"
    emitted = subprocess.run(
        [EMIT_PLAN, folder / "edited.plan.json", model, folder / "cluster.yaml", out],
        capture_output=True,
        text=True,
    )
    assert emitted.returncode == 0, emitted.stderr
    world = len(list((out / "ranks").iterdir()))
    result = folder / "result.json"
    outcomes = run_ranks(world, folder / "logs", [str(out), *CHECK, "--json", str(result)])
    assert [outcome.status for outcome in outcomes] == [0] * world, outcomes
    return json.loads(result.read_text())


@pytest.mark.parametrize(
    ("model", "name", "optimizer", "sharding", "segment"),
    [
        ("mlp", "uneven", "adam", "optimizer", 1),
        ("mlp", "two-by-two", "sgd", "gradients", 2),
        ("cnn", "uneven", "momentum", "gradients", 2),
        ("cnn", "two-by-two", "momentum", "optimizer", 3),
        ("cnn", "pipeline", "sgd", "none", 1),
        ("transformer", "uneven", "adam", "gradients", 0),
        ("transformer", "two-by-two", "adam", "gradients", 2),
        ("transformer", "two-by-two", "momentum", "optimizer", 0),
        ("mlp", "uneven", "adam", "parameters", 1),
        ("cnn", "two-by-two", "momentum", "parameters", 0),
        ("transformer", "uneven", "adam", "parameters", 0),
        ("transformer", "two-by-two", "adam", "parameters", 2),
    ],
)
def test_edited_plan_trains_like_one_process(
    model: str, name: str, optimizer: str, sharding: str, segment: int, tmp_path: Path
):
    path = MODELS / f"{model}.onnx"
    plan = compile_plan(CASES[name], path, tmp_path)
    edit(plan, optimizer, sharding, segment)
    result = run(plan, path, tmp_path)
    assert result["checkPassed"] and len(result["losses"]) == 6
    programs = [json.loads(p.read_text()) for p in sorted((tmp_path / "edited/ranks").iterdir())]
    several = {s["id"] for s in plan["stages"] if len(s["replicas"]) > 1}
    for program in programs:
        (part,) = program["parts"]
        assert part.get("recompute", []) == plan["stages"][part.get("stage", 0)]["recompute"]
        ops = {instruction["op"] for instruction in program["instructions"]}
        divides = part.get("stage", 0) in several
        assert ("allGather" in ops) == (sharding in ("optimizer", "gradients") and divides)
        assert ("gradientReduceScatter" in ops) == (sharding in ("gradients", "parameters") and divides)


@pytest.mark.parametrize(
    ("name", "model", "sharding"),
    [
        ("nested-cnn", "cnn", "gradients"), ("nested-cnn", "cnn", "optimizer"), ("interleaved-mlp", "mlp", "none"),
        ("nested-cnn", "cnn", "parameters"),
    ],  # fmt: skip
)
def test_devices_that_run_several_stages(name: str, model: str, sharding: str, tmp_path: Path):
    plan = json.loads((SOURCE / f"test/data/parts/{name}.plan.json").read_text())
    edit(plan, "adam", sharding, 1)
    cluster = (SOURCE / "test/data/parts/four-cores.yaml").read_text()
    (tmp_path / "cluster.yaml").write_text(cluster)
    assert run(plan, MODELS / f"{model}.onnx", tmp_path)["checkPassed"]
