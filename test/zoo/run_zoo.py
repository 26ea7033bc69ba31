#!/usr/bin/env python3
"""Exports each model of the zoo in four ways and writes what became of it to
docs/experiments/zoo.md. Each model has a process of its own; exports are kept for the next run."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path.insert(0, str(HERE))
FAMILIES = {"plain": "PLAIN", "language": "LANGUAGE", "vision": "VISION"}
SECONDS = 900  # of one model in all ways


def entries(family: str) -> dict:
    import importlib

    from entry import use_torchvision

    use_torchvision()
    return getattr(importlib.import_module(family), FAMILIES[family])


def names_of(family: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, __file__, "--names", family], capture_output=True, text=True
    )
    if run.returncode:
        print(f"{family}: {run.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    return run.stdout.split()


def judge_one(family: str, name: str, folder: Path, ways: list[str]) -> None:
    from judge import Verdict, judge

    entry = entries(family)[name]
    folder.mkdir(parents=True, exist_ok=True)
    for way in ways:
        try:
            verdict = judge(entry, folder, way)
        except Exception as error:  # noqa: BLE001 - the model, not heterplan
            verdict = Verdict("no-export", f"{type(error).__name__}: {str(error)[:160]}")
        print(f"VERDICT {way} {verdict.json()}", flush=True)


def run_one(family: str, name: str, folder: Path, ways: list[str]) -> dict[str, dict]:
    command = [sys.executable, __file__, "--one", f"{family}:{name}", "--exports", str(folder)]
    command += ["--ways", *ways]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    verdicts: dict[str, dict] = {}
    try:
        output = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            timeout=SECONDS, env=environment,
        ).stdout  # fmt: skip
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode()
    for line in output.splitlines():
        if line.startswith("VERDICT "):
            _, way, text = line.split(" ", 2)
            verdicts[way] = json.loads(text)
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
    parser.add_argument("--names", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--exports", type=Path, default=SOURCE / "build/zoo")
    parser.add_argument("--ways", nargs="*", default=None)
    parser.add_argument("--results", type=Path, help="JSON of all verdicts")
    parser.add_argument("--table", type=Path, help="the table, as Markdown")
    options = parser.parse_args()
    if options.names:
        print(*entries(options.names))
        return 0
    from entry import WAYS

    ways = options.ways or list(WAYS)
    if options.one:
        family, name = options.one.split(":")
        judge_one(family, name, options.exports, ways)
        return 0
    results: dict[str, dict[str, dict]] = {}
    for family in options.family:
        for name in names_of(family):
            if not re.search(options.pattern, name):
                continue
            results[name] = run_one(family, name, options.exports / name, ways)
            for way, verdict in results[name].items():
                faults = "; ".join(verdict.get("faults", [])[:2])
                print(f"{name:24} {way:16} {verdict['state']:10} {gist(verdict['reason'])} {faults}",
                      flush=True)
            if options.results:
                options.results.write_text(json.dumps(results, indent=1))
    if options.table:
        from table import write_table

        write_table(results, options.table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
