#!/usr/bin/env python3
"""What do shares that follow the machines save? Writes docs/experiments/balance.md.

    bench/balance.py [--simulated] [--real NAME] [--report] [--seeds N] [--out FOLDER] [--document FILE]

Simulated: 32 workers of traces drawn at random, every policy of `heterplan simulate --speeds`. Real: a
plan of two replicas on two cores of this machine, one of which a competing process shares, all the time
or now and then; shares of the plan, of LB-BSP, and every fixed split around the best, in turns. The
machine should be quiet. What was measured is kept in FOLDER as JSON, and a document is made of
whatever is there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from others import Others

ROOT = Path(__file__).resolve().parents[1]
HETERPLAN = os.environ.get("HETERPLAN_BINARY", str(ROOT / "build/bin/heterplan"))
MODEL = ROOT / "test/data/small/cnn.onnx"
KINDS = ("steps", "bursts", "diurnal", "heavy-tailed")
POLICIES = ("even", "static", "lb-bsp-last", "lb-bsp-ema", "lb-bsp-ar", "lb-bsp-narx", "ssp", "asp", "oracle")
WORKERS, ITERATIONS = 32, 300
SIMULATED_BATCH = 4096
WARMUP = 3


@dataclass(frozen=True)
class Workload:
    """A real run on two cores."""

    name: str
    batch: int
    stride: int  # between the fixed splits that are tried
    steps: int
    rounds: int


# A step of the first takes about 20 ms undisturbed, so that it waits for the core as often as it computes.
WORKLOADS = {each.name: each for each in (Workload("short", 96, 4, 40, 5), Workload("long", 1536, 64, 20, 3))}
COMPETE = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
parent = os.getppid()
while os.getppid() == parent:
    sum(range(10**6))
"""

CLUSTER = """\
name: {name}
device_types:
{types}
nodes:
{nodes}
network: {{bandwidth: 10Gbit/s, latency: 50us}}
"""


