"""Which planned node each host of a launch is: launchers order hosts by their names, not by the plan.

A host is a node by the name that it is given (--node, launch.sh), by its own name, or by the devices that it
has. Nodes with the same device types are interchangeable. If several types could be on a host, the launch is
refused rather than guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .device_choice import of_type
from .errors import RuntimeFault
from .program import PlannedDevice


@dataclass(frozen=True)
class Process:
    """The facts that a started process tells about its host."""

    host: str
    key: str  # tells apart the hosts of one name
    local_rank: int
    node: str = ""  # as which it was started
    types: tuple[str, ...] = ()  # the device types that the launcher asked for
    gpus: tuple[str, ...] = ()
    cpu: str = ""


@dataclass(frozen=True)
class Node:
    """A node of the plan: the first of its consecutive ranks, and the device type of each."""

    name: str
    first: int
    types: tuple[str, ...]


def planned_nodes(devices: Sequence[PlannedDevice]) -> list[Node]:
    """`devices`: of each rank. Ranks are numbered node by node."""
    nodes: list[Node] = []
    for rank, device in enumerate(devices):
        if nodes and nodes[-1].name == device.node:
            last = nodes.pop()
            nodes.append(Node(last.name, last.first, (*last.types, device.type)))
        else:
            nodes.append(Node(device.node, rank, (device.type,)))
    return nodes


def planned_ranks(processes: Sequence[Process], devices: Sequence[PlannedDevice]) -> list[int]:
    """The rank of the plan that each started process is. Raises RuntimeFault if the hosts are not those of
    the plan."""
    hosts: dict[tuple[str, str], list[int]] = {}
    for launched, process in enumerate(processes):
        hosts.setdefault((process.key, process.host), []).append(launched)
    members = [sorted(own, key=lambda i: processes[i].local_rank) for own in hosts.values()]
    firsts = _first_ranks([processes[own[0]] for own in members], [len(own) for own in members], devices)
    ranks = [0] * len(processes)
    for first, own in zip(firsts, members, strict=True):
        for place, launched in enumerate(own):
            ranks[launched] = first + place
    return ranks


def _first_ranks(hosts: Sequence[Process], counts: Sequence[int], devices: Sequence[PlannedDevice]) -> list[int]:
    """The first rank of each host."""
    nodes = planned_nodes(devices)
    if len(hosts) == 1:
        return [0]
    one_type = len({device.type for device in devices}) == 1
    if one_type and Counter(counts) != Counter(len(node.types) for node in nodes):
        return [sum(counts[:index]) for index in range(len(hosts))]  # spread over other hosts
    return [node.first for node in _Matching(hosts, counts, nodes, one_type).found()]


class _Matching:
    """Takes the nodes that hosts name first, then hosts that can be of one class of nodes only."""

    def __init__(
        self, hosts: Sequence[Process], counts: Sequence[int], nodes: Sequence[Node], one_type: bool
    ) -> None:
        self._hosts, self._counts, self._free, self._one_type = hosts, counts, list(nodes), one_type
        self._nodes = nodes
        self._types = {kind for node in nodes for kind in node.types}
        self._taken: dict[int, Node] = {}

    def found(self) -> list[Node]:
        for index, host in enumerate(self._hosts):
            if host.node:
                self._take(index, self._named(host.node, index))
        for index in self._waiting():
            own = [node for node in self._free if _same_name(node.name, self._hosts[index].host)]
            if own and len(own[0].types) == self._counts[index]:
                self._take(index, own[0])
        while waiting := self._waiting():
            classes = {index: self._classes(index) for index in waiting}
            index = min(waiting, key=lambda i: len(classes[i]))
            if len(classes[index]) != 1:
                raise self._fault(index, bool(classes[index]))
            (only,) = classes[index]
            self._take(index, next(node for node in self._free if _class(node) == only))
        return [self._taken[index] for index in range(len(self._hosts))]

    def _waiting(self) -> list[int]:
        return [index for index in range(len(self._hosts)) if index not in self._taken]

    def _named(self, name: str, index: int) -> Node:
        for node in self._nodes:
            if node.name == name:
                if node not in self._free:
                    raise RuntimeFault(f"two hosts are started as node '{name}' of the plan; give each its own --node")
                return node
        raise RuntimeFault(
            f"host {self._hosts[index].host} is started as node '{name}'; the plan has {self._nodes_text()}"
        )

    def _take(self, index: int, node: Node) -> None:
        host = self._hosts[index]
        if self._counts[index] != len(node.types):
            raise RuntimeFault(
                f"host {host.host} runs {self._counts[index]} ranks; node '{node.name}' of the plan has "
                f"{len(node.types)} ({self._nodes_text()})"
            )
        seen = self._seen(host)
        if host.gpus and seen and not seen & set(node.types):
            raise RuntimeFault(
                f"host {host.host} has {', '.join(sorted(set(host.gpus)))}; node '{node.name}' of the plan needs "
                f"{', '.join(sorted(set(node.types)))}"
            )
        self._taken[index] = node
        self._free.remove(node)

    def _seen(self, host: Process) -> set[str]:
        """The device types of the plan that a host shows."""
        return {kind for kind in self._types if of_type(kind, [*host.gpus, host.cpu])}

    def _classes(self, index: int) -> set[tuple[str, ...]]:
        """The classes of free nodes that a host can be."""
        host, count = self._hosts[index], self._counts[index]
        nodes = [node for node in self._free if len(node.types) == count]
        if host.types:
            nodes = [node for node in nodes if set(node.types) == set(host.types)]
        elif seen := self._seen(host):
            nodes = [node for node in nodes if set(node.types) <= seen] or nodes
        return {_class(node) for node in nodes}

    def _fault(self, index: int, several: bool) -> RuntimeFault:
        host = self._hosts[index].host
        if several:
            return RuntimeFault(
                f"host {host} cannot be told from the other hosts by its name or devices, and the plan has several "
                f"device types; start each host with --node NAME: {self._nodes_text()}"
            )
        return RuntimeFault(
            f"host {host} runs {self._counts[index]} ranks on devices of other types or numbers than any free node "
            f"of the plan; start the ranks of each node on a host of their own: {self._nodes_text()}"
        )

    def _nodes_text(self) -> str:
        parts = []
        for node in self._nodes:
            kinds = ", ".join(f"{count} on {kind}" for kind, count in Counter(node.types).items())
            noun = "rank" if len(node.types) == 1 else "ranks"
            parts.append(f"'{node.name}' with {len(node.types)} {noun} ({kinds})")
        shown = parts if len(parts) <= 8 else [*parts[:7], f"and {len(parts) - 7} others"]
        return ", ".join(shown)


def _class(node: Node) -> tuple[str, ...]:
    return node.types


def _same_name(node: str, host: str) -> bool:
    return node.lower() in (host.lower(), host.lower().partition(".")[0])
