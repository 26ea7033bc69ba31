"""Every plan of an instance under the steady-state model (HeterPS, Liu et al., arXiv 2111.10635, section 4).

A stage of consecutive layers on k devices of one class takes max(CT(k), DT(k)), both of the form serial + parallel/k,
fitted to the times of its layers at 1, 2, 4, ... devices and all there are: docs/rationale/steady-state.md.
"""

from __future__ import annotations

from itertools import product

from instance import Link
from machines import Group, Layout, compact
from plans import Best, Plan, Planner
from stages import Run, Way
from iteration import Placed

Line = tuple[float, float]  # serial, parallel


def fit(points: list[tuple[int, float]]) -> Line:
    """Least squares of relative deviations, no part below 0; what takes no time is left out."""
    points = [(k, t) for k, t in points if t > 0]
    if not points:
        return 0.0, 0.0
    one = sum(1 / t / t for k, t in points)
    x = sum(1 / k / t / t for k, t in points)
    xx = sum(1 / k / k / t / t for k, t in points)
    y = sum(1 / t for k, t in points)
    xy = sum(1 / k / t for k, t in points)
    only_parallel, only_serial = (0.0, xy / xx), (y / one, 0.0)
    if len({k for k, _ in points}) == 1:
        return only_parallel
    determinant = one * xx - x * x
    serial, parallel = (y * xx - xy * x) / determinant, (one * xy - x * y) / determinant
    return only_parallel if serial < 0 else only_serial if parallel < 0 else (serial, parallel)


def at(line: Line, devices: int) -> float:
    return line[0] + line[1] / devices


