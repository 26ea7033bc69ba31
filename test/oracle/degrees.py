"""Tiny layers files with figures by degree of tensor parallelism, and a list of all plans whose stages have a degree
each.

The list and its prices share no code with heterplan: they follow docs/formats.md, docs/tensor-parallelism.md and
docs/rationale/search.md. Stages are of one device type, and recompute nothing. Parameters are whole, or sharded over
the replicas of a stage (ZeRO-3).
"""

from __future__ import annotations

import itertools
import json
import math
import random
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from compare import BINARY
from iteration import Placed, seconds as seconds_of, with_wires

DEGREES = (1, 2, 4)
FAMILIES = ("one node", "nodes of one type", "two types")


@dataclass(frozen=True)
class Kind:
    nodes: int
    per_node: int
    memory: float
    link: tuple[float, float]  # bandwidth, latency


@dataclass
class Instance:
    layers: list[dict]
    tensors: list[float]  # bytes of a sample behind each layer but the last
    kinds: dict[str, Kind]
    network: tuple[float, float]
    batch: int
    seconds: dict[tuple, tuple[float, float]]  # by layer, kind, degree: of one sample; twice that backwards
    sharded: bool = False  # parameters, over the replicas of a stage
    overlapped: bool = False  # transfers, with passes

    def in_flight(self, behind: int, micro_batches: int) -> int:
        """Micro-batches that a stage with `behind` stages behind it holds; one on its way counts as a stage."""
        return min(micro_batches, 1 + behind * (2 if self.overlapped else 1))

    def files(self, folder: Path) -> list[str]:
        tensors = [
            {"name": f"t{i}", "producer": f"l{i}", "consumers": [f"l{i + 1}"], "bytesPerSample": size}
            for i, size in enumerate(self.tensors)
        ]
        entries = [
            {
                "layer": f"l{layer}",
                "shardDegree": degree,
                "deviceType": kind,
                "batch": batch,
                "forwardSeconds": start + each * batch,
                "backwardSeconds": 2 * (start + each * batch),
                "updateSeconds": 0,
            }
            for (layer, kind, degree), (start, each) in self.seconds.items()
            for batch in (1, 64)
        ]
        cluster = {
            "name": "c",
            "device_types": {
                name: {"kind": "gpu", "memory": f"{kind.memory}B", "price_per_hour": 1}
                for name, kind in self.kinds.items()
            },
            "nodes": [
                {"name": f"n{name}", "count": kind.nodes, "devices": {name: kind.per_node}, "link": link(*kind.link)}
                for name, kind in self.kinds.items()
            ],
            "network": link(*self.network),
        }
        (folder / "m.layers.json").write_text(json.dumps({"model": "m", "layers": self.layers, "tensors": tensors}))
        (folder / "m.profile.json").write_text(json.dumps({"model": "m", "date": "2026-01-01", "entries": entries}))
        (folder / "c.yaml").write_text(yaml.safe_dump(cluster))
        return [str(folder / "m.layers.json"), "--profile", str(folder / "m.profile.json"), "--require-measured"] + [
            *("--cluster", str(folder / "c.yaml"), "--batch", str(self.batch)),
            *("--recompute", "never", "--shard-state", "parameters" if self.sharded else "none"),
            *("--objective", "throughput"),
            *(["--overlap-transfers"] if self.overlapped else []),
        ]


def link(bandwidth: float, latency: float) -> dict:
    return {"bandwidth": f"{bandwidth}B/s", "latency": f"{latency}s"}


