#!/usr/bin/env python3
"""How far are plans of a deep branched network from the best pipeline over every cut of the same order?

    bench/branched.py

The network is like NASNet-large: 783 layers in cells, each of which reads the two before it. "best": dynamic programming over all
cuts (test/planning/branched.py), which shares nothing with the planner. Prints a table in Markdown.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import gaps
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test/planning"))
from branched import best_pipeline, nasnet  # noqa: E402

CELLS, BRANCHES, DEPTH = 12, 16, 4
POOLS = ({"fast": 8}, {"fast": 4, "slow": 4})
SPEEDS = {"fast": 2, "slow": 1}


def row(devices: dict[str, int], folder: Path) -> str:
    network = nasnet(CELLS, BRANCHES, DEPTH, {kind: SPEEDS[kind] for kind in devices})
    for name, value in (("n.layers.json", network.layers_file()), ("n.profile.json", network.profile())):
        (folder / name).write_text(json.dumps(value))
    (folder / "c.yaml").write_text(yaml.safe_dump(network.cluster(devices)))
    options = ("--profile", str(folder / "n.profile.json"), "--micro-batches", str(gaps.BATCH), "--layer-order", "given")
    found = gaps.compiled(gaps.Workload("", folder / "n.layers.json", str(folder / "c.yaml"), options), folder)
    seconds, best = gaps.BATCH / found["throughput"], best_pipeline(network, devices, gaps.BATCH)
    pool = " and ".join(f"{count} {kind}" for kind, count in devices.items())
    return (
        f"| {network.size} layers on {pool} | {found['stages']} | {100 * found['gap']:.2f} | {seconds:.4f} | {best:.4f} "
        f"| {100 * (seconds / best - 1):.2f} | {found['cpu']:.1f} | {found['megabytes']:.0f} |"
    )


def main() -> None:
    print("| network | stages | gap % | iteration s | best s | more % | CPU s | MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as name:
        for devices in POOLS:
            print(row(devices, Path(name)), flush=True)


if __name__ == "__main__":
    main()
