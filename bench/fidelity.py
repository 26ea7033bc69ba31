#!/usr/bin/env python3
"""Does measurement confirm what a plan predicts? Profiles each model on one core, compiles eight plans
or more of it, runs them with each rank on a core of its own, and compares iteration times.

    bench/fidelity.py [--models a.onnx,b.onnx] [--steps N] [--out FOLDER]

Prints tables in Markdown. The machine must be quiet: on a busy one nothing is confirmed. What was
profiled is kept in FOLDER and used again by a second run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HETERPLAN = os.environ.get("HETERPLAN_BINARY", str(ROOT / "build/bin/heterplan"))
DATA = ROOT / "test/data"
MODELS = {  # samples of an iteration
    "small/cnn.onnx": 64,
    "small/transformer.onnx": 16,
    "models/mobilenet_v2.onnx": 8,
    "models/dlrm.onnx": 256,
    "models/resnet50.onnx": 8,
}


@dataclass(frozen=True)
class Form:
    """A plan: `types` of one core each make a pipeline, `cores` of one type split the samples."""

    name: str
    stages: int = 1
    cores: int = 1
    micro_batches: int = 1
    extra: int = 0  # samples more than the model's batch: shares become uneven

    @property
    def ranks(self) -> int:
        return self.stages * self.cores


FORMS = (
    Form("1 core, m=1"),
    Form("1 core, m=4", micro_batches=4),
    Form("2 replicas, m=1", cores=2),
    Form("2 replicas, m=2", cores=2, micro_batches=2),
    Form("2 replicas, uneven", cores=2, extra=1),
    Form("2 stages, m=1", stages=2),
    Form("2 stages, m=2", stages=2, micro_batches=2),
    Form("2 stages, m=4", stages=2, micro_batches=4),
    Form("3 replicas, m=1", cores=3),
    Form("3 stages, m=4", stages=3, micro_batches=4),
    Form("2 stages of 2, m=4", stages=2, cores=2, micro_batches=4),
)


@dataclass(frozen=True)
class Outcome:
    model: str
    form: Form
    batch: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def heterplan(*arguments: object) -> str:
    command = [HETERPLAN, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if run.returncode:
        raise RuntimeError(f"`{' '.join(command)}` ended with status {run.returncode}")
    return run.stdout


def cluster(form: Form) -> str:
    types = [f"core{index}" for index in range(form.stages)]
    lines = ["name: fidelity", "device_types:"]
    lines += [f"  {t}: {{kind: cpu, memory: 8GiB, catalogue: cpu-core}}" for t in types]
    devices = ", ".join(f"{t}: {form.cores}" for t in types)
    lines += ["nodes:", f"  - {{name: localhost, devices: {{{devices}}}, link: loopback}}"]
    return "\n".join(lines) + "\n"


def local_batches(batch: int, forms: list[Form]) -> list[int]:
    """The samples of one pass on one core, in all of the plans."""
    sizes = set()
    for form in forms:
        per_pass = (batch + form.extra) // form.micro_batches
        sizes |= {per_pass // form.cores, -(-per_pass // form.cores)}
    return sorted(size for size in sizes if size)


def pins(layers: list[str], stages: int) -> list[str]:
    """The first layer of each equal part on its own type: as many stages as types."""
    if stages == 1:
        return []
    chosen = [layers[index * (len(layers) - 1) // (stages - 1)] for index in range(stages)]
    return ["--pin", *(f"{layer}=core{index}" for index, layer in enumerate(chosen))]


def try_form(
    path: Path, form: Form, batch: int, layers: list[str], profile: Path, out: Path, steps: int
) -> Outcome | None:
    folder = out / f"{path.stem}-{form.name.replace(' ', '-').replace(',', '')}"
    (out / "cluster.yaml").write_text(cluster(form), encoding="utf-8")
    samples = batch + form.extra
    plan = json.loads(
        heterplan("compile", path, "--cluster", out / "cluster.yaml", "--profile", profile,
                  "--batch", samples, "--micro-batches", form.micro_batches, "--schedule",
                  "pipeline" if form.stages > 1 else "data-parallel", "--force", "--json",
                  "-o", folder, *pins(layers, form.stages))
    )  # fmt: skip
    ranks = sum(len(stage["replicas"]) for stage in plan["stages"])
    if ranks != form.ranks:
        print(f"note: {path.stem}: no plan has the form '{form.name}'", file=sys.stderr)
        return None
    result = folder / "result.json"
    loss = "mse" if path.stem == "dlrm" else "cross_entropy"
    heterplan("run", folder, "--steps", steps, "--json", result, "--warmup", 2, "--pin",
              "--loss", loss)  # fmt: skip
    found = json.loads(result.read_text(encoding="utf-8"))
    measured = float(found["measuredSeconds"])
    return Outcome(path.stem, form, samples, float(plan["iterationSeconds"]), measured)


def ranks_of(values: list[float]) -> list[float]:
    """Places in ascending order; equal values share the mean of theirs."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2
        for value in values
    ]


