#!/usr/bin/env python3
"""Compares plans that somebody has measured with what heterplan predicts of them.

    measured-plans.py MEASURED.csv --model M --cluster C --profile P... [--batch N] [options of `heterplan evaluate`]

MEASURED.csv  plan (a placement that `heterplan evaluate` reads: its path, from the table's folder on), seconds (of
              an iteration), and optionally gigabytes (the peak of the device that needs most, in 10^9 bytes)
              and batch (samples of an iteration; --batch for those without). Other columns are skipped.

Prints a table in Markdown: what was predicted, what was measured, and the relative error of each plan; then the
median and the worst error, whether the order of the plans is the predicted one (Spearman), and what it costs to
take the plan that is predicted to be the fastest (regret).

Exit status: 0 done, 1 bad input.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rank_correlation import spearman

HETERPLAN = os.environ.get("HETERPLAN_BINARY", "heterplan")


class BadInput(Exception):
    """One line for the user."""


@dataclass(frozen=True)
class Plan:
    name: str
    batch: str  # empty: that of the command line
    seconds: float
    gigabytes: float  # 0: nobody says


@dataclass(frozen=True)
class Compared:
    plan: Plan
    seconds: float  # predicted
    gigabytes: float
    samples: float

    @property
    def error(self) -> float:
        return self.seconds / self.plan.seconds - 1


def read_measured(path: Path) -> list[Plan]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from error
    if not rows:
        raise BadInput(f"{path}:1: there are no plans")
    return [_plan(path, line, row) for line, row in enumerate(rows, 2)]


def _plan(path: Path, line: int, row: dict[str, str]) -> Plan:
    for name in ("plan", "seconds"):
        if not (row.get(name) or "").strip():
            raise BadInput(f"{path}:{line}: there is no '{name}'")
    seconds = _number(path, line, row, "seconds")
    if seconds == 0:
        raise BadInput(f"{path}:{line}: seconds are 0")
    return Plan(row["plan"].strip(), (row.get("batch") or "").strip(), seconds,
                _number(path, line, row, "gigabytes"))  # fmt: skip


def _number(path: Path, line: int, row: dict[str, str], name: str) -> float:
    text = (row.get(name) or "0").strip()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise BadInput(f"{path}:{line}: {name} is '{text}'; a number is accepted that is not negative")
    return value


def compare(plan: Plan, folder: Path, batch: str, options: list[str]) -> Compared:
    """The prediction of `heterplan evaluate` for it. It may say that the plan breaks a constraint (status 2)."""
    command = [HETERPLAN, "evaluate", str(folder / plan.name), *options]
    if plan.batch or batch:
        command += ["--batch", plan.batch or batch]
    try:
        run = subprocess.run([*command, "--json"], capture_output=True, text=True)
    except OSError as error:
        raise BadInput(f"{HETERPLAN}: {error.strerror}; HETERPLAN_BINARY may name it") from error
    if run.returncode not in (0, 2) or not run.stdout:
        raise BadInput(f"`{' '.join(command)}` says:\n{run.stderr.strip()}")
    found = json.loads(run.stdout)
    needs = max(stage.get("memoryBytes", 0) for stage in found["stages"])
    return Compared(plan, found["iterationSeconds"], needs / 1e9, found["globalBatch"])


def table(found: list[Compared]) -> str:
    lines = ["| plan | predicted s | measured s | error | predicted GB | measured GB |",
             "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for each in found:
        held = f"{each.plan.gigabytes:.2f}" if each.plan.gigabytes else ""
        lines.append(f"| {each.plan.name} | {each.seconds:.3f} | {each.plan.seconds:.3f} | {each.error:+.1%} "
                     f"| {each.gigabytes:.2f} | {held} |")  # fmt: skip
    errors = [abs(each.error) for each in found]
    predicted = [each.seconds / each.samples for each in found]
    measured = [each.plan.seconds / each.samples for each in found]
    choice = min(range(len(found)), key=lambda index: predicted[index])
    text = f"median error {statistics.median(errors):.1%}, worst {max(errors):.1%}"
    text += f", Spearman {spearman(predicted, measured):.2f}, regret {measured[choice] / min(measured) - 1:.1%}"
    stated = [each for each in found if each.plan.gigabytes]
    if stated:
        held = sum(each.gigabytes >= each.plan.gigabytes for each in stated)
        text += f"; {held} of {len(stated)} need no more memory than predicted"
    return "\n".join([*lines, "", text])


def main() -> int:
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__.strip())
        return 0
    parser = argparse.ArgumentParser(usage="measured-plans.py MEASURED.csv --model M --cluster C ...")
    parser.add_argument("measured", type=Path)
    parser.add_argument("--batch", default="")
    options, rest = parser.parse_known_args()
    try:
        plans = read_measured(options.measured)
        folder = options.measured.parent
        print(table([compare(plan, folder, options.batch, rest) for plan in plans]))
    except BadInput as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
