#!/usr/bin/env python3
"""Is `auto` ever worse than a fixed execution mode? Compiles the models of gaps.py on its clusters, with Adam and
the highest throughput as objective, with every pair of --recompute and --shard-state, and prints a table in Markdown.

    bench/modes.py [--only TEXT] [--json FILE]
    bench/modes.py --instances N [--first SEED]

"best fixed": the highest throughput with a fixed mode, and the mode. With --instances it looks at random instances of
test/oracle instead, each with its own objective and limits, and prints how many of them have a plan. Exits with 1
where `auto` is worse by more than its own stated gap.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from gaps import CLUSTERS, ROOT, SEVEN, Workload, compiled, finish

sys.path.insert(0, str(ROOT / "test/oracle"))

from compare import Answer, compile_instance  # noqa: E402
from instance import Instance  # noqa: E402
from random_instance import random_instance  # noqa: E402

RECOMPUTE = ("never", "always")
SHARD_STATE = ("none", "optimizer", "gradients", "parameters")


def throughput(row: dict[str, Any]) -> float:
    return row["throughput"] if row["feasible"] else 0.0


def objective_of(instance: Instance, answer: Answer) -> float:
    """Smaller is better; infinite without a plan."""
    if not answer.feasible:
        return math.inf
    if instance.request.objective == "cost":
        return answer.found["costPerMillionSamples"]
    return 1 / answer.found["throughput"]


def compare_random(seed: int) -> tuple[bool, bool]:
    """Whether instance `seed` has a plan, and whether a fixed mode is better than `auto`."""
    drawn = random_instance(seed)

    def objective(recompute: str, shard_state: str) -> tuple[float, Answer]:
        modes = {"recompute": recompute, "shard_state": shard_state, "strategy": "auto", "work_limit": 0}
        instance = dataclasses.replace(drawn, request=dataclasses.replace(drawn.request, **modes))
        answer = compile_instance(instance)
        return objective_of(instance, answer), answer

    auto, answer = objective("auto", "auto")
    gap = answer.found["gap"] if answer.feasible else 0
    fixed = {mode: objective(*mode)[0] for mode in itertools.product(RECOMPUTE, SHARD_STATE)}
    best = min(fixed, key=fixed.__getitem__)
    is_worse = auto > fixed[best] * (1 + gap + 1e-9) if math.isfinite(auto) else math.isfinite(fixed[best])
    if is_worse:
        print(f"instance {seed}: auto {auto:.9g}, {', '.join(best)} {fixed[best]:.9g}", flush=True)
    return answer.feasible, is_worse


def compare_all_random(first: int, count: int) -> None:
    seen = [compare_random(seed) for seed in range(first, first + count)]
    plans, worse = (sum(column) for column in zip(*seen, strict=True))
    print(f"{count} instances, {plans} with a plan; a fixed mode is better than auto in {worse}")
    sys.exit(int(worse > 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="workloads whose name contains TEXT")
    parser.add_argument("--json", type=Path, help="write what was seen to FILE")
    parser.add_argument("--instances", type=int, default=0, help="random instances")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    arguments = parser.parse_args()
    if arguments.instances:
        compare_all_random(arguments.first, arguments.instances)
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
