#!/usr/bin/env python3
"""Predictions from the catalogue alone against published training rows.

usage: bench/published.py ROWS MODELS [--held-out] [--any-memory] [--report docs/experiments/published.md]

ROWS is a folder of rows_*.csv (columns: docs/experiments/published.md). MODELS is where the models
are kept: bench/published_models.py exports those that are missing (it needs timm and transformers).
Each row is planned as it ran (devices, batch, micro-batches, precision, layout), without
recomputation; prints errors by device and by model, coverage and width of the intervals, and the
runs that are refused. --held-out fits the parameters without each architecture, and without each
model family, from values that no row has touched, and predicts what was left out. --any-memory gives
each device 4 TiB, to predict the times of runs that are refused for their memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from published_fit import Fit, held_out, read_models
from published_ranks import order_lines, rank_correlation
from published_rows import Row, read_rows

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Prediction:
    seconds: float
    least: float
    most: float
    memory: float


def binary() -> str:
    return os.environ.get("HETERPLAN_BINARY", str(ROOT / "build/bin/heterplan"))


def half(row: Row) -> str:
    """Rows in mixed precision ran in fp16 where the device has no units for bf16."""
    text = (ROOT / f"profiles/devices/{row.device}.yaml").read_text()
    return "bf16" if row.precision != "bf16" or "\nbf16:" in text else "fp16"


def predict(row: Row, models: Path, folder: Path, any_memory: bool = False) -> Prediction | None:
    """The prediction of the plan of `row`; None if it is refused."""
    cluster = folder / "cluster.yaml"
    memory = ", memory: 4TiB" if any_memory else ""
    cluster.write_text(
        f"name: one\ndevice_types: {{gpu: {{catalogue: {row.device}{memory}}}}}\n"
        f"nodes: [{{name: node, devices: {{gpu: {row.gpus}}}, link: {row.link or 'pcie4'}}}]\n"
    )
    layout = "channels-last" if row.layout == "nhwc" else "channels-first"
    schedule = ["--schedule", "data-parallel"] if row.gpus > 1 else []
    precision = half(row) if row.precision == "bf16" else row.precision
    command = [
        binary(), "compile", str(models / f"{row.model}.layers.json"), "--cluster", str(cluster),
        "--batch", str(row.batch), "--micro-batches", str(row.micro), "--precision", precision,
        "--optimizer", row.optimizer, "--optimizer-kernels", row.optimizer_kernels,
        "--memory-format", layout, "--recompute", "never",
        "--shard-state", "none", "--batch-norm", "local", *schedule, "-o", str(folder / "plan"), "--force",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        if "error" in done.stderr and "[HP15" not in done.stderr:
            print(f"{row.name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    plan = json.loads((folder / "plan/plan.json").read_text())
    seconds, interval = plan["iterationSeconds"], plan["iterationInterval"]
    factor = 1.0
    if row.kind == "fb":
        passes = sum(s["forwardSeconds"] + s["backwardSeconds"] for s in plan["stages"]) * row.micro
        factor = passes / seconds
    return Prediction(
        seconds * factor, interval["leastSeconds"] * factor, interval["mostSeconds"] * factor,
        max(s["memoryBytes"] for s in plan["stages"]),
    )  # fmt: skip


def group_lines(title: str, rows: list[Row], predictions: list[Prediction], key) -> list[str]:
    lines = [f"| {title} | rows | median error | ninth decile | in the interval | Spearman |",
             "| --- | --- | --- | --- | --- | --- |"]
    for group in sorted({key(row) for row in rows}) + ["all"] * bool(rows):
        own = [i for i, row in enumerate(rows) if group in ("all", key(row))]
        error = [abs(predictions[i].seconds / rows[i].seconds - 1) for i in own]
        inside = [predictions[i].least <= rows[i].seconds <= predictions[i].most for i in own]
        rates = [rows[i].batch / rows[i].seconds for i in own]
        predicted = [rows[i].batch / predictions[i].seconds for i in own]
        rank = rank_correlation(rates, predicted)
        lines.append(f"| {group} | {len(own)} | {np.median(error):.1%} | {np.quantile(error, 0.9):.1%} | "
                     f"{np.mean(inside):.0%} | {'' if np.isnan(rank) else f'{rank:.2f}'} |")
    return lines


def rank_line(title: str, rows: list[Row], predictions: list[Prediction], key) -> str:
    """The rank correlations of throughput within groups of at least five rows."""
    found = {}
    for group in {key(row) for row in rows}:
        own = [i for i, row in enumerate(rows) if key(row) == group]
        if len(own) >= 5:
            found[group] = rank_correlation([rows[i].batch / rows[i].seconds for i in own],
                                            [rows[i].batch / predictions[i].seconds for i in own])
    if not found:
        return f"Spearman by {title}: no group has five rows."
    worst = min(found, key=lambda group: (found[group], group))
    return (f"Spearman by {title} ({len(found)} of at least five rows): median "
            f"{np.median(list(found.values())):.2f}, least {found[worst]:.2f} ({worst}).")


def report(rows: list[Row], predictions: list[Prediction | None]) -> str:
    fitting = [(row, p) for row, p in zip(rows, predictions, strict=True) if p is not None]
    refused = [row for row, p in zip(rows, predictions, strict=True) if p is None]
    own, known = [row for row, _ in fitting], [p for _, p in fitting]
    widths = [0.0] if not known else [float(np.sqrt(p.most / p.least)) - 1 for p in known]
    lines = [f"{len(rows)} rows; {len(refused)} of these runs are refused; half of the intervals are "
             f"within ±{np.median(widths):.0%}.", ""]
    lines += group_lines("device", own, known, lambda row: row.device) + [""]
    lines += group_lines("family", own, known, lambda row: row.family) + [""]
    lines += group_lines("source", own, known, lambda row: row.source) + [""]
    lines += [rank_line("device", own, known, lambda row: row.device),
              rank_line("model", own, known, lambda row: row.model), ""]
    keys = (lambda row: row.device, lambda row: row.family, lambda row: row.model)
    lines += order_lines(own, [p.seconds for p in known], keys)
    lines += ["The worst rows:", "", "| row | measured ms | predicted ms | error |", "| --- | --- | --- | --- |"]
    order = sorted(range(len(own)), key=lambda i: -abs(np.log(known[i].seconds / own[i].seconds)))
    lines += [f"| {own[i].name} | {own[i].seconds * 1e3:.1f} | {known[i].seconds * 1e3:.1f} | "
              f"{known[i].seconds / own[i].seconds - 1:+.0%} |" for i in order[:20]]
    lines += ["", *(f"Refused: {row.name}." for row in refused)]
    return "\n".join(lines).rstrip() + "\n"


def export_missing(rows: list[Row], models: Path) -> None:
    missing = sorted({row.model for row in rows if not (models / f"{row.model}.onnx").exists()})
    if missing:
        subprocess.run([sys.executable, str(ROOT / "bench/published_models.py"), str(models), *missing],
                       check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})


def write_layers(names: set[str], models: Path) -> None:
    """Imports the models anew: the layers are those of the binary."""
    for name in sorted(names):
        subprocess.run([binary(), "import", str(models / f"{name}.onnx"), "-o", str(models / f"{name}.layers.json")],
                       check=True, stdout=subprocess.DEVNULL)


def errors_of(rows: Sequence[Row], predictions: Sequence[Prediction]) -> str:
    error = [abs(p.seconds / row.seconds - 1) for row, p in zip(rows, predictions, strict=True)]
    return f"median {np.median(error):.1%}, ninth decile {np.quantile(error, 0.9):.1%}"


def held_out_lines(rows: list[Row], predictions: list[Prediction], models: Path) -> list[str]:
    """Predictions of fits that lack the architecture of a row, or the family of its model, with the
    intervals that the binary states."""
    lines = ["## Held out"]
    fit = Fit(rows, read_models(rows, models))
    keys = {"architecture": lambda row: fit.devices[row.device].architecture, "model family": lambda row: row.family}
    for title, key in keys.items():
        guesses = []
        for row, p, error in zip(rows, predictions, held_out(fit, key, rows), strict=True):
            scale = row.seconds * np.exp(error) / p.seconds
            guesses.append(Prediction(p.seconds * scale, p.least * scale, p.most * scale, p.memory))
        lines += ["", *group_lines(f"without the {title}", rows, guesses, key)]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("models", type=Path)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--any-memory", action="store_true")
    parser.add_argument("--only", help="rows whose name has this text")
    parser.add_argument("--report", type=Path, help="where the tables replace those of a page")
    options = parser.parse_args()
    wanted = lambda row: not row.stages and (options.only or "") in row.name
    rows = [row for row in read_rows(options.rows) if wanted(row)]
    stated = [row for row in read_rows(options.rows, as_stated=True) if wanted(row)]
    export_missing(rows + stated, options.models)
    write_layers({row.model for row in rows + stated}, options.models)
    with tempfile.TemporaryDirectory() as folder:
        of = lambda row: predict(row, options.models, Path(folder), options.any_memory)
        predictions = [of(row) for row in rows]
        others = [of(row) for row in stated if row not in rows]
    text = report(rows, predictions)
    if others and None not in others + predictions:
        same = [(row, p) for row, p in zip(rows, predictions, strict=True) if row in stated]
        text += (
            f"\nWith the longest sequences of the {len(others)} rows of binned ones: "
            + errors_of([row for row, _ in same] + [row for row in stated if row not in rows],
                        [p for _, p in same] + others) + ".\n"
        )  # fmt: skip
    print(text, flush=True)
    if options.held_out:
        known = [i for i, p in enumerate(predictions) if p is not None]
        lines = held_out_lines([rows[i] for i in known], [predictions[i] for i in known], options.models)
        print(*lines, sep="\n")
        text += "\n" + "\n".join(lines) + "\n"
    if options.report:
        begin, end = "<!-- tables -->\n", "<!-- end of tables -->"
        page = options.report.read_text()
        before, after = page.split(begin)[0], page.split(end)[1]
        options.report.write_text(f"{before}{begin}\n{text}\n{end}{after}")


if __name__ == "__main__":
    main()