class SteadyPlanner(Planner):
    def __init__(self, instance):
        super().__init__(instance)
        self.count = self.request.micro_batches or self._micro_batches()
        self.size = -(-self.request.batch // self.count)
        self._lines: dict[tuple, Line] = {}

    def _micro_batches(self) -> int:
        """Micro-batches of n to 2n−1 samples, n the most devices of a type: of these sizes the one with which full
        ones exceed the batch least, then the smallest."""
        batch = self.request.batch
        least = min(batch, max(each.devices for each in self.machines.classes))
        size = min(range(least, min(2 * least, batch + 1)), key=lambda s: (s * -(-batch // s), s))
        return -(-batch // size)

    def _group(self, kind: int, devices: int) -> Group:
        classes = self.machines.classes
        return Group(tuple(compact(devices, c.size) if i == kind else () for i, c in enumerate(classes)))

    def _units(self, kind: int) -> list[int]:
        most = min(self.machines.classes[kind].devices, self.size)
        return [2**i for i in range(most.bit_length()) if 2**i < most] + [most]

    def _least_transfer(self, kind: int, devices: int, samples: int, per_sample: float, fixed: float) -> float:
        """To or from a group, whatever is at the other end."""
        if per_sample == 0 and fixed == 0:
            return 0.0
        networks = [self.machines.network, *self.machines.zones.values(), *self.machines.links]
        best = Link(max(n.bandwidth for n in networks), min(n.nanoseconds for n in networks))
        group = self._group(kind, devices)
        inside = self.machines.common_node(group)

        def time(link: Link, sharing: int) -> float:
            return link.latency + (per_sample * samples * sharing + fixed) / link.bandwidth

        least = time(best, self.machines.shape(group).in_node)
        return min(least, time(inside, 1)) if inside else least

    def _line(self, kind: int, what: str, index: int) -> Line:
        """The time line of a layer that computes or synchronises, or of a cut that receives
        activations or gradients."""
        key = (kind, what, index)
        if key not in self._lines:
            self._lines[key] = fit([(k, self._point(kind, what, index, k)) for k in self._units(kind)])
        return self._lines[key]

    def _point(self, kind: int, what: str, index: int, k: int) -> float:
        share = -(-self.size // k)
        if what == "compute":
            forward, backward, _ = self.stages.times(index, index + 1, kind, share, 1)
            layer, collective = self.instance.layers[index], self.machines.all_reduce(self._group(kind, k))
            sums = layer.sums if self.request.batch_norm == "synchronised" else 0
            return forward + backward + (2 * collective.time(layer.sum_bytes, sums) if sums else 0.0)
        if what == "push":  # gradients, and parameters back, once an iteration
            pushed = 2 * self.instance.layers[index].parameter_bytes
            return self._least_transfer(kind, k, 0, 0, pushed) / self.count
        cut = self.stages.cuts[index]
        if what == "receive":
            return self._least_transfer(kind, k, share, cut.forward, cut.fixed)
        return self._least_transfer(kind, k, share, cut.backward, cut.fixed_gradient)

    def stage_time(self, begin: int, end: int, kind: int, devices: int) -> float:
        def sum_of(*lines: Line) -> float:
            return sum(at(line, devices) for line in lines)

        layers = range(begin, end)
        transfers = [self._line(kind, "push", i) for i in layers]
        transfers += [self._line(kind, "receive", begin), self._line(kind, "gradient", end)]
        return max(sum_of(*(self._line(kind, "compute", i) for i in layers)), sum_of(*transfers))

    def steady_plan(self, positions, chosen: list[tuple[int, int]]) -> Plan | None:
        """`chosen`: class and devices of each stage. None where it does not fit into memory."""
        runs, stages = [], []
        for i, (kind, devices) in enumerate(chosen):
            begin, end = positions[i], positions[i + 1]
            share, ahead = -(-self.size // devices), min(self.count, len(chosen) - i)
            memory = self.stages.memory(begin, end, devices, Way(), (), share, ahead)
            if memory > self.stages.room(kind):
                return None
            time = self.stage_time(begin, end, kind, devices)
            runs.append(Run(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, share, (), (), Way(), (), memory))
            stages.append(Placed(0.0, time, 0.0))
        groups = tuple(self._group(*each) for each in chosen)
        time = self.count * max(stage.both for stage in stages)
        price = sum(self.machines.price(group) for group in groups)
        return Plan(tuple(positions), Layout(groups, ()), self.count, tuple(runs), tuple(stages), (), time, price)

    def available(self) -> list[int]:
        """Devices of each class that the searched space may use: those of a limited type in its first classes."""
        left, result = dict(self.request.max_devices), []
        for each in self.machines.classes:
            result.append(min(each.devices, left.get(each.type, each.devices)))
            if each.type in left:
                left[each.type] -= result[-1]
        return result

    def search(self) -> None:
        available = self.available()
        for positions in self.cuts():
            stages = len(positions) - 1
            for kinds in product(range(len(available)), repeat=stages):
                if all(a != b for a, b in zip(kinds, kinds[1:])):
                    self._search_kinds(positions, kinds, available)
        self.whole = self.documented

    def _search_kinds(self, positions, kinds, available) -> None:
        for sizes in product(*(range(1, min(available[kind], self.size) + 1) for kind in kinds)):
            used = [sum(n for k, n in zip(kinds, sizes) if k == kind) for kind in range(len(available))]
            if any(u > a for u, a in zip(used, available)):
                continue
            groups = [self._group(*each) for each in zip(kinds, sizes)]
            if not all(self.stages.keeps_pins(a, b, g) for a, b, g in zip(positions, positions[1:], groups)):
                continue
            plan = self.steady_plan(positions, list(zip(kinds, sizes)))
            if plan and self.meets_limits(plan.iteration, plan.price):
                self._take(plan)

    def _take(self, plan: Plan) -> None:
        best: Best = self.documented
        best.searched += 1
        objective = self.objective(plan.iteration, plan.price)
        if objective < best.objective:
            best.objective, best.plan = objective, plan

    def figures_apart(self, plan: dict) -> list[str]:
        """Differences between the figures of a plan of `compile` and those computed here: memory,
        iteration, price."""
        positions, chosen = [0], []
        for stage in plan["stages"]:
            positions.append(positions[-1] + len(stage["layers"]))
            device = stage["replicas"][0]["devices"][0]
            chosen.append((self.class_of(device), len(stage["replicas"])))
        if plan["microBatches"] != self.count:
            return [f"{plan['microBatches']} micro-batches, not {self.count}"]
        priced = self.steady_plan(positions, chosen)
        if priced is None:
            return ["the plan does not fit into memory"]
        return self.wrong_totals(plan, priced) + [
            f"stage {i}: memoryBytes {stage['memoryBytes']}, not {run.memory}"
            for i, (stage, run) in enumerate(zip(plan["stages"], priced.runs))
            if abs(stage["memoryBytes"] - run.memory) > 1e-6 * run.memory
        ]
