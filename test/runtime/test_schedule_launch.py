"""The files of `schedule --format` start the jobs of a slot: on the real Slurm, and by manifests that keep their
schemas."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from binary import BINARY, heterplan, needs_binary
from slurm_cluster import SlurmCluster
from test_manifests import SCHEMAS, faults

yaml = pytest.importorskip("yaml")
pytestmark = needs_binary
CLUSTER = """
name: four
device_types:
  xeon: {kind: cpu, memory: 16GiB, price_per_hour: 1, cores: 4}
nodes:
  - {name: n1, devices: {xeon: 1}, link: {bandwidth: 10GB/s, latency: 1us}}
  - {name: n2, devices: {xeon: 1}, link: {bandwidth: 10GB/s, latency: 1us}}
  - {name: n3, devices: {xeon: 1}, link: {bandwidth: 10GB/s, latency: 1us}}
network: {bandwidth: 10GB/s, latency: 1us}
"""
# "spread" is larger than a node; "served" has servers; "later" starts in slot 1.
JOBS = """
slot: 60s
slots: 10
jobs:
  - {name: spread, arrival: 0, epochs: 1, samples: 360, batch: 6, sample_time: 1s, gradient: 0B, min_workers: 6,
     worker: {cpu: 1}, server: {}, workers_per_server: 8, utility: {kind: deadline, value: 50, deadline: 0}, command: COMMAND}
  - {name: served, arrival: 0, epochs: 1, samples: 120, batch: 2, sample_time: 1s, gradient: 0B, min_workers: 2,
     worker: {cpu: 1}, server: {cpu: 1}, workers_per_server: 2, utility: {kind: deadline, value: 50, deadline: 0}, command: COMMAND}
  - {name: "later one", arrival: 1, epochs: 1, samples: 60, batch: 1, sample_time: 1s, gradient: 0B,
     worker: {cpu: 1}, server: {}, workers_per_server: 8, utility: {kind: deadline, value: 50, deadline: 0}, command: COMMAND}
"""
# Each task notes its job, role and node; the quotes have to survive all shells on the way.
COMMAND = (
    "\"echo \\\"$HETERPLAN_JOB $HETERPLAN_ROLE $HETERPLAN_WORKERS $HETERPLAN_SERVERS\\\" '$SLURMD_NODENAME'"
    " $SLURMD_NODENAME >> FOLDER/$HETERPLAN_JOB.$SLURMD_NODENAME.$SLURM_LOCALID.$HETERPLAN_ROLE\""
)


def decided(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each job, by its name."""
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "jobs.yaml").write_text(JOBS.replace("COMMAND", COMMAND.replace("FOLDER", str(folder / "said"))))
    (folder / "said").mkdir()
    said = heterplan(
        "schedule", "--state", folder / "s.json", "--cluster", folder / "cluster.yaml", "--slots", 10, "--arrive",
        folder / "jobs.yaml", "--json",
    )  # fmt: skip
    return {job["job"]: job["allocations"] for job in json.loads(said)["jobs"]}


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory(prefix="hp-slurm-", dir="/tmp") as folder:
        cluster = SlurmCluster(Path(folder), {"n1": "xeon", "n2": "xeon", "n3": "xeon"})
        yield cluster
        cluster.close()


