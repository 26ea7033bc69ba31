#!/usr/bin/env python3
"""How far are plans of the instances that other planners report on proven to be from the optimum, and what does that take?
Compiles fixed workloads of several kinds, one after another, and prints a table in Markdown for each kind.

    bench/instances.py [--only TEXT] [--json FILE] [--options "--threads 1"]

"nodes": 192 nodes of one device, three types, and chains of wide layers. "zones": five zones with links between them, which charge
for traffic. "steady": the iteration model steady-state. "shares": stages of several device types before other stages. "orders":
branches that are independent, layer by layer or branch by branch. "tables": sparse tables over GPUs with unequal memory. Columns as in
gaps.py. A list that changes gets a new name.
"""

from __future__ import annotations

import json
import random
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from chains import TYPES, Chain, gpt, layer, random_chain
from gaps import ROOT, Workload, compiled, parser_of, run_lists

sys.path.insert(0, str(ROOT / "test/planning"))
from branched import nasnet  # noqa: E402

BATCH = 256


def written(folder: Path, name: str, content: dict[str, Any]) -> Path:
    """Writes `content` as JSON or YAML, by the ending of `name`."""
    path = folder / name
    path.write_text(json.dumps(content) if name.endswith(".json") else yaml.safe_dump(content, sort_keys=False))
    return path


def goals(name: str, model: Path, pool: Path, options: tuple[str, ...], wanted: tuple[str, ...]) -> Iterator[Workload]:
    for goal in wanted:
        yield Workload(f"{name} {goal}", model, str(pool), options, BATCH)


def wide(name: str, widths: list[int], tokens: int = 512) -> Chain:
    """Products of `tokens` rows by square matrices of these widths."""
    layers = [
        layer(f"{name}-{i}", 2.0 * tokens * width**2, width**2, 8.0 * tokens * width, 12.0 * tokens * width)
        for i, width in enumerate(widths)
    ]
    return Chain(name, layers, 4.0 * tokens * max(widths) / 4)


