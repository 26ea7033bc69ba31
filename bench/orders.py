#!/usr/bin/env python3
"""How far are plans of small models with branches from the best plan of all orders of their layers?
Compiles each model in every topological order, and once with the order left to the planner.

    bench/orders.py [--models N] [--first S]

"given", "auto" and "narrow" are shares of the best throughput of all orders: of the order of the file, of the order that
`compile` chooses, and of the order with narrow cuts alone. Models have at most MOST_ORDERS orders. The orders are listed by
test/planning/orders.py, which shares nothing with the planner. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

import yaml
from gaps import HETERPLAN, ROOT

sys.path.insert(0, str(ROOT / "test/planning"))
from orders import CLUSTER, Branches, random_branches  # noqa: E402

MOST_ORDERS = 120


def throughput(model: Branches, order: str, folder: Path) -> float:
    """The throughput of a pipeline of at least two stages: in one stage no cut matters."""
    first, last = list(model.work)[0], list(model.work)[-1]
    command = [
        HETERPLAN, "compile", model.write(folder / "m.layers.json"), "--cluster", folder / "c.yaml", "--batch", "64",
        "--separate", f"{first},{last}", "--threads", "1", "--layer-order", order, "-o", folder / "out", "--force", "--json",
    ]  # fmt: skip
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["throughput"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=40, help="how many")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    arguments = parser.parse_args()
    shares: dict[str, list[float]] = {"given": [], "auto": [], "narrow": []}
    print("| seed | layers | orders | worst % | given % | auto % | narrow % |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "c.yaml").write_text(yaml.safe_dump(CLUSTER))
        for seed in range(arguments.first, arguments.first + arguments.models):
            model = random_branches(seed)
            orders = list(islice(model.orders(), MOST_ORDERS + 1))
            if not 2 <= len(orders) <= MOST_ORDERS:
                continue
            found = [throughput(model.ordered(order), "given", folder) for order in orders]
            best = max(found)
            row = {order: throughput(model, order, folder) / best for order in shares}
            for order, share in row.items():
                shares[order].append(share)
            cells = [min(found) / best, *row.values()]
            print(
                f"| {seed} | {len(model.work)} | {len(orders)} | {' | '.join(f'{100 * each:.1f}' for each in cells)} |",
                flush=True,
            )
    print(f"\n{len(shares['auto'])} models; least and mean share of the best order:")
    for order, each in shares.items():
        print(f"- {order}: {100 * min(each):.1f} %, {100 * statistics.mean(each):.2f} %")


if __name__ == "__main__":
    main()
