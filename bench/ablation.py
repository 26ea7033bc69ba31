#!/usr/bin/env python3
"""Measures what each method of the exact search buys: compiles fixed workloads with all methods, then without each
one in turn (lib/search/exact/Methods.def), and prints a table in Markdown.

    bench/ablation.py [--only METHOD] [--json FILE]

"worse plans": workloads whose plan is worse by more than 0.01 %, or that have none; "gap": as `compile` states it,
the largest and the mean; "CPU": seconds of all workloads together; "MB": the most memory of one. Workloads: the
highest throughput, and the least cost at half of it, for the models of gaps.py on mixed-64 and cloud-large, and the
chains of chains.py.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
from pathlib import Path
from typing import Any

from chains import LISTS as CHAINS
from gaps import LISTS, ROOT, Workload, arguments_of, compiled

Rows = dict[str, dict[str, Any]]
CLUSTERS = ("mixed-64", "cloud-large")
METHOD = re.compile(r'^HETERPLAN_METHOD\(\w+, "([a-z-]+)"', re.MULTILINE)
WORSE = 1e-4


def methods() -> list[str]:
    return METHOD.findall((ROOT / "lib/search/exact/Methods.def").read_text("utf-8"))


def throughput_workloads() -> list[Workload]:
    """The highest throughput of each model on each cluster."""
    return [
        Workload(f"{model} on {cluster}", ROOT / f"test/data/models/{model}.onnx", cluster,
                 ("--objective", "throughput"))
        for model in list(LISTS.values())[-1]
        for cluster in CLUSTERS
    ]  # fmt: skip


def workloads(folder: Path) -> list[Workload]:
    fastest = throughput_workloads()
    half = []
    for work in fastest:
        floor = compiled(work, folder)["throughput"] / 2
        options = ("--objective", "cost", "--min-throughput", repr(floor))
        half.append(Workload(f"{work.name}, half", work.model, work.cluster, options))
    return fastest + half + CHAINS["chains-1"](folder)


def run(works: list[Workload], without: str | None, folder: Path) -> Rows:
    options = ("--without", without) if without else ()
    return {
        work.name: compiled(Workload(work.name, work.model, work.cluster, work.options + options), folder)
        for work in works
    }


def is_worse(row: dict[str, Any], whole: dict[str, Any]) -> bool:
    if not row["feasible"]:
        return whole["feasible"]
    least_cost = "half" in row["name"]
    ratio = row["costPerMillionSamples"] / whole["costPerMillionSamples"] if least_cost else (
        whole["throughput"] / row["throughput"])
    return ratio > 1 + WORSE


def line(name: str, rows: Rows, whole: Rows) -> str:
    found = [row for row in rows.values() if row["feasible"]]
    gaps = [100 * row["gap"] for row in found]
    worse = sum(is_worse(row | {"name": key}, whole[key]) for key, row in rows.items())
    cpu, before = (sum(row["cpu"] for row in each.values()) for each in (rows, whole))
    most = max(row["megabytes"] for row in rows.values())
    return (f"| {name} | {worse} | {max(gaps):.2f} | {statistics.fmean(gaps):.2f} | {cpu:.0f} "
            f"| {cpu / before:.2f} | {most:.0f} |")


def main() -> None:
    arguments = arguments_of(__doc__)
    seen: dict[str, Rows] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        works = workloads(folder)
        print(f"{len(works)} workloads.\n")
        print("| without | worse plans | largest gap % | mean gap % | CPU s | of all methods | MB |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        seen["nothing"] = run(works, None, folder)
        print(line("nothing", seen["nothing"], seen["nothing"]), flush=True)
        for method in methods():
            if arguments.only in method:
                seen[method] = run(works, method, folder)
                print(line(method, seen[method], seen["nothing"]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(seen, indent=1) + "\n")


if __name__ == "__main__":
    main()
