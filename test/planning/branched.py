"""Deep branched networks by hand, and the best pipeline of one by dynamic programming over all cuts.

It shares nothing with the planner: it reads the same two files and prices a pipeline of one device a
stage as docs/rationale/search.md and docs/clusters.md say it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

LATENCY, BANDWIDTH = 5e-6, 12.5e9  # of the network between all devices
STEPS = 1.002  # between two limits on the slowest stage


@dataclass
class Network:
    """Layers in order, with the seconds of a forward pass of one sample by device type, and (producer, last
    consumer, bytes of a sample) of each tensor."""

    seconds: dict[str, list[float]]
    tensors: list[tuple[int, list[int], float]]

    @property
    def size(self) -> int:
        return len(next(iter(self.seconds.values())))

    def layers_file(self) -> dict:
        names = [f"l{i}" for i in range(self.size)]
        return {
            "schemaVersion": "1.0",
            "model": "branched",
            "layers": [{"name": name, "parameterBytes": 4e4, "activationBytes": 1e5} for name in names],
            "tensors": [
                {"name": f"t{i}", "producer": names[made], "consumers": [names[c] for c in read], "bytesPerSample": size}
                for i, (made, read, size) in enumerate(self.tensors)
            ],
        }

    def profile(self) -> dict:
        entries = [
            {
                "layer": f"l{i}", "deviceType": kind, "batch": 1, "forwardSeconds": seconds,
                "backwardSeconds": 2 * seconds, "updateSeconds": 0,
            }
            for kind, times in self.seconds.items() for i, seconds in enumerate(times)
        ]  # fmt: skip
        return {"schemaVersion": "1.0", "model": "branched", "date": "2026-01-31", "entries": entries}

    def cluster(self, devices: dict[str, int]) -> dict:
        return {
            "name": "single",
            "device_types": {kind: {"kind": "gpu", "memory": "80GB", "price_per_hour": 1} for kind in devices},
            "nodes": [{"name": f"n-{kind}", "count": n, "devices": {kind: 1}} for kind, n in devices.items()],
            "network": {"bandwidth": f"{BANDWIDTH:.0f}B/s", "latency": f"{LATENCY * 1e6:.0f}us"},
        }


def nasnet(cells: int, branches: int, depth: int, speeds: dict[str, float]) -> Network:
    """Cells as those of NASNet: each reads the two before it, and joins `branches` of `depth` layers, of which each
    starts at one of the two. A stem of two layers, and a head."""
    draw = random.Random(f"{cells}-{branches}-{depth}")
    work, readers, sizes = [1e-3, 1e-3], {0: [1]}, {0: 4e6, 1: 2e6}
    before, last, size = 1, 1, 2e6
    for cell in range(cells):
        size *= 0.5 if cell % max(1, cells // 3) == 0 else 1
        ends = []
        for _ in range(branches):
            source = draw.choice([before, last])
            for _ in range(depth):
                work.append(draw.uniform(0.2e-3, 1.5e-3))
                readers.setdefault(source, []).append(len(work) - 1)
                source = len(work) - 1
                sizes[source] = size * draw.uniform(0.5, 1)
            ends.append(source)
        work.append(0.1e-3)
        join = len(work) - 1
        for end in ends:
            readers.setdefault(end, []).append(join)
        sizes[join] = size * 2
        before, last = last, join
    work.append(0.5e-3)
    for source in {before, last}:
        readers.setdefault(source, []).append(len(work) - 1)
    tensors = [(made, sorted(set(read)), sizes[made]) for made, read in sorted(readers.items())]
    return Network({kind: [each / speed for each in work] for kind, speed in speeds.items()}, tensors)


def crossing(network: Network) -> np.ndarray:
    """By position: bytes of a sample that are made before it and read behind it."""
    total = np.zeros(network.size + 1)
    for made, read, size in network.tensors:
        total[made + 1 : max(read) + 1] += size
    return total


def best_pipeline(network: Network, devices: dict[str, int], micro_batches: int) -> float:
    """Least seconds of an iteration over micro-batches of one sample: Σ τ + (m−1)·max τ over stages of one device.
    Within STEPS of the least over all limits on max τ."""
    n, moved = network.size, crossing(network)
    transfer = np.where(moved > 0, LATENCY + moved / BANDWIDTH, 0)
    stages = {}
    for kind, seconds in network.seconds.items():
        before = np.concatenate([[0], np.cumsum(seconds)]) * 3  # forward and backward
        times = before[None, :] - before[:, None] + transfer[:, None] + transfer[None, :]
        stages[kind] = np.where(np.triu(np.ones((n + 1, n + 1), bool), 1), times, np.inf)
    fastest = np.minimum.reduce(list(stages.values()))
    limit = fastest[np.arange(n), np.arange(1, n + 1)].max()
    best = np.inf
    while (micro_batches - 1) * limit / STEPS < best and limit < 2 * fastest[0, n]:
        best = min(best, least_sum(stages, devices, limit) + (micro_batches - 1) * limit)
        limit *= STEPS
    return best


def least_sum(stages: dict[str, np.ndarray], devices: dict[str, int], limit: float) -> float:
    """Least Σ τ of stages that take at most `limit`."""
    (first, count), *other = devices.items()
    second, more = other[0] if other else (None, 0)
    n = len(stages[first]) - 1
    least = np.full((n + 1, count + 1, more + 1), np.inf)
    least[0, 0, 0] = 0
    within = {kind: np.where(times <= limit, times, np.inf) for kind, times in stages.items()}
    for end in range(1, n + 1):
        grown = (least[:end] + within[first][:end, end, None, None]).min(0)
        least[end, 1:] = grown[:-1]
        if second:
            grown = (least[:end] + within[second][:end, end, None, None]).min(0)
            least[end, :, 1:] = np.minimum(least[end, :, 1:], grown[:, :-1])
    return least[n].min()
