#!/usr/bin/env python3
"""How far are plans proven to be from the optimum, and what does that take? Compiles fixed workloads with
default settings, one after another, and prints a table in Markdown.

    bench/gaps.py [--only TEXT] [--json FILE] [--verify] [--options "--threads 1"]

Plans are of whole layers unless --options has --tensor-parallel. "gap": plan against bound, as `compile` states it;
"space": what the bound is about (docs/formats.md); "CPU": seconds of one process, reading the model and writing the
plan included; "MB": the most memory that it had. With --verify,
"verified": the gap that `heterplan verify` proves from the certificate, and the seconds of CPU that it takes. LISTS names the
lists of models: whoever changes what is looked at adds a list, and the summary shows all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HETERPLAN = os.environ.get("HETERPLAN_BINARY", str(ROOT / "build/bin/heterplan"))
BATCH = 256
SEVEN = ("resnet50", "bert_base", "inception_v3", "vgg16", "mobilenet_v2", "gpt2_small", "dlrm")
LISTS = {"gaps-1": SEVEN, "gaps-2": (*SEVEN, "wide_resnet101", "vit_b_16")}
CLUSTERS = ("mixed-small", "mixed-64", "cloud-large")
GOALS = ("throughput", "cost", "half", "budget")  # half: least cost at half the highest throughput


@dataclass(frozen=True)
class Workload:
    name: str
    model: Path
    cluster: str
    options: tuple[str, ...]
    batch: int = BATCH


def compiled(work: Workload, folder: Path) -> dict[str, Any]:
    """The plan, if any, with the seconds of CPU and of the clock that it took. An .onnx file is planned in whole layers
    unless the options say otherwise."""
    has_degree = work.model.suffix != ".onnx" or "--tensor-parallel" in work.options
    degree = () if has_degree else ("--tensor-parallel", "1")
    out, said, complaint = folder / "plan", folder / "said", folder / "complaint"
    command = [HETERPLAN, "compile", str(work.model), "--cluster", work.cluster, "--batch", str(work.batch)]
    with said.open("w") as output, complaint.open("w") as errors:
        begun = time.monotonic()
        started = subprocess.Popen(
            [*command, *degree, *work.options, "-o", str(out), "--force", "--json"], stdout=output, stderr=errors
        )
        _, status, used = os.wait4(started.pid, 0)
        clock = time.monotonic() - begun
    started.returncode = os.waitstatus_to_exitcode(status)
    result: dict[str, Any] = {
        "cpu": used.ru_utime + used.ru_stime,
        "clock": clock,
        "megabytes": used.ru_maxrss * 1024 / 1e6,
        "feasible": started.returncode == 0,
    }
    if started.returncode == 0:
        plan = json.loads(said.read_text())
        keys = ("throughput", "costPerMillionSamples", "costPerHour", "gap", "optimal", "searchSpace")
        result |= {key: plan.get(key) for key in keys}
        result["stages"] = len(plan["stages"])
    else:
        result["error"] = complaint.read_text().strip().splitlines()[-1:]
    return result


def verified(model: Path, cluster: str, plan: Path) -> dict[str, Any]:
    """The gap that `verify` proves, and what that takes."""
    with (plan.parent / "verified").open("w+") as output:
        command = [HETERPLAN, "verify", str(plan), "--model", str(model), "--cluster", cluster, "--json"]
        started = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        found = json.load(output)
    certificate = plan / "certificate.json"
    return {
        "verifyCpu": used.ru_utime + used.ru_stime,
        "verifiedGap": found.get("optimality", {}).get("verifiedGap"),
        "certificateBytes": certificate.stat().st_size if certificate.exists() else 0,
    }


def parser_of(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="workloads whose name contains TEXT")
    parser.add_argument("--verify", action="store_true", help="verify the gap of each plan, too")
    parser.add_argument("--json", type=Path, help="write what was seen to FILE")
    return parser


def arguments_of(description: str | None) -> argparse.Namespace:
    return parser_of(description).parse_args()


def print_head(workloads: str, verifies: bool = False, batch: int = BATCH) -> None:
    print(f"Workloads {workloads}: batch {batch}, default settings.\n")
    more = (" verified % | verify CPU s |", " --- | --- |") if verifies else ("", "")
    print("| workload | stages | gap % | space | samples/s | $/10^6 samples | CPU s | MB |" + more[0])
    print("| --- | --- | --- | --- | --- | --- | --- | --- |" + more[1], flush=True)


def finish(rows: dict[str, dict[str, Any]], file: Path | None) -> None:
    if file:
        file.write_text(json.dumps(rows, indent=1) + "\n")


def run_lists(
    lists: dict[str, Callable[[Path], list[Workload]]],
    arguments: argparse.Namespace,
    run: Callable[[Workload, dict[str, dict[str, Any]], Path], dict[str, Any]],
) -> None:
    """Prints a table for each list of workloads. `run` has the rows so far of its list."""
    seen: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        for title, listed in lists.items():
            print_head(title)
            rows: dict[str, dict[str, Any]] = {}
            for work in listed(Path(name)):
                if arguments.only in f"{title} {work.name}":
                    rows[work.name] = run(work, rows, Path(name))
                    print(line(work.name, rows[work.name]), flush=True)
            summary(title, rows)
            print()
            seen |= {f"{title}: {key}": row for key, row in rows.items()}
    finish(seen, arguments.json)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--options", default="", help="more options of compile, in one word")
    arguments = parser.parse_args()
    more = tuple(shlex.split(arguments.options))
    rows: dict[str, dict[str, Any]] = {}
    newest = list(LISTS)[-1]
    print_head(newest, arguments.verify)
    with tempfile.TemporaryDirectory() as name:
        for cluster in CLUSTERS:
            for model in LISTS[newest]:
                for goal in GOALS:
                    key = f"{model} {cluster} {goal}"
                    if arguments.only not in key:
                        continue
                    fastest = rows.get(f"{model} {cluster} throughput", {})
                    row = run_goal(model, cluster, goal, fastest, Path(name), more)
                    rows[key] = row
                    if arguments.verify and row["feasible"]:
                        row |= verified(ROOT / "test/data/models" / f"{model}.onnx", cluster, Path(name) / "plan")
                    print(line(key, row), flush=True)
    for name, models in LISTS.items():
        summary(name, {key: row for key, row in rows.items() if key.split()[0] in models})
    finish(rows, arguments.json)


def run_goal(
    model: str, cluster: str, goal: str, fastest: dict[str, Any], folder: Path, options: tuple[str, ...]
) -> dict[str, Any]:
    options += ("--objective", "throughput" if goal in ("throughput", "budget") else "cost")
    if goal in ("half", "budget") and not fastest.get("feasible"):
        return {"feasible": False, "cpu": 0.0, "error": ["needs the throughput row"]}
    if goal == "half":
        options += ("--min-throughput", repr(fastest["throughput"] / 2))
    if goal == "budget":
        options += ("--max-cost-per-hour", repr(fastest["costPerHour"] / 2))
    path = ROOT / "test/data/models" / f"{model}.onnx"
    return compiled(Workload(model, path, cluster, options), folder)


def line(key: str, row: dict[str, Any]) -> str:
    if not row["feasible"]:
        return f"| {key} | | no plan: {row.get('error')} | | | | {row['cpu']:.1f} | |"
    return (
        f"| {key} | {row['stages']} | {100 * row['gap']:.2f} | {row['searchSpace']} | {row['throughput']:.1f} "
        f"| {row['costPerMillionSamples']:.3f} | {row['cpu']:.1f} "
        f"| {row['megabytes']:.0f} |{verified_text(row)}"
    )


def verified_text(row: dict[str, Any]) -> str:
    if "verifyCpu" not in row:
        return ""
    gap = row["verifiedGap"]
    return f" {'not checked' if gap is None else f'{100 * gap:.2f}'} | {row['verifyCpu']:.1f} |"


def verified_summary(rows: dict[str, dict[str, Any]]) -> None:
    looked = [row for row in rows.values() if "verifyCpu" in row]
    gaps = [100 * row["verifiedGap"] for row in looked if row["verifiedGap"] is not None]
    if not gaps:
        return
    verify, compile_cpu = (sum(row[key] for row in looked) for key in ("verifyCpu", "cpu"))
    slowest = max(row["verifyCpu"] / row["cpu"] for row in looked)
    print(
        f"Verified: {len(gaps)} of {len(looked)} plans, gap median {statistics.median(gaps):.2f} %, "
        f"largest {max(gaps):.2f} %, at most 1 %: {sum(gap <= 1 for gap in gaps)}; CPU of verify {verify:.0f} s, "
        f"of compile {compile_cpu:.0f} s, largest ratio {slowest:.1f}; largest certificate "
        f"{max(row['certificateBytes'] for row in looked) / 1e3:.0f} kB."
    )


def summary(name: str, rows: dict[str, dict[str, Any]]) -> None:
    gaps = [100 * row["gap"] for row in rows.values() if row["feasible"]]
    times = [row["cpu"] for row in rows.values() if row["feasible"]]
    if gaps:
        print(
            f"\n{name}: {len(gaps)} plans: gap median {statistics.median(gaps):.2f} %, largest {max(gaps):.2f} %, "
            f"at most 1 %: {sum(gap <= 1 for gap in gaps)}; CPU {sum(times):.1f} s, median {statistics.median(times):.1f} s, "
            f"largest {max(times):.1f} s; most memory {max(row['megabytes'] for row in rows.values()):.0f} MB."
        )
        verified_summary(rows)


if __name__ == "__main__":
    main()
