#!/usr/bin/env python3
"""Trains each model of the zoo, and what heterplan made of it in five ways, and writes the differences
to docs/experiments/zoo.md; with --outputs, compares outputs and gradients of four exports and writes
docs/experiments/zoo-outputs.md. Each model has a process of its own; exports are kept for the next run."""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import re
import sys
import time
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from entry import Entry

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path.insert(0, str(HERE))
FAMILIES = {"plain": "PLAIN", "language": "LANGUAGE", "vision": "VISION"}
SECONDS = 900  # of one model in all ways


def entries(family: str) -> dict:
    """None where a library of the family is not installed, or cannot be imported."""
    from entry import use_torchvision

    use_torchvision()
    try:
        return getattr(importlib.import_module(family), FAMILIES[family])
    except Exception as error:  # noqa: BLE001 - the library's, whatever it is
        print(f"{family}: {error}", file=sys.stderr)
        return {}


def judge_ways(entry: Entry, folder: Path, ways: list[str], verdicts: Connection) -> None:
    """In a process of its own: sends a verdict for each way."""
    from judge import Verdict, judge
    from train import TRAINED_WAYS, judge_training

    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    folder.mkdir(parents=True, exist_ok=True)
    for way in ways:
        try:
            verdict = judge_training(entry, folder, way) if way in TRAINED_WAYS else judge(entry, folder, way)
        except Exception as error:  # noqa: BLE001 - the model, not heterplan
            verdict = Verdict("no-export", f"{type(error).__name__}: {str(error)[:160]}")
        verdicts.send((way, asdict(verdict)))


def run_one(entry: Entry, folder: Path, ways: list[str]) -> dict[str, dict]:
    """The verdicts by way. The process is a copy of this one, which has the libraries already: an
    exporter that crashes or hangs costs no more than its model."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=judge_ways, args=(entry, folder, ways, theirs))
    process.start()
    theirs.close()
    verdicts: dict[str, dict] = {}
    end = time.monotonic() + SECONDS
    try:
        while len(verdicts) < len(ways) and ours.poll(max(0.0, end - time.monotonic())):
            way, verdicts[way] = ours.recv()
    except EOFError:
        pass  # it has crashed
    process.kill()
    process.join()
    for way in ways:
        verdicts.setdefault(way, {"state": "no-export", "reason": "the exporter ends or hangs"})
    return verdicts


def gist(reason: str) -> str:
    """A diagnostic without its place, code and notes."""
    first = reason.split("\n")[0]
    first = re.sub(r"^.*?\[HP\d+\] ", "", first)
    return re.sub(r"\s+", " ", first)[:200]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="a regular expression")
    parser.add_argument("--family", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--exports", type=Path, default=SOURCE / "build/zoo")
    parser.add_argument("--ways", nargs="*", default=None)
    parser.add_argument("--outputs", action="store_true", help="compare outputs, not the training")
    parser.add_argument("--results", type=Path, help="JSON of all verdicts")
    parser.add_argument(
        "--earlier", type=Path, nargs="*", default=[],
        help="results of earlier runs, of models that are then not judged again; later files count",
    )  # fmt: skip
    parser.add_argument("--table", type=Path, help="the table, as Markdown")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    import judge  # noqa: F401 - its libraries are imported once, for all processes
    from entry import WAYS
    from train import TRAINED_WAYS

    ways = options.ways or list(WAYS if options.outputs else TRAINED_WAYS)
    earlier: dict[str, dict[str, dict]] = {}
    for path in options.earlier:
        found = json.loads(path.read_text())
        earlier.update({name: each for name, each in found.items() if each.keys() >= set(ways)})
    results: dict[str, dict[str, dict]] = {}
    for family in options.family:
        for name, entry in entries(family).items():
            if name in earlier:
                results[name] = earlier[name]
                continue
            if not re.search(options.pattern, name):
                continue
            results[name] = run_one(entry, options.exports / name, ways)
            for way, verdict in results[name].items():
                faults = "; ".join((verdict.get("faults", []) + verdict.get("differences", []))[:2])
                print(f"{name:24} {way:16} {verdict['state']:10} {gist(verdict['reason'])} {faults}",
                      flush=True)
            if options.results:
                options.results.write_text(json.dumps(results, indent=1))
    if options.table:
        from table import write_table, write_training

        (write_table if options.outputs else write_training)(results, options.table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
