#!/usr/bin/env python3
"""Do plans run on a GPU as predicted? Measures the layers of each model of a frozen list on the first GPU, at other
batches than those planned, compiles the plans, runs them, and compares iteration times and memory.

    bench/gpu.py [--device-type NAME] [--models a,b] [--out FOLDER] [--report]

The list is bench/gpu-workloads.yaml. Prints a table in Markdown; what was measured is kept in FOLDER, and a second
run measures what is not there. Memory is what nvidia-smi says is used of the GPU, so that nothing else should use it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import yaml
from fidelity import ROOT, heterplan, model_file
from fidelity_workloads import Subject

MEBI = 1 << 20
HEAD = (
    "| model, batch | precision | micro-batches | optimizer | predicted, ms | measured, ms | measured / predicted "
    "| MiB predicted | MiB used | used / predicted |\n"
    "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
)
CLUSTER = """\
name: one-gpu
device_types:
  gpu: {{kind: gpu, catalogue: {type}}}
nodes:
  - {{name: localhost, devices: {{gpu: 1}}, link: loopback}}
"""


def nvidia_smi(field: str) -> str:
    command = ["nvidia-smi", "--id=0", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


class MostUsed:
    """The most memory in use on the GPU while this is entered, in MiB."""

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._ended.wait(0.2):
            self.most = max(self.most, int(nvidia_smi("memory.used")))

    def __enter__(self) -> MostUsed:
        self._watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._watch.join()


def file_of(model: dict[str, Any], out: Path) -> Path:
    return model_file(Subject(model["name"], 0, (), "", model.get("file", ""), model.get("builder", "")), out)


def folder_of(model: dict[str, Any], plan: dict[str, Any], out: Path) -> Path:
    return out / "-".join([model["name"], *map(str, plan.values())])


def profiled(model: dict[str, Any], precision: str, rounds: int, device_type: str, out: Path) -> Path:
    path = out / f"{model['name']}-{precision}.profile.json"
    if not path.exists():
        heterplan(
            "profile", file_of(model, out), "--device", "cuda:0", "--device-type", device_type, "--engine", "torch",
            "--precision", precision, "--batches", ",".join(map(str, model["profile_batches"])), "--rounds", rounds,
            "-o", path,
        )  # fmt: skip
    return path


def measured(
    model: dict[str, Any], plan: dict[str, Any], workloads: dict[str, Any], device_type: str, out: Path
) -> dict[str, Any]:
    """Seconds and MiB, predicted and found; kept beside the plan."""
    folder = folder_of(model, plan, out)
    kept = folder / "measured.json"
    if kept.exists():
        return json.loads(kept.read_text("utf-8"))  # type: ignore[no-any-return]
    profile = profiled(model, plan["precision"], workloads["rounds"], device_type, out)
    (out / "cluster.yaml").write_text(CLUSTER.format(type=device_type), encoding="utf-8")
    compiled = json.loads(
        heterplan(
            "compile", "--tensor-parallel", "1", file_of(model, out), "--cluster", out / "cluster.yaml",
            "--batch", plan["batch"],
            "--precision", plan["precision"], "--optimizer", plan["optimizer"],
            "--micro-batches", plan["micro_batches"], "--profile", profile, "--force", "--json", "-o", folder,
        )
    )  # fmt: skip
    result = folder / "result.json"
    with MostUsed() as memory:
        heterplan(
            "run", folder, "--steps", workloads["steps"], "--warmup", workloads["warmup"], "--data", "fixed", "--loss",
            model["loss"], "--no-save", "--json", result,
        )  # fmt: skip
    found = json.loads(result.read_text("utf-8"))
    facts = {
        "predicted": compiled["iterationSeconds"],
        "seconds": statistics.median(found["stepSeconds"][workloads["warmup"] :]),
        "predictedMiB": max(stage["memoryBytes"] for stage in compiled["stages"]) / MEBI,
        "usedMiB": memory.most,
    }
    kept.write_text(json.dumps(facts), encoding="utf-8")
    return facts


def row(model: dict[str, Any], plan: dict[str, Any], facts: dict[str, Any]) -> str:
    name = model["name"] + (" (held out)" if model.get("held_out") else "")
    return (
        f"| {name}, {plan['batch']} | {plan['precision']} | {plan['micro_batches']} | {plan['optimizer']} "
        f"| {1e3 * facts['predicted']:.2f} | {1e3 * facts['seconds']:.2f} "
        f"| {facts['seconds'] / facts['predicted']:.2f} | {facts['predictedMiB']:.0f} | {facts['usedMiB']} | {facts['usedMiB'] / facts['predictedMiB']:.0%} |"
    )


def summary(found: list[dict[str, Any]]) -> str:
    errors = [abs(each["predicted"] / each["seconds"] - 1) for each in found]
    shares = [each["usedMiB"] / each["predictedMiB"] for each in found]
    return (
        f"The {len(found)} plans have a median error of the step of {statistics.median(errors):.1%}, worst {max(errors):.1%}. "
        f"{sum(share <= 1 for share in shares)} took no more memory than predicted, the median "
        f"{statistics.median(shares):.0%} of it, the most {max(shares):.0%}."
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device-type", default="h100-sxm5-80gb", help="of the catalogue")
    parser.add_argument("--models", help="names of some (all)")
    parser.add_argument("--workloads", type=Path, default=ROOT / "bench/gpu-workloads.yaml")
    parser.add_argument("--out", type=Path, default=ROOT / "build/gpu")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    return parser.parse_args()


def main() -> int:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    workloads = yaml.safe_load(options.workloads.read_text("utf-8"))
    wanted = options.models.split(",") if options.models else [model["name"] for model in workloads["models"]]
    if not options.report:
        today, name = datetime.date.today().isoformat(), nvidia_smi("name")
        about = f"driver {nvidia_smi('driver_version')}, at most {nvidia_smi('clocks.max.sm')} MHz"
        (options.out / "about.txt").write_text(f"{today}, {name}, {about}", encoding="utf-8")
    print(f"`bench/gpu.py`, list {workloads['version']}: {(options.out / 'about.txt').read_text('utf-8')}.\n")
    print(HEAD, flush=True)
    found = []
    for model in workloads["models"]:
        for plan in model["plans"] if model["name"] in wanted else []:
            if options.report and not (folder_of(model, plan, options.out) / "measured.json").exists():
                continue
            found.append(measured(model, plan, workloads, options.device_type, options.out))
            print(row(model, plan, found[-1]), flush=True)
    print("\n" + summary(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
