"""Whoever ends `heterplan run` or launch.sh, and however, ends the ranks: none trains on alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from binary import BINARY, heterplan, needs_binary

MODEL = Path(__file__).resolve().parents[1] / "data/small/cnn.onnx"
PATIENCE = 120  # seconds until ranks train: imports of torch on a busy machine
GONE_WITHIN = 10  # seconds

CLUSTER = """
name: test
device_types:
  a: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 2MFLOP/s, bandwidth: 2MB/s}
nodes:
  - {name: one, devices: {a: 1}, link: {bandwidth: 1000GB/s, latency: 1ns}}
  - {name: two, devices: {a: 1}, link: {bandwidth: 1000GB/s, latency: 1ns}}
network: {bandwidth: 1000GB/s, latency: 1ns}
"""
# Runs on this machine what is to run on a host; as ssh does, by way of a shell.
SSH = """#!/bin/bash
while [[ $1 == -o ]]; do shift 2; done
[[ $1 == -- && $# == 3 ]] || { echo "ssh: unexpected arguments $*" >&2; exit 255; }
exec sh -c "$3"
"""

pytestmark = [
    needs_binary,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc"),
]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signals")
    (folder / "cluster.yaml").write_text(CLUSTER)
    heterplan(
        "compile", MODEL, "--cluster", folder / "cluster.yaml", "--batch", 8, "-o", folder / "plan"
    )  # fmt: skip
    (folder / "ssh").write_text(SSH)
    (folder / "ssh").chmod(0o755)
    return folder / "plan"


def marked(mark: str) -> list[int]:
    """The processes that have `mark` in their environment: those that were started below us."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            alive = entry.name.isdigit() and (entry / "stat").read_text().split(") ")[1][0] != "Z"
            if alive and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def start(plan: Path, way: str, mark: str, log: Path) -> subprocess.Popen[bytes]:
    options = ["--steps", "1000000", "--warmup", "0"]
    commands = {
        "run": [BINARY, "run", plan, *options],
        "run-json": [BINARY, "run", plan, *options, "--json"],
        "launch.sh": [plan / "launch.sh", *options],
        "hosts": [plan / "launch.sh", "--hosts", "localhost,localhost", "--port", "29517", *options],
    }
    environment = {
        **os.environ, "HETERPLAN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "MARK": mark,
        "TMPDIR": str(log.parent),
        "PATH": f"{plan.parent}:{os.environ['PATH']}",
    }  # fmt: skip
    with log.open("wb") as output:
        return subprocess.Popen(
            [str(word) for word in commands[way]], stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, start_new_session=True, env=environment,
        )  # fmt: skip


def wait_for(condition, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


CASES = [
    *(("run", name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGKILL")),
    *(("launch.sh", name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGKILL")),
    *(("hosts", name) for name in ("SIGTERM", "SIGINT", "SIGKILL")),
    ("run-json", "SIGTERM"),
]


@pytest.mark.parametrize("way, name", CASES)
def test_no_rank_is_left(way: str, name: str, plan: Path, tmp_path: Path) -> None:
    mark, log = f"MARK={uuid.uuid4()}", tmp_path / "log"
    process = start(plan, way, mark.removeprefix("MARK="), log)
    try:
        wait_for(lambda: b"step 2 " in log.read_bytes(), PATIENCE, "no step was trained")
        assert len(marked(mark)) > 2
        process.send_signal(getattr(signal, name))
        process.wait(GONE_WITHIN)
        wait_for(lambda: not marked(mark), GONE_WITHIN, f"left: {marked(mark)}")
        assert process.returncode != 0
        if name != "SIGKILL":
            assert not list(tmp_path.glob("heterplan-run*"))
    finally:
        for left in marked(mark):
            os.kill(left, signal.SIGKILL)
        process.wait()
