"""A placement drawn at random, priced by `heterplan evaluate` and here: best plans alone leave most prices unseen."""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from compare import BINARY
from instance import Instance
from plans import Plan, close
from printed import wrong_figures
from synchronous import SynchronousPlanner


def random_placement(planner: SynchronousPlanner, draw: random.Random) -> Plan | None:
    """A random placement of the searched space, with arbitrary shares; limits on time and money are
    ignored."""
    cuts = list(planner.cuts())
    for _ in range(20 if cuts else 0):
        positions = draw.choice(cuts)
        layouts = [each for each in planner.assignments(positions) if planner.is_documented(each)]
        counts = [count for count in planner.micro_batch_counts() if planner.is_documented_count(count)]
        if not layouts:
            continue
        chosen, count = draw.choice(layouts), draw.choice(counts)
        if max(map(planner.machines.size, chosen.groups)) > -(-planner.request.batch // count):
            continue
        runs = [planner.stages.runs(*key) for key in planner.stage_keys(positions, chosen.groups, count)]
        if all(runs):
            return planner.place(positions, chosen, count, [draw.choice(each) for each in runs])
    return None


def wherever_it_lies(planner: SynchronousPlanner, plan: Plan) -> Iterator[float]:
    """Iteration times of what `as_yaml` says, which leaves open what lies in one node together."""
    for layout in planner.assignments(plan.positions):
        if [group.parts for group in layout.groups] == [group.parts for group in plan.groups]:
            keys = planner.stage_keys(plan.positions, layout.groups, plan.micro_batches)
            runs = [planner.stages.run(*key, run.way, run.shares) for key, run in zip(keys, plan.runs)]
            yield planner.place(plan.positions, layout, plan.micro_batches, runs).iteration


def as_yaml(plan: Plan, planner: SynchronousPlanner) -> str:
    """The placement as the YAML that `evaluate` reads."""
    names, kinds = [layer.name for layer in planner.instance.layers], [c.type for c in planner.machines.classes]
    stages = [
        {
            "layers": [names[begin], names[end - 1]],
            "devices": {kind: list(part) for kind, part in zip(kinds, group) if part},
            "shares": [share for own in run.shares for share in own],
            "recompute": run.way.recomputes,
            "shardState": run.way.sharding,
        }
        for begin, end, group, run in zip(plan.positions, plan.positions[1:], plan.groups, plan.runs)
    ]
    return json.dumps({"microBatches": plan.micro_batches, "stages": stages})


def judge_placement(instance: Instance, seed: int) -> list[str] | None:
    """Differences between the two evaluations; None if no placement was found. Instances with a
    type in unlike nodes are left out: there `evaluate` chooses."""
    planner = SynchronousPlanner(instance)
    kinds = [each.type for each in planner.machines.classes]
    plan = random_placement(planner, random.Random(seed)) if len(set(kinds)) == len(kinds) else None
    if plan is None:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "placement.yaml").write_text(as_yaml(plan, planner))
        model, *others = instance.write(Path(scratch))
        command = [BINARY, "evaluate", f"{scratch}/placement.yaml", "--model", model, *others, "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        return [f"exit status {done.returncode}: {done.stderr[-300:]}"]
    printed = json.loads(done.stdout)
    _, problems = wrong_figures(printed, planner)
    if not any(close(printed["iterationSeconds"], time) for time in wherever_it_lies(planner, plan)):
        problems.append(f"iterationSeconds {printed['iterationSeconds']}, not {plan.iteration} of what was asked")
    limits = planner.meets_limits(printed["iterationSeconds"], plan.price)
    if limits != (done.returncode == 0):
        problems.append(f"exit status {done.returncode}, but limits {'hold' if limits else 'do not hold'}")
    return problems
