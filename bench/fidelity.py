#!/usr/bin/env python3
"""Does measurement confirm what a plan predicts? Measures the link between ranks and the layers of
each model on one core, compiles eight plans or more of it, runs them with each rank on a core of its
own, and compares iteration times and memory.

    bench/fidelity.py [--models a.onnx,b.onnx] [--steps N] [--out FOLDER] [--report]

Prints tables in Markdown. The machine must be quiet: on a busy one nothing is confirmed. A run in
which other processes took more than a twentieth of a core is repeated, and the quietest counts. What
was measured is kept in FOLDER: a second run goes on, and --report prints all that is there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HETERPLAN = os.environ.get("HETERPLAN_BINARY", str(ROOT / "build/bin/heterplan"))
DATA = ROOT / "test/data"
QUIET = 0.05  # cores that other processes may take
MODELS = {  # samples of an iteration
    "small/transformer.onnx": 512,
    "models/mobilenet_v2.onnx": 8,
    "models/dlrm.onnx": 256,
    "models/resnet50.onnx": 8,
    "models/bert_base.onnx": 4,
}


@dataclass(frozen=True)
class Form:
    """A plan: `types` of one core each make a pipeline, `cores` of one type split the samples."""

    name: str
    stages: int = 1
    cores: int = 1
    micro_batches: int = 1
    extra: int = 0  # samples more than the model's batch: shares become uneven
    cut: float = 0  # of two stages: the part of the layers in the first; 0: as the search likes

    @property
    def ranks(self) -> int:
        return self.stages * self.cores


FORMS = (
    Form("1 core, m=1"),
    Form("1 core, m=2", micro_batches=2),
    Form("1 core, m=4", micro_batches=4),
    Form("2 replicas, m=1", cores=2),
    Form("2 replicas, m=2", cores=2, micro_batches=2),
    Form("2 replicas, uneven", cores=2, extra=1),
    Form("2 stages, m=1", stages=2),
    Form("2 stages, m=2", stages=2, micro_batches=2),
    Form("2 stages, m=4", stages=2, micro_batches=4),
    Form("2 stages, early cut, m=2", stages=2, micro_batches=2, cut=0.2),
    Form("3 replicas, m=1", cores=3),
    Form("3 stages, m=4", stages=3, micro_batches=4),
    Form("2 stages of 2, m=4", stages=2, cores=2, micro_batches=4),
)


@dataclass(frozen=True)
class Outcome:
    model: str
    form: str
    batch: int
    predicted: float
    measured: float
    predicted_bytes: float  # of the stage whose rank needs most
    measured_bytes: float
    others: float  # cores that other processes took meanwhile

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def memory_error(self) -> float:
        return self.predicted_bytes / self.measured_bytes - 1


class Others:
    """CPU time that this machine spends on what this process did not start."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._busy = self._now()

    @staticmethod
    def _now() -> float:
        fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
        user, nice, system, _, _, irq, soft, steal = map(int, fields[:8])
        all_busy = (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
        own = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return all_busy - sum(u.ru_utime + u.ru_stime for u in (own, children))

    def cores(self) -> float:
        return max(0.0, self._now() - self._busy) / (time.monotonic() - self._begin)


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


def pins(layers: list[str], form: Form) -> list[str]:
    """The first and last layer of each part that is wanted on its type: as many stages as types."""
    if form.stages == 1:
        return []
    last = len(layers) - 1
    if form.cut:
        first = max(1, int(form.cut * len(layers)))
        return ["--pin", f"{layers[first - 1]}=core0", f"{layers[first]}=core1"]
    chosen = [layers[index * last // (form.stages - 1)] for index in range(form.stages)]
    return ["--pin", *(f"{layer}=core{index}" for index, layer in enumerate(chosen))]


def run_form(folder: Path, model: str, steps: int) -> tuple[float, dict[str, Any]]:
    """Cores that others took, and what the run says."""
    result = folder / "result.json"
    loss = "mse" if model == "dlrm" else "cross_entropy"
    others = Others()
    heterplan("run", folder, "--steps", steps, "--json", result, "--warmup", 2, "--pin",
              "--loss", loss)  # fmt: skip
    return others.cores(), json.loads(result.read_text(encoding="utf-8"))


def quietest_run(folder: Path, model: str, steps: int) -> tuple[float, dict[str, Any]]:
    best = run_form(folder, model, steps)
    for _ in range(2):
        if best[0] <= QUIET:
            break
        best = min(best, run_form(folder, model, steps), key=lambda run: run[0])
    return best


def try_form(
    path: Path, form: Form, batch: int, layers: list[str], profiles: list[Path],
    out: Path, steps: int,
) -> Outcome | None:  # fmt: skip
    folder = out / f"{path.stem}-{form.name.replace(' ', '-').replace(',', '')}"
    (out / "cluster.yaml").write_text(cluster(form), encoding="utf-8")
    samples = batch + form.extra
    plan = json.loads(
        heterplan("compile", path, "--cluster", out / "cluster.yaml", "--profile", *profiles,
                  "--batch", samples, "--micro-batches", form.micro_batches, "--schedule",
                  "pipeline" if form.stages > 1 else "data-parallel", "--force", "--json",
                  "-o", folder, *pins(layers, form))
    )  # fmt: skip
    ranks = [stage for stage in plan["stages"] for _ in stage["replicas"]]
    if len(ranks) != form.ranks:
        print(f"note: {path.stem}: no plan has the form '{form.name}'", file=sys.stderr)
        return None
    others, found = quietest_run(folder, path.stem, steps)
    needs = max(zip(found["peakBytes"], (stage["memoryBytes"] for stage in ranks), strict=True))
    return Outcome(
        path.stem, form.name, samples, float(plan["iterationSeconds"]),
        float(found["measuredSeconds"]), needs[1], needs[0],
        others,
    )  # fmt: skip


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


def report(outcomes: list[Outcome]) -> str:
    lines = ["| model | plan | predicted ms | measured ms | error | others | memory MB | measured MB "
             "| error |"]  # fmt: skip
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for o in outcomes:
        lines.append(
            f"| {o.model} | {o.form} | {o.predicted * 1e3:.1f} | {o.measured * 1e3:.1f} "
            f"| {o.error:+.1%} | {o.others:.0%} | {o.predicted_bytes / 1e6:.0f} | {o.measured_bytes / 1e6:.0f} "
            f"| {o.memory_error:+.0%} |"
        )
    lines += ["", "| model | plans | median error | worst | Spearman | regret of the choice "
                  "| median error of memory |"]  # fmt: skip
    lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
    for model in dict.fromkeys(o.model for o in outcomes):
        lines.append(summary(model, [o for o in outcomes if o.model == model]))
    lines.append(summary("all", outcomes, ranking=False))
    return "\n".join(lines) + "\n"


def summary(name: str, outcomes: list[Outcome], ranking: bool = True) -> str:
    errors = [abs(o.error) for o in outcomes]
    memory = statistics.median([abs(o.memory_error) for o in outcomes])
    text = f"| {name} | {len(outcomes)} | {statistics.median(errors):.1%} | {max(errors):.1%} |"
    if not ranking:
        return text + f" | | {memory:.0%} |"
    predicted = [o.predicted / o.batch for o in outcomes]
    measured = [o.measured / o.batch for o in outcomes]
    regret = measured[predicted.index(min(predicted))] / min(measured) - 1
    return text + f" {spearman(predicted, measured):.2f} | {regret:.1%} | {memory:.0%} |"


def profile_model(path: Path, batches: list[int], out: Path) -> tuple[Path, list[str]]:
    profile, layers = out / f"{path.stem}.profile.json", out / f"{path.stem}.layers.json"
    heterplan("profile", path, "--device", "cpu", "--engine", "torch", "--threads", 1, "--cores",
              max(os.sched_getaffinity(0)), "--batches", ",".join(map(str, batches)),
              "-o", profile)  # fmt: skip
    heterplan("import", path, "-o", layers)
    names = [layer["name"] for layer in json.loads(layers.read_text("utf-8"))["layers"]]
    return profile, names


def profile_link(out: Path) -> Path:
    links = out / "links.profile.json"
    if not links.exists():
        heterplan("profile", "--link", "loopback", "--ranks", 2, "-o", links)
    return links


def known(out: Path) -> list[Outcome]:
    """What earlier runs have found."""
    path = out / "outcomes.json"
    return [Outcome(**o) for o in json.loads(path.read_text("utf-8"))] if path.exists() else []


def measure(options: argparse.Namespace, forms: list[Form]) -> None:
    """Plans that were run already are not run again."""
    begin = time.monotonic()
    names = options.models.split(",") if options.models else list(MODELS)
    for name in names:
        path, batch = DATA / name, MODELS.get(name, 8)
        links = profile_link(options.out)
        profile, layers = profile_model(path, local_batches(batch, forms), options.out)
        for form in forms:
            outcomes = known(options.out)
            if any((o.model, o.form) == (path.stem, form.name) for o in outcomes):
                continue
            if options.seconds and time.monotonic() - begin > options.seconds:
                print("note: the time is up; run again to go on", file=sys.stderr)
                return
            outcome = try_form(
                path, form, batch, layers, [profile, links], options.out, options.steps
            )
            outcomes += [outcome] if outcome else []
            text = json.dumps([asdict(o) for o in outcomes], indent=1)
            (options.out / "outcomes.json").write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="paths below test/data (all)")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seconds", type=float, help="begin no run after so long")
    parser.add_argument("--out", type=Path, default=ROOT / "build/fidelity")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    forms = [form for form in FORMS if form.ranks <= cores]
    if skipped := [form.name for form in FORMS if form.ranks > cores]:
        print(f"note: {cores} cores; skipped: {'; '.join(skipped)}", file=sys.stderr)
    if not options.report:
        measure(options, forms)
    if outcomes := known(options.out):
        text = report(outcomes)
        (options.out / "fidelity.md").write_text(text, encoding="utf-8")
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