def nodes(folder: Path) -> list[Workload]:
    draw = random.Random(64)
    chains = [
        wide("wide-24", [4096] * 24),
        wide("hourglass-49", [1024 * 2 ** (abs(24 - i) // 8) for i in range(49)]),
        wide("mixed-96", [draw.choice((1024, 2048, 4096, 8192)) for _ in range(96)]),
    ]
    kinds = ("a100", "v100", "l4")
    pool = written(folder, "nodes.yaml", {
        "name": "nodes",
        "device_types": {kind: {"catalogue": TYPES[kind]} for kind in kinds},
        "nodes": [{"name": kind, "count": 64, "devices": {kind: 1}} for kind in kinds],
        "network": "ethernet-100g",
    })  # fmt: skip
    return [
        work for chain in chains for work in goals(chain.name, chain.write(folder), pool, (), ("throughput", "cost"))
    ]


def zones(folder: Path) -> list[Workload]:
    """The bundled five zones. Traffic costs what it costs on AWS: 1 cent a gigabyte within a region, else 2 to 9 cents."""
    prices = {"virginia-a": 0.01, "virginia-b": 0.01, "oregon": 0.02, "ireland": 0.02, "tokyo": 0.09}
    five = yaml.safe_load((ROOT / "profiles/clusters/five-zones.yaml").read_text())
    for zone in five["zones"]:
        zone["price_per_gb"] = prices[zone["name"]]
    pool = written(folder, "zones.yaml", five)
    models = {chain.name: chain.write(folder) for chain in (gpt(24, 1024), random_chain(200))}
    models["resnet50"] = ROOT / "test/data/models/resnet50.onnx"
    wanted = ("throughput", "cost", "half", "budget")
    return [work for name, model in models.items() for work in goals(name, model, pool, (), wanted)]


def steady(folder: Path) -> list[Workload]:
    found = []
    steadily = ("--iteration-model", "steady-state")
    for cells in (12, 19):
        network = nasnet(cells, 16, 4, {"fast": 2, "slow": 1})
        name = f"nasnet-{network.size}"
        model = written(folder, f"{name}.layers.json", network.layers_file())
        profile = written(folder, f"{name}.profile.json", network.profile())
        pool = written(folder, f"{name}.yaml", network.cluster({"fast": 16, "slow": 32}))
        options = (*steadily, "--profile", str(profile))
        found += goals(name, model, pool, options, ("throughput", "half"))
    kinds = ("a100", "v100", "l4")
    pool = written(folder, "steady.yaml", {
        "name": "steady",
        "device_types": {kind: {"catalogue": TYPES[kind]} for kind in kinds},
        "nodes": [{"name": kind, "count": 8, "devices": {kind: 8}, "link": "nvlink3"} for kind in kinds],
        "network": "infiniband-hdr",
    })  # fmt: skip
    for chain in (gpt(96, 2048), random_chain(1000)):
        found += goals(chain.name, chain.write(folder), pool, steadily, ("throughput", "half"))
    return found


def shares(folder: Path) -> list[Workload]:
    """Few layers on many unlike devices, and at least two stages, so that stages of several types come before others."""
    pools = ([{"a100": 1, "t4": 2, "v100": 1}], [{"a100": 1, "v100": 1}, {"t4": 1, "l4": 1}], [{"v100": 2, "t4": 3}])
    found = []
    for count, boundary in ((2, 2e5), (2, 3e6), (3, 1e7), (4, 1e6)):
        draw = random.Random(count)
        layers = [
            layer(f"l{i}", 2e9 * draw.uniform(1, 4), 2e7 * draw.uniform(0.1, 1), 1e6, 1e6) for i in range(count)
        ]
        chain = Chain(f"few-{count}-{boundary / 1e6:g}MB", layers, boundary)
        for nodes in pools:
            name = " and ".join("+".join(f"{count}{kind}" for kind, count in node.items()) for node in nodes)
            pool = written(folder, f"{name.replace(' ', '-')}.yaml", {
                "name": "shares",
                "device_types": {kind: {"catalogue": TYPES[kind]} for node in nodes for kind in node},
                "nodes": [{"name": f"n{i}", "devices": dict(node), "link": "pcie3"} for i, node in enumerate(nodes)],
                "network": "ethernet-25g",
            })  # fmt: skip
            apart = ("--separate", f"l0,l{count - 1}")
            found += goals(f"{chain.name} {name}", chain.write(folder), pool, apart, ("throughput",))
    return found


def towers(branches: int, depth: int, by_level: bool) -> dict[str, Any]:
    """Branches of layers between two layers, in one of two orders."""
    draw = random.Random(f"{branches}-{depth}")
    work = {f"b{b}-{d}": draw.uniform(1, 3) for b in range(branches) for d in range(depth)}
    names = [f"b{b}-{d}" for d in range(depth) for b in range(branches)] if by_level else list(work)
    layers = [layer("stem", 1e9, 1e5, 1e6, 1e6)]
    layers += [layer(name, 4e9 * work[name], 1e5, 4e6, 4e6) for name in names]
    layers.append(layer("head", 1e9, 1e5, 1e6, 1e6))
    inner = [(f"b{b}-{d}", f"b{b}-{d + 1}") for b in range(branches) for d in range(depth - 1)]
    ends = [(f"b{b}-{depth - 1}", "head") for b in range(branches)]
    flows = [("stem", [f"b{b}-0" for b in range(branches)], 4e6)]
    flows += [(made, [read], 4e6) for made, read in inner] + [(made, [read], 2e5) for made, read in ends]
    tensors = [
        {"name": f"from-{made}", "producer": made, "consumers": read, "bytesPerSample": size} for made, read, size in flows
    ]
    return {"model": "towers", "layers": layers, "tensors": tensors}


def two_types(folder: Path) -> Path:
    """Four A100 and four V100 in nodes of their own."""
    return written(folder, "orders.yaml", {
        "name": "orders",
        "device_types": {kind: {"catalogue": TYPES[kind]} for kind in ("a100", "v100")},
        "nodes": [{"name": kind, "count": 4, "devices": {kind: 1}} for kind in ("a100", "v100")],
        "network": "ethernet-25g",
    })  # fmt: skip


def orders(folder: Path) -> list[Workload]:
    pool = two_types(folder)
    found = []
    for branches, depth in ((4, 8), (8, 8), (16, 4)):
        for by_level in (True, False):
            name = f"towers-{branches}x{depth} {'by level' if by_level else 'by branch'}"
            model = written(folder, f"{name.replace(' ', '-')}.layers.json", towers(branches, depth, by_level))
            options = ("--schedule", "pipeline")
            found += goals(name, model, pool, options, ("throughput",))
    return found


class Branched:
    """A model with branches, whose layers are added branch by branch."""

    def __init__(self, name: str, seed: int):
        self.name, self.draw = name, random.Random(f"{name}-{seed}")
        self.layers: list[dict[str, Any]] = []
        self.flows: dict[str, tuple[list[str], float]] = {}  # by producer

    def add(self, reads: list[str], bytes_made: float = 4e6, gigaflops: float = 4) -> str:
        name = f"l{len(self.layers)}"
        self.layers.append(layer(name, gigaflops * 1e9 * self.draw.uniform(1, 3), 1e5, 4e6, 4e6))
        self.flows[name] = ([], bytes_made * self.draw.uniform(0.5, 1))
        for source in reads:
            self.flows[source][0].append(name)
        return name

    def series_parallel(self, source: str, layers: int) -> str:
        """A random block of `layers` layers behind `source`: one behind another, or branches and what joins them."""
        if layers < 6 or self.draw.random() < 0.3:
            for _ in range(min(layers, 4)):
                source = self.add([source])
            return source if layers <= 4 else self.series_parallel(source, layers - 4)
        branches = self.draw.randint(2, 4)
        ends = [self.series_parallel(source, (layers - 1) // branches) for _ in range(branches)]
        return self.add(ends, gigaflops=0.5)

    def level_of(self) -> dict[str, int]:
        """By layer: the layers of the longest way to it."""
        levels = dict.fromkeys(self.flows, 0)
        for made, (read, _) in self.flows.items():
            for each in read:
                levels[each] = max(levels[each], levels[made] + 1)
        return levels

    def write(self, folder: Path, by_level: bool) -> Path:
        levels = self.level_of()
        layers = sorted(self.layers, key=lambda each: levels[each["name"]]) if by_level else self.layers
        tensors = [
            {"name": f"from-{made}", "producer": made, "consumers": sorted(set(read)), "bytesPerSample": size}
            for made, (read, size) in self.flows.items() if read
        ]  # fmt: skip
        name = f"{self.name}-by-{'level' if by_level else 'branch'}.layers.json"
        return written(folder, name, {"model": self.name, "layers": layers, "tensors": tensors})


def series_parallel(layers: int, seed: int) -> Branched:
    made = Branched(f"series-parallel-{layers}-{seed}", seed)
    made.add([made.series_parallel(made.add([]), layers)])
    return made


def inception(modules: int) -> Branched:
    """Modules of four branches of one to three layers, as those of Inception."""
    made = Branched(f"inception-{modules}", 0)
    source = made.add([])
    for _ in range(modules):
        ends = []
        for depth in (1, 2, 3, 1):
            end = source
            for place in range(depth):
                end = made.add([end], 1e6 if place + 1 == depth else 4e6)
            ends.append(end)
        source = made.add(ends, gigaflops=0.5)
    return made


def cells(count: int) -> Branched:
    """Cells as those of NASNet: five blocks of two layers each, which read the two cells before or a block, and a join."""
    made = Branched(f"cells-{count}", 0)
    before = last = made.add([])
    for _ in range(count):
        states = [before, last]
        for _ in range(5):
            pair = [made.add([made.draw.choice(states)], 2e6) for _ in range(2)]
            states.append(made.add(pair, 2e6, gigaflops=0.1))
        before, last = last, made.add(states[2:], gigaflops=0.5)
    made.add([before, last])
    return made


def more_orders(folder: Path) -> list[Workload]:
    """Each model level by level and branch by branch, in the order of its file and in the one that `compile` chooses."""
    pool = two_types(folder)
    models = [series_parallel(60, seed) for seed in range(3)] + [series_parallel(200, 0), inception(9), cells(8)]
    return [
        work
        for model in models
        for by_level in (True, False)
        for order in ("given", "auto")
        for work in goals(
            f"{model.name} by {'level' if by_level else 'branch'} {order}", model.write(folder, by_level), pool,
            ("--schedule", "pipeline", "--layer-order", order), ("throughput",),
        )
    ]  # fmt: skip


def tables(folder: Path) -> list[Workload]:
    """A sparse table of rows of 512 bytes on GPUs of which no even part fits the smallest."""
    found = []
    for rows, memories in ((50, (24, 8)), (90, (24, 24, 8)), (160, (80, 16, 8, 8))):
        lookups = {"parameter": "t", "rows": rows * 10**6, "columns": 128, "lookups": 4}
        embedding = layer("embedding", 1e6, 0, 8192, 1e5)
        embedding |= {"parameters": ["t"], "tables": [lookups], "parameterBytes": rows * 10**6 * 512}
        top = [layer(f"top-{i}", 1e9, 1e7, 20000, 1e5) for i in range(4)]
        name = f"table-{rows * 512 / 1000:.1f}GB on {'+'.join(map(str, memories))}"
        chain = Chain(name.replace(" ", "-"), [embedding, *top], 8192)
        pool = written(folder, f"{chain.name}.yaml", {
            "name": "unequal",
            "device_types": {
                f"of-{size}": {
                    "kind": "gpu", "memory": f"{size}GB", "price_per_hour": 1, "fp32": "10TFLOP/s", "bandwidth": "300GB/s"
                } for size in set(memories)
            },
            "nodes": [
                {"name": f"box-{size}", "count": memories.count(size), "devices": {f"of-{size}": 1}}
                for size in sorted(set(memories))
            ],
            "network": "ethernet-100g",
        })  # fmt: skip
        found += goals(name, chain.write(folder), pool, (), ("throughput",))
    return found


LISTS = {
    "nodes-1": nodes, "zones-1": zones, "steady-1": steady, "shares-1": shares, "orders-1": orders, "tables-1": tables,
    "orders-2": more_orders,
}  # fmt: skip


def limits_of(goal: str, fastest: dict[str, Any]) -> tuple[str, ...]:
    """Options of a goal, as in gaps.py; `fastest`: the row of the goal "throughput"."""
    options = ("--objective", "throughput" if goal in ("throughput", "budget") else "cost")
    if goal == "half":
        options += ("--min-throughput", repr(fastest["throughput"] / 2))
    if goal == "budget":
        options += ("--max-cost-per-hour", repr(fastest["costPerHour"] / 2))
    return options


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--options", default="--threads 1", help="more options of compile, in one word")
    arguments = parser.parse_args()
    more = tuple(shlex.split(arguments.options))

    def run(work: Workload, rows: dict[str, dict[str, Any]], folder: Path) -> dict[str, Any]:
        prefix, goal = work.name.rsplit(" ", 1)
        fastest = rows.get(f"{prefix} throughput", {})
        if goal in ("half", "budget") and not fastest.get("feasible"):
            return {"feasible": False, "cpu": 0.0, "megabytes": 0.0, "error": ["needs the throughput row"]}
        options = (*work.options, *limits_of(goal, fastest), *more)
        return compiled(replace(work, options=options), folder)

    run_lists(LISTS, arguments, run)


if __name__ == "__main__":
    main()
