#!/usr/bin/env python3
"""Do steps of plans whose devices share every layer take as long as predicted? Measures the layers of three models, whole and
as one of 2 and 4 devices has them, on one core, and the loopback link. Compiles plans of several degrees of tensor parallelism, and
runs each with a rank for each device.

    bench/shard_steps.py [--models a,b] [--rounds N] [--seconds S] [--runs N] [--tries N] [--json FILE] [--out FOLDER]

Ranks beyond the cores of the machine share cores: the cluster file then gives each device the speed cores / ranks. Else each
has a core of its own. "measured": the median of all steps but the first two of each run. "interval": that of the plan
(`iterationInterval`). Prints a table in Markdown. FOLDER keeps models, profiles and plans; a second run with the same FOLDER
measures the profiles no more. "others": cores that other processes took meanwhile; a run that they disturb is repeated. The
machine should be quiet.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from fidelity import DISTURBED, HETERPLAN, ROOT, heterplan, layers_of
from others import Others

WARMUP = 2  # steps of a run that do not count
CORES = len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Subject:
    name: str  # a builder of fidelity_models.py
    batch: int
    loss: str


@dataclass(frozen=True)
class Form:
    name: str
    degree: int
    stages: int = 1
    micro_batches: int = 1

    @property
    def ranks(self) -> int:
        return self.degree * self.stages


@dataclass(frozen=True)
class Row:
    model: str
    form: str
    predicted: float
    least: float
    most: float
    measured: float
    steps: int
    others: float

    @property
    def is_inside(self) -> bool:
        return self.least <= self.measured <= self.most

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


MODELS = (
    Subject("mlp", 256, "cross_entropy"),
    Subject("gpt_small", 8, "token_cross_entropy"),
    Subject("llama_small", 8, "token_cross_entropy"),
)
FORMS = (
    Form("1 rank", 1),
    Form("degree 2", 2),
    Form("degree 2, m=2", 2, micro_batches=2),
    Form("degree 4", 4),
    Form("2 stages of degree 2, m=4", 2, stages=2, micro_batches=4),
)


def cluster(form: Form) -> str:
    """Types of `degree` cores, one for each stage."""
    speed = min(1.0, CORES / form.ranks)
    types = [f"core{index}" for index in range(form.stages)]
    lines = ["name: shards", "device_types:"]
    lines += [f"  {each}: {{kind: cpu, memory: 8GiB, catalogue: cpu-core, speed: {speed:g}}}" for each in types]
    devices = ", ".join(f"{each}: {form.degree}" for each in types)
    lines += ["nodes:", f"  - {{name: localhost, devices: {{{devices}}}, link: loopback}}"]
    return "\n".join(lines) + "\n"


def once(path: Path, *arguments: object) -> Path:
    """`path`, which a command of heterplan makes if it is not there."""
    if not path.exists():
        heterplan(*arguments, "-o", path)
    return path


def profiles_of(subject: Subject, model: Path, form: Form, rounds: int, out: Path) -> list[Path]:
    """Layers of all degrees at the samples of the passes, and the link between so many ranks."""
    batches = sorted({subject.batch // each.micro_batches for each in FORMS})
    degrees = sorted({each.degree for each in FORMS})
    layers = once(
        out / f"{subject.name}.profile.json", "profile", model, "--device", "cpu", "--engine", "torch", "--threads", 1,
        "--cores", max(os.sched_getaffinity(0)), "--batches", ",".join(map(str, batches)), "--rounds", rounds,
        "--loss", subject.loss, "--shard-degrees", ",".join(map(str, degrees)),
    )  # fmt: skip
    if form.ranks == 1:
        return [layers]
    links = out / f"links-{form.ranks}.profile.json"
    return [layers, once(links, "profile", "--link", "loopback", "--ranks", form.ranks, "--time-budget", 30)]


def exported(subject: Subject, out: Path) -> Path:
    path = out / f"{subject.name}.onnx"
    if not path.exists():
        command = [sys.executable, str(ROOT / "bench/fidelity_models.py"), subject.name, str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def compiled(subject: Subject, form: Form, options: argparse.Namespace) -> Path:
    out, model = options.out, exported(subject, options.out)
    profiles = profiles_of(subject, model, form, options.rounds, out)
    name = form.name.replace(" ", "-").replace(",", "")
    folder, pool = out / f"{subject.name}-{name}", out / f"{name}.yaml"
    pool.write_text(cluster(form), encoding="utf-8")
    names = layers_of(model, out)
    pins = ["--pin", f"{names[0]}=core0", f"{names[-1]}=core1"] if form.stages == 2 else []
    heterplan(
        "compile", model, "--cluster", pool, "--profile", *profiles, "--batch", subject.batch, "--micro-batches",
        form.micro_batches, "--schedule", "pipeline" if form.stages > 1 else "data-parallel", "--tensor-parallel",
        form.degree, *pins, "--force", "-o", folder,
    )  # fmt: skip
    return folder


@dataclass(frozen=True)
class Run:
    seconds: list[float]  # of its steps
    others: float  # cores


def run_undisturbed(folder: Path, subject: Subject, form: Form, predicted: float, options: argparse.Namespace) -> Run:
    """Up to `--tries` times, while others take more than they may; then the least disturbed one."""
    runs: list[Run] = []
    while len(runs) < options.tries and all(run.others > DISTURBED for run in runs):
        steps = WARMUP + min(1000, max(5, round(options.seconds / predicted)))
        places = ["--oversubscribe"] if form.ranks > CORES else ["--pin"]
        result, others = folder / "result.json", Others()
        heterplan("run", folder, "--steps", steps, "--json", result, "--loss", subject.loss, "--no-save", *places)
        taken = others.cores()
        runs.append(Run(json.loads(result.read_text("utf-8"))["stepSeconds"][WARMUP:], taken))
    return min(runs, key=lambda run: run.others)


def measured(folder: Path, subject: Subject, form: Form, options: argparse.Namespace) -> Row:
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    found = sum(len(replica["devices"]) for stage in plan["stages"] for replica in stage["replicas"])
    if found != form.ranks:
        raise RuntimeError(f"{subject.name}: the plan of '{form.name}' has {found} devices")
    predicted, interval = float(plan["expectedSeconds"]), plan["iterationInterval"]
    runs = [run_undisturbed(folder, subject, form, predicted, options) for _ in range(options.runs)]
    taken = [seconds for run in runs for seconds in run.seconds]
    others = max(run.others for run in runs)
    return Row(
        subject.name, form.name, predicted, float(interval["leastSeconds"]), float(interval["mostSeconds"]),
        statistics.median(taken), len(taken), others,
    )  # fmt: skip


def line(row: Row) -> str:
    return (
        f"| {row.model} | {row.form} | {1e3 * row.predicted:.1f} | {1e3 * row.least:.1f} to {1e3 * row.most:.1f} "
        f"| {1e3 * row.measured:.1f} | {100 * row.error:+.1f} | {'yes' if row.is_inside else 'no'} | {row.steps} "
        f"| {row.others:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(each.name for each in MODELS), help="names of some (all)")
    parser.add_argument("--rounds", type=int, default=2, help="sessions of each layer")
    parser.add_argument("--seconds", type=float, default=5, help="of a run, at least five steps")
    parser.add_argument("--runs", type=int, default=1, help="of each plan")
    parser.add_argument("--tries", type=int, default=3, help="of each run that others disturb")
    parser.add_argument("--json", type=Path, help="write what was seen to FILE")
    parser.add_argument("--out", type=Path, default=ROOT / "build/shard-steps")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{CORES} cores; binary {Path(HETERPLAN).name}.\n")
    print("| model | plan | predicted ms | interval ms | measured ms | error % | inside | steps | others |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    rows = []
    for subject in (each for each in MODELS if each.name in options.models.split(",")):
        for form in FORMS:
            rows.append(measured(compiled(subject, form, options), subject, form, options))
            print(line(rows[-1]), flush=True)
    shared = [row for row in rows if row.form != FORMS[0].name]
    errors = statistics.median(abs(row.error) for row in shared)
    inside = sum(row.is_inside for row in shared)
    print(f"\nTensor parallelism: {inside} of {len(shared)} inside, median error {100 * errors:.1f} %.")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
