#!/usr/bin/env python3
"""Measures the savings of shares that follow the machines. Writes docs/experiments/balance.md.

    bench/balance.py [--simulated] [--real NAME] [--report] [--seeds N] [--out FOLDER] [--document FILE]

Simulated: 32 workers of traces drawn at random, every policy of `heterplan simulate --speeds`.
Real: a plan of two replicas on two cores of this machine, one of which a competing process shares,
all the time or now and then; shares of the plan, of LB-BSP, and every fixed split around the best,
in turns. The machine should be quiet. The script keeps its measurements in FOLDER as JSON and makes
the document from all of them.
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
from pathlib import Path
from typing import Any

from balance_report import write_document
from balance_workloads import (
    ITERATIONS, KINDS, MODEL, POLICIES, SIMULATED_BATCH, WORKERS, WORKLOADS, Workload,
)  # fmt: skip
from others import Others

ROOT = Path(__file__).resolve().parents[1]
HETERPLAN = os.environ.get("HETERPLAN_BINARY", str(ROOT / "build/bin/heterplan"))
WARMUP = 3


COMPETE = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
turn = float(sys.argv[2])
if turn:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
parent = os.getppid()
while os.getppid() == parent:
    until = time.monotonic() + turn
    while time.monotonic() < until:
        pass
    time.sleep(turn) if turn else sum(range(10**6))
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
        "compile", "--tensor-parallel", 1, ROOT / "test/data/models/resnet50.onnx", "--cluster", cluster, "--batch",
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


# Two cores of this machine.


class Competitor:
    """A process that takes half of a core, while it is there: as the scheduler divides it, or in turns of
    so many seconds (which needs root)."""

    def __init__(self, core: int, turn: float) -> None:
        self._arguments = (str(core), str(turn))
        self._process: subprocess.Popen[bytes] | None = None

    def come(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", COMPETE, *self._arguments])

    def go(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def beside(core: int, turn: float) -> Iterator[None]:
    competitor = Competitor(core, turn)
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
        "compile", "--tensor-parallel", 1, MODEL, "--cluster", cluster, "--batch", work.batch, "--micro-batches", 1,
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
        with beside(core, work.turn):
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


def coming_and_going(work: Workload, plan: Path, folder: Path, every: int) -> dict[str, Any]:
    """The competitor comes at a third of the steps and goes at two thirds of them."""
    competitor = Competitor(sorted(os.sched_getaffinity(0))[1], work.turn)
    steps = 3 * work.steps
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
            with beside(core, work.turn):
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
        "compile", "--tensor-parallel", 1, MODEL, "--cluster", cluster, *profiles, "--batch", work.batch,
        "--micro-batches", 1,
        "--schedule", "data-parallel", "--force", "-o", plan,
    )  # fmt: skip
    replicas = json.loads((plan / "plan.json").read_text())["stages"][0]["replicas"]
    shares = {each["devices"][0]["type"]: each["share"] for each in replicas}
    first = int(shares.get("worker-0", 0))
    times: dict[str, list[float]] = {}
    with beside(cores[1], work.turn):
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
    found["comingAndGoing"] = coming_and_going(work, plan, folder, 5)
    found["measured"] = measured_cores(work, folder)
    return found


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
    write_document(options.out, options.document)


if __name__ == "__main__":
    main()
