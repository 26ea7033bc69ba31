"""Small models with branches, by hand, and all topological orders of one. It shares nothing with the planner."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLUSTER = {
    "name": "boxes",
    "device_types": {
        "fast": {"kind": "gpu", "memory": "80GB", "price_per_hour": 2, "fp32": "20TFLOP/s", "bandwidth": "1TB/s"},
        "slow": {"kind": "gpu", "memory": "80GB", "price_per_hour": 1, "fp32": "10TFLOP/s", "bandwidth": "500GB/s"},
    },
    "nodes": [{"name": kind, "count": 2, "devices": {kind: 1}} for kind in ("fast", "slow")],
    "network": {"bandwidth": "1GB/s", "latency": "10us"},
}


@dataclass(frozen=True)
class Branches:
    """Layers by name in the order of the file, with the gigaflops of a sample; tensors: (producer, consumers, bytes)."""

    work: dict[str, float]
    tensors: list[tuple[str, list[str], float]]

    def needs(self) -> dict[str, set[str]]:
        result: dict[str, set[str]] = {name: set() for name in self.work}
        for made, read, _ in self.tensors:
            for each in read:
                result[each].add(made)
        return result

    def orders(self) -> Iterator[list[str]]:
        """All orders in which tensors flow forward and the last layer stays the last."""
        needs, last = self.needs(), list(self.work)[-1]

        def more(done: list[str]) -> Iterator[list[str]]:
            if len(done) + 1 == len(self.work):
                yield [*done, last]
            for name in self.work:
                if name not in done and name != last and needs[name] <= set(done):
                    yield from more([*done, name])

        return more([])

    def ordered(self, names: list[str]) -> Branches:
        return Branches({name: self.work[name] for name in names}, self.tensors)

    def write(self, path: Path) -> Path:
        layers = [
            {
                "name": name, "kind": "matmul", "forwardFlops": work * 1e9, "backwardFlops": work * 2e9,
                "parameterBytes": 4e6, "activationBytes": 1e6,
            }
            for name, work in self.work.items()
        ]  # fmt: skip
        tensors: list[dict[str, Any]] = [
            {"name": f"from-{made}", "producer": made, "consumers": read, "bytesPerSample": size}
            for made, read, size in self.tensors
        ]
        path.write_text(json.dumps({"model": "branches", "layers": layers, "tensors": tensors}))
        return path


def random_branches(seed: int) -> Branches:
    """Two or three branches of one to three layers, level by level; now and then a branch reads another one."""
    draw = random.Random(seed)
    depths = [draw.randint(1, 3) for _ in range(draw.randint(2, 3))]
    levels = [f"b{b}-{d}" for d in range(max(depths)) for b, depth in enumerate(depths) if d < depth]
    names = ["stem", *levels, "head"]
    readers: dict[str, list[str]] = {name: [] for name in names}
    for b, depth in enumerate(depths):
        chain = ["stem", *(f"b{b}-{d}" for d in range(depth)), "head"]
        for made, read in zip(chain, chain[1:]):
            readers[made].append(read)
    if draw.random() < 0.4:
        first, second = sorted(draw.sample(range(1, len(names) - 1), 2))
        readers[names[first]].append(names[second])
    work = {name: draw.uniform(0.5, 4) for name in names}
    tensors = [
        (made, sorted(set(read)), draw.uniform(0.05, 2) * 1e6) for made, read in readers.items() if read
    ]
    return Branches(work, tensors)
