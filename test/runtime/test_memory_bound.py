"""A plan's prediction of a rank's memory is never less than its measured memory, and not much more.

The catalogue states the memory of ranks beyond their tensors; `heterplan profile --memory` measured
it on the machine that the tests are developed on. Other builds of PyTorch or of the C library need
other amounts."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
from pathlib import Path

import pytest
import torch
from binary import BINARY, needs_binary
from ranks import run_ranks
from test_compiled import MODELS

MEASURED_WITH = ("2.13.0+cpu", ("glibc", "2.36"))  # of cpu-core's memory_overhead
pytestmark = [
    needs_binary,
    pytest.mark.skipif(
        (torch.__version__, platform.libc_ver()) != MEASURED_WITH,
        reason="the catalogue's memory of a process is that of another PyTorch or C library",
    ),
]
CLUSTER = """
device_types:
%s
nodes:
  - {name: here, devices: {%s}, link: loopback}
"""
TYPE = "  core%d: {kind: cpu, memory: 8GiB, catalogue: cpu-core}"
# Model, samples, stages, cores of each, micro-batches, options.
CASES = [
    ("mlp", 64, 1, 1, 1, ()),
    ("mlp", 4096, 1, 1, 1, ()),
    ("mlp", 2048, 1, 3, 1, ("--optimizer", "adam")),
    ("cnn", 256, 1, 1, 1, ()),
    ("cnn", 256, 1, 2, 2, ("--optimizer", "momentum")),
    ("cnn", 512, 2, 1, 4, ()),
    ("cnn", 256, 1, 1, 1, ("--precision", "bf16")),
    ("transformer", 512, 1, 1, 1, ()),
    ("transformer", 1024, 1, 2, 1, ("--optimizer", "adam")),
    ("transformer", 1024, 3, 1, 4, ()),
    ("transformer", 512, 1, 1, 1, ("--precision", "bf16")),
]


def compile_case(case: tuple, folder: Path) -> Path:
    model, batch, stages, cores, micro_batches, options = case
    path, cluster = MODELS / f"{model}.onnx", folder / "cluster.yaml"
    types = "\n".join(TYPE % index for index in range(stages))
    devices = ", ".join(f"core{index}: {cores}" for index in range(stages))
    cluster.write_text(CLUSTER % (types, devices))
    layers = folder / "model.layers.json"
    subprocess.run([BINARY, "import", path, "-o", layers], check=True, capture_output=True)
    names = [layer["name"] for layer in json.loads(layers.read_text())["layers"]]
    last = len(names) - 1
    pins = [f"{names[index * last // max(1, stages - 1)]}=core{index}" for index in range(stages)]
    command = [
        BINARY, "compile", path, "--cluster", cluster, "--batch", batch, "--micro-batches", micro_batches,
        "--schedule", "pipeline" if stages > 1 else "data-parallel", "--pin", *pins, *options,
        "-o", folder / "plan",
    ]  # fmt: skip
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return folder / "plan"


def run_case(case: tuple, folder: Path, memory: int | None = None) -> dict:
    folder.mkdir()
    plan = compile_case(case, folder)
    result, world = folder / "result.json", case[2] * case[3]
    assert len(list((plan / "ranks").iterdir())) == world
    options = ["--steps", "3", "--threads", "1", "--no-save", "--json", str(result)]
    outcomes = run_ranks(world, folder / "logs", [str(plan), *options], memory=memory)
    assert [outcome.status for outcome in outcomes] == [0] * world, outcomes
    return json.loads(result.read_text())


def test_predictions_are_upper_bounds_and_close(tmp_path: Path):
    shares = []
    for index, case in enumerate(CASES):
        result = run_case(case, tmp_path / str(index))
        for predicted, resident, peak in zip(
            result["predictedBytes"], result["residentBytes"], result["peakBytes"], strict=True
        ):
            assert peak <= resident <= predicted, (case, predicted, resident)
            shares.append(resident / predicted)
    assert statistics.median(shares) >= 0.6, shares


@pytest.mark.parametrize("case", [("cnn", 512, 1, 1, 1, ()), ("transformer", 1024, 1, 1, 2, ())])
def test_a_rank_survives_a_limit_of_what_is_predicted(case: tuple, tmp_path: Path):
    """Of its data (RLIMIT_DATA) from when it makes its stage on: what the plan counts beside the process,
    which has loaded all it needs by then."""
    folder = tmp_path / "free"
    run_case(case, folder)
    (stage,) = json.loads((folder / "plan/plan.json").read_text())["stages"]
    tensors = int(stage["memoryBytes"] - stage["overheadBytes"])
    limited = run_case(case, tmp_path / "limited", memory=tensors)
    assert len(limited["losses"]) == 3