def instance_of(seed: int) -> Instance:
    draw = random.Random(seed)
    family = FAMILIES[seed % len(FAMILIES)]
    count = draw.randint(2, 3)
    layers = []
    for i in range(count):
        parameters, activations = draw.uniform(1e6, 4e7), draw.uniform(1e5, 1e7)
        shards = []
        for degree in DEGREES[1:]:
            part = draw.uniform(1 / degree, 1)
            collectives = [
                {"collective": kind, "backward": backward, "count": draw.randint(1, 3), "bytesPerSample": size}
                for kind in ("all-reduce", "all-gather")
                for backward in (False, True)
                if (size := draw.uniform(1e4, 1e6)) < 7e5
            ]
            shards.append(
                {
                    "degree": degree,
                    "parameterBytes": parameters * part,
                    "activationBytes": activations * draw.uniform(1 / degree, 1),
                    "collectives": collectives,
                }
            )
        layers.append(
            {"name": f"l{i}", "parameterBytes": parameters, "activationBytes": activations, "shards": shards}
        )
    fast = (draw.uniform(2e9, 5e10), 1e-6)
    network = (draw.uniform(1e9, 2e10), 1e-5)
    room = draw.choice([8e7, 2e8, 4e8, 2e9])
    if family == "one node":
        kinds = {"a": Kind(1, draw.randint(2, 7), room, fast)}
    elif family == "nodes of one type":  # the network is the faster way between stages, wherever they lie
        kinds = {"a": Kind(2, draw.choice([2, 4]), room, (draw.uniform(1e7, 3e7), 1e-4))}
    else:
        kinds = {"a": Kind(1, draw.choice([2, 4]), room, fast), "b": Kind(1, draw.choice([1, 2]), room * 2, fast)}
    seconds = {}
    for layer, kind in itertools.product(range(count), kinds):
        whole = draw.uniform(1e-4, 4e-3)
        for degree in DEGREES:
            seconds[layer, kind, degree] = (draw.uniform(0, 1e-4), whole * draw.uniform(1 / degree, 1))
    tensors = [draw.uniform(1e4, 3e6) for _ in range(count - 1)]
    sharded = seed // len(FAMILIES) % 2 == 1
    overlapped = seed // (2 * len(FAMILIES)) % 3 == 2
    return Instance(layers, tensors, kinds, network, draw.randint(2, 8), seconds, sharded, overlapped)


@dataclass(frozen=True)
class Group:
    kind: str
    degree: int
    count: int  # of replicas


@dataclass
class Stage:
    begin: int
    end: int
    group: Group
    forward: float = 0
    backward: float = 0
    sync: float = 0


def ring(members: int, size: float, speed: tuple[float, float], steps: int = 2) -> float:
    bandwidth, latency = speed
    return steps * (members - 1) * (latency + size / members / bandwidth)


