"""Random planning problems, small enough to list every plan. The same seed gives the same problem."""

from __future__ import annotations

import random
from dataclasses import replace

from instance import DeviceType, Instance, Layer, Link, NodeGroup, Request, Tensor, Times

MOST_DEVICES = 6
STRATEGIES = ("label-setting", "exhaustive", "milp", "greedy", "local-search", "genetic", "parametric")


class Generator:
    def __init__(self, seed: int, model: str = "synchronous-1f1b"):
        self.draw = random.Random(f"{model}:{seed}")
        self.node_draw = random.Random(f"nodes:{model}:{seed}")  # problems are else what they would be without it
        self.mode_draw = random.Random(f"modes:{model}:{seed}")
        self.transfer_draw = random.Random(f"transfers:{model}:{seed}")
        self.model = model

    def chance(self, percent: float) -> bool:
        return self.draw.random() * 100 < percent

    def log_uniform(self, low: float, high: float) -> float:
        return low * (high / low) ** self.draw.random()

    def instance(self) -> Instance:
        draw = self.draw
        batch = draw.choice([4, 6, 8, 8]) if self.model == "burst" else max(draw.randint(1, 8), draw.randint(1, 8))
        layers = self.layers(draw.randint(2, 5))
        types = self.types(layers, batch)
        zones = self.zones()
        nodes = self.nodes(types, list(zones))
        alike = len(nodes) == 1 and len(nodes[0].devices) == 1
        times = self.times(layers, types, batch, monotone=not (alike and self.chance(30)))
        tensors = self.tensors(len(layers))
        network = self.network()
        request = self.request(layers, types, nodes, times, batch)
        links = self.links(list(zones), nodes, types)
        drawn = Instance(layers, tensors, types, nodes, network, zones, times, request, links)
        return self.with_losses(drawn) if request.overlaps_sums else drawn

    def with_losses(self, drawn: Instance) -> Instance:
        """Sums that overlap passes cost computing, on half of the links."""

        def lossy(link: Link) -> Link:
            return replace(link, loss=self.mode_draw.choice([0.0, 0.0, 1.0, round(self.mode_draw.random(), 3)]))

        return replace(
            drawn,
            nodes=tuple(replace(group, link=lossy(group.link)) for group in drawn.nodes),
            network=lossy(drawn.network),
            zones={name: lossy(link) for name, link in drawn.zones.items()},
            links=tuple((a, b, lossy(link)) for a, b, link in drawn.links),
        )

    # The model.

    def layers(self, count: int) -> tuple[Layer, ...]:
        result = []
        tied = sorted(self.draw.sample(range(count), 2)) if count > 2 and self.chance(10) else []
        with_sums = self.chance(20)
        parameters = int(self.log_uniform(100, 300_000))
        for i in range(count):
            has_sums = with_sums and self.chance(50)
            if self.model == "burst":  # layers of which some pay off on many devices
                parameters = int(self.log_uniform(100, 3_000_000))
            result.append(
                Layer(
                    name=f"l{i}",
                    parameter_bytes=0 if self.chance(20) else 4 * self.draw.randint(1, parameters),
                    buffer_bytes=self.draw.randint(0, 20_000) if self.chance(20) else 0,
                    activation_bytes=self.draw.randint(0, 40_000),
                    workspace_bytes=self.draw.randint(0, 20_000) if self.chance(40) else 0,
                    sums=self.draw.randint(1, 3) if has_sums else 0,
                    sum_bytes=self.draw.randint(1, 2_000) if has_sums else 0,
                    parameters=("w",) if i in tied else (),
                )
            )
        return tuple(result)

    def tensors(self, layers: int) -> tuple[Tensor, ...]:
        result = []
        scale = 0 if self.chance(10) else self.log_uniform(100, 5_000 if self.model == "burst" else 50_000)
        for i in range(layers - 1):
            consumers = {i + 1}
            if self.chance(25):
                consumers.add(self.draw.randint(i + 1, layers - 1))
            result.append(self.tensor(f"t{i}", i, consumers, scale))
        if layers > 2 and self.chance(30):
            producer = self.draw.randint(0, layers - 3)
            skips = {self.draw.randint(producer + 2, layers - 1)}
            result.append(self.tensor("skip", producer, skips, scale))
        return tuple(result)

    def tensor(self, name: str, producer: int, consumers: set[int], scale: float) -> Tensor:
        has_fixed = self.chance(25)
        return Tensor(
            name,
            producer,
            tuple(sorted(consumers)),
            sample_bytes=0 if has_fixed and self.chance(30) else int(scale * self.draw.uniform(0.2, 2)),
            fixed_bytes=int(scale * self.draw.uniform(0.2, 4)) if has_fixed else 0,
            differentiable=not self.chance(12),
        )

    def times(self, layers, types, batch: int, monotone: bool) -> dict[tuple[str, str, int], Times]:
        """Milliseconds: a constant part, one in proportion to the samples, and steps."""
        draw, result = self.draw, {}
        ratio = 2 if self.chance(50) else None  # backward over forward
        speeds = {kind.name: self.log_uniform(0.5, 2) for kind in types}
        ratios = {kind.name: ratio or self.log_uniform(0.5, 4) for kind in types}
        accumulates = self.chance(25)
        proportional = self.chance(25)
        for layer in layers:
            work = self.log_uniform(0.3, 4)
            for kind in types:
                speed = speeds[kind.name] * (self.log_uniform(0.2, 5) if self.chance(20) else 1)
                constant = 0 if proportional else draw.uniform(0, 1)
                noise = 0 if proportional else draw.choice([0, 0, 0.3])
                back = ratio or ratios[kind.name] * self.log_uniform(0.7, 1.4)
                update = draw.uniform(0, 1) if self.chance(60) else 0.0
                before = 0.0
                for samples in range(1, batch + 1):
                    forward = (constant + samples + draw.uniform(0, noise) * samples) * work / speed
                    if not monotone:
                        forward *= draw.uniform(0.5, 1.5)
                    forward = forward if not monotone else max(before, forward)
                    before = forward
                    result[layer.name, kind.name, samples] = Times(
                        forward * 1e-3, forward * back * 1e-3, update * 1e-3, 0.1e-3 * work if accumulates else 0.0
                    )
        return result

    # The cluster.

    def types(self, layers: tuple[Layer, ...], batch: int) -> tuple[DeviceType, ...]:
        count = self.type_count()
        whole = sum(4 * layer.parameter_bytes + batch * layer.activation_bytes for layer in layers) + 1000
        memory = whole * (self.log_uniform(0.3, 2) if self.chance(40) else 10)  # binds now and then
        return tuple(
            DeviceType(f"type{i}", int(memory * self.log_uniform(0.5, 2)), round(self.log_uniform(0.2, 5), 3))
            for i in range(count)
        )

    def type_count(self) -> int:
        return self.draw.choice([1, 1, 2, 2] if self.model == "burst" else [1, 2, 2, 2, 2, 3])

    def network(self) -> Link:
        return self.link(100_000, 10_000_000)

    def link(self, low: float, high: float) -> Link:
        return Link(int(self.log_uniform(low, high) * 1000), self.draw.randint(0, 200_000))

    def zones(self) -> dict[str, Link]:
        if not self.chance(20):
            return {}
        return {name: self.link(100_000, 4_000_000) for name in ("east", "west")}

    def links(self, zones, nodes, types) -> tuple[tuple[str, str, Link], ...]:
        if not self.chance(25):
            return ()
        places = [*zones, *(each.name for each in (*nodes, *types))]
        drawn = [self.draw.choices(places, k=2) for _ in range(self.draw.randint(1, 3))]
        return tuple((a, b, self.link(50_000, 8_000_000)) for a, b in drawn)

    def nodes(self, types: tuple[DeviceType, ...], zones: list[str]) -> tuple[NodeGroup, ...]:
        draw = self.draw
        left = max(len(types), draw.randint(1, MOST_DEVICES), draw.randint(1, MOST_DEVICES))
        missing = [each.name for each in types]
        result: list[NodeGroup] = []
        link = self.link(1_000_000, 10_000_000)
        while left > 0 and (missing or self.chance(60)):
            room = left - max(0, len(missing) - 1)
            first = missing.pop(0) if missing else draw.choice(types).name
            count = draw.randint(1, min(2 if self.chance(50) else 3, room))
            devices = {first: draw.randint(1, max(1, room // count))}
            if missing and self.chance(35) and count * (devices[first] + 1) <= left - max(0, len(missing) - 1):
                devices[missing.pop(0)] = 1
            left -= count * sum(devices.values())
            result.append(
                NodeGroup(
                    f"n{len(result)}",
                    count,
                    devices,
                    link if self.chance(60) else self.link(1_000_000, 10_000_000),
                    draw.choice(zones) if zones else "",
                    {name: self.speed(number) for name, number in devices.items() if self.chance(10)},
                )
            )
        return self.joined(tuple(result), types)

    def joined(self, nodes: tuple[NodeGroup, ...], types: tuple[DeviceType, ...]) -> tuple[NodeGroup, ...]:
        """In a fifth of the problems with several types: two of them in each of two nodes, perhaps in others besides,
        and what else there is in a node each."""
        draw, names = self.node_draw, [each.name for each in types]
        if self.model != "synchronous-1f1b" or len(types) < 2 or draw.random() > 0.2:
            return nodes
        first = 2 if len(types) == 2 and draw.random() < 0.3 else 1
        alike = replace(nodes[0], name="n0", count=2, devices={names[0]: first, names[1]: 1}, speed={})
        left = MOST_DEVICES - 2 * (first + 1)
        others = [*names[2:], *([draw.choice(names[:2])] if draw.random() < 0.3 else [])][:left]
        return (alike, *(replace(alike, name=f"n{i}", count=1, devices={kind: 1}) for i, kind in enumerate(others, 1)))

    def speed(self, devices: int) -> float | list[float]:
        speeds = [0.5, 0.8, 1.25]
        return self.draw.choice(speeds) if self.chance(50) else [self.draw.choice(speeds) for _ in range(devices)]

    # What is asked for.

    def request(self, layers, types, nodes, times, batch: int) -> Request:
        draw = self.draw
        names = [layer.name for layer in layers]
        wanted = {
            "batch": batch,
            "objective": draw.choice(["throughput", "cost"]),
            "optimizer": draw.choice(["sgd", "momentum", "adam"]),
            "iteration_model": self.model,
        }
        alone = min(  # seconds of an iteration on one device
            sum(times[name, kind.name, batch].forward + times[name, kind.name, batch].backward for name in names)
            for kind in types
        )
        devices = sum(group.count * sum(group.devices.values()) for group in nodes)
        price = max(kind.price for kind in types)
        if self.chance(25):
            wanted["min_throughput"] = batch / alone * draw.uniform(0.2, 0.3 + 0.5 * devices)
        if self.chance(10):
            wanted["max_iteration"] = alone * draw.uniform(0.4, 2)
        if self.chance(20):
            wanted["max_cost_per_hour"] = price * draw.uniform(0.5, devices)
        if self.chance(6):
            wanted["max_cost_per_million"] = alone * price / batch * 1e6 / 3600 * draw.uniform(0.5, 3)
        if self.chance(6):
            wanted["max_cost_per_iteration"] = alone * price / 3600 * draw.uniform(0.5, 3)
        if self.chance(10):
            wanted["max_memory_fraction"] = round(draw.uniform(0.3, 1), 3)
        if self.chance(12):
            wanted["max_devices"] = ((draw.choice(types).name, draw.randint(0, 3)),)
        if self.chance(12):
            wanted["pins"] = ((draw.choice(names), draw.choice(types).name),)
        if self.chance(10):
            wanted["colocations"] = (tuple(draw.sample(names, 2)),)
        if self.chance(10):
            wanted["separations"] = (tuple(draw.sample(names, min(len(names), draw.randint(2, 3)))),)
        if self.model == "synchronous-1f1b":
            wanted["schedule"] = draw.choice(["auto"] * 5 + ["pipeline", "pipeline", "data-parallel"])
            if self.chance(25):
                wanted["recompute"] = draw.choice(["auto", "always"])
            if self.chance(25):
                wanted["shard_state"] = draw.choice(["auto", "optimizer", "gradients"])
                if self.mode_draw.random() < 0.25:
                    wanted["shard_state"] = "parameters"
            if self.chance(8):
                wanted["strategy"] = draw.choice(STRATEGIES)
        if self.model != "burst" and self.chance(20):
            wanted["micro_batches"] = draw.randint(1, batch)
        if self.chance(6):
            wanted["work_limit"] = draw.randint(1, 300)
        elif self.chance(4):
            wanted["gap"] = draw.uniform(0, 0.3)
        if self.model == "burst":
            wanted |= {"schedule": "burst", "widths": draw.choice(["powers", "any"])}
            wanted["objective"] = draw.choice(["throughput", "cost", "gpu-seconds"])
            if self.chance(40):
                wanted["amplification_limit"] = draw.uniform(1, 4)
        if self.chance(20):
            wanted["precision"] = "bf16"
        if self.chance(20):
            wanted["batch_norm"] = "local"
        if self.model == "synchronous-1f1b" and self.mode_draw.random() < 0.25:
            wanted["overlaps_sums"] = True
        if self.model == "synchronous-1f1b" and self.transfer_draw.random() < 0.25:
            wanted["overlaps_transfers"] = True
        return Request(**wanted)


class FullNodes(Generator):
    """Several nodes with devices of several types each, and a network that is slow: much depends on what lies in one
    node together."""

    def type_count(self) -> int:
        return self.draw.choice([2, 2, 3])

    def network(self) -> Link:
        slow = self.link(3_000, 300_000)
        return replace(slow, nanoseconds=slow.nanoseconds + 200_000)

    def nodes(self, types: tuple[DeviceType, ...], zones: list[str]) -> tuple[NodeGroup, ...]:
        draw, names = self.draw, [each.name for each in types]
        shared = names if len(names) == 2 or self.chance(50) else names[:2]
        sizes = {name: 1 for name in shared}
        if len(shared) == 2 and self.chance(50):
            sizes[draw.choice(shared)] = 2
        count = 3 if sum(sizes.values()) == 2 and self.chance(30) else 2
        first = NodeGroup("n0", count, sizes, self.link(1_000_000, 10_000_000), draw.choice(zones) if zones else "", {})
        others = [name for name in names if name not in shared]
        if count * sum(sizes.values()) + len(others) < MOST_DEVICES and self.chance(30):
            others.append(draw.choice(shared))
        return (first, *(replace(first, name=f"n{i}", count=1, devices={name: 1}) for i, name in enumerate(others, 1)))


def random_instance(seed: int, model: str = "synchronous-1f1b", full_nodes: bool = False) -> Instance:
    return (FullNodes if full_nodes else Generator)(seed, model).instance()
