#!/usr/bin/env python3
"""How far are plans of long chains and large clusters proven to be from the optimum, and what does that take?
Compiles fixed workloads with default settings, one after another, and prints a table in Markdown.

    bench/chains.py [--only TEXT] [--json FILE]

"gpt": embedding, blocks of attention and feed-forward layers, head; "random": layers whose work differs by up to ten times.
"growth": one chain on ever more devices, and ever longer chains. Columns as in gaps.py. A list that changes gets a new name.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaps import Workload, arguments_of, compiled, run_lists

TYPES = {"a100": "a100-sxm4-80gb", "v100": "v100-sxm2-32gb", "l4": "l4", "h100": "h100-sxm5-80gb", "t4": "t4"}
PER_NODE = 8


@dataclass(frozen=True)
class Chain:
    name: str
    layers: list[dict[str, Any]]
    boundary: float  # bytes per sample between two layers

    def write(self, folder: Path) -> Path:
        names = [layer["name"] for layer in self.layers]
        tensors = [
            {"name": f"{a}-{b}", "producer": a, "consumers": [b], "bytesPerSample": self.boundary}
            for a, b in zip(names, names[1:])
        ]
        path = folder / f"{self.name}.layers.json"
        path.write_text(json.dumps({"model": self.name, "layers": self.layers, "tensors": tensors}))
        return path


def layer(name: str, flops: float, parameters: float, activations: float, moved: float) -> dict[str, Any]:
    """`moved`: bytes that a forward pass of a sample reads and writes."""
    return {
        "name": name, "kind": "matmul", "forwardFlops": flops, "backwardFlops": 2 * flops,
        "forwardBytes": moved, "backwardBytes": 2 * moved, "parameterBytes": 4 * parameters,
        "activationBytes": activations,
    }  # fmt: skip


def gpt(blocks: int, hidden: int, tokens: int = 1024, words: int = 50257) -> Chain:
    """By the usual counts: 8·h² and 16·h² of flops a token, 4·tokens·h of attention."""
    stream = 4.0 * tokens * hidden
    layers = [layer("embedding", tokens * hidden, words * hidden, stream, stream)]
    for block in range(blocks):
        attention = tokens * (8 * hidden**2 + 4 * tokens * hidden)
        scores = 4.0 * tokens**2 * hidden / 64
        layers += [
            layer(f"attention-{block}", attention, 4 * hidden**2, 6 * stream + 2 * scores, 8 * stream + 2 * scores),
            layer(f"feed-forward-{block}", tokens * 16 * hidden**2, 8 * hidden**2, 10 * stream, 12 * stream),
        ]
    layers.append(layer("head", tokens * 2 * hidden * words, 1, 4.0 * tokens * words, 8.0 * tokens * words))
    return Chain(f"gpt-{blocks}", layers, stream)


def random_chain(count: int) -> Chain:
    draw = random.Random(count)
    layers = []
    for index in range(count):
        size = 10 ** draw.uniform(0, 1)
        layers.append(layer(f"layer-{index}", 1e9 * size, 1e5 * size, 1e6 * size, 1e6 * size))
    return Chain(f"random-{count}", layers, 1e6)


def cluster(folder: Path, types: list[str], devices: int) -> Path:
    lines = [f"name: {len(types)}x{devices}", "device_types:"]
    lines += [f"  {name}: {{catalogue: {TYPES[name]}}}" for name in types]
    lines.append("nodes:")
    lines += [
        f"  - {{name: {name}, count: {devices // PER_NODE}, devices: {{{name}: {PER_NODE}}}, link: nvlink3}}"
        for name in types
    ]
    lines.append("network: infiniband-hdr")
    path = folder / f"{len(types)}x{devices}.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def on(chain: Chain, types: list[str], devices: int, folder: Path) -> Workload:
    pool = cluster(folder, types, devices)
    return Workload(
        f"{chain.name} on {pool.stem}", chain.write(folder), str(pool), ("--objective", "throughput")
    )


def workloads(folder: Path) -> list[Workload]:
    three, five = list(TYPES)[:3], list(TYPES)
    chains = [gpt(24, 1024), gpt(96, 2048), random_chain(200), random_chain(1000)]
    pools = [(three, 64), (three, 256), (five, 2000)]
    return [on(chain, types, devices, folder) for chain in chains for types, devices in pools]


def growth(folder: Path) -> list[Workload]:
    three, five = list(TYPES)[:3], list(TYPES)
    by_devices = [on(gpt(24, 1024), five, devices, folder) for devices in (128, 256, 512, 1024, 2048, 4096)]
    by_layers = [on(random_chain(count), three, 256, folder) for count in (125, 250, 500, 1000, 2000)]
    return by_devices + by_layers


LISTS = {"chains-1": workloads, "growth-1": growth}


def main() -> None:
    run_lists(LISTS, arguments_of(__doc__), lambda work, _, folder: compiled(work, folder))


if __name__ == "__main__":
    main()