@dataclass
class Prices:
    """The prices of the plans of one instance."""

    of: Instance
    best: float = float("inf")  # seconds of the best plan
    plans: int = 0
    cache: dict = field(default_factory=dict)

    def in_node(self, group: Group) -> int:
        return min(group.count, self.of.kinds[group.kind].per_node // group.degree)

    def nodes(self, group: Group) -> int:
        each = self.of.kinds[group.kind].per_node // group.degree
        return -(-group.count // each)

    def devices(self, group: Group) -> int:
        """The devices that a stage takes: parts of nodes are halves, quarters and so on."""
        kind = self.of.kinds[group.kind]
        if kind.nodes == 1:
            return group.count * group.degree
        each = kind.per_node // group.degree
        whole, rest = divmod(group.count, each)
        part = 0 if rest == 0 else next(p for p in (1, 2, 4, 8) if p >= rest)
        return (whole * each + part) * group.degree

    def sum(self, group: Group, size: float) -> float:
        if group.count < 2 or size == 0:
            return 0
        bandwidth, latency = self.of.network
        inside = ring(self.in_node(group), size, self.of.kinds[group.kind].link)
        return inside + ring(self.nodes(group), size, (bandwidth / group.degree, latency))

    def shard(self, layer: int, degree: int) -> dict:
        whole = self.of.layers[layer]
        return next((each for each in whole["shards"] if each["degree"] == degree), whole)

    def passes(self, layer: int, group: Group, share: int) -> tuple[float, float]:
        start, each = self.of.seconds[layer, group.kind, group.degree]
        times = [start + each * share, 2 * (start + each * share)]
        for collective in self.shard(layer, group.degree).get("collectives", []) if group.degree > 1 else []:
            steps = 2 if collective["collective"] == "all-reduce" else 1
            bandwidth, latency = self.of.kinds[group.kind].link
            latencies = steps * (group.degree - 1) * latency * collective["count"]
            size = collective["bytesPerSample"] * share
            moved = steps * (group.degree - 1) / group.degree * size / bandwidth
            times[collective["backward"]] += latencies + moved
        return times[0], times[1]

    def transfer(self, size: float, source: Group, shares: tuple[int, int], target: Group) -> float:
        """Every shard of the target needs each sample."""
        if source.kind == target.kind and self.of.kinds[source.kind].nodes == 1:
            bandwidth, latency = self.of.kinds[source.kind].link
            copies = max(1, target.degree // source.degree)
            return latency + size * max(shares) * copies / bandwidth
        bandwidth, latency = self.of.network
        most = max(self.in_node(source) * shares[0], self.in_node(target) * shares[1])
        return latency + size * most * target.degree / bandwidth

    def fits(self, stage: Stage, share: int, in_flight: int) -> bool:
        shards = [self.shard(layer, stage.group.degree) for layer in range(stage.begin, stage.end)]
        parameters = [each["parameterBytes"] for each in shards]
        received = self.of.tensors[stage.begin - 1] if stage.begin else 0
        sent = self.of.tensors[stage.end - 1] if stage.end < len(self.of.layers) else 0
        kept = sum(each["activationBytes"] for each in shards) + received + sent
        messages = received + sent
        if self.of.overlapped:  # one more of each message, and of the input
            messages += received + sent + received
        need = self.state(parameters, stage.group.count) + share * (in_flight * kept + messages)
        return need <= self.of.kinds[stage.group.kind].memory

    def state(self, parameters: list[float], replicas: int) -> float:
        """Bytes of parameters and gradients, and of what is gathered for a layer and the one before it."""
        largest = max(parameters)
        if not self.of.sharded or replicas < 2:
            return 2 * sum(parameters) + largest

        def piece(size: float) -> float:
            return math.ceil(size / (4 * replicas)) * 4

        return 2 * piece(sum(parameters)) + 2 * largest + piece(largest)

    def work(self, stage: Stage, share: int) -> None:
        """Sets the times of a stage without its messages."""
        layers, group = range(stage.begin, stage.end), stage.group
        passes = [self.passes(layer, group, share) for layer in layers]
        stage.forward, stage.backward = (sum(times) for times in zip(*passes))
        parameters = [self.shard(layer, group.degree)["parameterBytes"] for layer in layers]
        stage.sync = 0 if self.of.sharded else self.sum(group, sum(parameters))
        if self.of.sharded:  # each layer is gathered twice, and its gradient reduced and scattered
            half = sum(self.sum(group, size) for size in parameters) / 2
            stage.forward += half
            stage.backward += 2 * half

    def iteration(self, stages: list[Stage], micro_batches: int) -> float | None:
        size = -(-self.of.batch // micro_batches)
        shares = [-(-size // stage.group.count) for stage in stages]
        for index, (stage, share) in enumerate(zip(stages, shares)):
            in_flight = self.of.in_flight(len(stages) - index - 1, micro_batches)
            if stage.group.count > size or not self.fits(stage, share, in_flight):
                return None
            self.work(stage, share)
        receives = [[0.0, 0.0] for _ in stages]  # activations and gradients, by the stage that gets them
        for index in range(1, len(stages)):
            before, behind = stages[index - 1], stages[index]
            size = self.of.tensors[behind.begin - 1]
            pair = (shares[index - 1], shares[index])
            receives[index][0] = self.transfer(size, before.group, pair, behind.group)
            receives[index - 1][1] = self.transfer(size, behind.group, pair[::-1], before.group)
        placed = []
        for stage, (activations, gradients) in zip(stages, receives):
            own = stage.forward + activations, stage.backward + gradients
            placed.append(Placed(*own, stage.sync, [own]))
        return seconds_of(with_wires(placed, receives) if self.of.overlapped else placed, micro_batches)

    def groups(self) -> list[Group]:
        return [
            Group(name, degree, count)
            for name, kind in self.of.kinds.items()
            for degree in DEGREES
            if degree <= kind.per_node and (kind.nodes == 1 or kind.per_node % degree == 0)
            for count in range(1, kind.nodes * (kind.per_node // degree) + 1)
        ]

    def list_all(self) -> None:
        layers, groups = len(self.of.layers), self.groups()
        for stages in range(1, layers + 1):
            for inner in itertools.combinations(range(1, layers), stages - 1):
                ends = [0, *inner, layers]
                for chosen in itertools.product(groups, repeat=stages):
                    taken = {name: 0 for name in self.of.kinds}
                    for group in chosen:
                        taken[group.kind] += self.devices(group)
                    if any(taken[name] > kind.nodes * kind.per_node for name, kind in self.of.kinds.items()):
                        continue
                    for micro_batches in range(1, self.of.batch + 1):
                        plan = [Stage(a, b, group) for a, b, group in zip(ends, ends[1:], chosen)]
                        self.consider(plan, micro_batches)

    def consider(self, plan: list[Stage], micro_batches: int) -> None:
        time = self.iteration(plan, micro_batches)
        if time is None:
            return
        self.plans += 1
        self.best = min(self.best, time)


def stated(prices: Prices, plan: dict) -> tuple[list[Stage], int]:
    stages, begin = [], 0
    for stage in plan["stages"]:
        end = begin + len(stage["layers"])
        degree = stage.get("shardDegree", 1)
        kind = stage["replicas"][0]["devices"][0]["type"]
        stages.append(Stage(begin, end, Group(kind, degree, len(stage["replicas"]))))
        begin = end
    return stages, plan["microBatches"]


def _kinds_of(stage: dict) -> set[str]:
    return {device["type"] for replica in stage["replicas"] for device in replica["devices"]}


def check_devices(instance: Instance, plan: dict) -> None:
    """Each device is used once, and the devices of a replica are neighbours in a node."""
    used = set()
    for stage in plan["stages"]:
        for replica in stage["replicas"]:
            devices = replica["devices"]
            assert len(devices) == stage.get("shardDegree", 1)
            first = devices[0].get("index", 0)
            assert first % len(devices) == 0
            for offset, device in enumerate(devices):
                place = (device["type"], device["node"], device.get("index", 0))
                assert place[:2] == (devices[0]["type"], devices[0]["node"]) and place[2] == first + offset
                assert place[2] < instance.kinds[place[0]].per_node
                assert place not in used
                used.add(place)


@dataclass
class Verdict:
    disagreements: list[str] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)

    def hold(self, agrees: bool, words: str) -> None:
        if not agrees:
            self.disagreements.append(words)


def compiled(folder: Path, arguments: list[str], *more: str) -> dict | None:
    command = [str(BINARY), "compile", *arguments, *more, "-o", str(folder / "out"), "--force", "--json"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode in (0, 2), run.stderr
    return json.loads(run.stdout) if run.returncode == 0 else None


def judge(seed: int, folder: Path) -> Verdict:
    """Compiles an instance in `folder`, and compares the answer with the list."""
    prices = Prices(instance_of(seed))
    prices.list_all()
    verdict = check(compiled(folder, prices.of.files(folder)), prices)
    verdict.counts["instances"] = 1
    verdict.counts["sharded parameters"] = int(prices.of.sharded)
    verdict.counts["overlapped transfers"] = int(prices.of.overlapped)
    verdict.counts["agreed"] = int(not verdict.disagreements)
    return verdict


def check(found: dict | None, prices: Prices) -> Verdict:
    verdict = Verdict()
    if found is None:
        verdict.hold(prices.plans == 0, "no plan, and the list has some")
        verdict.counts["without a plan"] = 1
        return verdict
    check_devices(prices.of, found)
    seconds, best = found["iterationSeconds"], prices.best
    verdict.hold(prices.of.batch / found["lowerBound"] <= best * (1 + 1e-9), "the bound is not one")
    verdict.hold(seconds <= best * 1.01, "more than 1 % behind")
    if found.get("optimal"):
        verdict.counts["optimal"] = 1
        verdict.hold(seconds <= best * (1 + 1e-9), "not optimal")
    if any(len(_kinds_of(stage)) > 1 for stage in found["stages"]):
        verdict.counts["several types in a stage"] = 1  # such plans are not in the list
        return verdict
    stages, micro_batches = stated(prices, found)
    verdict.counts["stages of unequal degrees"] = int(len({stage.group.degree for stage in stages}) > 1)
    own = prices.iteration(stages, micro_batches)
    if own is None:
        verdict.hold(False, "the plan does not fit")
    else:
        verdict.hold(math.isclose(seconds, own, rel_tol=1e-9), f"the plan takes {own} s, not {seconds}")
    verdict.hold(seconds >= prices.best * (1 - 1e-9), "better than the best")
    return verdict
