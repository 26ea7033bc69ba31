"""Plans train under the real Slurm, on virtual nodes of this machine."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from binary import heterplan, needs_binary
from slurm_cluster import SlurmCluster

MODEL = Path(__file__).resolve().parents[1] / "data/small/cnn.onnx"
CLUSTER = """
name: mixed
device_types:
  fast: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 3MFLOP/s, bandwidth: 3MB/s}
  middle: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 2MFLOP/s, bandwidth: 2MB/s}
  slow: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 1MFLOP/s, bandwidth: 1MB/s}
nodes:
  - {name: pair, count: 2, devices: {fast: 1, middle: 1}, link: {bandwidth: 1000GB/s, latency: 1ns}}
  - {name: single, count: 2, devices: {slow: 1}, link: {bandwidth: 1000GB/s, latency: 1ns}}
network: {bandwidth: 1000GB/s, latency: 1ns}
"""
# Slurm numbers its nodes by their names: the other way round than the plan.
NODES = {"n1": "slow", "n2": "slow", "n3": "fast,middle", "n4": "fast,middle"}
# A module of the user's: each rank notes where it runs.
NOTING = """
import os, pathlib
from torch.nn import functional
pathlib.Path({folder!r}, "rank" + os.environ["RANK"]).write_text(os.environ["SLURMD_NODENAME"])
def loss(outputs, targets):
    return functional.mse_loss(outputs, outputs.new_zeros(()) .expand_as(outputs))
"""

pytestmark = needs_binary


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory(prefix="hp-slurm-", dir="/tmp") as folder:
        cluster = SlurmCluster(Path(folder), NODES)
        yield cluster
        cluster.close()


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "noting.py").write_text(NOTING.format(folder=str(folder)))
    heterplan(
        "compile", MODEL, "--cluster", folder / "cluster.yaml", "--batch", 48, "--schedule", "data-parallel", "-o",
        folder / "plan",
    )  # fmt: skip
    return folder / "plan"


def submit(slurm: SlurmCluster, plan: Path, *command: object) -> str:
    """Waits for the end of the job; its output, after its exit status."""
    folder = plan.parent
    environment = {
        **slurm.environment, "HETERPLAN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1",
    }  # fmt: skip
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, timeout=200
    )
    log = folder / "job.log"
    return f"status {done.returncode}\n{done.stderr}{done.stdout}" + (log.read_text() if log.exists() else "")


def test_a_batch_job_trains_each_rank_on_its_planned_node(slurm: SlurmCluster, plan: Path) -> None:
    said = submit(
        slurm, plan, "sbatch", "--wait", "-o", "job.log", plan / "launch.sbatch", "--steps", "2", "--check",
        "--loss", "noting:loss", "--no-save",
    )  # fmt: skip
    assert said.startswith("status 0\n") and "check: 2 losses equal" in said, said
    assert said.count("step 2 ") == 1, "each task trained all ranks"
    nodes = [(plan.parent / f"rank{rank}").read_text() for rank in range(6)]
    assert nodes == ["n3", "n3", "n4", "n4", "n1", "n2"]
