#!/usr/bin/env python3
"""How good is a plan that a time limit cuts short? Compiles fixed workloads with `--time-limit` 1, 3 and 10.

    bench/anytime.py

"gap": plan against bound within the limit, as `compile` states it; "clock" and "CPU": seconds of the whole command, reading the model,
checking and writing the plan included. Each plan goes to a new directory: ext4 is slow to make files where others were removed in the
last half minute. "ranks": files of them that were written. Prints a table in Markdown.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import chains
import gaps

LIMITS = (1, 3, 10)
MODELS = (("bert_base", "cloud-large"), ("gpt2_small", "cloud-large"), ("vit_b_16", "mixed-small"))
RESNET = gaps.ROOT / "test/data/models/resnet50.onnx"
RESNETS = (
    ("resnet50 on 5x2000", 16384, ("--objective", "throughput")),
    ("resnet50 on 5x2000 data-parallel", 4096, ("--schedule", "data-parallel")),
    ("resnet50 on 5x2000 burst", 16384, ("--schedule", "burst")),
)
LARGER = {"gpt-96 on 5x2000": 4096, "random-1000 on 5x2000": 10000}  # batches, for more devices


def workloads(folder: Path) -> list[gaps.Workload]:
    found = [
        gaps.Workload(f"{model} {cluster}", gaps.ROOT / "test/data/models" / f"{model}.onnx", cluster, ())
        for model, cluster in MODELS
    ]
    long = [work for work in chains.workloads(folder) if work.name in LARGER]
    found += long
    for work in long:
        found.append(replace(work, name=f"{work.name}, batch {LARGER[work.name]}", batch=LARGER[work.name]))
    for name, batch, options in RESNETS:
        found.append(gaps.Workload(f"{name}, batch {batch}", RESNET, long[0].cluster, options, batch))
    return found


def cells(work: gaps.Workload, limit: int, folder: Path) -> str:
    folder.mkdir()
    found = gaps.compiled(replace(work, options=(*work.options, "--time-limit", str(limit))), folder)
    gap = f"{100 * found['gap']:.2f}" if found["feasible"] else "none"
    ranks = len(list((folder / "plan" / "ranks").glob("*.json")))
    return f"{gap} | {found['clock']:.1f} | {found['cpu']:.1f} | {ranks}"


def main() -> None:
    print("| workload | " + " | ".join(f"gap % at {limit} s | clock s | CPU s | ranks" for limit in LIMITS) + " |")
    print("| --- |" + " --- |" * (4 * len(LIMITS)), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for index, work in enumerate(workloads(folder)):
            row = [cells(work, limit, folder / f"{index}-{limit}") for limit in LIMITS]
            print(f"| {work.name} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
