"""A plan of the synchronous model as `compile` prints it, read, and priced anew."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from machines import Group, Layout, kinds_of
from plans import Plan, close
from stages import Run, Shares, Way

if TYPE_CHECKING:
    from synchronous import SynchronousPlanner

FIGURES = (
    ("forwardSeconds", lambda plan, i: plan.stages[i].forward),
    ("backwardSeconds", lambda plan, i: plan.stages[i].backward),
    ("receiveSeconds", lambda plan, i: plan.receives[i][0]),
    ("receiveGradientSeconds", lambda plan, i: plan.receives[i][1]),
    ("reduceScatterSeconds", lambda plan, i: plan.runs[i].reduce_scatter),
    ("gatherSeconds", lambda plan, i: plan.runs[i].gather),
    ("syncSeconds", lambda plan, i: plan.stages[i].sync),
    ("updateSeconds", lambda plan, i: plan.runs[i].update),
    ("memoryBytes", lambda plan, i: plan.runs[i].memory),
)


def nodes_of(*stages: dict) -> set[str]:
    return {device["node"] for stage in stages for replica in stage["replicas"] for device in replica["devices"]}


class Reader:
    """A reader of one printed plan; `problems` are messages about the defects that it finds."""

    def __init__(self, printed: dict, planner: SynchronousPlanner):
        self.printed, self.planner = printed, planner
        self.names = [layer.name for layer in planner.instance.layers]
        self.count = printed["microBatches"]
        self.used: set[tuple] = set()
        self.problems: list[str] = []

    def plan(self) -> Plan:
        positions = [0]
        for stage in self.printed["stages"]:
            positions.append(positions[-1] + len(stage["layers"]))
            if stage["layers"] != self.names[positions[-2] : positions[-1]]:
                self.problems.append(f"layers {stage['layers']}")
        read = [self._group_of(stage) for stage in self.printed["stages"]]
        groups = [group for group, _ in read]
        runs = [self._run(i, positions, group, shares) for i, (group, shares) in enumerate(read)]
        layout = Layout(tuple(groups), tuple(map(self._beside, groups, groups[1:], range(len(groups) - 1))))
        self._look_at_space(tuple(positions), layout)
        return self.planner.place(positions, layout, self.count, runs)

    def _beside(self, before: Group, behind: Group, boundary: int) -> bool:
        nodes = nodes_of(*self.printed["stages"][boundary : boundary + 2])
        links = self.planner.machines.links_nodes
        return len(nodes) == 1 and all(links(a, b) for a in kinds_of(before) for b in kinds_of(behind))

    def _group_of(self, stage: dict) -> tuple[Group, Shares]:
        classes = self.planner.machines.classes
        shares: list[list[int]] = [[] for _ in classes]
        nodes: list[Counter] = [Counter() for _ in classes]
        for replica in stage["replicas"]:
            (device,) = replica["devices"]
            place = (device["type"], device["node"], device.get("index", 0))
            kind = self.planner.class_of(device)
            if place in self.used:
                self.problems.append(f"{place} is used twice")
            self.used.add(place)
            nodes[kind][place[1]] += 1
            shares[kind].append(-(-replica["share"] // self.count))
        odd = sum(replica["share"] % self.count > 0 for replica in stage["replicas"])
        if sum(replica["share"] for replica in stage["replicas"]) != self.planner.request.batch or odd > 1:
            self.problems.append("shares do not sum to the batch, or several are no multiples of the micro-batches")
        parts = tuple(tuple(sorted(of.values(), reverse=True)) for of in nodes)
        kinds = [kind for kind, part in enumerate(parts) if part]
        group = Group(parts, len(nodes_of(stage)) == 1 and self.planner.machines.link_nodes(kinds))
        return group, tuple(tuple(sorted(each, reverse=True)) for each in shares)

    def _run(self, index: int, positions: list[int], group: Group, shares: Shares) -> Run:
        stage, stages = self.printed["stages"][index], self.planner.stages
        way = Way(bool(stage.get("recompute")), stage.get("stateSharding", "none"))
        left = len(self.printed["stages"]) - index
        place = (positions[index], positions[index + 1], group)
        in_flight = self.planner.request.in_flight(left - 1, self.count)
        run = stages.run(*place, self.count, in_flight, left == 1, way, shares)
        if [self.names[start] for start in run.segments] != stage.get("recompute", []):
            self.problems.append(f"stage {index} computes {stage.get('recompute')} again, not {run.segments}")
        if not stages.fits(*place, way, run.segments, shares, in_flight):
            self.problems.append(f"stage {index} does not fit into memory")
        return run

    def _look_at_space(self, positions: tuple[int, ...], layout: Layout) -> None:
        planner = self.planner
        if not planner.is_documented(layout) or not planner.is_documented_count(self.count):
            self.problems.append(f"{layout} with {self.count} micro-batches are not in the searched space")
        if positions not in planner.cuts() or layout not in planner.assignments(positions):
            self.problems.append(f"cuts {positions} with {layout} break a constraint")


def wrong_figures(printed: dict, planner: SynchronousPlanner) -> tuple[Plan, list[str]]:
    """The plan priced anew, and where the printed one says something else, or is not of the searched space."""
    reader = Reader(printed, planner)
    plan = reader.plan()
    problems = reader.problems + planner.wrong_totals(printed, plan)
    for i, stage in enumerate(printed["stages"]):
        for name, of in FIGURES:
            if not close(float(stage.get(name, 0.0)), of(plan, i)):
                problems.append(f"stage {i}: {name} {stage.get(name)}, not {of(plan, i)}")
    return plan, problems
