#!/usr/bin/env python3
"""Holds `heterplan compile` to a list of every plan of many tiny random instances (test/oracle).

    bench/oracle.py [--instances 5000] [--first 0] [--iteration-model NAME] [--full-nodes] [--laws] [--keep DIR]
                    [--json FILE]
    bench/oracle.py --degrees [--instances 5000] [--first 0] [--json FILE]

Each instance is planned by HETERPLAN_BINARY (build/bin/heterplan) and by listing all of its plans. The counts are
printed at the end; "beyond" are bounds that plans outside of the searched space beat, which are no defects, stages of
several types that an answer says it leaves out among them. With --laws, each is planned with a device or node more, a
limit less and a lower price instead, and plans are listed only where one makes the best plan worse. With --degrees,
stages have degrees of tensor parallelism, and half of the instances shard parameters (ZeRO-3). --keep writes the files
of instances on which the two disagree, each with its command. Exit status 1: they disagree.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test/oracle"))

from compare import BINARY, PLANNERS, Verdict, compare, compile_instance  # noqa: E402
from degrees import judge as judge_degrees  # noqa: E402
from laws import look_at_laws  # noqa: E402
from placements import judge_placement  # noqa: E402
from random_instance import random_instance  # noqa: E402


def keep(folder: Path, instance, verdict: Verdict) -> None:
    arguments = instance.write(folder)
    words = [f"{BINARY} compile {' '.join(arguments)} -o /tmp/oracle-out --force --json"]
    words += [f"{kind}: {text}" for kind, text in verdict.disagreements] + verdict.beyond
    words += [f"documented {verdict.documented}, whole {verdict.whole}", repr(instance.request)]
    for best in (verdict.planner.documented, verdict.planner.whole) if verdict.planner else ():
        words.append(repr(best.plan))
    (folder / "about.txt").write_text("\n".join(words) + "\n")


def count(counts: Counter, verdict: Verdict) -> None:
    counts["instances"] += 1
    counts["agreed"] += not verdict.disagreements
    for kind in {kind for kind, _ in verdict.disagreements}:
        counts[f"disagreed: {kind}"] += 1
    if verdict.answer.refused:
        counts["refused"] += 1
    elif verdict.answer.feasible:
        all_mixes = not verdict.answer.leaves_mixes_out
        counts["optimal"] += verdict.optimal and all_mixes
        counts["optimal, mixes of types left out"] += verdict.optimal and not all_mixes
        counts["optimal, nothing left out"] += verdict.optimal and verdict.answer.complete
        counts["several types in a stage"] += verdict.mixed
        counts["several stages"] += len(verdict.answer.found["stages"]) > 1
    else:
        counts["infeasible"] += 1
        counts["infeasible, proven"] += bool(verdict.answer.found.get("proven"))
    for words in verdict.beyond:
        counts["beyond: " + words.split(": by ")[0]] += 1


def hold_degrees(first: int, instances: int) -> Counter:
    counts: Counter = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(first, first + instances):
            verdict = judge_degrees(seed, Path(scratch))
            counts.update(verdict.counts)
            for words in verdict.disagreements:
                print(f"{seed}: {words}", flush=True)
    return counts


def hold_all(options: argparse.Namespace) -> Counter:
    counts: Counter = Counter()
    for seed in range(options.first, options.first + options.instances):
        instance = random_instance(seed, options.iteration_model, options.full_nodes)
        verdict = Verdict(compile_instance(instance), None, None) if options.laws else compare(instance)
        if options.laws:
            counts["laws"] += look_at_laws(instance, verdict, seed)
        if options.placements:
            problems = judge_placement(instance, seed)
            counts["placements"] += problems is not None
            verdict.disagreements += [("placement", words) for words in problems or []]
        count(counts, verdict)
        for kind, words in verdict.disagreements:
            print(f"{seed}: {kind}: {words}", flush=True)
        for words in verdict.beyond:
            print(f"{seed}: beyond: {words}", flush=True)
        if options.keep and (verdict.disagreements or (options.keep_beyond and verdict.beyond)):
            keep(options.keep / str(seed), instance, verdict)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument("--iteration-model", choices=PLANNERS, default="synchronous-1f1b")
    parser.add_argument("--full-nodes", action="store_true", help="several nodes with several types each, slow network")
    parser.add_argument("--laws", action="store_true")
    parser.add_argument("--placements", action="store_true", help="price one at random by `evaluate`, too")
    parser.add_argument("--keep", type=Path, help="folder")
    parser.add_argument("--keep-beyond", action="store_true", help="instances with a better plan outside too")
    parser.add_argument("--json", type=Path, help="file for the counts")
    parser.add_argument("--degrees", action="store_true")
    options = parser.parse_args()
    if options.degrees and (options.laws or options.placements or options.keep or options.full_nodes):
        parser.error("--degrees goes with --instances, --first and --json only")
    start = time.monotonic()
    counts = hold_degrees(options.first, options.instances) if options.degrees else hold_all(options)
    counts["seconds"] = round(time.monotonic() - start)
    for name, number in counts.items():
        print(f"{number:8} {name}")
    if options.json:
        options.json.write_text(json.dumps(counts, indent=1) + "\n")
    return int(counts["agreed"] < counts["instances"])


if __name__ == "__main__":
    sys.exit(main())
