"""Tables and plots of what strategy_experiment prints: heterps-experiment.py DATA.jsonl FOLDER

Writes the parts of FOLDER/heterps.md between its markers, FOLDER/heterps.svg and FOLDER/heterps-curves.svg. The runs without a
limit on evaluations make the first table, the plot and the details; the others the tables of
reinforcement learning.
"""
from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

Results = dict[tuple[str, int, int], dict[str, dict]]


def read(runs: list[dict]) -> Results:
    results: Results = defaultdict(dict)
    for one in runs:
        if not one["evaluations"] and not one["held_out"] and not one.get("synchronous"):
            results[one["instance"], one["layers"], one["types"]][one["strategy"]] = one
    return {key: runs for key, runs in results.items() if "auto" in runs}


def best_known(runs: list[dict]) -> dict[tuple, float]:
    """The least cost of each problem in any run."""
    best: dict[tuple, float] = {}
    for run in runs:
        if "cost" in run:
            best[key_of(run)] = min(run["cost"], best.get(key_of(run), math.inf))
    return best


def key_of(run: dict) -> tuple:
    return run["held_out"], run["instance"], run["layers"], run["types"]


def equal_evaluations(runs: list[dict], held_out: bool) -> str:
    """Rows by strategy: the median over best known by number of evaluations, and the last in full."""
    best = best_known(runs)
    of = equal_runs(runs, held_out, best)
    counts = [int(count) for count in of[0]["curve"] if int(count) >= 64]
    rows = []
    for name in sorted({run["strategy"] for run in of}):
        mine = [run for run in of if run["strategy"] == name]
        medians = [median_over(mine, best, count) for count in counts[:-1]]
        found = [run["cost"] / best[key_of(run)] for run in mine if "cost" in run]
        ends = [run.get("cost", math.inf) / best[key_of(run)] for run in mine]
        medians.append(statistics.median(ends))
        rows.append((name, medians, len(mine) - len(found), len(mine), max(found, default=math.inf), ties(of, name)))
    rows.sort(key=lambda row: (row[1][-1], row[2]))
    lines = ["| strategy | " + " | ".join(f"median, {count} evaluations" for count in counts)
             + " | worst | runs | without a plan | best or tied |",
             "| --- |" + " ---: |" * (len(counts) + 4)]
    for name, medians, missed, total, worst, share in rows:
        cells = [f"{m:.3f}" if math.isfinite(m) else "no plan" for m in medians]
        cells.append(f"{worst:.3f}" if math.isfinite(worst) else "–")
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {total} | {missed} | {100 * share:.0f} % |")
    return "\n".join(lines)


def equal_runs(runs: list[dict], held_out: bool, best: dict[tuple, float]) -> list[dict]:
    return [run for run in runs if run["held_out"] == held_out and not run.get("synchronous")
            and "curve" in run and key_of(run) in best]


def median_over(mine: list[dict], best: dict[tuple, float], count: int) -> float:
    """The median of what runs had found after `count` evaluations, over the best known."""
    return statistics.median((run["curve"][str(count)] or math.inf) / best[key_of(run)] for run in mine)


def ties(of: list[dict], name: str) -> float:
    """Share of the problems on which no other kind of strategy has a better median (within 10^-6)."""
    costs: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in of:
        costs[key_of(run)][run["strategy"]].append(run.get("cost", math.inf))
    learning = name.startswith("rl-")
    won = compared = 0
    for by_name in costs.values():
        others = [statistics.median(values) for other, values in by_name.items()
                  if other != name and not (learning and other.startswith("rl-"))]
        if not others or name not in by_name:
            continue
        compared += 1
        own = statistics.median(by_name[name])
        won += math.isfinite(own) and own <= min(others) * (1 + 1e-6)
    return won / max(compared, 1)


def synchronous_excess(runs: list[dict]) -> tuple[dict[str, dict[str, list[float]]], dict[str, list[float]]]:
    """How much worse than `auto` plans are under the synchronous iteration model, in percent, by strategy and problem;
    and the seconds of each strategy's runs."""
    of = [run for run in runs if run.get("synchronous")]
    auto = {run["instance"]: run["objective"] for run in of
            if run["strategy"] == "auto" and "objective" in run}
    excess: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[str, list[float]] = defaultdict(list)
    for run in of:
        name, instance = run["strategy"], run["instance"]
        if instance not in auto:
            continue
        seconds[name].append(run["seconds"])
        ratio = run["objective"] / auto[instance] if "objective" in run else math.inf
        if instance.endswith("throughput"):
            ratio = 1 / ratio if math.isfinite(ratio) else ratio
        excess[name][instance].append(100 * (ratio - 1))
    return excess, seconds


