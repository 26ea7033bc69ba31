"""Common parts of all iteration models: plans and their figures, cuts, limits, the best plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from instance import Instance
from iteration import Placed
from machines import Group, Layout, Machines
from stages import Run, Stages

TOLERANCE = 1e-9  # of limits
CLOSE = 1e-6  # of printed figures


def close(a: float, b: float) -> bool:
    return abs(a - b) <= CLOSE * max(abs(a), abs(b)) + 1e-15


@dataclass(frozen=True)
class Plan:
    """A placement with its figures."""

    positions: tuple[int, ...]  # where stages begin, and the end
    layout: Layout
    micro_batches: int
    runs: tuple[Run, ...]
    stages: tuple[Placed, ...]
    receives: tuple[tuple[float, float], ...]  # activations and gradients, by stage
    iteration: float
    price: float  # an hour

    @property
    def groups(self) -> tuple[Group, ...]:
        return self.layout.groups

    def cost(self, batch: int) -> float:
        """Cost of 10^6 samples."""
        return self.price * self.iteration / 3600 / batch * 1e6


@dataclass
class Best:
    objective: float = float("inf")  # never larger is better: seconds, or dollars of 10^6 samples
    plan: Plan | None = None
    searched: int = 0  # placements


class Planner:
    """Lists and prices the plans of one instance. `documented` is the best of the searched space (docs/formats.md),
    `whole` of all plans."""

    def __init__(self, instance: Instance):
        self.instance, self.request = instance, instance.request
        self.machines = Machines(instance)
        self.stages = Stages(instance, self.machines)
        self.documented, self.whole = Best(), Best()

    # What may be chosen.

    def cuts(self) -> Iterator[tuple[int, ...]]:
        layers = len(self.instance.layers)
        allowed = [p for p in range(1, layers) if p not in self.stages.forbidden_cuts]
        least = 2 if self.request.schedule == "pipeline" else 1
        most = 1 if self.request.schedule == "data-parallel" else layers
        for inner in range(least - 1, most):
            for chosen in combinations(allowed, inner):
                positions = (0, *chosen, layers)
                if all(self.stages.may_be_stage(a, b) for a, b in zip(positions, positions[1:])):
                    yield positions

    # What it takes.

    def objective(self, time: float, price: float) -> float:
        return time if self.request.objective == "throughput" else price * time / 3600 / self.request.batch * 1e6

    def meets_limits(self, time: float, price: float) -> bool:
        request, cost = self.request, price * time / 3600
        limits = (
            (request.max_cost_per_hour, price),
            (request.max_cost_per_iteration, cost),
            (request.max_cost_per_million, cost / request.batch * 1e6),
            (request.max_iteration, time),
        )
        slow = request.min_throughput and request.batch / time < request.min_throughput * (1 - TOLERANCE)
        return not slow and all(not limit or figure <= limit * (1 + TOLERANCE) for limit, figure in limits)

    def available(self) -> list[int]:
        """Devices of each class that a plan may use."""
        limits = dict(self.request.max_devices)
        return [min(each.devices, limits.get(each.type, each.devices)) for each in self.machines.classes]

    def within_hourly_budget(self, price: float) -> bool:
        budget = self.request.max_cost_per_hour
        return not budget or price <= budget * (1 + TOLERANCE)

    def class_of(self, device: dict) -> int:
        """The class of a device as a plan names it."""
        place = (device["node"], device.get("index", 0))
        classes = enumerate(self.machines.classes)
        return next(i for i, each in classes if each.type == device["type"] and place in each.places)

    def outside(self, plan: Plan) -> str:
        """In what a plan is not of the searched space, in words."""
        return ""

    def search(self) -> None:
        """Sets `documented` and `whole`."""
        raise NotImplementedError

    def figures_apart(self, plan: dict) -> list[str]:
        """Differences between the figures of a printed plan and those computed here, as
        messages."""
        raise NotImplementedError

    def wrong_totals(self, printed: dict, plan: Plan, spent: float = 0.0) -> list[str]:
        """`spent`: device-seconds, of bursts."""
        batch = self.request.batch
        objectives = {"throughput": batch / plan.iteration, "cost": plan.cost(batch), "gpu-seconds": spent}
        totals = {
            "iterationSeconds": plan.iteration,
            "throughput": batch / plan.iteration,
            "costPerHour": plan.price,
            "costPerMillionSamples": plan.cost(batch),
            "deviceSeconds": spent,
            "objectiveValue": objectives[self.request.objective],
        }
        return [
            f"{name} {printed.get(name)}, not {value}"
            for name, value in totals.items()
            if not close(printed.get(name, 0.0), value)
        ]
