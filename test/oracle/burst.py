"""Every burst plan of an instance (DeepPool, Park et al., arXiv 2112.10065): docs/rationale/burst.md."""

from __future__ import annotations

from itertools import product

from iteration import Placed
from machines import Group, Path, compact
from plans import Plan, Planner
from stages import Run, Way

MOST = 1e9  # amplification of a layer that takes no time on one device


class BurstPlanner(Planner):
    def widths(self, kind: int) -> list[int]:
        """Of the devices of a class that the request allows: divisors of the batch, of which powers of two."""
        most = self.available()[kind]
        divisors = [w for w in range(1, most + 1) if self.request.batch % w == 0]
        return [w for w in divisors if self.request.widths == "any" or w & (w - 1) == 0]

    def group(self, kind: int, width: int) -> Group:
        classes = self.machines.classes
        return tuple(compact(width, c.size) if i == kind else () for i, c in enumerate(classes))

    def moved(self, before: int, after: int) -> tuple[int, int]:
        """The most samples that leave one device, and that come to one."""
        holds = {width: self._held(width) for width in (before, after)}
        kept = [
            len(holds[before].get(device, set()) & holds[after].get(device, set()))
            for device in range(max(before, after))
        ]
        sent = max(len(own) - kept[device] for device, own in holds[before].items())
        received = max(len(own) - kept[device] for device, own in holds[after].items())
        return sent, received

    def _held(self, width: int) -> dict[int, set[int]]:
        """Samples of each device: one that joins takes its samples from one that has most, so that a stage on twice as
        many devices leaves every second half where it is."""
        share = self.request.batch // width
        by_place = sorted(range(width), key=lambda device: int(f"{device:032b}"[::-1], 2))
        return {device: set(range(i * share, (i + 1) * share)) for i, device in enumerate(by_place)}

    def move(self, kind: int, before: int, after: int, per_sample: float, fixed: float) -> float:
        if before == after:
            return 0.0
        larger = self.group(kind, max(before, after))
        shape = self.machines.shape(larger)
        if shape.nodes == 1:
            path = Path(shape.link, 1, 1)
        else:
            path = self.machines.path(self.group(kind, before), self.group(kind, after))
        return path.time(*self.moved(before, after), per_sample, fixed)

    def activations(self, kind: int, position: int, before: int, after: int) -> float:
        cut = self.stages.cuts[position]
        return self.move(kind, before, after, cut.forward, cut.fixed)

    def gradients(self, kind: int, position: int, before: int, after: int) -> float:
        return self.move(kind, after, before, self.stages.cuts[position].backward, 0)

    def stage(self, begin: int, end: int, kind: int, width: int) -> Run:
        share = self.request.batch // width
        shares = tuple((share,) * width if i == kind else () for i in range(len(self.machines.classes)))
        return self.stages.run(begin, end, self.group(kind, width), 1, 1, True, Way(), shares)

    def amplification(self, layer: int, kind: int, width: int, moving: float) -> float:
        wide, alone = self.stage(layer, layer + 1, kind, width), self.stage(layer, layer + 1, kind, 1)
        per_byte = self.machines.all_reduce(self.group(kind, width)).per_byte
        spent = wide.forward + wide.backward + wide.update
        spent += per_byte * self.instance.layers[layer].parameter_bytes + moving
        once = alone.forward + alone.backward + alone.update
        return min(width * spent / once, MOST) if once else (MOST if spent else 0.0)

    def burst_plan(self, kind: int, positions, widths) -> tuple[Plan, float, float]:
        """With its device-seconds and the largest amplification."""
        runs = [self.stage(a, b, kind, w) for a, b, w in zip(positions, positions[1:], widths)]
        forward, backward = [run.forward for run in runs], [run.backward for run in runs]
        largest = 0.0
        for i, width in enumerate(widths):
            moving = 0.0
            if i:
                activations = self.activations(kind, positions[i], widths[i - 1], width)
                gradients = self.gradients(kind, positions[i], widths[i - 1], width)
                forward[i] += activations
                backward[i - 1] += gradients
                moving = activations + gradients
            for layer in range(positions[i], positions[i + 1]):
                largest = max(largest, self.amplification(layer, kind, width, moving if layer == positions[i] else 0.0))
        exposed = 0.0  # sums of gradients that the backward passes so far have not hidden
        for run, time in zip(reversed(runs), reversed(backward)):
            exposed = max(0.0, exposed - time) + run.sync - run.update
        iteration = sum(forward) + sum(backward) + exposed + sum(run.update for run in runs)
        spent = sum(w * (f + b + run.sync) for w, f, b, run in zip(widths, forward, backward, runs))
        groups = tuple(self.group(kind, width) for width in widths)
        price = self.machines.classes[kind].price * max(widths)
        stages = tuple(Placed(f, b, run.sync) for f, b, run in zip(forward, backward, runs))
        return Plan(tuple(positions), groups, 1, tuple(runs), stages, (), iteration, price), spent, largest

    def allowed(self, kind: int, plan: Plan, largest: float) -> bool:
        limit = self.request.amplification_limit
        if limit and largest > limit * (1 + 1e-9):
            return False
        if sum(run.memory for run in plan.runs) > self.stages.room(kind):  # the first device is in all stages
            return False
        return self.meets_limits(plan.iteration, plan.price)

    def search(self) -> None:
        for kind in range(len(self.machines.classes)):
            if not self.stages.keeps_pins(0, len(self.instance.layers), self.group(kind, 1)):
                continue
            for positions in self.cuts():
                for widths in product(self.widths(kind), repeat=len(positions) - 1):
                    if any(a == b for a, b in zip(widths, widths[1:])):
                        continue
                    plan, spent, largest = self.burst_plan(kind, positions, widths)
                    if self.allowed(kind, plan, largest):
                        self._take(plan, spent)
        self.whole = self.documented

    def _take(self, plan: Plan, spent: float) -> None:
        best = self.documented
        best.searched += 1
        in_devices = self.request.objective == "gpu-seconds"
        objective = spent if in_devices else self.objective(plan.iteration, plan.price)
        if objective < best.objective:
            best.objective, best.plan = objective, plan

    def figures_apart(self, plan: dict) -> list[str]:
        positions, widths = [0], []
        for stage in plan["stages"]:
            positions.append(positions[-1] + len(stage["layers"]))
            widths.append(len(stage["replicas"]))
        device = plan["stages"][0]["replicas"][0]["devices"][0]
        kind = self.class_of(device)
        priced, spent, largest = self.burst_plan(kind, positions, widths)
        problems = self.wrong_totals(plan, priced, spent)
        if not self.allowed(kind, priced, largest):
            problems.append("a limit does not hold")
        stated = max(stage.get("amplification", 0.0) for stage in plan["stages"])
        if abs(stated - largest) > 1e-6 * largest:
            problems.append(f"amplification {stated}, not {largest}")
        return problems