def heterplan(*arguments: object) -> str:
    command = [HETERPLAN, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if run.returncode:
        sys.exit(f"{' '.join(command)}\n{run.stderr}")
    return run.stdout


# Simulated workers.


def simulated(folder: Path, seeds: int) -> dict[str, Any]:
    """By barrier interval and kind of trace: mean iteration times of each policy, trace by trace."""
    cluster = folder / "workers.yaml"
    cluster.write_text(
        CLUSTER.format(
            name="workers",
            types="  worker: {kind: cpu, memory: 64GiB, catalogue: cpu-core}",
            nodes=f"  - {{name: worker, count: {WORKERS}, devices: {{worker: 1}}}}",
        )
    )
    plan = folder / "workers"
    heterplan(
        "compile", ROOT / "test/data/models/resnet50.onnx", "--cluster", cluster, "--batch",
        SIMULATED_BATCH, "--micro-batches", 1, "--schedule", "data-parallel", "--force", "-o", plan,
    )  # fmt: skip
    found: dict[str, Any] = {}
    for every in (1, 5):
        for kind in KINDS:
            traces = [_trace(plan, kind, seed, every) for seed in range(seeds)]
            found[f"{every} {kind}"] = {p: [trace[p] for trace in traces] for p in POLICIES}
    return found


def _trace(plan: Path, kind: str, seed: int, every: int) -> dict[str, float]:
    result = json.loads(
        heterplan("simulate", plan, "--speeds", kind, "--iterations", ITERATIONS, "--seed", seed,
                  "--balance-every", every, "--json")
    )  # fmt: skip
    assert result["workers"] == WORKERS
    return {each["policy"]: each["iterationSeconds"] for each in result["policies"]}


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


# Two cores of this machine.


class Competitor:
    """A process that takes half of a core, while it is there."""

    def __init__(self, core: int) -> None:
        self._core = core
        self._process: subprocess.Popen[bytes] | None = None

    def come(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", COMPETE, str(self._core)])

    def go(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def beside(core: int) -> Iterator[None]:
    competitor = Competitor(core)
    competitor.come()
    try:
        yield
    finally:
        competitor.go()


def run(
    plan: Path, folder: Path, balance: str, steps: int, at_step: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """One training; `at_step` is told of each step that is done."""
    result = folder / "run.json"
    command = [
        HETERPLAN, "run", str(plan), "--steps", str(steps), "--pin", "--threads", "1", "--no-save",
        "--balance", balance, f"--json={result}", "--warmup", str(WARMUP),
    ]  # fmt: skip
    others = Others()
    environment = {**os.environ, "HETERPLAN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    for line in process.stdout:
        words = line.split()
        if at_step and words[:1] == ["step"]:
            at_step(int(words[1]))
    if process.wait():
        sys.exit(f"{' '.join(command)} failed")
    return {**json.loads(result.read_text()), "others": others.cores()}


def real_plan(work: Workload, folder: Path) -> Path:
    cluster = folder / "cores.yaml"
    cluster.write_text(
        CLUSTER.format(
            name="cores",
            types="  core: {kind: cpu, memory: 4GiB, catalogue: cpu-core}",
            nodes="  - {name: localhost, devices: {core: 2}, link: loopback}",
        )
    )
    plan = folder / "even"
    heterplan(
        "compile", MODEL, "--cluster", cluster, "--batch", work.batch, "--micro-batches", 1,
        "--schedule", "data-parallel", "--force", "-o", plan,
    )  # fmt: skip
    return plan


def fixed(work: Workload, folder: Path, first: int) -> str:
    """Shares `first` and the rest from the first step on."""
    path = folder / f"fixed-{first}.json"
    decisions = [{"step": 0, "stage": 0, "shares": [first, work.batch - first]}]
    path.write_text(json.dumps({"balance": {"decisions": decisions}}))
    return f"replay:{path}"


def settled(result: dict[str, Any]) -> float:
    """Median of the second half of the steps: shares have moved by then."""
    steps = result["stepSeconds"]
    return statistics.median(steps[len(steps) // 2 :])


def constant_disturbance(work: Workload, plan: Path, folder: Path) -> dict[str, Any]:
    """Everything in turns: median step times of each."""
    core = sorted(os.sched_getaffinity(0))[1]
    splits = range(work.batch // 2 + work.stride, work.batch - work.batch // 8, work.stride)
    times: dict[str, list[float]] = {}
    overheads: list[float] = []
    for _ in range(work.rounds):
        with beside(core):
            for name, balance in [
                ("even", "even"), ("lb-bsp", "lb-bsp"), ("lb-bsp-ema", "lb-bsp-ema"),
                *((f"fixed {first}", fixed(work, folder, first)) for first in splits),
            ]:  # fmt: skip
                result = run(plan, folder, balance, work.steps)
                times.setdefault(name, []).append(settled(result))
                if name.startswith("lb-bsp"):
                    took = result["balance"]["seconds"]
                    overheads.append(took / sum(result["stepSeconds"]))
                    times.setdefault(f"{name} shares", []).append(
                        (result["balance"]["decisions"] or [{"shares": [0]}])[-1]["shares"][0]
                    )
    return {"times": times, "overheads": overheads}


def coming_and_going(plan: Path, folder: Path, every: int, steps: int) -> dict[str, Any]:
    """The competitor comes at a third of the steps and goes at two thirds of them."""
    competitor = Competitor(sorted(os.sched_getaffinity(0))[1])
    comes, goes = steps // 3, 2 * steps // 3

    def at_step(done: int) -> None:
        if done == comes:
            competitor.come()
        if done == goes:
            competitor.go()

    try:
        result = run(plan, folder, "lb-bsp", steps, at_step)
    finally:
        competitor.go()
    decisions = [(each["step"], each["shares"][0]) for each in result["balance"]["decisions"]]
    return {
        "comes": comes, "goes": goes, "every": every, "steps": steps, "decisions": decisions,
        "stepSeconds": result["stepSeconds"],
    }  # fmt: skip


def measured_cores(work: Workload, folder: Path) -> dict[str, Any]:
    """Each core profiled by itself, one beside a competitor; the plan made of that, and every split."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    profiles = []
    batches = ",".join(str(work.batch * sixths // 6) for sixths in range(1, 6))
    for index, core in enumerate(cores):
        profile = folder / f"worker-{index}.profile.json"
        profile.unlink(missing_ok=True)
        arguments = (
            "profile", MODEL, "--device", "cpu", "--engine", "torch", "--cores", core, "--device-name",
            f"worker-{index}", "--batches", batches, "--rounds", 3, "-o", profile,
        )  # fmt: skip
        if index:
            with beside(core):
                heterplan(*arguments)
        else:
            heterplan(*arguments)
        profiles += ["--profile", profile]
    cluster = folder / "workers-of-two-speeds.yaml"
    cluster.write_text(
        CLUSTER.format(
            name="workers",
            types="".join(
                f"  worker-{i}: {{kind: cpu, memory: 4GiB, catalogue: cpu-core}}\n" for i in (0, 1)
            ).rstrip("\n"),
            nodes="  - {name: localhost, devices: {worker-0: 1, worker-1: 1}, link: loopback}",
        )
    )
    plan = folder / "measured"
    heterplan(
        "compile", MODEL, "--cluster", cluster, *profiles, "--batch", work.batch, "--micro-batches", 1,
        "--schedule", "data-parallel", "--force", "-o", plan,
    )  # fmt: skip
    replicas = json.loads((plan / "plan.json").read_text())["stages"][0]["replicas"]
    shares = {each["devices"][0]["type"]: each["share"] for each in replicas}
    first = int(shares.get("worker-0", 0))
    times: dict[str, list[float]] = {}
    with beside(cores[1]):
        for _ in range(work.rounds):
            for split in range(first - 3 * work.stride, first + 3 * work.stride + 1, work.stride):
                result = run(folder / "even", folder, fixed(work, folder, split), work.steps)
                times.setdefault(str(split), []).append(settled(result))
    return {"planned": first, "times": times}


def real(work: Workload, folder: Path) -> dict[str, Any]:
    plan = real_plan(work, folder)
    others = Others()
    time.sleep(2)
    found = {"others": others.cores(), "rounds": work.rounds, "steps": work.steps, "batch": work.batch}
    found["constant"] = constant_disturbance(work, plan, folder)
    found["comingAndGoing"] = coming_and_going(plan, folder, 5, 3 * work.steps)
    found["measured"] = measured_cores(work, folder)
    return found


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--simulated", action="store_true", help="only this")
    parser.add_argument("--real", choices=WORKLOADS, help="only this")
    parser.add_argument("--report", action="store_true", help="measure nothing more")
    parser.add_argument("--seeds", type=int, default=10, help="traces of each kind")
    parser.add_argument("--out", type=Path, default=ROOT / "build/balance")
    parser.add_argument("--document", type=Path, default=ROOT / "docs/experiments/balance.md")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    everything = not (options.simulated or options.real or options.report)
    if everything or options.simulated:
        (options.out / "simulated.json").write_text(json.dumps(simulated(options.out, options.seeds)))
    for name, work in WORKLOADS.items():
        if everything or options.real == name:
            found = real(work, options.out)
            (options.out / f"real-{name}.json").write_text(json.dumps(found))
    lines = [HEAD.rstrip()]
    for name, title, tables in (
        ("simulated", SIMULATED, simulated_tables),
        ("real-short", REAL, real_tables), ("real-long", REAL_LONG, real_tables),
    ):  # fmt: skip
        kept = options.out / f"{name}.json"
        if kept.exists():
            lines += [title, *tables(json.loads(kept.read_text()))]
    options.document.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
