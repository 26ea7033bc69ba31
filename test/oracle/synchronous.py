"""Every plan of an instance under the synchronous model, and the best of them.

Two spaces: the documented one (docs/formats.md, "searched spaces"), and the whole: any devices of any nodes for each
stage, any whole shares, any number of micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod

from iteration import Placed, by_formula, seconds, with_wires
from machines import (
    MOST_COUNTS,
    MOST_WAYS,
    Division,
    Family,
    Group,
    Layout,
    Part,
    compact,
    divisions,
    kinds_of,
    slots,
    ways,
)
from plans import Best, Plan, Planner
from printed import wrong_figures
from stages import Run


class SynchronousPlanner(Planner):
    """The planner of both spaces."""

    # What may be chosen.

    def micro_batch_counts(self) -> list[int]:
        return [self.request.micro_batches] if self.request.micro_batches else list(range(1, self.request.batch + 1))

    def is_documented_count(self, count: int) -> bool:
        """Whether a number of micro-batches is in the documented space: the least of all numbers
        with full micro-batches of the same size."""
        if self.request.micro_batches:
            return True
        size = -(-self.request.batch // count)
        return count == -(-self.request.batch // size)

    def assignments(self, positions: Sequence[int]) -> Iterator[Layout]:
        """Each stage has a device, within pins and limits on devices."""
        stages = len(positions) - 1
        machines = self.machines
        kinds = range(len(machines.classes))
        linked = frozenset((a, b) for a in kinds for b in kinds if machines.links_nodes(a, b))
        for layout in _layouts(machines.families(), linked, stages):
            if self.within_device_limits(layout.groups) and all(
                self.stages.keeps_pins(a, b, group) for a, b, group in zip(positions, positions[1:], layout.groups)
            ):
                yield layout

    def within_device_limits(self, groups: Sequence[Group]) -> bool:
        for kind, most in self.request.max_devices:
            places = [i for i, each in enumerate(self.machines.classes) if each.type == kind]
            if sum(sum(group[i]) for group in groups for i in places) > most:
                return False
        return True

    def is_documented(self, layout: Layout) -> bool:
        """Whether the space documents a layout of a class with many devices: whole nodes first, and
        a partly used node is shared as slots allow."""
        groups = layout.groups
        all_available = self.available()
        lists_all = prod(available + 1 for available in all_available) <= MOST_COUNTS
        for i, (each, available) in enumerate(zip(self.machines.classes, all_available)):
            parts = [group[i] for group in groups]
            if lists_all and ways(each.size, len(each.nodes), available) <= MOST_WAYS:
                continue
            if any(part != compact(sum(part), each.size) for part in parts):
                return False
            chains: list[int] = []  # devices of stages in one node
            for stage, part in enumerate(parts):
                if stage and layout.beside[stage - 1]:
                    chains[-1] += sum(part)
                else:
                    chains.append(sum(part))
            if sum(min(slots(chain, each.size, len(each.nodes)), available) for chain in chains) > available:
                return False
        return True

    def outside(self, plan: Plan) -> str:
        """In what a plan is not of the documented space, in words; empty: it is."""
        words = [] if self.is_documented(plan.layout) else ["nodes"]
        keys = self.stage_keys(plan.positions, plan.groups, plan.micro_batches)
        usual = [{run.shares for run in self.stages.documented(*key)} for key in keys]
        if any(own.shares not in shares for shares, own in zip(usual, plan.runs)):
            words.append("shares")
        if not self.is_documented_count(plan.micro_batches):
            words.append("micro-batches")
        return " and ".join(words)

    # What it takes.

    def place(self, positions, layout: Layout, micro_batches: int, runs: Sequence[Run]) -> Plan:
        stages, receives = self.between(positions, layout, runs)
        price = sum(self.machines.price(group) for group in layout.groups)
        time = seconds(self._timed(stages, receives), micro_batches)
        return Plan(tuple(positions), layout, micro_batches, tuple(runs), stages, receives, time, price)

    def between(self, positions, layout: Layout, runs) -> tuple[tuple[Placed, ...], tuple[tuple[float, float], ...]]:
        """With what neighbours send each other."""
        activations, gradients = [0.0] * len(runs), [0.0] * len(runs)
        for i in range(1, len(runs)):
            cut = self.stages.cuts[positions[i]]
            sent, received = runs[i - 1].largest, runs[i].largest
            before, behind, beside = layout.groups[i - 1], layout.groups[i], layout.beside[i - 1]
            forth, back = self.machines.path(before, behind, beside), self.machines.path(behind, before, beside)
            activations[i] = forth.time(sent, received, cut.forward, cut.fixed)
            gradients[i - 1] = back.time(received, sent, cut.backward, cut.fixed_gradient)
        placed = tuple(
            Placed(run.forward + a, run.backward + g, run.sync, [(f + a, b + g) for f, b in run.replicas])
            for run, a, g in zip(runs, activations, gradients)
        )
        return placed, tuple(zip(activations, gradients))

    def _timed(self, stages, receives) -> Sequence[Placed]:
        return with_wires(stages, receives) if self.request.overlaps_transfers else stages

    # The search.

    def search(self) -> None:
        """The best of both spaces."""
        for positions in self.cuts():
            for layout in self.assignments(positions):
                devices = max(self.machines.size(group) for group in layout.groups)
                is_documented = self.is_documented(layout)
                price = sum(self.machines.price(group) for group in layout.groups)
                if not self.within_hourly_budget(price):
                    continue
                for count in self.micro_batch_counts():
                    if devices <= -(-self.request.batch // count):
                        self._search_at(positions, layout, count, price, is_documented)

    def stage_keys(self, positions, groups, count: int):
        stages = len(groups)
        for i, group in enumerate(groups):
            yield positions[i], positions[i + 1], group, count, self.request.in_flight(stages - i - 1, count), i + 1 == stages

    def _search_at(self, positions, layout: Layout, count: int, price: float, is_documented: bool) -> None:
        keys = list(self.stage_keys(positions, layout.groups, count))
        if is_documented and self.is_documented_count(count):
            for runs in product(*(self.stages.documented(*key) for key in keys)):
                self._offer(self.documented, positions, layout, count, price, runs)
                self._offer(self.whole, positions, layout, count, price, runs)
        choices = [self.stages.runs(*key) for key in keys]
        if all(choices) and self._least(choices, count, price) < self.whole.objective:
            for chosen in product(*choices):
                self._offer(self.whole, positions, layout, count, price, chosen)

    def _least(self, choices, count: int, price: float) -> float:
        """A lower bound on the objective, with each stage at its best in every figure."""
        least = [Placed(min(r.forward for r in runs), min(r.backward for r in runs), 0.0) for runs in choices]
        return self.objective(by_formula(least, count), price)

    def _offer(self, best: Best, positions, layout: Layout, count: int, price: float, runs) -> None:
        best.searched += 1
        if self.objective(sum(r.forward + r.backward for r in runs), price) >= best.objective:
            return
        stages, receives = self.between(positions, layout, runs)
        timed = self._timed(stages, receives)
        if self.objective(by_formula(timed, count), price) >= best.objective:
            return
        time = seconds(timed, count)
        objective = self.objective(time, price)
        if objective < best.objective and self.meets_limits(time, price):
            best.objective = objective
            best.plan = Plan(tuple(positions), layout, count, tuple(runs), stages, receives, time, price)

    def figures_apart(self, plan: dict) -> list[str]:
        priced, problems = wrong_figures(plan, self)
        return problems + ([] if self.meets_limits(priced.iteration, priced.price) else ["a limit does not hold"])


@lru_cache(maxsize=256)
def _layouts(families: tuple[Family, ...], linked: frozenset[tuple[int, int]], stages: int) -> tuple[Layout, ...]:
    """`linked`: classes of which it matters that neighbours lie in one node."""
    divided = [divisions(family.nodes, stages) for family in families]
    found: dict[Layout, None] = {}
    for chosen in product(*divided):
        division_of = {kind: own for family, own in zip(families, chosen) for kind in family.classes}
        parts = {  # by class: of each stage
            kind: part for family, own in zip(families, chosen) for kind, part in zip(family.classes, own.parts)
        }
        groups = tuple(
            Group(each, _lies_in_one(linked, division_of, each, stage))
            for stage, each in enumerate(zip(*(parts[kind] for kind in sorted(parts))))
        )
        if all(any(group) for group in groups):
            beside = tuple(_beside(linked, division_of, groups, b) for b in range(stages - 1))
            found[Layout(groups, beside)] = None
    return tuple(found)


def _lies_in_one(linked, division_of: dict[int, Division], parts: tuple[Part, ...], stage: int) -> bool:
    kinds = [kind for kind, part in enumerate(parts) if part]
    pairs = [(a, b) for a in kinds for b in kinds if a < b]
    return bool(pairs) and linked.issuperset(pairs) and division_of[kinds[0]].in_one_node[stage]


def _beside(linked, division_of: dict[int, Division], groups: tuple[Group, ...], boundary: int) -> bool:
    before, behind = (kinds_of(group) for group in groups[boundary : boundary + 2])
    return linked.issuperset(product(before, behind)) and division_of[before[0]].beside[boundary]