def spearman(first: list[float], second: list[float]) -> float:
    a, b = ranks_of(first), ranks_of(second)
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return statistics.correlation(a, b)


def report(outcomes: list[Outcome], command: str) -> str:
    lines = [f"`{command}`", "", "| model | plan | predicted ms | measured ms | error |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for o in outcomes:
        lines.append(
            f"| {o.model} | {o.form.name} | {o.predicted * 1e3:.1f} | {o.measured * 1e3:.1f} "
            f"| {o.error:+.1%} |"
        )
    lines += ["", "| model | plans | median error | worst | Spearman | regret of the choice |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for model in dict.fromkeys(o.model for o in outcomes):
        lines.append(summary(model, [o for o in outcomes if o.model == model]))
    lines.append(summary("all", outcomes, ranking=False))
    return "\n".join(lines) + "\n"


def summary(name: str, outcomes: list[Outcome], ranking: bool = True) -> str:
    errors = [abs(o.error) for o in outcomes]
    text = f"| {name} | {len(outcomes)} | {statistics.median(errors):.1%} | {max(errors):.1%} |"
    if not ranking:
        return text + " | |"
    predicted = [o.predicted / o.batch for o in outcomes]
    measured = [o.measured / o.batch for o in outcomes]
    regret = measured[predicted.index(min(predicted))] / min(measured) - 1
    return text + f" {spearman(predicted, measured):.2f} | {regret:.1%} |"


def profile_model(path: Path, batches: list[int], out: Path) -> tuple[Path, list[str]]:
    profile, layers = out / f"{path.stem}.profile.json", out / f"{path.stem}.layers.json"
    heterplan("profile", path, "--device", "cpu", "--engine", "torch", "--threads", 1, "--cores",
              max(os.sched_getaffinity(0)), "--batches", ",".join(map(str, batches)),
              "-o", profile)  # fmt: skip
    heterplan("import", path, "-o", layers)
    names = [layer["name"] for layer in json.loads(layers.read_text("utf-8"))["layers"]]
    return profile, names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="paths below test/data (all)")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--out", type=Path, default=ROOT / "build/fidelity")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    forms = [form for form in FORMS if form.ranks <= cores]
    if skipped := [form.name for form in FORMS if form.ranks > cores]:
        print(f"note: {cores} cores; skipped: {'; '.join(skipped)}", file=sys.stderr)
    outcomes = []
    for name in options.models.split(",") if options.models else MODELS:
        path, batch = DATA / name, MODELS.get(name, 8)
        profile, layers = profile_model(path, local_batches(batch, forms), options.out)
        for form in forms:
            outcome = try_form(path, form, batch, layers, profile, options.out, options.steps)
            outcomes += [outcome] if outcome else []
    text = report(outcomes, " ".join(["bench/fidelity.py", *sys.argv[1:]]))
    (options.out / "fidelity.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
