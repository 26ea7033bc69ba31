"""Seconds of an iteration of a synchronous 1F1B pipeline: the formula, and the passes one by one.

Rules: docs/rationale/search.md (the model that is optimised) and docs/rationale/simulator.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Placed:
    """A stage between its neighbours: seconds of a micro-batch, receiving included."""

    forward: float
    backward: float
    sync: float
    replicas: Sequence[tuple[float, float]] = ()  # forward and backward of each, receiving included

    @property
    def both(self) -> float:
        return self.forward + self.backward


def with_wires(stages: Sequence[Placed], receives: Sequence[tuple[float, float]]) -> list[Placed]:
    """The stages of a pipeline whose transfers overlap computing: a stage is busy with its own passes only, and each
    wire between two is one of them, busy with the activations and the gradients of each micro-batch. `receives`:
    activations and gradients, by the stage that gets them."""
    result: list[Placed] = []
    for i, (stage, (activations, gradients)) in enumerate(zip(stages, receives)):
        if i:
            wire = activations, receives[i - 1][1]
            result.append(Placed(*wire, 0.0, [wire]))
        own = [(f - activations, b - gradients) for f, b in stage.replicas]
        result.append(Placed(stage.forward - activations, stage.backward - gradients, stage.sync, own))
    return result


def by_formula(stages: Sequence[Placed], micro_batches: int) -> float:
    """Σ τ + (m−1)·max τ + exposed synchronisation; the passes never take less."""
    exposed = 0.0
    for stage in reversed(stages):
        exposed = stage.sync if stage is stages[-1] else max(stage.sync, exposed - stage.backward)
    times = [stage.both for stage in stages]
    return sum(times) + (micro_batches - 1) * max(times) + exposed


def by_passes(stages: Sequence[Placed], micro_batches: int) -> float:
    """Each pass as soon as its replica is free and all replicas of the stage that sends to it are done with theirs; the
    last stage takes micro-batch j at Σ forward of the others + j·max τ at the earliest."""
    count = len(stages)
    lead = sum(stage.forward for stage in stages[:-1])
    slowest = max(stage.both for stage in stages)
    orders = [_order(min(micro_batches, count - s), micro_batches) for s in range(count)]
    clocks = [[0.0] * len(stage.replicas) for stage in stages]
    done: dict[tuple[int, bool, int], float] = {}  # stage, forward, micro-batch: when all of its replicas are
    left = sum(map(len, orders))
    while left:
        for s, order in enumerate(orders):
            while order:
                forward, j = order[0]
                before = (s - 1 if forward else s + 1, forward, j)
                if 0 <= before[0] < count and before not in done:
                    break
                start = done.get(before, 0.0)
                if forward and s == count - 1:
                    start = max(start, lead + slowest * j)
                for i, replica in enumerate(stages[s].replicas):
                    clocks[s][i] = max(clocks[s][i], start) + replica[0 if forward else 1]
                done[s, forward, j] = max(clocks[s])
                order.pop(0)
                left -= 1
    return max(max(own) + stage.sync for own, stage in zip(clocks, stages))


def _order(ahead: int, micro_batches: int) -> list[tuple[bool, int]]:
    """So many forward passes first, then a backward and a forward pass in turns."""
    order = [(True, j) for j in range(ahead)]
    for j in range(micro_batches):
        order.append((False, j))
        if j + ahead < micro_batches:
            order.append((True, j + ahead))
    return order


def seconds(stages: Sequence[Placed], micro_batches: int) -> float:
    formula = by_formula(stages, micro_batches)
    if len(stages) < 3 or micro_batches < 2:
        return formula
    return max(formula, by_passes(stages, micro_batches))
