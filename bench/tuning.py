#!/usr/bin/env python3
"""Measures what each constant of the exact search buys: compiles fixed workloads with the constants of
lib/search/exact/Tuning.def, then with each one halved and doubled in turn, and prints a table in Markdown.

    bench/tuning.py [--only CONSTANT] [--json FILE]

The columns are those of ablation.py. Workloads of "pipelines": the highest throughput, and the least cost at half of
it, of three models on mixed-64 and cloud-large. "steady": three models on mixed-64 under `--iteration-model
steady-state`, by `auto` and `parametric`, and under the synchronous model by `parametric`; and two of them on
mixed-small in steady state by `milp`, which takes minutes on mixed-64. A constant is measured on the workloads that
its methods run on.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from ablation import CLUSTERS, ROOT, Rows, line
from gaps import Workload, arguments_of, compiled

CONSTANT = re.compile(r'^HETERPLAN_TUNING\(\w+, "([a-z-]+)", ([\d\'.]+),', re.MULTILINE)
DEEP = ("gpt2_small", "wide_resnet101", "inception_v3")
STEADY = {"steady-levels", "aimed-beyond", "cbc-limit", "ascent-steps", "patience", "worth-stepping"}
ONLY_STEADY = STEADY - {"ascent-steps", "patience", "worth-stepping"}


def constants() -> list[tuple[str, float]]:
    text = (ROOT / "lib/search/exact/Tuning.def").read_text("utf-8")
    return [(name, float(value.replace("'", ""))) for name, value in CONSTANT.findall(text)]


def model(name: str) -> Path:
    return ROOT / f"test/data/models/{name}.onnx"


def with_half(works: list[Workload], folder: Path) -> list[Workload]:
    """The workloads, and the least cost at half of the throughput that each reaches."""
    half = []
    for work in works:
        found = compiled(work, folder)
        if found["feasible"]:
            options = tuple(work.options[2:]) + ("--min-throughput", repr(found["throughput"] / 2))
            half.append(Workload(f"{work.name}, half", work.model, work.cluster, ("--objective", "cost", *options)))
    return works + half


def pipelines(folder: Path) -> list[Workload]:
    fastest = ("--objective", "throughput")
    return with_half([Workload(f"{name} on {cluster}", model(name), cluster, fastest)
                      for name in DEEP for cluster in CLUSTERS], folder)  # fmt: skip


def steady(folder: Path) -> list[Workload]:
    fastest, in_steady_state = ("--objective", "throughput"), ("--iteration-model", "steady-state")
    ways = {
        "auto": ("--strategy", "auto", *in_steady_state),
        "parametric": ("--strategy", "parametric", *in_steady_state),
        "parametric, synchronous": ("--strategy", "parametric"),
    }
    works = [Workload(f"{name} by {way}", model(name), "mixed-64", fastest + options)
             for name in ("bert_base", "resnet50", "wide_resnet101") for way, options in ways.items()]  # fmt: skip
    works += [Workload(f"{name} by milp", model(name), "mixed-small", (*fastest, "--strategy", "milp", *in_steady_state))
              for name in ("bert_base", "resnet50")]  # fmt: skip
    return with_half(works, folder)


def run(works: list[Workload], setting: str | None, folder: Path) -> Rows:
    options = ("--tune", setting) if setting else ()
    return {
        work.name: compiled(Workload(work.name, work.model, work.cluster, work.options + options), folder)
        for work in works
    }


def shown(value: float) -> str:
    return f"{value:g}" if value < 1000 else f"{int(value):,}"


def measure(kind: str, works: list[Workload], only: str, folder: Path) -> dict[str, Any]:
    print(f"\n{kind}: {len(works)} workloads.\n")
    print("| constant | worse plans | largest gap % | mean gap % | CPU s | of all as they are | MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    whole = run(works, None, folder)
    seen: dict[str, Any] = {"as they are": whole}
    print(line("as they are", whole, whole), flush=True)
    for name, value in constants():
        is_measured = name in STEADY if kind == "steady" else name not in ONLY_STEADY
        for other in (value / 2, value * 2) if is_measured and only in name else ():
            rows = seen[f"{name}={other}"] = run(works, f"{name}={other}", folder)
            print(line(f"{name}: {shown(value)} → {shown(other)}", rows, whole), flush=True)
    return seen


def main() -> None:
    arguments = arguments_of(__doc__)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seen = {"pipelines": measure("pipelines", pipelines(folder), arguments.only, folder),
                "steady": measure("steady", steady(folder), arguments.only, folder)}  # fmt: skip
    if arguments.json:
        arguments.json.write_text(json.dumps(seen, indent=1) + "\n")


if __name__ == "__main__":
    main()