def test_slurm_runs_the_tasks_of_a_slot_on_their_nodes(slurm: SlurmCluster, tmp_path: Path) -> None:
    rows = decided(tmp_path)
    assert all(rows.values()), rows
    heterplan("schedule", "--state", tmp_path / "s.json", "--format", "slurm", "-o", tmp_path / "slot")
    scripts = sorted((tmp_path / "slot").iterdir())
    assert [script.name for script in scripts] == ["served.sbatch", "spread.sbatch"], "the third job starts later"
    for script in scripts:
        done = subprocess.run(
            ["sbatch", "--wait", "-o", str(tmp_path / "log"), str(script)], cwd=tmp_path, env=slurm.environment,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        log = (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
        assert done.returncode == 0, done.stderr + log + script.read_text()
    tasks: dict[tuple[str, str, str], int] = {}
    for path in (tmp_path / "said").iterdir():
        name, node, _, role = path.name.split(".")
        workers, servers = (6, 0) if name == "spread" else (2, 1)
        lines = path.read_text().splitlines()
        assert set(lines) == {f"{name} {role} {workers} {servers} $SLURMD_NODENAME {node}"}
        tasks[name, role, node] = tasks.get((name, role, node), 0) + len(lines)
    expected: dict[tuple[str, str, str], int] = {}
    for name in ("spread", "served"):
        for row in rows[name]:
            if row["slot"] == 0 and row["workers"]:
                expected[name, "worker", row["node"]] = row["workers"]
            if row["slot"] == 0 and row["servers"] and name == "served":
                expected[name, "server", row["node"]] = row["servers"]
    assert tasks == expected


def test_manifests_of_kueue_keep_their_schemas(tmp_path: Path) -> None:
    rows = decided(tmp_path)
    heterplan(
        "schedule", "--state", tmp_path / "s.json", "--format", "kueue", "--queue", "team", "-o", tmp_path / "slot"
    )
    found = {path.name: list(yaml.safe_load_all(path.read_text())) for path in (tmp_path / "slot").iterdir()}
    assert sorted(found) == ["resource_flavors.kueue.yaml", "served.kueue.yaml", "spread.kueue.yaml"]
    for each in sum(found.values(), []):
        assert not list(faults(SCHEMAS["kinds"][each["kind"]], each, each["kind"]))
    (flavor,) = found["resource_flavors.kueue.yaml"]
    for name in ("spread", "served"):
        (jobset,) = found[f"{name}.kueue.yaml"]
        assert jobset["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team"} and jobset["spec"]["suspend"]
        pods = {}
        for part in jobset["spec"]["replicatedJobs"]:
            spec = part["template"]["spec"]
            selector = spec["template"]["spec"]["nodeSelector"]
            assert flavor["spec"]["nodeLabels"].items() <= selector.items()
            (container,) = spec["template"]["spec"]["containers"]
            (role,) = [each["value"] for each in container["env"] if each["name"] == "HETERPLAN_ROLE"]
            assert spec["completions"] == spec["parallelism"] and container["command"][:2] == ["bash", "-c"]
            pods[role, selector["kubernetes.io/hostname"]] = spec["completions"]
        expected = {("worker", row["node"]): row["workers"] for row in rows[name] if row["slot"] == 0}
        if name == "served":
            expected.update({("server", row["node"]): row["servers"] for row in rows[name] if row["slot"] == 0})
        assert pods == {key: count for key, count in expected.items() if count}


def test_files_of_an_earlier_slot_go_and_others_stay(tmp_path: Path) -> None:
    decided(tmp_path)
    state = ("schedule", "--state", tmp_path / "s.json", "-o", tmp_path / "slot", "--format", "slurm")
    heterplan(*state)
    heterplan(*state, "--at", 1)
    assert [path.name for path in (tmp_path / "slot").iterdir()] == ["later_one.sbatch"]
    (tmp_path / "slot" / "notes.txt").write_text("mine")
    run = subprocess.run([BINARY, *map(str, state)], capture_output=True, text=True)
    assert run.returncode == 1 and "has other files" in run.stderr
    heterplan(*state, "--force", "--at", 5)
    assert [path.name for path in (tmp_path / "slot").iterdir()] == ["notes.txt"]


def test_a_job_without_a_command_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "jobs.yaml").write_text(JOBS.replace(", command: COMMAND", ""))
    arrive = (
        "schedule", "--state", tmp_path / "s.json", "--cluster", tmp_path / "cluster.yaml", "--arrive",
        tmp_path / "jobs.yaml", "--format", "slurm", "-o", tmp_path / "slot",
    )  # fmt: skip
    run = subprocess.run([BINARY, *map(str, arrive)], capture_output=True, text=True)
    assert run.returncode == 1 and "job 'spread' starts in slot 0 and has no command" in run.stderr
    assert not (tmp_path / "s.json").exists(), "a call that fails changes nothing"
