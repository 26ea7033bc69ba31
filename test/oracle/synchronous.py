"""Every plan of an instance under the synchronous model, and the best of them.

Two spaces: the documented one (docs/formats.md, "searched spaces"), and the whole: any devices of any nodes for each
stage, any whole shares, any number of micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod

from iteration import Placed, by_formula, seconds
from machines import MOST_COUNTS, MOST_WAYS, Group, compact, divisions, slots, ways
from plans import Best, Plan, Planner
from printed import wrong_figures
from stages import Run


class SynchronousPlanner(Planner):
    """Of both spaces."""

    # What may be chosen.

    def micro_batch_counts(self) -> list[int]:
        return [self.request.micro_batches] if self.request.micro_batches else list(range(1, self.request.batch + 1))

    def is_documented_count(self, count: int) -> bool:
        """Of the numbers with full micro-batches of one size the least."""
        if self.request.micro_batches:
            return True
        size = -(-self.request.batch // count)
        return count == -(-self.request.batch // size)

    def assignments(self, positions: Sequence[int]) -> Iterator[tuple[Group, ...]]:
        """Of each stage the group, every one of them with a device, within pins and limits on devices."""
        stages = len(positions) - 1
        for groups in _assignments(tuple((c.size, len(c.nodes)) for c in self.machines.classes), stages):
            if self.within_device_limits(groups) and all(
                self.stages.keeps_pins(a, b, group) for a, b, group in zip(positions, positions[1:], groups)
            ):
                yield groups

    def within_device_limits(self, groups: Sequence[Group]) -> bool:
        for kind, most in self.request.max_devices:
            places = [i for i, each in enumerate(self.machines.classes) if each.type == kind]
            if sum(sum(group[i]) for group in groups for i in places) > most:
                return False
        return True

    def is_documented(self, groups: Sequence[Group]) -> bool:
        """Where a class has many devices: node by node, a node that is used in part shared as slots allow."""
        all_available = self.available()
        lists_all = prod(available + 1 for available in all_available) <= MOST_COUNTS
        for i, (each, available) in enumerate(zip(self.machines.classes, all_available)):
            parts = [group[i] for group in groups]
            if lists_all and ways(each.size, len(each.nodes), available) <= MOST_WAYS:
                continue
            if any(part != compact(sum(part), each.size) for part in parts):
                return False
            taken = [min(slots(sum(part), each.size, len(each.nodes)), available) for part in parts]
            if sum(taken) > available:
                return False
        return True

    def outside(self, plan: Plan) -> str:
        """In what a plan is not of the documented space, in words; empty: it is."""
        words = [] if self.is_documented(plan.groups) else ["nodes"]
        keys = self.stage_keys(plan.positions, plan.groups, plan.micro_batches)
        usual = [self.stages.documented(*key) for key in keys]
        if any(not run or run.shares != own.shares for run, own in zip(usual, plan.runs)):
            words.append("shares")
        if not self.is_documented_count(plan.micro_batches):
            words.append("micro-batches")
        return " and ".join(words)

    # What it takes.

    def place(self, positions, groups, micro_batches: int, runs: Sequence[Run]) -> Plan:
        stages, receives = self.between(positions, groups, runs)
        price = sum(self.machines.price(group) for group in groups)
        time = seconds(stages, micro_batches)
        return Plan(tuple(positions), tuple(groups), micro_batches, tuple(runs), stages, receives, time, price)

    def between(self, positions, groups, runs) -> tuple[tuple[Placed, ...], tuple[tuple[float, float], ...]]:
        """With what neighbours send each other."""
        activations, gradients = [0.0] * len(runs), [0.0] * len(runs)
        for i in range(1, len(runs)):
            cut = self.stages.cuts[positions[i]]
            sent, received = runs[i - 1].largest, runs[i].largest
            forth, back = self.machines.path(groups[i - 1], groups[i]), self.machines.path(groups[i], groups[i - 1])
            activations[i] = forth.time(sent, received, cut.forward, cut.fixed)
            gradients[i - 1] = back.time(received, sent, cut.backward, 0)
        placed = tuple(
            Placed(run.forward + a, run.backward + g, run.sync, [(f + a, b + g) for f, b in run.replicas])
            for run, a, g in zip(runs, activations, gradients)
        )
        return placed, tuple(zip(activations, gradients))

    # The search.

    def search(self) -> None:
        """The best of both spaces."""
        for positions in self.cuts():
            for groups in self.assignments(positions):
                devices = max(self.machines.size(group) for group in groups)
                is_documented = self.is_documented(groups)
                price = sum(self.machines.price(group) for group in groups)
                if not self.within_hourly_budget(price):
                    continue
                for count in self.micro_batch_counts():
                    if devices <= -(-self.request.batch // count):
                        self._search_at(positions, groups, count, price, is_documented)

    def stage_keys(self, positions, groups, count: int):
        stages = len(groups)
        for i, group in enumerate(groups):
            yield positions[i], positions[i + 1], group, count, min(count, stages - i), i + 1 == stages

    def _search_at(self, positions, groups, count: int, price: float, is_documented: bool) -> None:
        keys = list(self.stage_keys(positions, groups, count))
        if is_documented and self.is_documented_count(count):
            runs = [self.stages.documented(*key) for key in keys]
            if all(runs):
                self._offer(self.documented, positions, groups, count, price, runs)
                self._offer(self.whole, positions, groups, count, price, runs)
        choices = [self.stages.runs(*key) for key in keys]
        if all(choices) and self._least(choices, count, price) < self.whole.objective:
            for chosen in product(*choices):
                self._offer(self.whole, positions, groups, count, price, chosen)

    def _least(self, choices, count: int, price: float) -> float:
        """Of the objective, each stage at its best in everything."""
        least = [Placed(min(r.forward for r in runs), min(r.backward for r in runs), 0.0) for runs in choices]
        return self.objective(by_formula(least, count), price)

    def _offer(self, best: Best, positions, groups, count: int, price: float, runs) -> None:
        best.searched += 1
        if self.objective(sum(r.forward + r.backward for r in runs), price) >= best.objective:
            return
        stages, receives = self.between(positions, groups, runs)
        if self.objective(by_formula(stages, count), price) >= best.objective:
            return
        time = seconds(stages, count)
        objective = self.objective(time, price)
        if objective < best.objective and self.meets_limits(time, price):
            best.objective = objective
            best.plan = Plan(tuple(positions), tuple(groups), count, tuple(runs), stages, receives, time, price)

    def figures_apart(self, plan: dict) -> list[str]:
        priced, problems = wrong_figures(plan, self)
        return problems + ([] if self.meets_limits(priced.iteration, priced.price) else ["a limit does not hold"])


@lru_cache(maxsize=256)
def _assignments(classes: tuple[tuple[int, int], ...], stages: int) -> tuple[tuple[Group, ...], ...]:
    """`classes`: devices of a node, nodes."""
    divided = [divisions(size, nodes, stages) for size, nodes in classes]
    found = []
    for chosen in product(*divided):
        groups = tuple(zip(*chosen))
        if all(any(group) for group in groups):
            found.append(groups)
    return tuple(found)
