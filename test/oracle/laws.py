"""Laws: a device or a node more, a limit less and a lower price never make the best plan worse."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from compare import Answer, compile_instance
from instance import Instance, Request
from plans import CLOSE


def eased(instance: Instance, draw: random.Random) -> Iterator[tuple[str, Instance]]:
    """Instances whose best plan is no worse; what was changed."""
    group = draw.randrange(len(instance.nodes))
    nodes = instance.nodes
    more = replace(nodes[group], count=nodes[group].count + 1)
    yield "a node more", replace(instance, nodes=(*nodes[:group], more, *nodes[group + 1 :]))
    kind = draw.choice(sorted(nodes[group].devices))
    more = replace(nodes[group], devices=nodes[group].devices | {kind: nodes[group].devices[kind] + 1})
    yield "a device more in each node of a group", replace(instance, nodes=(*nodes[:group], more, *nodes[group + 1 :]))
    apart = replace(nodes[group], name="extra", count=1)
    yield "a group of nodes more", replace(instance, nodes=(*nodes, apart))
    default = Request()
    for name in Request.LIMITS:
        if getattr(instance.request, name) != getattr(default, name):
            yield f"without {name}", replace(instance, request=replace(instance.request, **{name: getattr(default, name)}))
    if instance.request.micro_batches:
        yield "any micro-batches", replace(instance, request=replace(instance.request, micro_batches=0))
    if instance.request.schedule in ("pipeline", "data-parallel"):
        yield "any schedule", replace(instance, request=replace(instance.request, schedule="auto"))
    place = draw.randrange(len(instance.types))
    cheaper = replace(instance.types[place], price=instance.types[place].price * 0.5)
    yield "a lower price", replace(instance, types=(*instance.types[:place], cheaper, *instance.types[place + 1 :]))


def broken_laws(instance: Instance, before: Answer, seed: int = 0) -> list[tuple[str, str]]:
    """Changes by which an answer became worse. Only of proven answers: others may be worse by chance."""
    if not before.feasible:
        return []
    broken = []
    sign = 1 if instance.request.objective == "throughput" else -1
    value = before.found["objectiveValue"]
    for words, easier in eased(instance, random.Random(seed)):
        after = compile_instance(easier)
        if not after.feasible:
            if after.found.get("proven"):
                broken.append((f"law: {words}", "proven infeasible"))
        elif after.found.get("optimal") and sign * (value - after.found["objectiveValue"]) > CLOSE * abs(value):
            broken.append((f"law: {words}", f"{value} becomes {after.found['objectiveValue']}"))
    return broken
