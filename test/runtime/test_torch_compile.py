"""Stages that torch.compile has compiled train as one process does; what cannot be compiled is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import zoo
from binary import BINARY, heterplan, needs_binary
from heterplan_runtime.compilation import compiled_stage, refuse_uncompilable
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.program import Part, SampleRange, TableSpec
from ranks import run_ranks
from slow_cluster import slow_cluster
from test_tensor_parallel import PAIR
from test_tensor_parallel import compile_plan as compile_shards
from test_tensor_parallel import mlp as mlp_with_dropout

SMALL = Path(__file__).resolve().parents[1] / "data/small"
SECONDS = 500  # of a compilation on a busy machine
# PyTorch compiles each for about a minute, so that `make zoo` runs most of them.


def compile_plan(model: Path, folder: Path, *options: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster.yaml").write_text(slow_cluster("{a: 2}"))
    heterplan("compile", model, "--cluster", folder / "cluster.yaml", "--batch", 8, *options, "-o", folder / "plan")
    return folder / "plan"


def check(plan: Path, ranks: int, logs: Path) -> str:
    """Trains compiled stages; returns what rank 0 printed."""
    arguments = [str(plan), "--torch-compile", "--check", "--steps", "3", "--lr", "0.05", "--no-save"]
    outcomes = run_ranks(ranks, logs, arguments, SECONDS)
    assert [outcome.status for outcome in outcomes] == [0] * ranks, outcomes
    assert "check: 3 losses equal those of one process" in outcomes[0].out
    return outcomes[0].out


PLANS = {
    "replicas": ("mlp", ("--schedule", "data-parallel")),
    "pipeline": ("transformer", ("--schedule", "pipeline", "--micro-batches", 2)),
    "recomputed": ("transformer", ("--schedule", "pipeline", "--micro-batches", 2, "--recompute", "always")),
    "batch-norm": ("cnn", ("--schedule", "data-parallel", "--recompute", "never")),
}


@needs_binary
@pytest.mark.parametrize(
    "name",
    ["replicas", *(pytest.param(name, marks=pytest.mark.sweep) for name in ("recomputed", "pipeline", "batch-norm"))],
)
def test_trains_as_one_process(name: str, tmp_path: Path) -> None:
    model, options = PLANS[name]
    check(compile_plan(SMALL / f"{model}.onnx", tmp_path, *options), 2, tmp_path / "logs")


@needs_binary
@pytest.mark.sweep
@pytest.mark.parametrize("name", ["gpt2", "resnet"])
def test_exported_modules_train_as_one_process(name: str, tmp_path: Path) -> None:
    zoo.export(zoo.TRAINED[name], tmp_path / "model.onnx", "dynamo")
    options = ("--schedule", "pipeline", "--micro-batches", 2, "--recompute", "never")
    check(compile_plan(tmp_path / "model.onnx", tmp_path, *options), 2, tmp_path / "logs")


@needs_binary
def test_shards_train_as_one_process(tmp_path: Path) -> None:
    """Collectives and dropout run outside of compiled code."""
    plan = compile_shards(mlp_with_dropout(tmp_path / "model.onnx"), tmp_path, PAIR)
    check(plan, PAIR.ranks, tmp_path / "logs")


@needs_binary
def test_a_machine_without_a_compiler_is_told(tmp_path: Path) -> None:
    plan = compile_plan(SMALL / "mlp.onnx", tmp_path, "--schedule", "data-parallel")
    run = subprocess.run(
        [BINARY, "run", str(plan), "--torch-compile", "--no-save"], capture_output=True, text=True, timeout=SECONDS,
        env={
            **os.environ, "HETERPLAN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "CXX": "/nowhere/g++",
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        },
    )  # fmt: skip
    assert run.returncode == 1
    assert "error: --torch-compile: PyTorch cannot compile on this machine: " in run.stderr, run.stderr
    assert "Traceback" not in run.stderr and "internal error" not in run.stderr


class Stage(torch.nn.Module):
    """Its first segment normalises, as generated code does."""

    def segment0(self, x: torch.Tensor) -> torch.Tensor:
        return self.batch_norm(x)


def part(**fields: object) -> Part:
    return Part(2, 0, SampleRange(0, 4), (), (), **{"tables": (), **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"state_sharding": "parameters"}, "stage 2 has sharded parameters"),
        ({"tables": (TableSpec("table", torch.float32, 4, (8,)),)}, "stage 2 has the sparse table 'table'"),
        ({"recompute": ("first",)}, "stage 2 computes its batch normalisation again"),
    ],
)
def test_stages_that_compiled_code_cannot_follow_are_refused(fields: dict, reason: str) -> None:
    with pytest.raises(RuntimeFault, match=f"--torch-compile: {reason}"):
        refuse_uncompilable(part(**fields), Stage)
    refuse_uncompilable(part(), Stage)


def test_a_stage_that_pytorch_cannot_compile_is_named() -> None:
    run = compiled_stage(_Uncompilable(), part())
    with pytest.raises(RuntimeFault, match="--torch-compile: PyTorch cannot compile stage 2: "):
        run(torch.ones(2))


class _Uncompilable(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(3, 3)
