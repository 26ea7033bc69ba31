#!/usr/bin/env python3
"""How good is a plan that a time limit cuts short? Compiles fixed workloads with `--time-limit` 1, 3 and 10.

    bench/anytime.py

"gap": plan against bound within the limit, as `compile` states it. "over": seconds of processor time by which the whole command,
reading the model, checking and writing the plan included, exceeded the limit; less than none where the search ended before. The search is
on one thread, so that on an idle machine it is the time on the clock. Prints a table in Markdown.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import chains
import gaps

LIMITS = (1, 3, 10)
MODELS = (("bert_base", "cloud-large"), ("gpt2_small", "cloud-large"), ("vit_b_16", "mixed-small"))
CHAINS = ("gpt-96 on 5x2000", "random-1000 on 5x2000")


def workloads(folder: Path) -> list[gaps.Workload]:
    found = [
        gaps.Workload(f"{model} {cluster}", gaps.ROOT / "test/data/models" / f"{model}.onnx", cluster, ())
        for model, cluster in MODELS
    ]
    return found + [work for work in chains.workloads(folder) if work.name in CHAINS]


def main() -> None:
    print("| workload | " + " | ".join(f"gap % at {limit} s | over s" for limit in LIMITS) + " |")
    print("| --- |" + " --- | --- |" * len(LIMITS), flush=True)
    with tempfile.TemporaryDirectory() as name:
        for work in workloads(Path(name)):
            cells = []
            for limit in LIMITS:
                options = (*work.options, "--time-limit", str(limit))
                found = gaps.compiled(gaps.Workload(work.name, work.model, work.cluster, options), Path(name))
                gap = f"{100 * found['gap']:.2f}" if found["feasible"] else "none"
                cells.append(f"{gap} | {found['cpu'] - limit:+.1f}")
            print(f"| {work.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
