#!/usr/bin/env python3
"""Is `auto` ever worse than a fixed execution mode? Compiles the models of gaps.py on its clusters, with Adam and
the highest throughput as objective, with every pair of --recompute and --shard-state, and prints a table in Markdown.

    bench/modes.py [--only TEXT] [--json FILE]

"best fixed": the highest throughput with a fixed mode, and the mode. Exits with 1 where `auto` is worse by more than
its own stated gap.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from pathlib import Path
from typing import Any

from gaps import CLUSTERS, ROOT, SEVEN, Workload, arguments_of, compiled, finish

RECOMPUTE = ("never", "always")
SHARD_STATE = ("none", "optimizer", "gradients", "parameters")


def throughput(row: dict[str, Any]) -> float:
    return row["throughput"] if row["feasible"] else 0.0


def main() -> None:
    arguments = arguments_of(__doc__)
    rows: dict[str, dict[str, Any]] = {}
    is_worse = False
    print("| workload | auto, samples/s | best fixed, samples/s | recompute, shard-state |")
    print("| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model, cluster in itertools.product(SEVEN, CLUSTERS):
            key = f"{model} {cluster}"
            if arguments.only not in key:
                continue
            path = ROOT / f"test/data/models/{model}.onnx"
            options = ("--objective", "throughput", "--optimizer", "adam")
            auto = compiled(Workload(key, path, cluster, options), folder)
            fixed = {
                (recompute, shard): compiled(
                    Workload(key, path, cluster, (*options, "--recompute", recompute, "--shard-state", shard)), folder
                )
                for recompute, shard in itertools.product(RECOMPUTE, SHARD_STATE)
            }
            best = max(fixed, key=lambda mode: throughput(fixed[mode]))
            rows[key] = {"auto": auto, "fixed": {" ".join(mode): row for mode, row in fixed.items()}}
            limit = throughput(auto) * (1 + (auto["gap"] if auto["feasible"] else 0) + 1e-9)
            is_worse |= throughput(fixed[best]) > limit
            print(f"| {key} | {throughput(auto):.1f} | {throughput(fixed[best]):.1f} | {', '.join(best)} |", flush=True)
    finish(rows, arguments.json)
    sys.exit(int(is_worse))


if __name__ == "__main__":
    main()
