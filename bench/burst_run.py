#!/usr/bin/env python3
"""Do burst plans run as planned, alone and with a background job? Writes docs/experiments/burst-run.md.

    bench/burst_run.py [--steps N] [--out FOLDER] [--document FILE]

A small CNN with branches on four CPU ranks of this machine: one plan whose branches lie side by side, made for slow
workers, and one made for this machine from layers and links that are measured first. Each is trained with --check
(losses beside those of one process, in double precision), then alone, then with copies of a small MLP in its gaps. The
machine should be quiet.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from others import Others

ROOT = Path(__file__).resolve().parents[1]
HETERPLAN = os.environ.get("HETERPLAN_BINARY", str(ROOT / "build/bin/heterplan"))
SMALL = ROOT / "test/data/small"
MODEL, BACKGROUND = SMALL / "branches.onnx", SMALL / "mlp.onnx"
BATCH, WARMUP, TARGET = 16, 3, 0.1
NO_COPIES: dict[str, Any] = {"slowdown": None, "clusterThroughput": None, "steps": []}  # where no device is idle
DEAR = ROOT / "test/data/parts/dear-messages.yaml"

CLUSTER = """\
name: this-machine
device_types:
  core: {kind: cpu, memory: 1GiB, price_per_hour: 0.1, catalogue: cpu-core}
nodes:
  - {name: here, devices: {core: 4}, link: loopback}
"""

HEADER = """# Burst plans on four CPU ranks

    bench/burst_run.py

`test/data/small/branches.onnx` (two blocks of three branches), batch %d, on four ranks of a machine with %d cores. *Side by side*: planned for the slow workers of
`test/data/parts/dear-messages.yaml`, whose predictions are not about this machine. *Measured*: planned for this machine from layers and links measured on it, at limit 2. Difference: the largest
relative one of the losses of a run with `--check` from those of one process. Milliseconds of a step are medians, those beside the copies of at least %d steps. Copies: of
`test/data/small/mlp.onnx`, batch 2, which may lengthen a step by %g %%. A device is idle by the plan; where there are fewer cores than ranks, another rank computes meanwhile.

| plan | devices of its stages | difference | ms predicted | ms alone | ms beside | slow-down | its limit | steps of copies | samples/s of both predicted | samples/s of both | alone |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |
"""


@dataclass
class Row:
    name: str
    folder: Path
    plan: dict[str, Any]
    checked: dict[str, Any]
    alone: dict[str, Any]
    together: dict[str, Any]

    def text(self) -> str:
        losses = zip(self.checked["losses"], self.checked["referenceLosses"], strict=True)
        difference = max(abs(found - wanted) / abs(wanted) for found, wanted in losses)
        job = self.together.get("background", NO_COPIES)
        alone = statistics.median(self.alone["stepSeconds"][WARMUP:])
        slowdown = "–" if job["slowdown"] is None else f"{job['slowdown']:.1%}"
        both = "–" if job["clusterThroughput"] is None else f"{job['clusterThroughput']:.0f}"
        beside = statistics.median(self.together["stepSeconds"][WARMUP:])
        steps = ", ".join(map(str, job["steps"])) or "–"
        predicted = self.plan["background"]["clusterThroughput"]
        return (
            f"| {self.name} | {', '.join(map(stage_text, self.plan['stages']))} | {difference:.1e} "
            f"| {1e3 * self.plan['iterationSeconds']:.1f} | {1e3 * alone:.1f} | {1e3 * beside:.1f} | {slowdown} "
            f"| {TARGET:.0%} | {steps} | {predicted:.0f} | {both} | {BATCH / alone:.0f} |\n"
        )


def stage_text(stage: dict[str, Any]) -> str:
    inputs = [str(each.get("stage", 0)) for each in stage.get("inputs", [])]
    return f"{len(stage['replicas'])}" + (f" (after {' '.join(inputs)})" if inputs else "")


def heterplan(*arguments: object) -> str:
    command = [HETERPLAN, *map(str, arguments)]
    environment = {**os.environ, "HETERPLAN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if run.returncode:
        sys.exit(f"{' '.join(command)}\n{run.stdout}{run.stderr}")
    return run.stdout


def measured(folder: Path) -> list[object]:
    """The cluster of this machine and profiles of its layers and links, as options."""
    cluster = folder / "cluster.yaml"
    cluster.write_text(CLUSTER)
    files = [folder / name for name in ("cnn.profile.json", "mlp.profile.json", "links.profile.json")]
    for model, batches, file in ((MODEL, "4,8,16", files[0]), (BACKGROUND, "2", files[1])):
        if not file.exists():
            heterplan("profile", model, "--device", "cpu", "--engine", "torch", "--batches", batches, "-o", file)
    if not files[2].exists():
        heterplan("profile", "--link", "loopback", "--ranks", 4, "-o", files[2])
    return ["--cluster", cluster, "--profile", *files, "--amplification-limit", 2]


def row(name: str, options: list[object], steps: int, folder: Path) -> Row:
    package = folder / name.replace(" ", "-")
    plan = json.loads(
        heterplan(
            "compile", MODEL, *options, "--batch", BATCH, "--schedule", "burst", "--background", BACKGROUND,
            "--background-batch", 2, "--max-slowdown", f"{100 * TARGET:g}%", "--json", "--force", "-o", package,
        )
    )  # fmt: skip
    runs = []
    for extra in (["--check", "--no-background"], ["--no-background"], ["--background-options=--lr 0.02"]):
        result = folder / "run.json"
        heterplan(
            "run", package, "--steps", steps, "--warmup", WARMUP, "--threads", 1, "--no-save", f"--json={result}", *extra
        )  # fmt: skip
        runs.append(json.loads(result.read_text()))
    assert runs[0]["checkPassed"], f"{name}: losses are not those of one process"
    return Row(name, package, plan, *runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--out", type=Path, default=ROOT / "build/burst-run")
    parser.add_argument("--document", type=Path, default=ROOT / "docs/experiments/burst-run.md")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    others = Others()
    rows = [
        row("side by side", ["--cluster", DEAR], options.steps, options.out),
        row("measured", measured(options.out), options.steps, options.out),
    ]
    beside = options.steps - WARMUP - 7
    text = HEADER % (BATCH, os.cpu_count() or 1, beside, 100 * TARGET) + "".join(each.text() for each in rows)
    options.document.write_text(text + f"\nMeanwhile other programs took {others.cores():.2f} cores of the machine.\n")


if __name__ == "__main__":
    main()
