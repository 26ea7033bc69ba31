"""The online form of `schedule` keeps its state whole when a call is killed at any moment."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

from binary import BINARY, heterplan, needs_binary
from test_schedule_launch import CLUSTER

pytestmark = needs_binary
JOB = """
name: {name}
arrival: 0
epochs: 1
samples: 120
batch: 2
sample_time: 1s
gradient: 0B
worker: {{cpu: 1}}
server: {{}}
workers_per_server: 8
utility: {{kind: constant, value: 1}}
"""


def arrival(folder: Path, name: str) -> list[object]:
    """The arguments of a call with which the job `name` arrives."""
    job = folder / f"{name}.yaml"
    job.write_text(JOB.format(name=name))
    return ["schedule", "--state", folder / "state.json", "--arrive", job]


def names(state: dict) -> list[str]:
    return [job["job"]["name"] for job in state["jobs"]] + [job["name"] for job in state["ended"]]


def test_a_killed_call_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    state = tmp_path / "state.json"
    started = time.monotonic()
    heterplan(*arrival(tmp_path, "first"), "--cluster", tmp_path / "cluster.yaml", "--slots", 200)
    usual = time.monotonic() - started
    known, lost = ["first"], 0
    calls = 25
    for call in range(calls):
        name = f"job-{call}"
        process = subprocess.Popen(
            [BINARY, *map(str, arrival(tmp_path, name))],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(usual * 1.2 * call / calls)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = names(json.loads(state.read_text()))
        assert sorted(found) in (sorted(known), sorted([*known, name]))
        lost += name not in found
        known = found
        # The lock of the killed call is gone, and the checksum of the state is right.
        heterplan(*arrival(tmp_path, f"after-{call}"), "--at", call)
        known.append(f"after-{call}")
    assert lost > 0, "no call was killed before its end"
    assert sorted(names(json.loads(state.read_text()))) == sorted(known)
