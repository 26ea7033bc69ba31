"""Plans that run on a GPU; skipped where there is none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from binary import BINARY, needs_binary

CNN = Path(__file__).parents[2] / "test/data/small/cnn.onnx"
CLUSTER = """
name: one-gpu
device_types:
  core: {kind: cpu, memory: 4GiB, price_per_hour: 0.04, catalogue: cpu-core}
  gpu: {kind: gpu, memory: 10GB, price_per_hour: 1, catalogue: a100-sxm4-40gb}
nodes:
  - {name: localhost, devices: {gpu: 1, core: 2}, link: loopback}
"""

pytestmark = [
    needs_binary, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
]  # fmt: skip


def heterplan(*arguments: Any) -> str:
    done = subprocess.run(
        [BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def plan(tmp_path: Path) -> Any:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)

    def compiled(name: str, *options: Any) -> Path:
        folder = tmp_path / name
        heterplan("compile", CNN, "--cluster", tmp_path / "cluster.yaml", "--batch", 32, *options, "-o", folder)
        return folder

    return compiled


def run(folder: Path, *options: Any) -> dict[str, Any]:
    heterplan("run", folder, "--json", folder / "result.json", *options)
    return json.loads((folder / "result.json").read_text())


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_a_plan_passes_its_check(plan: Any, precision: str) -> None:
    folder = plan("one", "--max-devices", "core=0", "--micro-batches", 2, "--precision", precision)
    assert run(folder, "--steps", 4, "--check")["checkPassed"]


def test_stages_on_cores_and_on_the_gpu_pass_their_check(plan: Any) -> None:
    pins = ("--pin", "/stem/Conv=core", "/fc/Gemm=gpu")
    folder = plan("both", "--schedule", "pipeline", "--micro-batches", 2, *pins)
    assert run(folder, "--steps", 4, "--check")["checkPassed"]


def test_losses_go_on_where_the_gpu_ended(plan: Any, tmp_path: Path) -> None:
    """In fp32, on cores: to the precision of sums in another order."""
    gpu, cores = plan("gpu", "--max-devices", "core=0"), plan("cores", "--max-devices", "gpu=0")
    whole = run(cores, "--steps", 6)["losses"]
    kept = ("--checkpoint-every", 3, "--checkpoint-dir", tmp_path / "kept")
    begun = run(gpu, "--steps", 3, *kept)["losses"]
    ended = run(cores, "--steps", 6, *kept, "--resume")["losses"]
    assert [*begun, *ended[-3:]] == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_layers_are_measured_and_planned_with(plan: Any, tmp_path: Path, precision: str) -> None:
    profile = tmp_path / "cnn.json"
    heterplan(
        "profile", CNN, "--device", "cuda:0", "--device-type", "gpu", "--engine", "torch",
        "--precision", precision, "--batches", 32, "--rounds", 1, "-o", profile,
    )  # fmt: skip
    measured = json.loads(profile.read_text())
    assert measured["precision"] == precision and "core" not in measured["device"].lower()
    assert all(entry["forwardSeconds"] > 0 < entry["backwardSeconds"] for entry in measured["entries"])
    options = ("--max-devices", "core=0", "--precision", precision)
    folder = plan("measured", "--profile", profile, "--require-measured", *options)
    assert json.loads((folder / "plan.json").read_text())["provenance"]["measured"] > 0.99
