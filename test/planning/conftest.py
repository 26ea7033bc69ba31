"""The binary, and a small problem by hand: times are stated, so that expectations can be worked out."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

SOURCE = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HETERPLAN_BINARY", SOURCE / "build/bin/heterplan"))
MODELS = SOURCE / "test/data/models"
CLUSTERS = SOURCE / "profiles/clusters"

# Seconds of a forward pass of one sample on `slow`; a backward pass takes twice that, `fast` a
# quarter. In bytes: parameters, and activations of a sample.
TOWER = {
    "embed": (0.002, 400e6, 1e6),
    "first": (0.004, 100e6, 8e6),
    "second": (0.004, 100e6, 8e6),
    "third": (0.004, 100e6, 8e6),
    "head": (0.001, 10e6, 1e6),
}
SPEEDS = {"fast": 4, "slow": 1}


def tower_layers() -> dict:
    names = list(TOWER)
    return {
        "schemaVersion": "1.0",
        "model": "tower",
        "layers": [
            {"name": name, "parameterBytes": parameters, "activationBytes": activations}
            for name, (_, parameters, activations) in TOWER.items()
        ],
        "tensors": [
            {
                "name": f"{a}-{b}",
                "producer": a,
                "consumers": [b],
                "bytesPerSample": 1e5,
            }
            for a, b in zip(names, names[1:])
        ],
    }


def tower_profile() -> dict:
    entries = []
    for name, (seconds, _, _) in TOWER.items():
        for kind, speed in SPEEDS.items():
            for batch in (1, 64):
                forward = batch * seconds / speed
                entries.append(
                    {
                        "layer": name,
                        "deviceType": kind,
                        "batch": batch,
                        "forwardSeconds": forward,
                        "backwardSeconds": 2 * forward,
                        "updateSeconds": 1e-4,
                    }
                )
    return {"schemaVersion": "1.0", "model": "tower", "date": "2026-01-31", "entries": entries}


def pool(fast: int = 4, slow: int = 2, fast_memory: str = "4GB", slow_memory: str = "16GB") -> dict:
    """A node of `fast` devices and nodes of one `slow` each; the type `gone` has no device."""
    nodes = []
    if fast:
        nodes.append({"name": "f", "devices": {"fast": fast}, "link": {"bandwidth": "20GB/s", "latency": "1us"}})
    if slow:
        nodes.append({"name": "s", "count": slow, "devices": {"slow": 1}})
    return {
        "name": "pool",
        "device_types": {
            "fast": {"kind": "gpu", "memory": fast_memory, "price_per_hour": 3},
            "slow": {"kind": "cpu", "memory": slow_memory, "price_per_hour": 1},
            "gone": {"kind": "gpu", "memory": "80GB", "price_per_hour": 9},
        },
        "nodes": nodes,
        "network": {"bandwidth": "10GB/s", "latency": "5us"},
    }


def bundled(name: str) -> dict:
    return yaml.safe_load((CLUSTERS / f"{name}.yaml").read_text())


@dataclass
class Job:
    """One call of `heterplan compile`; options as they are typed, the cluster as its file says."""

    model: str  # a bundled model, or "tower"
    cluster: dict
    options: list[tuple[str, str]] = field(default_factory=list)
    folder: Path = Path()

    def command(self) -> list[str]:
        cluster = self.folder / "cluster.yaml"
        cluster.write_text(yaml.safe_dump(self.cluster, sort_keys=False))
        command = [str(BINARY), "compile"]
        if self.model == "tower":
            (self.folder / "tower.layers.json").write_text(json.dumps(tower_layers()))
            (self.folder / "tower.profile.json").write_text(json.dumps(tower_profile()))
            command += [str(self.folder / "tower.layers.json")]
            command += ["--profile", str(self.folder / "tower.profile.json")]
        else:
            command += [str(MODELS / f"{self.model}.onnx")]
        command += ["--cluster", str(cluster), "-o", str(self.folder / "out"), "--force", "--json"]
        for name, value in self.options:
            command += [name, value] if value else [name]
        return command

    def run(self) -> tuple[int, dict]:
        done = subprocess.run(self.command(), capture_output=True, text=True)
        assert done.returncode in (0, 2), done.stderr
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def job(tmp_path: Path):
    def make(model: str, cluster: dict, options: list[tuple[str, str]]) -> Job:
        return Job(model, cluster, options, tmp_path)

    return make
