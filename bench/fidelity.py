#!/usr/bin/env python3
"""Does measurement confirm what a plan predicts? Measures the link between ranks and the layers of
each model on one core, compiles eight plans or more of it, runs them with each rank on a core of its
own, and compares iteration times and memory.

    bench/fidelity.py [--models a.onnx,b.onnx] [--plans NAME] [--rounds N] [--out FOLDER] [--report]

Prints tables in Markdown. The machine should be quiet. Since its speed changes all the same, layers are
measured and plans run in rounds, in turns, and trimmed means count on both sides: of a layer over its
sessions, of a plan over its steps and over its runs. "slower": by how much cores of the speed that they
had meanwhile, by the reference kernel of speed.py, were slower than when the layers were measured; "at equal
speed": the error without that. "others": cores that other processes, and other guests of the host,
took meanwhile; a run that they disturb is repeated. What was measured is kept in FOLDER: a
second run goes on, and --report prints all that is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import speed
from others import Others

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "lib/codegen/runtime"))
from heterplan_runtime.robust import trimmed_mean  # noqa: E402

HETERPLAN = os.environ.get("HETERPLAN_BINARY", str(ROOT / "build/bin/heterplan"))
DATA = ROOT / "test/data"
DISTURBED = 0.1  # cores that others take during a run
WARMUP = 2  # steps of a run that do not count
SLICE = 3  # runs between two slices of profiling
MODELS = {  # samples of an iteration
    "small/transformer.onnx": 2048,
    "models/mobilenet_v2.onnx": 8,
    "models/dlrm.onnx": 2048,
    "models/resnet50.onnx": 4,
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
    Form("2 stages, late cut, m=2", stages=2, micro_batches=2, cut=0.7),
    Form("3 replicas, m=1", cores=3),
    Form("3 stages, m=4", stages=3, micro_batches=4),
    Form("2 stages of 2, m=4", stages=2, cores=2, micro_batches=4),
)


@dataclass(frozen=True)
class Run:
    steps: tuple[float, ...]  # seconds of each
    reference_kernels: tuple[float, ...]  # beside each, of the slowest rank
    bytes: float  # of the rank that needs most
    others: float  # cores that other processes took meanwhile

    @property
    def seconds(self) -> float:
        return trimmed_mean(self.steps)


@dataclass(frozen=True)
class Outcome:
    model: str
    form: str
    batch: int
    predicted: float
    predicted_bytes: float
    layout: str  # layers and devices of the stages
    reference_kernel: float  # beside the sessions of its layers
    runs: tuple[Run, ...] = ()

    @property
    def measured(self) -> float:
        return trimmed_mean(run.seconds for run in self.runs)

    @property
    def spread(self) -> float:
        """Of its runs: half of their range, relative."""
        seconds = [run.seconds for run in self.runs]
        return (max(seconds) - min(seconds)) / 2 / self.measured

    @property
    def measured_bytes(self) -> float:
        return statistics.median(run.bytes for run in self.runs)

    @property
    def others(self) -> float:
        return statistics.median(run.others for run in self.runs)

    @property
    def readings(self) -> list[speed.Reading]:
        return [pair for run in self.runs for pair in zip(run.reference_kernels, run.steps, strict=True)]

    def slower(self, exponent: float) -> float:
        """How much longer cores as slow as those of its runs take than those of its sessions."""
        sticks = [stick for stick, _ in self.readings]
        return (speed.geometric_mean(sticks) / self.reference_kernel) ** exponent

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    def equal_error(self, exponent: float) -> float:
        """At equal speed."""
        return self.predicted * self.slower(exponent) / self.measured - 1

    @property
    def memory_error(self) -> float:
        return self.predicted_bytes / self.measured_bytes - 1


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


def compiled(
    path: Path, form: Form, batch: int, layers: list[str], profiles: list[Path], out: Path
) -> Outcome | None:
    """The plan of this form, in a folder of its own; None where the search finds none of it."""
    (out / "cluster.yaml").write_text(cluster(form), encoding="utf-8")
    samples = batch + form.extra
    plan = json.loads(
        heterplan("compile", path, "--cluster", out / "cluster.yaml", "--profile", *profiles,
                  "--batch", samples, "--micro-batches", form.micro_batches, "--schedule",
                  "pipeline" if form.stages > 1 else "data-parallel", "--force", "--json",
                  "-o", folder_of(out, path.stem, form), *pins(layers, form))
    )  # fmt: skip
    if sum(len(stage["replicas"]) for stage in plan["stages"]) != form.ranks:
        print(f"note: {path.stem}: no plan has the form '{form.name}'", file=sys.stderr)
        return None
    needs = max(stage["memoryBytes"] for stage in plan["stages"])
    return Outcome(
        path.stem, form.name, samples, float(plan["iterationSeconds"]), needs, layout_of(plan),
        speed.of_profile(profiles[0], local_batches(batch, [form])),
    )  # fmt: skip


def layout_of(plan: dict[str, Any]) -> str:
    """Which layers run where, on how many samples; whatever times are predicted for them."""
    layout = [
        [stage["layers"], [[replica["devices"], replica["share"]] for replica in stage["replicas"]]]
        for stage in plan["stages"]
    ]
    return hashlib.sha256(json.dumps(layout).encode()).hexdigest()


def folder_of(out: Path, model: str, form: Form) -> Path:
    return out / f"{model}-{form.name.replace(' ', '-').replace(',', '')}"


def run_undisturbed(folder: Path, outcome: Outcome, seconds: float) -> Run:
    """Up to three times, while others take more than they may; then the least disturbed one."""
    runs: list[Run] = []
    while len(runs) < 3 and all(run.others > DISTURBED for run in runs):
        runs.append(run_plan(folder, outcome, seconds))
    return min(runs, key=lambda run: run.others)


def run_plan(folder: Path, outcome: Outcome, seconds: float) -> Run:
    """As many steps as should take so long, at least three."""
    result = folder / "result.json"
    loss = "mse" if outcome.model == "dlrm" else "cross_entropy"
    steps = WARMUP + min(1000, max(3, round(seconds / outcome.predicted)))
    others = Others()
    heterplan("run", folder, "--steps", steps, "--json", result, "--pin", "--loss", loss)
    taken, found = others.cores(), json.loads(result.read_text(encoding="utf-8"))
    reference_kernels = speed.slowest(found["referenceKernelSeconds"])[WARMUP:]
    steps = tuple(found["stepSeconds"][WARMUP:])
    return Run(steps, tuple(reference_kernels), float(max(found["peakBytes"])), taken)


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
    lines = ["| model | plan | predicted ms | measured ms | error | slower | at equal speed | runs "
             "| spread | others | memory MB | measured MB | error |"]  # fmt: skip
    lines += ["| --- " * 13 + "|"]
    models = {model: [o for o in outcomes if o.model == model] for model in by_model(outcomes)}
    exponents = {model: speed.exponent(o.readings for o in plans) for model, plans in models.items()}
    for o in outcomes:
        s = exponents[o.model]
        lines.append(
            f"| {o.model} | {o.form} | {o.predicted * 1e3:.1f} | {o.measured * 1e3:.1f} "
            f"| {o.error:+.1%} | {o.slower(s) - 1:+.0%} | {o.equal_error(s):+.1%} "
            f"| {len(o.runs)} | {o.spread:.0%} | {o.others:.0%} "
            f"| {o.predicted_bytes / 1e6:.0f} | {o.measured_bytes / 1e6:.0f} | {o.memory_error:+.0%} |"
        )
    lines += ["", "| model | plans | speed matters | median error | worst | Spearman "
                  "| regret of the choice | median error of memory |"]  # fmt: skip
    lines += ["| --- " * 8 + "|"]
    for at_equal_speed in (False, True):
        for model, plans in models.items():
            s = exponents[model] if at_equal_speed else 0.0
            lines.append(summary(model, plans, s, [o.equal_error(s) for o in plans]))
        errors = [o.equal_error(exponents[o.model] * at_equal_speed) for o in outcomes]
        lines.append(summary("all, equal speed" if at_equal_speed else "all", outcomes, None, errors))
    return "\n".join(lines) + "\n"


def by_model(outcomes: list[Outcome]) -> list[str]:
    return list(dict.fromkeys(o.model for o in outcomes))


def summary(
    name: str, outcomes: list[Outcome], exponent: float | None, errors: list[float]
) -> str:
    """`exponent`: of the reference kernel; 0 where speeds are left as they are. Without it there is no order
    of the plans. One is chosen among those of the model's batch, as a user would; uneven ones have a
    sample more."""
    sizes = [abs(error) for error in errors]
    memory = statistics.median([abs(o.memory_error) for o in outcomes])
    text = f"| {name} | {len(outcomes)} | {'' if not exponent else f'y^{exponent:.2f}'} "
    text += f"| {statistics.median(sizes):.1%} | {max(sizes):.1%} |"
    if exponent is None:
        return text + f" | | {memory:.0%} |"
    predicted = [o.predicted / o.batch for o in outcomes]
    measured = [o.measured / o.slower(exponent) / o.batch for o in outcomes]
    alike = [index for index, o in enumerate(outcomes) if o.batch == outcomes[0].batch]
    choice = min(alike, key=lambda index: predicted[index])
    regret = measured[choice] / min(measured[index] for index in alike) - 1
    return text + f" {spearman(predicted, measured):.2f} | {regret:.1%} | {memory:.0%} |"


def profile_model(
    path: Path, batches: list[int], rounds: int, out: Path, seconds: float | None = None
) -> Path:
    """`seconds`: if that is too short, the next call goes on."""
    profile = out / f"{path.stem}.profile.json"
    budget = ["--time-budget", seconds] if seconds is not None else []
    heterplan("profile", path, "--device", "cpu", "--engine", "torch", "--threads", 1, "--cores",
              max(os.sched_getaffinity(0)), "--batches", ",".join(map(str, batches)),
              "--rounds", rounds, *budget, "-o", profile)  # fmt: skip
    return profile


def layers_of(path: Path, out: Path) -> list[str]:
    layers = out / f"{path.stem}.layers.json"
    heterplan("import", path, "-o", layers)
    return [layer["name"] for layer in json.loads(layers.read_text("utf-8"))["layers"]]


def profile_link(out: Path, rounds: int) -> Path:
    """Once a round; the median one is used."""
    files = [out / f"links.{round_}.profile.json" for round_ in range(1, rounds + 1)]
    for links in files:
        if not links.exists():
            heterplan("profile", "--link", "loopback", "--ranks", 2, "-o", links)
    return sorted(files, key=latency)[len(files) // 2]


def latency(links: Path) -> float:
    (link,) = json.loads(links.read_text("utf-8"))["links"]
    return float(link["latencySeconds"])


def known(out: Path) -> list[Outcome]:
    """What earlier runs have found."""
    path = out / "outcomes.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text("utf-8"))
    return [Outcome(**{**o, "runs": tuple(Run(**run) for run in o["runs"])}) for o in found]


def keep(outcomes: list[Outcome], out: Path) -> None:
    text = json.dumps([asdict(o) for o in outcomes], indent=1)
    (out / "outcomes.json").write_text(text, encoding="utf-8")


def predict(name: str, forms: list[Form], rounds: int, out: Path) -> None:
    """Sessions the layers of a model so often and compiles its plans. One that is another now has not
    run."""
    path, batch = DATA / name, MODELS.get(name, 8)
    layer_times = profile_model(path, local_batches(batch, forms), rounds, out)
    profiles = [layer_times, profile_link(out, rounds)]
    layers = layers_of(path, out)
    earlier = {(o.model, o.form): o for o in known(out)}
    for form in forms:
        outcome = compiled(path, form, batch, layers, profiles, out)
        if outcome is None:
            continue
        before = earlier.get((outcome.model, outcome.form))
        runs = before.runs if before and before.layout == outcome.layout else ()
        earlier[outcome.model, outcome.form] = replace(outcome, runs=runs)
    keep(list(earlier.values()), out)


class Measurement:
    """Of one model: profiles and runs in turns, so that both meet the same moods of the machine."""

    def __init__(self, name: str, forms: list[Form], options: argparse.Namespace) -> None:
        self._name, self._path = name, DATA / name
        self._forms = {form.name: form for form in forms}
        self._batches = local_batches(MODELS.get(name, 8), forms)
        self._options, self._out = options, options.out
        self._slice = 0.0  # seconds of profiling between runs

    def go(self, end: float) -> None:
        begin = time.monotonic()
        self._predict(1)
        self._slice = (time.monotonic() - begin) * SLICE / len(self._forms)
        for round_ in range(1, self._options.rounds + 1):
            self._run_all(round_, end)
        self._predict(self._options.rounds)
        self._run_all(self._options.rounds, end)  # plans that became others

    def _predict(self, rounds: int) -> None:
        predict(self._name, list(self._forms.values()), rounds, self._out)

    def _run_all(self, rounds: int, end: float) -> None:
        """Each plan until it has run so often; between them layers are measured."""
        profile_link(self._out, rounds)
        chosen = [
            index
            for index, outcome in enumerate(known(self._out))
            if outcome.model == self._path.stem and outcome.form in self._forms
        ]
        for place, index in enumerate(chosen):
            if place % SLICE == 0:
                profile_model(self._path, self._batches, rounds, self._out, self._slice)
            while len(known(self._out)[index].runs) < rounds:
                if time.monotonic() > end:
                    print("note: the time is up; run again to go on", file=sys.stderr)
                    return
                self._run(index)

    def _run(self, index: int) -> None:
        outcomes = known(self._out)
        outcome = outcomes[index]
        folder = folder_of(self._out, outcome.model, self._forms[outcome.form])
        run = run_undisturbed(folder, outcome, self._options.run_seconds)
        outcomes[index] = replace(outcome, runs=(*outcome.runs, run))
        keep(outcomes, self._out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="paths below test/data (all)")
    parser.add_argument("--plans", default="", help="those whose names begin so: '1 core' (all)")
    parser.add_argument("--rounds", type=int, default=5, help="of profiling and running (5)")
    parser.add_argument("--run-seconds", type=float, default=5, help="steps of a run take (5)")
    parser.add_argument("--seconds", type=float, help="begin no run after so long")
    parser.add_argument("--out", type=Path, default=ROOT / "build/fidelity")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    wanted = [form for form in FORMS if form.name.startswith(options.plans)]
    forms = [form for form in wanted if form.ranks <= cores]
    if skipped := [form.name for form in wanted if form.ranks > cores]:
        print(f"note: {cores} cores; skipped: {'; '.join(skipped)}", file=sys.stderr)
    end = time.monotonic() + (options.seconds or math.inf)
    for name in (options.models.split(",") if options.models else MODELS):
        if not options.report:
            Measurement(name, forms, options).go(end)
    if outcomes := [outcome for outcome in known(options.out) if outcome.runs]:
        text = report(outcomes)
        (options.out / "fidelity.md").write_text(text, encoding="utf-8")
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
