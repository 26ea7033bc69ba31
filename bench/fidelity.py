#!/usr/bin/env python3
"""Does measurement confirm what a plan predicts? Measures the link between ranks, the memory of ranks, and
the layers of each model of a frozen list on one core, compiles its plans, runs them with each rank on a core of
its own, and compares iteration times and memory.

    bench/fidelity.py [--workloads LIST] [--models a,b] [--plans NAME] [--runs N] [--out FOLDER] [--measured FOLDER]
                      [--report]

The list (bench/fidelity-workloads.yaml) says which models, batches, plans and how many runs; the
report names its version. Layers are measured before the runs, at other batches than those of the
plans. Prints tables in Markdown. The machine should be quiet. Since its speed changes all the same,
layers are measured and plans run in rounds, in turns, and trimmed means count on both sides: of a
layer over its sessions, of a plan over its steps and over its runs. "slower": by how much cores of
the speed that they had meanwhile, by the reference kernel of speed.py, were slower than when the
layers were measured; "at equal speed": the error without that. "others": cores that other
processes, and other guests of the host, took meanwhile; a run that they disturb is repeated. The
script keeps its measurements (profiles, and the steps of each run) in a folder of the machine below
profiles/measured/fidelity-vVERSION. A second run continues there; with --runs 0 another version of
the program is judged by the same runs; --report prints all that is there. Models and plans are made
in FOLDER.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import speed
from fidelity_measured import keep, known, last_day, machine
from fidelity_report import Outcome, Run, report
from fidelity_workloads import BadWorkloads, Form, Subject, Workloads, local_batches, read_workloads
from others import Others

ROOT = Path(__file__).resolve().parents[1]
HETERPLAN = os.environ.get("HETERPLAN_BINARY", str(ROOT / "build/bin/heterplan"))
DATA = ROOT / "test/data"
DISTURBED = 0.1  # cores that others take during a run
WARMUP = 2  # steps of a run that do not count


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
    subject: Subject, path: Path, form: Form, layers: list[str], profiles: list[Path], out: Path
) -> Outcome | None:
    """The plan of this form, in a folder of its own; None where the search finds none of it."""
    (out / "cluster.yaml").write_text(cluster(form), encoding="utf-8")
    samples = subject.batch + form.extra
    plan = json.loads(
        heterplan("compile", "--tensor-parallel", 1, path, "--cluster", out / "cluster.yaml", "--profile", *profiles,
                  "--batch", samples, "--micro-batches", form.micro_batches, "--schedule",
                  "pipeline" if form.stages > 1 else "data-parallel", "--shard-state", "none", "--force", "--json",
                  "-o", folder_of(out, subject.name, form), *pins(layers, form))
    )  # fmt: skip
    if sum(len(stage["replicas"]) for stage in plan["stages"]) != form.ranks:
        print(f"note: {subject.name}: no plan has the form '{form.name}'", file=sys.stderr)
        return None
    needs = max(stage["memoryBytes"] for stage in plan["stages"])
    interval = plan.get("iterationInterval", {})
    return Outcome(
        subject.name, form.name, samples, float(plan["expectedSeconds"]), needs, layout_of(plan),
        speed.of_profile(profiles[0], list(subject.profile_batches)),
        float(interval.get("leastSeconds", 0)), float(interval.get("mostSeconds", 0)),
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


def run_undisturbed(folder: Path, subject: Subject, outcome: Outcome, seconds: float) -> Run:
    """Up to three times, while others take more than they may; then the least disturbed one."""
    runs: list[Run] = []
    while len(runs) < 3 and all(run.others > DISTURBED for run in runs):
        runs.append(run_plan(folder, subject, outcome, seconds))
    return min(runs, key=lambda run: run.others)


def run_plan(folder: Path, subject: Subject, outcome: Outcome, seconds: float) -> Run:
    """As many steps as should take so long, at least three."""
    result = folder / "result.json"
    steps = WARMUP + min(1000, max(3, round(seconds / outcome.predicted)))
    others = Others()
    heterplan("run", folder, "--steps", steps, "--json", result, "--pin", "--loss", subject.loss, "--no-save")
    taken, found = others.cores(), json.loads(result.read_text(encoding="utf-8"))
    reference_kernels = speed.slowest(found["referenceKernelSeconds"])[WARMUP:]
    seconds_ = tuple(found["stepSeconds"][WARMUP:])
    return Run(seconds_, tuple(reference_kernels), float(max(found["residentBytes"])), taken)


def model_file(subject: Subject, out: Path) -> Path:
    """The file of a model; an existing export is used again."""
    if subject.file:
        return DATA / subject.file
    path = out / f"{subject.name}.onnx"
    if not path.exists():
        command = [sys.executable, ROOT / "bench/fidelity_models.py", subject.builder, path]
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return path


def profile_model(subject: Subject, path: Path, rounds: int, out: Path, measures: bool) -> Path:
    """`measures`: what is missing in the profile that is there, if any."""
    profile = out / f"{subject.name}.profile.json"
    if profile.exists() and not measures:
        return profile
    heterplan("profile", path, "--device", "cpu", "--engine", "torch", "--threads", 1, "--cores",
              max(os.sched_getaffinity(0)), "--batches", ",".join(map(str, subject.profile_batches)),
              "--rounds", rounds, "--loss", subject.loss, "-o", profile)  # fmt: skip
    return profile


def profile_memory(out: Path) -> Path:
    path = out / "memory.profile.json"
    if not path.exists():
        heterplan("profile", "--memory", "cpu-core", "-o", path)
    return path


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


class Measurement:
    """Measures one model: first the inputs of predictions, then the runs of its plans in turns."""

    def __init__(self, subject: Subject, forms: list[Form], options: argparse.Namespace) -> None:
        self._subject, self._out, self._measured = subject, options.out, options.measured
        self._forms = {form.name: form for form in forms}
        self._options = options

    def go(self, end: float) -> None:
        self._predict()
        for round_ in range(1, self._options.runs + 1):
            if not self._run_all(round_, end):
                print("note: the time is up; run again to go on", file=sys.stderr)
                return

    def _predict(self) -> None:
        """Compiles the plans. One that is another now has not run."""
        path = model_file(self._subject, self._out)
        rounds = self._options.profile_rounds
        profiles = [
            profile_model(self._subject, path, rounds, self._measured, self._options.runs > 0),
            profile_link(self._measured, rounds),
            profile_memory(self._measured),
        ]
        layers = layers_of(path, self._out)
        earlier = {o.form: o for o in known(self._measured, self._subject.name)}
        for form in self._forms.values():
            outcome = compiled(self._subject, path, form, layers, profiles, self._out)
            if outcome is None:
                continue
            before = earlier.get(form.name)
            runs = before.runs if before and before.layout == outcome.layout else ()
            earlier[form.name] = replace(outcome, runs=runs)
        keep(self._measured, self._subject.name, list(earlier.values()))

    def _run_all(self, wanted: int, end: float) -> bool:
        """Each plan until it has run so often; False where the time is up."""
        outcomes = known(self._measured, self._subject.name)
        for index, outcome in enumerate(outcomes):
            if outcome.form not in self._forms:
                continue
            while len(outcomes[index].runs) < wanted:
                if time.monotonic() > end:
                    return False
                folder = folder_of(self._out, outcome.model, self._forms[outcome.form])
                run = run_undisturbed(folder, self._subject, outcome, self._options.run_seconds)
                outcomes[index] = replace(outcomes[index], runs=(*outcomes[index].runs, run))
                keep(self._measured, self._subject.name, outcomes)
        return True


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", type=Path, default=ROOT / "bench/fidelity-workloads.yaml")
    parser.add_argument("--models", help="names of some (all)")
    parser.add_argument("--plans", default="", help="those whose names begin so: '1 core' (all)")
    parser.add_argument("--runs", type=int, help="of each plan (as listed); fewer are a trial")
    parser.add_argument("--profile-rounds", type=int, help="rounds of profiles (those of the list)")
    parser.add_argument("--run-seconds", type=float, help="least seconds of a run (those of the list)")
    parser.add_argument("--seconds", type=float, help="begin no run after so long")
    parser.add_argument("--out", type=Path, default=ROOT / "build/fidelity")
    parser.add_argument("--measured", type=Path, help="where it is kept (by the list and the machine)")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    return parser.parse_args(arguments)


def with_list(options: argparse.Namespace, workloads: Workloads) -> argparse.Namespace:
    """Fills in the listed values of options that are not given."""
    for name in ("runs", "profile_rounds", "run_seconds"):
        if getattr(options, name) is None:
            setattr(options, name, getattr(workloads, name))
    options.out = options.out / f"v{workloads.version}"
    if options.measured is None:
        options.measured = ROOT / f"profiles/measured/fidelity-v{workloads.version}" / machine()
    for folder in (options.out, options.measured):
        folder.mkdir(parents=True, exist_ok=True)
    return options


def forms_here(workloads: Workloads, beginning: str) -> list[Form]:
    cores = len(os.sched_getaffinity(0))
    wanted = [form for form in workloads.plans if form.name.startswith(beginning)]
    if skipped := [form.name for form in wanted if form.ranks > cores]:
        print(f"note: {cores} cores; skipped: {'; '.join(skipped)}", file=sys.stderr)
    return [form for form in wanted if form.ranks <= cores]


def command_of(arguments: list[str] | None) -> str:
    return " ".join(["bench/fidelity.py", *(sys.argv[1:] if arguments is None else arguments)])


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        workloads = read_workloads(options.workloads)
        names = options.models.split(",") if options.models else [each.name for each in workloads.models]
        subjects = [workloads.model(name) for name in names]
    except BadWorkloads as error:
        print(f"fidelity: error: {error}", file=sys.stderr)
        return 1
    options = with_list(options, workloads)
    forms = forms_here(workloads, options.plans)
    end = time.monotonic() + (options.seconds or math.inf)
    for subject in [] if options.report else subjects:
        Measurement(subject, forms, options).go(end)
    kept = [outcome for each in workloads.models for outcome in known(options.measured, each.name)]
    if outcomes := [outcome for outcome in kept if outcome.runs]:
        listed = replace(workloads, runs=min(len(outcome.runs) for outcome in outcomes))
        today, command = datetime.date.today().isoformat(), command_of(arguments)
        text = (f"Measured until {last_day(options.measured)} on {options.measured.name}; table of {today} by "
                f"`{command}`. {report(outcomes, listed)}")  # fmt: skip
        (options.out / "fidelity.md").write_text(text, encoding="utf-8")
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
