"""Every burst plan of an instance (DeepPool, Park et al., arXiv 2112.10065): docs/rationale/burst.md."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from instance import Instance
from iteration import Placed
from machines import Group, Layout, Path, compact, kinds_of
from plans import Plan, Planner
from stages import Run, Shares, Way

MOST = 1e9  # amplification of a layer that takes no time on one device


@dataclass(frozen=True)
class Pool:
    """Devices of some classes, the fastest first: how many of each."""

    classes: tuple[tuple[int, int], ...]

    @cached_property
    def devices(self) -> list[int]:
        return [kind for kind, count in self.classes for _ in range(count)]

    def first(self, width: int) -> dict[int, int]:
        """How many of each class are among the first devices."""
        return {kind: self.devices[:width].count(kind) for kind, _ in self.classes if kind in self.devices[:width]}


class BurstPlanner(Planner):
    def __init__(self, instance: Instance):
        super().__init__(instance)
        self._shares: dict[tuple[Pool, int], Shares] = {}
        self._moved: dict[tuple[Pool, int, int], tuple[int, int]] = {}

    # Pools.

    def whole_time(self, kind: int) -> float:
        return sum(self.stages.times(0, len(self.instance.layers), kind, self.request.batch, 1))

    def pools(self) -> list[Pool]:
        """The pools of each class and of all classes: all devices, half of each class, and so
        on."""
        budget, classes = self.request.max_cost_per_hour, self.machines.classes
        counts = {}
        for kind, most in enumerate(self.available()):
            if budget and classes[kind].price:
                most = min(most, int(budget / classes[kind].price * (1 + 1e-9)))
            if most and self.stages.keeps_pins(0, len(self.instance.layers), self.compact_group({kind: 1})):
                counts[kind] = most
        result = [Pool(((kind, most),)) for kind, most in counts.items()]
        for name, most in self.request.max_devices:  # of all classes of a type together
            for kind in self._by_speed(counts):
                if classes[kind].type == name:
                    counts[kind] = min(counts[kind], most)
                    most -= counts[kind]
        while sum(count > 0 for count in counts.values()) > 1:
            result.append(Pool(tuple((kind, counts[kind]) for kind in self._by_speed(counts) if counts[kind])))
            counts = {kind: count // 2 for kind, count in counts.items()}
        return result

    def _by_speed(self, kinds) -> list[int]:
        """The fastest first; of equally fast ones the first by name, or in the cluster."""
        return sorted(kinds, key=lambda kind: (f"{self.whole_time(kind):.7g}", self.machines.classes[kind].type, kind))

    def widths(self, pool: Pool) -> list[int]:
        """Widths of a pool. A pool of one class has the divisors of the batch that are powers of
        two. A pool of several classes has all faster devices and a power of two of the next class,
        as the budget allows."""
        any_width, batch = self.request.widths == "any", self.request.batch
        if len(pool.classes) == 1:
            divisors = [w for w in range(1, pool.classes[0][1] + 1) if batch % w == 0]
            return [w for w in divisors if any_width or w & (w - 1) == 0]
        any_width &= len(pool.devices) <= 64
        result, before = [], 0
        for _, count in pool.classes:
            is_last = before + count == len(pool.devices)
            result += [
                before + more
                for more in range(1, count + 1)
                if any_width or more & (more - 1) == 0 or (more == count and not is_last)
            ]
            before += count
        return [w for w in result if w <= batch and self.within_hourly_budget(self.price(pool, w))]

    def price(self, pool: Pool, width: int) -> float:
        return sum(self.machines.classes[kind].price for kind in pool.devices[:width])

    def compact_group(self, counts: dict[int, int]) -> Group:
        """Each class node by node, from its first one on."""
        classes = self.machines.classes
        parts = tuple(compact(counts.get(i, 0), c.size) for i, c in enumerate(classes))
        nodes = {node for part, c in zip(parts, classes) for node in c.nodes[: len(part)]}
        return Group(parts, len(nodes) == 1 and self.machines.link_nodes(kinds_of(Group(parts))))

    def group(self, pool: Pool, width: int) -> Group:
        return self.compact_group(pool.first(width))

    # Samples.

    def shares(self, pool: Pool, width: int) -> Shares:
        """By class; the slowest takes least of the whole model: each sample goes to the device that is done first, of
        those that are equal in single precision to the last class."""
        if (pool, width) not in self._shares:
            self._shares[pool, width] = self._divided(pool, width)
        return self._shares[pool, width]

    def _divided(self, pool: Pool, width: int) -> Shares:
        counts = pool.first(width)
        held = {kind: [1] * count for kind, count in counts.items()}
        order = list(held)
        for _ in range(self.request.batch - width):
            first = min(order, key=lambda kind: (self._passes(kind, min(held[kind]) + 1), -order.index(kind)))
            held[first][held[first].index(min(held[first]))] += 1
        return tuple(
            tuple(sorted(held.get(kind, ()), reverse=True)) for kind in range(len(self.machines.classes))
        )

    def _passes(self, kind: int, samples: int) -> float:
        forward, backward, _ = self.stages.times(0, len(self.instance.layers), kind, samples, 1)
        return struct.unpack("f", struct.pack("f", forward + backward))[0]

    def moved(self, pool: Pool, before: int, after: int) -> tuple[int, int]:
        """The most samples that leave one device, and that come to one."""
        if (pool, before, after) not in self._moved:
            self._moved[pool, before, after] = self._count_moved(pool, before, after)
        return self._moved[pool, before, after]

    def _count_moved(self, pool: Pool, before: int, after: int) -> tuple[int, int]:
        holds = {width: self._held(pool, width) for width in (before, after)}
        kept = [
            len(holds[before].get(device, set()) & holds[after].get(device, set()))
            for device in range(max(before, after))
        ]
        sent = max(len(own) - kept[device] for device, own in holds[before].items())
        received = max(len(own) - kept[device] for device, own in holds[after].items())
        return sent, received

    def _held(self, pool: Pool, width: int) -> dict[int, set[int]]:
        """Samples of each device: one that joins takes its samples from one that has most, so that a stage on twice as
        many equal devices leaves every second half where it is."""
        shares = self.shares(pool, width)
        left = {kind: list(own) for kind, own in enumerate(shares)}
        counts = [left[kind].pop(0) for kind in pool.devices[:width]]
        by_place = sorted(range(width), key=lambda device: int(f"{device:032b}"[::-1], 2))
        result, begin = {}, 0
        for device in by_place:
            result[device] = set(range(begin, begin + counts[device]))
            begin += counts[device]
        return result

    def move(self, pool: Pool, before: int, after: int, per_sample: float, fixed: float) -> float:
        if before == after:
            return 0.0
        shape = self.machines.shape(self.group(pool, max(before, after)))
        if shape.nodes == 1:
            path = Path(shape.link, 1, 1)
        else:
            path = self.machines.path(self.group(pool, before), self.group(pool, after))
        return path.time(*self.moved(pool, before, after), per_sample, fixed)

    def activations(self, pool: Pool, position: int, before: int, after: int) -> float:
        cut = self.stages.cuts[position]
        return self.move(pool, before, after, cut.forward, cut.fixed)

    def gradients(self, pool: Pool, position: int, before: int, after: int) -> float:
        cut = self.stages.cuts[position]
        return self.move(pool, after, before, cut.backward, cut.fixed_gradient)

    # Plans.

    def stage(self, begin: int, end: int, pool: Pool, width: int) -> Run:
        last = end == len(self.instance.layers)
        shares = self.shares(pool, width)
        return self.stages.run(begin, end, self.group(pool, width), 1, 1, last, Way(), shares)

    def computing(self, layer: int, pool: Pool, width: int) -> float:
        """The time of a layer on the slowest device, including the all-reduces within the
        passes."""
        run = self.stage(layer, layer + 1, pool, width)
        updates = [
            self.stages.times(layer, layer + 1, kind, samples, 1)[2]
            for kind, own in enumerate(run.shares)
            for samples in own
        ]
        return max(forward + backward + update for (forward, backward), update in zip(run.replicas, updates))

    def amplification(self, layer: int, pool: Pool, width: int, moving: float) -> float:
        per_byte = self.machines.all_reduce(self.group(pool, width)).per_byte
        spent = self.computing(layer, pool, width) + per_byte * self.instance.layers[layer].parameter_bytes + moving
        once = self.computing(layer, pool, 1)
        return min(width * spent / once, MOST) if once else (MOST if spent else 0.0)

    def burst_plan(self, pool: Pool, positions, widths) -> tuple[Plan, float, float]:
        """With its device-seconds and the largest amplification."""
        runs = [self.stage(a, b, pool, w) for a, b, w in zip(positions, positions[1:], widths)]
        forward, backward = [run.forward for run in runs], [run.backward for run in runs]
        largest = 0.0
        for i, width in enumerate(widths):
            moving = 0.0
            if i:
                activations = self.activations(pool, positions[i], widths[i - 1], width)
                gradients = self.gradients(pool, positions[i], widths[i - 1], width)
                forward[i] += activations
                backward[i - 1] += gradients
                moving = activations + gradients
            for layer in range(positions[i], positions[i + 1]):
                largest = max(largest, self.amplification(layer, pool, width, moving if layer == positions[i] else 0.0))
        exposed = 0.0  # sums of gradients that the backward passes so far have not hidden
        for run, time in zip(reversed(runs), reversed(backward)):
            exposed = max(0.0, exposed - time) + run.sync - run.update
        iteration = sum(forward) + sum(backward) + exposed + sum(run.update for run in runs)
        spent = sum(w * (f + b + run.sync) for w, f, b, run in zip(widths, forward, backward, runs))
        groups = tuple(self.group(pool, width) for width in widths)
        stages = tuple(Placed(f, b, run.sync) for f, b, run in zip(forward, backward, runs))
        price = self.price(pool, max(widths))
        return Plan(tuple(positions), Layout(groups, ()), 1, tuple(runs), stages, (), iteration, price), spent, largest

    def _memory_holds(self, pool: Pool, plan: Plan, widths) -> bool:
        """A device has all of its stages at once."""
        for device, kind in enumerate(pool.devices[: max(widths)]):
            need = 0.0
            number = pool.devices[:device].count(kind)  # among those of its class
            for run, begin, end, width in zip(plan.runs, plan.positions, plan.positions[1:], widths):
                if device < width:
                    need += self.stages.memory(begin, end, width, Way(), (), run.shares[kind][number], 1)
            if need > self.stages.room(kind):
                return False
        return True

    def allowed(self, pool: Pool, plan: Plan, widths, largest: float) -> bool:
        limit = self.request.amplification_limit
        if limit and largest > limit * (1 + 1e-9):
            return False
        return self._memory_holds(pool, plan, widths) and self.meets_limits(plan.iteration, plan.price)

    def search(self) -> None:
        for pool in self.pools():
            for positions in self.cuts():
                for widths in product(self.widths(pool), repeat=len(positions) - 1):
                    if any(a == b for a, b in zip(widths, widths[1:])):
                        continue
                    plan, spent, largest = self.burst_plan(pool, positions, widths)
                    if self.allowed(pool, plan, widths, largest):
                        self._take(plan, spent)
        self.whole = self.documented

    def _take(self, plan: Plan, spent: float) -> None:
        best = self.documented
        best.searched += 1
        in_devices = self.request.objective == "gpu-seconds"
        objective = spent if in_devices else self.objective(plan.iteration, plan.price)
        if objective < best.objective:
            best.objective, best.plan = objective, plan

    def _pool_of(self, plan: dict) -> Pool:
        """The pool of the stage with the most devices."""
        widest = max(plan["stages"], key=lambda stage: len(stage["replicas"]))
        kinds = [self.class_of(replica["devices"][0]) for replica in widest["replicas"]]
        return Pool(tuple((kind, kinds.count(kind)) for kind in self._by_speed(set(kinds))))

    def figures_apart(self, plan: dict) -> list[str]:
        positions, widths = [0], []
        for stage in plan["stages"]:
            positions.append(positions[-1] + len(stage["layers"]))
            widths.append(len(stage["replicas"]))
        pool = self._pool_of(plan)
        priced, spent, largest = self.burst_plan(pool, positions, widths)
        problems = self.wrong_totals(plan, priced, spent)
        if not self.allowed(pool, priced, widths, largest):
            problems.append("a limit does not hold")
        stated = max(stage.get("amplification", 0.0) for stage in plan["stages"])
        if abs(stated - largest) > 1e-6 * largest:
            problems.append(f"amplification {stated}, not {largest}")
        return problems
