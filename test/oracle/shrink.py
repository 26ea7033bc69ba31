"""The smallest instance, by single steps, of which something still holds: what a defect needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from instance import Instance, Layer, Link, Request, Tensor


def smaller(instance: Instance) -> Iterator[Instance]:
    """One step each: less asked, less of the model, less of the cluster, simpler numbers."""
    default = Request()
    for each in fields(Request):
        if each.name not in ("batch", "objective", "iteration_model", "schedule"):
            if getattr(instance.request, each.name) != getattr(default, each.name):
                changed = replace(instance.request, **{each.name: getattr(default, each.name)})
                yield replace(instance, request=changed)
    for i in range(len(instance.tensors)):
        yield replace(instance, tensors=instance.tensors[:i] + instance.tensors[i + 1 :])
    for i in range(len(instance.layers)):
        yield from without_layer(instance, i)
    for i, group in enumerate(instance.nodes):
        before, behind = instance.nodes[:i], instance.nodes[i + 1 :]
        if len(instance.nodes) > 1:
            yield replace(instance, nodes=before + behind)
        if group.count > 1:
            yield replace(instance, nodes=(*before, replace(group, count=group.count - 1), *behind))
        for kind, number in group.devices.items():
            fewer = {k: n - (k == kind) for k, n in group.devices.items() if n > (k == kind)}
            if fewer:
                yield replace(instance, nodes=(*before, replace(group, devices=fewer, speed={}), *behind))
    for i in range(len(instance.links)):
        yield replace(instance, links=instance.links[:i] + instance.links[i + 1 :])
    used = {kind for group in instance.nodes for kind in group.devices}
    if len(used) < len(instance.types):
        yield replace(instance, types=tuple(kind for kind in instance.types if kind.name in used))
    if instance.request.batch > 1:
        yield replace(instance, request=replace(instance.request, batch=instance.request.batch - 1))
    yield from with_simpler_numbers(instance)


def without_layer(instance: Instance, gone: int) -> Iterator[Instance]:
    request, name = instance.request, instance.layers[gone].name
    named = {layer for layer, _ in request.pins} | {x for s in request.colocations + request.separations for x in s}
    if len(instance.layers) < 2 or name in named:
        return

    def moved(tensor: Tensor) -> Tensor:
        return replace(
            tensor,
            producer=tensor.producer - (tensor.producer > gone),
            consumers=tuple(c - (c > gone) for c in tensor.consumers if c != gone),
        )

    kept = [moved(t) for t in instance.tensors if t.producer != gone and t.consumers != (gone,)]
    layers = instance.layers[:gone] + instance.layers[gone + 1 :]
    yield replace(instance, layers=layers, tensors=tuple(kept))


def with_simpler_numbers(instance: Instance) -> Iterator[Instance]:
    plain = Link(10**9, 0)
    if instance.network != plain:
        yield replace(instance, network=plain)
    if instance.zones:
        nodes = tuple(replace(group, zone="") for group in instance.nodes)
        yield replace(instance, zones={}, nodes=nodes)
    for i, group in enumerate(instance.nodes):
        for simpler in (replace(group, link=plain), replace(group, speed={})):
            if simpler != group:
                yield replace(instance, nodes=(*instance.nodes[:i], simpler, *instance.nodes[i + 1 :]))
    for i, layer in enumerate(instance.layers):
        for each in fields(Layer):
            if each.name != "name" and getattr(layer, each.name):
                simpler = replace(layer, **{each.name: each.default})
                yield replace(instance, layers=(*instance.layers[:i], simpler, *instance.layers[i + 1 :]))


def shrink(instance: Instance, holds: Callable[[Instance], bool]) -> Instance:
    """`holds` of `instance`, and of what is returned, but of nothing one step smaller."""
    while True:
        step = next((each for each in smaller(instance) if each.links_lead_somewhere() and holds(each)), None)
        if step is None:
            return instance
        instance = step
