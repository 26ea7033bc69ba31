"""Tables and a plot of what strategy_experiment prints: heterps-experiment.py DATA.jsonl FOLDER

Writes the parts of FOLDER/heterps.md between its markers, and FOLDER/heterps.svg.
"""
from __future__ import annotations

import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

Results = dict[tuple[str, int, int], dict[str, dict]]


def read(path: Path) -> Results:
    results: Results = defaultdict(dict)
    for line in path.read_text().splitlines():
        one = json.loads(line)
        results[one["instance"], one["layers"], one["types"]][one["strategy"]] = one
    return {key: runs for key, runs in results.items() if "auto" in runs}


def strategies(results: Results) -> list[str]:
    names: list[str] = []
    for runs in results.values():
        names += [name for name in runs if name not in names]
    return sorted(names, key=lambda name: (name != "auto", statistics.fmean(overs(results, name) or [99])))


def overs(results: Results, strategy: str) -> list[float]:
    """Cost over that of auto, where a plan was found."""
    return [runs[strategy]["cost"] / runs["auto"]["cost"] for runs in results.values()
            if "cost" in runs.get(strategy, {})]


def summary(results: Results) -> str:
    lines = ["| strategy | problems | none found | median of auto's cost | worst | seconds: median | worst |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name in strategies(results):
        runs = [found[name] for found in results.values() if name in found]
        ratios = overs(results, name)
        seconds = [run["seconds"] for run in runs]
        figures = f"{statistics.median(ratios):.3f} | {max(ratios):.3f}" if ratios else "– | –"
        lines.append(f"| {name} | {len(runs)} | {len(runs) - len(ratios)} | {figures} | "
                     f"{statistics.median(seconds):.2f} | {max(seconds):.1f} |")
    gaps = [100 * runs["auto"]["gap"] for runs in results.values()]
    lines.append(f"\nGap of `auto`: median {statistics.median(gaps):.2f} %, worst {max(gaps):.2f} %.")
    return "\n".join(lines)


def details(results: Results) -> str:
    names = strategies(results)
    lines = ["| model | layers | types | $ per 10^6 samples | gap % | " + " | ".join(names[1:]) + " |",
             "| --- | ---: | ---: | ---: | ---: |" + " ---: |" * (len(names) - 1)]
    for (model, layers, types), runs in results.items():
        auto = runs["auto"]
        cells = []
        for name in names[1:]:
            run = runs.get(name)
            ratio = "–" if not run or "cost" not in run else f"{run['cost'] / auto['cost']:.3f}"
            cells.append("" if not run else f"{ratio} ({run['seconds']:.1f} s)")
        lines.append(f"| {model} | {layers} | {types} | {auto['cost']:.4g} ({auto['seconds']:.1f} s) | "
                     f"{100 * auto['gap']:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(results: Results, path: Path) -> None:
    plt.rcParams["svg.hashsalt"] = "heterps"
    figure, (cost, time) = plt.subplots(1, 2, figsize=(10, 4))
    for name in strategies(results):
        at = defaultdict(list)
        for (model, _, types), runs in results.items():
            if model == "simulated" and "cost" in runs.get(name, {}):
                at[types].append((runs[name]["cost"] / runs["auto"]["cost"], runs[name]["seconds"]))
        types = sorted(at)
        for axes, index in ((cost, 0), (time, 1)):
            axes.plot(types, [statistics.median(run[index] for run in at[key]) for key in types],
                      marker=".", label=name)
    cost.set(xscale="log", yscale="log", xlabel="resource types", ylabel="cost, of auto's (median)")
    time.set(xscale="log", yscale="log", xlabel="resource types", ylabel="seconds of search (median)")
    time.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    results = read(Path(sys.argv[1]))
    folder = Path(sys.argv[2])
    page = folder / "heterps.md"
    text = page.read_text()
    for name, part in (("summary", summary(results)), ("details", details(results))):
        text = re.sub(f"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m: m[1] + part + "\n" + m[2], text,
                      flags=re.DOTALL)
    page.write_text(text)
    plot(results, folder / "heterps.svg")


if __name__ == "__main__":
    main()
