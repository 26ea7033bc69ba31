#!/usr/bin/env python3
"""Does calibration pay? Profiles each model on one core, compiles a plan for two cores, runs it three times,
corrects the profile by the timelines of these runs, plans again, and runs the new plan.

    bench/calibration.py [--out FOLDER]

Prints a table in Markdown. The machine must be quiet and have two cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from fidelity import DATA, ROOT, heterplan

CLUSTER = """
name: two-cores
device_types:
  one: {kind: cpu, memory: 4GiB, price_per_hour: 1, catalogue: cpu-core}
  two: {kind: cpu, memory: 4GiB, price_per_hour: 1, catalogue: cpu-core}
nodes:
  - {name: localhost, devices: {one: 1, two: 1}, link: loopback}
"""
PLANS = {  # name: model, batches that are profiled, options of compile
    "cnn, replicas": ("small/cnn.onnx", "8,16,32", "--batch 64 --micro-batches 2 --schedule data-parallel"),
    "cnn, stages": ("small/cnn.onnx", "8,16,32", "--batch 64 --micro-batches 4 --schedule pipeline "
                    "--pin /stem/Conv=one /fc/Gemm=two"),
    "transformer, replicas": ("small/transformer.onnx", "4,8", "--batch 16 --micro-batches 2 --schedule data-parallel"),
    "mobilenet_v2, replicas": ("models/mobilenet_v2.onnx", "2,4", "--batch 8 --micro-batches 2 --schedule data-parallel"),
}  # fmt: skip


def measured(plan: Path, trace: Path | None = None) -> float:
    result = plan.parent / "result.json"
    more = ["--trace", trace] if trace else []
    heterplan("run", plan, "--steps", 8, "--warmup", 2, "--pin", "--json", result, *more)
    return float(json.loads(result.read_text(encoding="utf-8"))["measuredSeconds"])


def compare(name: str, folder: Path) -> str:
    model, batches, options = PLANS[name]
    path, base, corrected = DATA / model, folder / "base.profile.json", folder / "corrected.profile.json"
    (folder / "two.yaml").write_text(CLUSTER, encoding="utf-8")
    inputs = [path, "--cluster", folder / "two.yaml", "--profile", base]
    heterplan("profile", path, "--device", "cpu", "--engine", "torch", "--threads", 1, "--cores", 1,
              "--batches", batches, "--time-budget", 30, "-o", base)  # fmt: skip
    compiling = [*options.split(), "--force", "--json", "-o"]
    first = json.loads(heterplan("compile", *inputs, *compiling, folder / "plan"))
    before = statistics.median(measured(folder / "plan", folder / f"plan/{i}.trace.json") for i in range(3))
    heterplan("calibrate", folder / "plan", "--model", *inputs, "-o", corrected)
    again = json.loads(heterplan("compile", *inputs, corrected, *compiling, folder / "again"))
    after = measured(folder / "again")
    cells = [name]
    for plan, time in ((first, before), (again, after)):
        ranks = sum(len(stage["replicas"]) for stage in plan["stages"])
        predicted = plan["iterationSeconds"]
        cells += [str(ranks), f"{predicted * 1e3:.1f}", f"{time * 1e3:.1f}", f"{predicted / time - 1:+.0%}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build/calibration")
    out = parser.parse_args().out
    print("| plan | ranks | predicted ms | measured ms | error | ranks again | predicted ms | measured ms | error |")
    print("| --- " * 9 + "|")
    for name in PLANS:
        folder = out / name.replace(", ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        print(compare(name, folder), flush=True)


if __name__ == "__main__":
    main()