def synchronous(runs: list[dict]) -> str:
    lines = ["| strategy | problems | runs | without a plan | median % | 90 % | worst % | seconds: median | worst |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    excess, seconds = synchronous_excess(runs)
    for name in sorted(excess):
        each = sorted(value for values in excess[name].values() for value in values)
        found = [value for value in each if math.isfinite(value)]
        lines.append(f"| {name} | {len(excess[name])} | {len(each)} | {len(each) - len(found)} | "
                     f"{statistics.median(found):.2f} | {found[int(0.9 * (len(found) - 1))]:.2f} | {found[-1]:.2f} | "
                     f"{statistics.median(seconds[name]):.1f} | {max(seconds[name]):.1f} |")
    return "\n".join(lines)


def synchronous_problems(runs: list[dict]) -> str:
    """The problems on which some run of learning differs from `auto` by more than 1 %."""
    lines = ["| problem | best % | median % | worst % |", "| --- | ---: | ---: | ---: |"]
    rows = [(max(values), instance, values)
            for instance, values in synchronous_excess(runs)[0]["rl-transformer"].items()
            if max(map(abs, values)) > 1]
    for worst, instance, values in sorted(rows, reverse=True):
        lines.append(f"| {instance} | {min(values):.2f} | {statistics.median(values):.2f} | {worst:.2f} |")
    return "\n".join(lines)


def zero_shot(runs: list[dict]) -> str:
    best = best_known(runs)
    lines = ["| problems | runs | without a plan | median | 90 % | worst | seconds: median | worst | within 0.1 s |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for held_out in (False, True):
        of = [run for run in runs if run["strategy"] == "zero-shot" and run["held_out"] == held_out
              and key_of(run) in best]
        ratios = sorted(run["cost"] / best[key_of(run)] for run in of if "cost" in run)
        if not ratios:
            continue
        seconds = [run["seconds"] for run in of]
        lines.append(f"| {'held-out sizes' if held_out else 'the 34'} | {len(of)} | {len(of) - len(ratios)} | "
                     f"{statistics.median(ratios):.3f} | {ratios[int(0.9 * (len(ratios) - 1))]:.3f} | "
                     f"{ratios[-1]:.3f} | {statistics.median(seconds):.3f} | {max(seconds):.3f} | "
                     f"{100 * sum(each <= 0.1 for each in seconds) / len(seconds):.0f} % |")
    return "\n".join(lines)


def ablation(runs: list[dict]) -> str:
    """How much the mean excess over the best known changes, in points, with other values of a constant of learning. Only
    seeds that have every value."""
    cases: dict[tuple[str, float], dict[tuple, float]] = defaultdict(dict)
    best: dict[tuple, float] = {}
    for run in runs:
        problem = run["instance"], run["layers"], run["types"]
        value = run.get("objective", math.inf)
        cases[run["ablation"], run["value"]][(run["seed"], *problem)] = value
        best[problem] = min(value, best.get(problem, math.inf))
    whole = {seed for seed in {run["seed"] for run in runs}
             if all(sum(key[0] == seed for key in found) == len(best) for found in cases.values())}

    def mean(found: dict[tuple, float]) -> float:
        return statistics.fmean(100 * (value / best[key[1:]] - 1) for key, value in found.items() if key[0] in whole)

    usual = mean(cases["", 0])
    lines = [f"All as they are: {usual:.2f} % over the best known, in the mean of {len(whole) * len(best)} runs.", "",
             "| constant | points with other values |", "| --- | --- |"]
    for name in dict.fromkeys(name for name, _ in cases if name):
        cells = [f"{value:g}: {mean(found) - usual:+.2f}" for (other, value), found in cases.items() if other == name]
        lines.append(f"| {name} | {'; '.join(cells)} |")
    return "\n".join(lines)


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


def plot_curves(runs: list[dict], path: Path) -> None:
    """Learning curves: the median over best known by evaluations, where half of the runs have a plan."""
    best = best_known(runs)
    figure, both = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axes, held_out, title in zip(both, (False, True), ("the 34 problems", "60 held-out problems")):
        of = equal_runs(runs, held_out, best)
        for name in sorted({run["strategy"] for run in of}):
            mine = [run for run in of if run["strategy"] == name]
            points = [(int(count), median_over(mine, best, int(count))) for count in mine[0]["curve"]]
            points = [point for point in points if math.isfinite(point[1])]
            if points:
                axes.plot(*zip(*points), marker=".", label=name)
        axes.set(xscale="log", yscale="log", xlabel="evaluations", ylabel="cost, of the best known (median)", title=title)
        axes.legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    everything = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    runs = [run for run in everything if "ablation" not in run]
    changed = [run for run in everything if "ablation" in run]
    results = read(runs)
    folder = Path(sys.argv[2])
    page = folder / "heterps.md"
    text = page.read_text()
    parts = {}  # those that were not run stay as they are
    if any(run.get("synchronous") for run in runs):
        parts |= {"synchronous": synchronous(runs), "synchronous-problems": synchronous_problems(runs)}
    if any("curve" in run and not run["held_out"] and not run.get("synchronous") for run in runs):
        parts["evaluations"] = equal_evaluations(runs, held_out=False)
    if any(run["strategy"] == "zero-shot" for run in runs):
        parts["zero-shot"] = zero_shot(runs)
    if changed:
        parts["ablation"] = ablation(changed)
    if any(run["held_out"] for run in runs):
        parts["held-out"] = equal_evaluations(runs, held_out=True)
        plot_curves(runs, folder / "heterps-curves.svg")
    if results:
        parts |= {"summary": summary(results), "details": details(results)}
        plot(results, folder / "heterps.svg")
    for name, part in parts.items():
        text = re.sub(f"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m: m[1] + part + "\n" + m[2], text,
                      flags=re.DOTALL)
    page.write_text(text)


if __name__ == "__main__":
    main()
