#!/usr/bin/env python3
"""Is the memory that plans predict an upper bound? Compiles the plans of a list, runs each twice, and compares
what its ranks took with what was predicted: once as they like, once with each rank in a control group
that has as much memory as is predicted of it, and no more.

    bench/memory.py [--plans bench/memory-workloads.yaml] [--only MODEL] [--steps N] [--out FOLDER]

Prints a table in Markdown. Needs no quiet machine: memory does not depend on how fast it is.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from fidelity import DATA, ROOT, heterplan, layers_of, pins
from fidelity import cluster as cluster_of
from fidelity_models import BUILDERS, export
from fidelity_workloads import Form
from memory_limits import NoLimits, run_ranks

MEBI = 1 << 20


@dataclass(frozen=True)
class Measured:
    """The memory of one rank, in bytes; `survived` is None where no limit could be set."""

    predicted: float
    tensors: float  # of those
    resident: float
    survived: bool | None


def model_file(model: str, out: Path) -> Path:
    """Below test/data, or made by fidelity_models.py."""
    if model not in BUILDERS:
        return DATA / model
    path = out / f"{model}.onnx"
    if not path.exists():
        export(model, path)
    return path


def title_of(case: dict[str, Any]) -> str:
    form = form_of(case)
    kind = f"{form.stages} stages" if form.stages > 1 else "1 stage"
    kind += f" of {form.cores}" if form.cores > 1 else ""
    return ", ".join([f"{case['batch']} samples", kind, f"m={form.micro_batches}", *case.get("options", [])])


def form_of(case: dict[str, Any]) -> Form:
    return Form("", case.get("stages", 1), case.get("cores", 1), case.get("micro_batches", 1))


def compiled(case: dict[str, Any], folder: Path, out: Path) -> dict[str, Any]:
    path, form = model_file(case["model"], out), form_of(case)
    (out / "cluster.yaml").write_text(cluster_of(form), encoding="utf-8")
    options = [part for option in case.get("options", []) for part in f"--{option}".split()]
    text = heterplan(
        "compile", "--tensor-parallel", 1, path, "--cluster", out / "cluster.yaml", "--batch", case["batch"],
        "--micro-batches",
        form.micro_batches, "--schedule", "pipeline" if form.stages > 1 else "data-parallel", "--force",
        "--json", "-o", folder, *pins(layers_of(path, out), form), *options,
    )  # fmt: skip
    return json.loads(text)  # type: ignore[no-any-return]


def run(plan: Path, case: dict[str, Any], steps: int, limits: list[int | None]) -> tuple[bool, Any]:
    """Whether it ended well, and its result."""
    result = plan / "result.json"
    arguments = ["--steps", str(steps), "--no-save", "--loss", case["loss"], "--json", str(result)]
    well = not any(run_ranks(plan, limits, arguments))
    return well, json.loads(result.read_text("utf-8")) if well else None


def measure(case: dict[str, Any], steps: int, out: Path) -> list[Measured]:
    folder = out / "plan"
    plan = compiled(case, folder, out)
    ranks = sum(len(stage["replicas"]) for stage in plan["stages"])
    if ranks != form_of(case).ranks:
        raise RuntimeError(f"{case['model']}: no plan of {title_of(case)}")
    well, result = run(folder, case, steps, [None] * ranks)
    if not well:
        raise RuntimeError(f"{case['model']}: a run of {title_of(case)} failed")
    try:
        survived: bool | None = run(folder, case, steps, [int(b) for b in result["predictedBytes"]])[0]
    except NoLimits as error:
        print(f"note: no limits: {error}", file=sys.stderr)
        survived = None
    overheads = [stage["overheadBytes"] for stage in plan["stages"] for _ in stage["replicas"]]
    return [
        Measured(predicted, predicted - overhead, resident, survived)
        for predicted, overhead, resident in zip(
            result["predictedBytes"], overheads, result["residentBytes"], strict=True
        )
    ]


def row(case: dict[str, Any], ranks: list[Measured]) -> str:
    worst = max(ranks, key=lambda each: each.resident / each.predicted)
    survived = {True: "yes", False: "**no**", None: "not tried"}[worst.survived]
    return (
        f"| {Path(case['model']).stem} | {title_of(case)} | {worst.predicted / MEBI:.0f} | {worst.tensors / MEBI:.0f} | "
        f"{worst.resident / MEBI:.0f} | {worst.resident / worst.predicted:.0%} | {survived} |"
    )


def summary(measured: list[list[Measured]]) -> str:
    shares = [max(each.resident / each.predicted for each in ranks) for ranks in measured]
    limited = [ranks[0].survived for ranks in measured if ranks[0].survived is not None]
    return (
        f"{sum(share <= 1 for share in shares)} of {len(shares)} plans took no more than predicted; the median took "
        f"{statistics.median(shares):.0%} of it, the least {min(shares):.0%}, the most {max(shares):.0%}. "
        f"{sum(limited)} of {len(limited)} ran to their end under a limit equal to the prediction."
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", type=Path, default=ROOT / "bench/memory-workloads.yaml")
    parser.add_argument("--only", default="", help="models whose names begin so")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--out", type=Path, default=ROOT / "build/memory")
    return parser.parse_args()


def main() -> int:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    cases = yaml.safe_load(options.plans.read_text("utf-8"))["plans"]
    command = " ".join(["bench/memory.py", *sys.argv[1:]])
    print(f"Measured on {datetime.date.today().isoformat()} by `{command}`. Of the rank that came nearest, in MiB.\n")
    print("| model | plan | predicted | beside the process | taken | of the predicted | survives the limit |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- |", flush=True)
    measured = []
    for case in cases:
        if Path(case["model"]).stem.startswith(options.only):
            measured.append(measure(case, options.steps, options.out))
            print(row(case, measured[-1]), flush=True)
    print("\n" + summary(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
