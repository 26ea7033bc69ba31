"""Each host of a launch gets the ranks that the plan has for its node."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

from conftest import BINARY, SOURCE

SMALL = SOURCE / "test/data/small"
CLUSTER = """
name: two-mixed-nodes
device_types:
  t4: {kind: gpu, memory: 16GB, catalogue: t4}
  v100: {kind: gpu, memory: 16GB, catalogue: v100-sxm2-16gb}
nodes:
  - {name: host, count: 2, devices: {t4: 4, v100: 4}, link: pcie3}
network: {bandwidth: 100Gbit/s, latency: 10us}
"""


def test_mixed_nodes_get_their_own_ranks(tmp_path: Path):
    """One data-parallel stage on two nodes of 4 T4 and 4 V100."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    plan = tmp_path / "plan"
    subprocess.run(
        [BINARY, "compile", SMALL / "transformer.onnx", "--cluster", tmp_path / "cluster.yaml",
         "--batch", "65536", "--schedule", "data-parallel", "-o", plan],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    devices = [json.loads(path.read_text())["device"] for path in sorted((plan / "ranks").iterdir())]
    assert len(devices) == 16
    for index in (0, 1):
        launch = subprocess.run(
            ["bash", plan / "launch.sh", "--hosts", "a,b", "--node-rank", str(index), "--dry-run"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        assert rf"HETERPLAN_HOSTS=a=8\,b=8 HETERPLAN_HOST_INDEX={index} " in launch.stdout
        assert f"HETERPLAN_NODE=host-{index} " in launch.stdout
        own = devices[8 * index : 8 * index + 8]
        assert Counter((each["node"], each["type"]) for each in own) == {
            (f"host-{index}", "t4"): 4, (f"host-{index}", "v100"): 4,
        }  # fmt: skip
