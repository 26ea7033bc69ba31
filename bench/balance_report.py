"""The document of what bench/balance.py has measured, as far as that is kept."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from balance_workloads import ITERATIONS, KINDS, MODEL, POLICIES, SIMULATED_BATCH, WORKERS


def simulated_tables(found: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield f"Traces of each kind: {len(found['1 steps']['even'])}."
    for every in (1, 5):
        yield ""
        yield f"Shares may move every {every} iterations:" if every > 1 else "Shares may move in every iteration:"
        yield ""
        yield "| trace | " + " | ".join(POLICIES[1:]) + " | best LB-BSP above the oracle |"
        yield "| --- |" + " ---: |" * len(POLICIES)
        everything: dict[str, list[float]] = {policy: [] for policy in POLICIES}
        for kind in KINDS:
            times = found[f"{every} {kind}"]
            saved = {
                p: [1 - t / even for t, even in zip(times[p], times["even"], strict=True)]
                for p in POLICIES
            }
            for policy, values in saved.items():
                everything[policy] += values
            above = min(
                statistics.median(t / o - 1 for t, o in zip(times[p], times["oracle"], strict=True))
                for p in POLICIES
                if p.startswith("lb-bsp")
            )
            yield _row(kind, saved) + f" {above:.1%} |"
        yield _row("all", everything) + "  |"


def _row(name: str, saved: dict[str, list[float]]) -> str:
    return f"| {name} |" + "".join(f" {statistics.median(saved[p]):.1%} |" for p in POLICIES[1:])


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values) * 1e3:.1f} | {min(values) * 1e3:.1f} to {max(values) * 1e3:.1f}"


def real_tables(found: dict[str, Any]) -> Iterator[str]:
    constant, times = found["constant"], found["constant"]["times"]
    medians = {
        name: statistics.median(values) for name, values in times.items() if "shares" not in name
    }
    splits = {name: t for name, t in medians.items() if name.startswith("fixed")}
    best = min(splits, key=lambda name: splits[name])
    yield ""
    yield (
        f"`{MODEL.name}`, {found['batch']} samples, {found['steps']} steps, {found['rounds']} rounds; other processes "
        f"took {found['others']:.2f} cores beforehand. The competitor is there all the time:"
    )
    yield ""
    yield "| shares | step ms | from to | against even |"
    yield "| --- | ---: | ---: | ---: |"
    for name in medians:
        yield f"| {name} | {_spread(times[name])} | {medians[name] / medians['even'] - 1:+.1%} |"
    yield ""
    shares = [int(share) for share in times["lb-bsp shares"]]
    yield (
        f"LB-BSP (shares of the quiet core at the end: {shares}) is {medians['lb-bsp'] / splits[best] - 1:+.1%} "
        f"against the best fixed split ({best}), and {1 - medians['lb-bsp'] / medians['even']:.1%} faster than "
        f"even shares ({medians['even'] / medians['lb-bsp']:.2f} times as fast). Deciding and moving took "
        f"{statistics.median(constant['overheads']):.2%} of the steps' time."
    )
    going = found["comingAndGoing"]
    yield ""
    yield (
        f"The competitor comes after step {going['comes']} and goes after step {going['goes']} of "
        f"{going['steps']}, barriers every {going['every']} steps. Shares of the quiet core, from step on: "
        + ", ".join(f"{share} from {step}" for step, share in going["decisions"])
        + "."
    )
    measured = found["measured"]
    medians = {int(split): statistics.median(values) for split, values in measured["times"].items()}
    best_split = min(medians, key=lambda split: medians[split])
    planned = measured["planned"]
    yield ""
    yield (
        f"Cores measured one by one: the plan gives the quiet core {planned} samples; of the splits tried, "
        f"{best_split} was best. The plan's takes {medians[planned] / medians[best_split] - 1:+.1%} against it."
    )
    yield ""
    yield "| samples of the quiet core | step ms | from to |"
    yield "| ---: | ---: | ---: |"
    for split in sorted(medians):
        yield f"| {split} | {_spread(measured['times'][str(split)])} |"


HEAD = """\
# Shares that follow the machines

    make bench-balance

Even shares wait for the slowest worker. This compares them with fixed and re-sized ones
([runtime.md](../runtime.md#shares-that-follow-the-machines)).
"""

SIMULATED = f"""
## Simulated workers

ResNet-50, data parallelism on {WORKERS} workers of one core each, {SIMULATED_BATCH} samples, {ITERATIONS} iterations of each trace,
several traces of each kind. The table has how much shorter a mean iteration is than with even shares: the
median over the traces (negative: longer). `static` and `oracle` know the whole trace, the first its means, the second each iteration; `asp` and
`ssp` have no barrier (or a loose one), and pay for it with stale gradients, of which nothing is said here."""

REAL = """
## Two cores of one machine

A process that computes all the time shares the core of rank 1. Runs of everything in turns; the second half of the
steps of each counts, medians of rounds, with their range.

### Short steps

Undisturbed, a step takes about 20 ms. Beside the competitor each message waits for the core, whatever the shares."""

REAL_LONG = """
### Long steps"""

REAL_TURNS = """
### Long steps, and a competitor that computes and sleeps in turns of 5 ms

It comes before everything else (`SCHED_FIFO`), so that it takes half of the core and the scheduler has nothing to decide."""


def write_document(folder: Path, document: Path) -> None:
    lines = [HEAD.rstrip()]
    for name, title, tables in (
        ("simulated", SIMULATED, simulated_tables),
        ("real-short", REAL, real_tables), ("real-long", REAL_LONG, real_tables),
        ("real-turns", REAL_TURNS, real_tables),
    ):  # fmt: skip
        kept = folder / f"{name}.json"
        if kept.exists():
            lines += [title, *tables(json.loads(kept.read_text()))]
    document.write_text("\n".join(lines) + "\n")
