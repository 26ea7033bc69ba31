"""Laws: a device or a node more, a limit less and a lower price never make the best plan worse."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from compare import Verdict, compare, compile_instance
from instance import Instance, Request
from plans import CLOSE


def eased(instance: Instance, draw: random.Random) -> Iterator[tuple[str, Instance]]:
    """Instances whose best plan is no worse; what was changed."""

    def with_nodes(*nodes) -> Instance:
        return replace(instance, nodes=nodes)

    def with_request(**changes) -> Instance:
        return replace(instance, request=replace(instance.request, **changes))

    at = draw.randrange(len(instance.nodes))
    before, group, behind = instance.nodes[:at], instance.nodes[at], instance.nodes[at + 1 :]
    kind = draw.choice(sorted(group.devices))
    yield "a node more in a group", with_nodes(*before, replace(group, count=group.count + 1), *behind)
    speeds = {kind: [*group.speeds(kind), 1.0]} if kind in group.speed else {}
    larger = replace(group, devices=group.devices | {kind: group.devices[kind] + 1}, speed=group.speed | speeds)
    yield "a device more in each node of a group", with_nodes(*before, larger, *behind)
    yield "a group of nodes more", with_nodes(*instance.nodes, replace(group, name="extra", count=1))
    default = Request()
    for name in Request.LIMITS:
        if getattr(instance.request, name) != getattr(default, name):
            yield f"without {name}", with_request(**{name: getattr(default, name)})
    if instance.request.micro_batches:
        yield "any micro-batches", with_request(micro_batches=0)
    if instance.request.schedule in ("pipeline", "data-parallel"):
        yield "any schedule", with_request(schedule="auto")
    place = draw.randrange(len(instance.types))
    cheaper = replace(instance.types[place], price=instance.types[place].price * 0.5)
    types = (*instance.types[:place], cheaper, *instance.types[place + 1 :])
    yield "a lower price", replace(instance, types=types)


def look_at_laws(instance: Instance, verdict: Verdict, seed: int = 0) -> int:
    """Adds to `verdict` the laws that proven answers break; plans are listed only where one seems
    broken. If the best plan of the searched space becomes worse itself, the planner is right about
    it: such cases are "beyond", and state whether all plans together keep the law. Returns how many
    were looked at."""
    if verdict.answer.status not in (0, 2) and not verdict.answer.refused:
        verdict.disagreements.append(("failed", verdict.answer.messages))
    if not verdict.answer.feasible or not verdict.answer.found["optimal"]:
        return 0
    sign = 1 if instance.request.objective == "throughput" else -1

    def worse(old: float | None, new: float | None) -> bool:
        return old is not None and (new is None or sign * (old - new) > CLOSE * abs(old))

    looked_at = 0
    for words, easier in eased(instance, random.Random(seed)):
        answer = compile_instance(easier)
        if answer.status not in (0, 2) and not answer.refused:
            verdict.disagreements.append((f"failed, {words}", answer.messages))
        found = answer.found
        proven = found.get("optimal") or found.get("proven")
        looked_at += bool(proven)
        if not proven or not worse(verdict.answer.found["objectiveValue"], found.get("objectiveValue")):
            continue
        text = f"{verdict.answer.found['objectiveValue']} becomes {found.get('objectiveValue')}"
        before, after = compare(instance, verdict.answer), compare(easier, answer)
        verdict.disagreements += [(f"{kind}, {words}", text) for kind, text in after.disagreements]
        if answer.leaves_mixes_out:
            verdict.beyond.append(f"law, where mixes of types are said to be left out, {words}: by {text}")
        elif not worse(before.documented, after.documented):
            verdict.disagreements.append((f"law: {words}", text))
        elif worse(before.whole, after.whole):
            verdict.beyond.append(f"law, also of all plans, {words}: by {text}")
        else:
            verdict.beyond.append(f"law, of the searched space only, {words}: by {text}")
    return looked_at
