#!/usr/bin/env python3
"""Steps of a pipeline of two hosts whose transfers overlap computing, against the same without, measured and predicted.

    bench/transfers.py [--steps N] [--rounds N] [--json FILE]

The hosts are network namespaces with 1 Gbit/s and 1 ms between them (as root; see test/runtime/test_namespaces.py), of
one thread each. The model is a chain of convolutions whose activations take about as long to travel as to compute. Its
layers and the link are profiled first; then the plans without and with --overlap-transfers run in turns, so many rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from ddp import CLUSTER, HETERPLAN, LINK, NODE, call, profile_link
from torch import nn

SAMPLES, MICRO_BATCHES, CHANNELS, SIDE = 16, 8, 32, 64
OPTIONS = {"apart": (), "overlapped": ("--overlap-transfers",)}


def convolutions(layers: int = 10) -> nn.Module:
    torch.manual_seed(0)
    body: list[nn.Module] = [nn.Conv2d(3, CHANNELS, 3, padding=1), nn.ReLU()]
    for _ in range(layers):
        body += [nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, 10))


def profile(folder: Path, network: Any) -> None:
    import heterplan

    heterplan.export(convolutions(), torch.randn(2, 3, SIDE, SIDE), folder / "model.onnx")
    call(
        HETERPLAN, "profile", folder / "model.onnx", "--device", "cpu", "--device-type", "core", "--engine", "torch",
        "--cores", 0, "--batches", SAMPLES // MICRO_BATCHES, "--loss", "cross_entropy", "-o", folder / "profile.json",
    )  # fmt: skip
    profile_link(network, folder / LINK)
    nodes = "".join(NODE.format(name=f"host-{rank}") for rank in range(2))
    (folder / "cluster.yaml").write_text(CLUSTER.format(nodes=nodes, network="ethernet-1g"))


def compile_plan(folder: Path, name: str) -> dict[str, Any]:
    call(
        HETERPLAN, "compile", folder / "model.onnx", "--cluster", folder / "cluster.yaml", "--batch", SAMPLES,
        "--micro-batches", MICRO_BATCHES, "--schedule", "pipeline", "--recompute", "never", "--objective",
        "throughput", "--profile", folder / "profile.json", "--profile", folder / LINK, *OPTIONS[name], "-o",
        folder / name, "--force",
    )  # fmt: skip
    plan = json.loads((folder / name / "plan.json").read_text())
    if len(plan["stages"]) != 2:
        raise SystemExit(f"{name}: {len(plan['stages'])} stages")
    return plan


def measured(folder: Path, name: str, steps: int, network: Any) -> float:
    """Median seconds of a step."""
    out = folder / "result.json"
    processes = []
    for rank in range(2):
        environment = {
            **os.environ, "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": network.hosts[0], "MASTER_PORT": "29412", "OMP_NUM_THREADS": "1",
            "HETERPLAN_NODE": f"host-{rank}", "GLOO_SOCKET_IFNAME": "wire", "PYTHONPATH": str(folder / name),
        }  # fmt: skip
        command = [
            "ip", "netns", "exec", f"{network.prefix}{rank + 1}", sys.executable, "-m", "heterplan_runtime",
            folder / name, "--steps", steps, "--loss", "cross_entropy", "--data", "fixed", "--threads", 1, "--no-save",
            "--json", out,
        ]  # fmt: skip
        processes.append(subprocess.Popen([str(each) for each in command], env=environment, stdout=subprocess.DEVNULL))
    if any([process.wait() for process in processes]):
        raise SystemExit(f"{name}: a rank failed")
    return float(json.loads(out.read_text())["measuredSeconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12, help="of each run (12)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each plan (3)")
    parser.add_argument("--json", type=Path, help="write what was seen to FILE")
    arguments = parser.parse_args()
    from test_namespaces import Network

    network = Network()
    try:
        network.make()
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            profile(folder, network)
            plans = {name: compile_plan(folder, name) for name in OPTIONS}
            times: dict[str, list[float]] = {name: [] for name in OPTIONS}
            for _ in range(arguments.rounds):
                for name in OPTIONS:
                    times[name].append(measured(folder, name, arguments.steps, network))
    finally:
        network.remove()
    rows = []
    print("| transfers | cut behind layer | measured ms | predicted ms | off by |\n| --- | --- | ---: | ---: | ---: |")
    for name, plan in plans.items():
        own, predicted = statistics.median(times[name]), plan.get("expectedSeconds", plan["iterationSeconds"])
        rows.append({"transfers": name, "measured": times[name], "predicted": predicted, "stages": plan["stages"]})
        cut = plan["stages"][0]["layers"][-1]
        print(f"| {name} | {cut} | {own * 1e3:.0f} | {predicted * 1e3:.0f} | {predicted / own - 1:+.0%} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
