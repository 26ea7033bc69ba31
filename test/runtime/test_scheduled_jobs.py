"""Jobs of a schedule really run here, slot by slot, with the workers that they have there: one grows, one shrinks,
one waits. Each goes on from its last checkpoint and trains the samples that it was promised."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from binary import BINARY, heterplan, needs_binary

SMALL = Path(os.environ.get("HETERPLAN_SOURCE_DIR", Path(__file__).parents[2])) / "test/data/small"
pytestmark = needs_binary

# Cores so slow that a slot has few steps, and that two of them are better than one.
CLUSTER = """
device_types:
  core: {kind: cpu, memory: 1GB, cores: 1, fp32: 10MFLOP/s, bandwidth: 10MB/s}
nodes:
  - {name: here, devices: {core: 3}, link: {bandwidth: 10GB/s, latency: 1us}}
"""
SLOTS = 4


def stretches(out: Path) -> dict[str, list[dict[str, Any]]]:
    """By job, in the order of slots; each with its folder."""
    jobs: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(out.glob("jobs/*/slot-*/allocation.json")):
        facts = json.loads(path.read_text())
        jobs.setdefault(facts["job"], []).append(facts | {"folder": path.parent})
    return jobs


def start(folder: Path) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "HETERPLAN": BINARY,
        "HETERPLAN_PYTHON": sys.executable,
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [folder / "run.sh", "--lr", "0.05", "--json", folder / "result.json"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def devices_of(plan: Path) -> int:
    facts = json.loads((plan / "plan.json").read_text())
    return sum(len(r["devices"]) for s in facts["stages"] for r in s["replicas"])
JOBS = """
slot: 250ms
slots: 4
jobs:
  - {name: waits, arrival: 0, epochs: 1, samples: 158, batch: 3, model: MODEL, worker: {cpu: 1, memory: 64MiB},
     server: {}, workers_per_server: 4, utility: {kind: constant, value: 10}}
  - {name: first, arrival: 1, epochs: 2, samples: 40, batch: 2, model: MODEL, worker: {cpu: 1, memory: 64MiB},
     server: {}, workers_per_server: 4, utility: {kind: deadline, value: 10, deadline: 1}}
  - {name: second, arrival: 1, epochs: 2, samples: 40, batch: 2, model: MODEL, worker: {cpu: 1, memory: 64MiB},
     server: {}, workers_per_server: 4, utility: {kind: deadline, value: 10, deadline: 1}}
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schedule")
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "jobs.yaml").write_text(JOBS.replace("MODEL", str(SMALL / "mlp.onnx")))
    # The only schedule with all three has this shape, so that the optimum is asked for.
    heterplan("schedule", folder / "jobs.yaml", "--cluster", folder / "cluster.yaml", "--policy", "offline",
              "-o", folder / "out")  # fmt: skip
    return folder / "out"


def test_one_job_grows_one_shrinks_and_one_waits(out: Path) -> None:
    jobs = stretches(out)
    workers = {name: [s["workers"] for s in parts] for name, parts in jobs.items()}
    assert sorted([workers["first"], workers["second"]]) == [[1, 2], [2, 1]]
    assert workers["waits"] == [3, 3]
    assert [s["firstSlot"] for s in jobs["waits"]] == [0, 3]
    for job in yaml.safe_load(JOBS)["jobs"]:
        parts = jobs[job["name"]]
        assert [s["stepsBefore"] for s in parts] == [0, parts[0]["steps"]]
        assert sum(s["steps"] for s in parts) == math.ceil(job["epochs"] * job["samples"] / job["batch"])


def test_they_run_and_train_what_was_promised(out: Path, tmp_path: Path) -> None:
    jobs = stretches(out)
    losses: dict[str, list[float]] = {name: [] for name in jobs}
    assert all((s["folder"] / "plan/plan.json").exists() for parts in jobs.values() for s in parts)
    for slot in range(SLOTS):  # those of a slot run at once, as they are planned
        running = [(s, start(s["folder"])) for parts in jobs.values() for s in parts if s["firstSlot"] == slot]
        for stretch, process in running:
            output, _ = process.communicate(timeout=120)
            assert process.returncode == 0, output
            result = json.loads((stretch["folder"] / "result.json").read_text())
            assert len(result["losses"]) == stretch["steps"]
            assert 1 <= devices_of(stretch["folder"] / "plan") <= stretch["workers"]
            losses[stretch["job"]] += result["losses"]
    for name, parts in jobs.items():
        steps = sorted(int(p.name.removeprefix("step-")) for p in out.glob(f"jobs/{name}/checkpoints/step-*"))
        assert steps[-1] == len(losses[name]) == sum(s["steps"] for s in parts)
    again = start(jobs["second"][-1]["folder"])
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 0, output  # nothing is left to do
    # Another plan in one piece: the same losses.
    name = "first"
    folder = jobs[name][-1]["folder"]
    heterplan("run", folder / "plan", "--lr", "0.05", "--steps", len(losses[name]), "--json", tmp_path / "whole.json",
              "--checkpoint-dir", tmp_path / "checkpoints")  # fmt: skip
    whole = json.loads((tmp_path / "whole.json").read_text())["losses"]
    assert losses[name] == pytest.approx(whole, rel=1e-4)
    assert whole[-1] != whole[0]


def test_jobs_of_the_online_form_run_by_their_plans(tmp_path: Path) -> None:
    """A node goes down while a job runs; the job goes on elsewhere, from its checkpoint."""
    two = CLUSTER + CLUSTER.splitlines()[-1].replace("here", "there") + "\nnetwork: {bandwidth: 10GB/s, latency: 1us}\n"
    (tmp_path / "cluster.yaml").write_text(two)
    load = yaml.safe_load(JOBS.replace("MODEL", str(SMALL / "mlp.onnx")))
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(load["jobs"][0] | {"max_nodes": 1, "batch": 2}))
    state, out = tmp_path / "state.json", tmp_path / "out"
    heterplan("schedule", "--state", state, "--cluster", tmp_path / "cluster.yaml", "--slot", "250ms", "--slots", 40,
              "--arrive", tmp_path / "job.yaml", "-o", out)  # fmt: skip
    first = stretches(out)["waits"]
    node = first[0]["nodes"][0]["node"]
    heterplan("schedule", "--state", state, "--at", first[0]["firstSlot"] + 1, "--node-down", node, "-o", out)
    parts = stretches(out)["waits"]
    assert len(parts) > 1 and parts[0]["nodes"][0]["node"] == node
    assert all(row["node"] != node for part in parts[1:] for row in part["nodes"])
    losses = 0
    for part in parts:
        assert part["steps"] == 0 or (part["folder"] / "plan/plan.json").exists()
        output, _ = (process := start(part["folder"])).communicate(timeout=120)
        assert process.returncode == 0, output
        if part["steps"]:
            losses += len(json.loads((part["folder"] / "result.json").read_text())["losses"])
    assert losses == 79  # of two samples: all of its work, once
