"""The devices of an instance, how groups of them lie in nodes, and what moving data between and among them takes.

Devices of one type and speed in nodes of one size, zone and link are a class. A part of a group is how many devices
of a class it has in each of so many nodes, descending: (2, 1) is three devices in two nodes. A group is a part,
perhaps empty, of each class, and whether parts of several classes lie in one node together. A layout is the group of
each stage, and which neighbours lie in one node together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, reduce
from itertools import combinations_with_replacement, product

from instance import Instance, Link, NodeGroup

Part = tuple[int, ...]


@dataclass(frozen=True)
class Group:
    parts: tuple[Part, ...]  # by class
    in_one_node: bool = False  # of several classes, in one of several nodes

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    def __getitem__(self, kind: int) -> Part:
        return self.parts[kind]


def kinds_of(group: Group) -> list[int]:
    """The classes that it has devices of."""
    return [kind for kind, part in enumerate(group) if part]


@dataclass(frozen=True)
class Layout:
    groups: tuple[Group, ...]  # by stage
    beside: tuple[bool, ...]  # by boundary: whether all devices of both stages lie in one node of several


@dataclass(frozen=True)
class NodeClass:
    type: str
    memory: float
    price: float
    speed: float
    size: int  # devices in each node
    zone: str
    ends: tuple[tuple[bool, bool], ...]  # of each link between places, at which ends it is
    link: Link
    nodes: tuple[str, ...]
    places: frozenset[tuple[str, int]]  # node, and number of the device among those of its type there

    @property
    def devices(self) -> int:
        return self.size * len(self.nodes)


def classes_of(instance: Instance) -> tuple[NodeClass, ...]:
    """By type, then in the order of the nodes."""
    result = []
    for kind in instance.types:
        found: dict[tuple, list[tuple[str, list[int]]]] = {}
        for group in instance.nodes:
            speeds = group.speeds(kind.name) if kind.name in group.devices else []
            for speed in dict.fromkeys(speeds):
                indices = [i for i, each in enumerate(speeds) if each == speed]
                ends = tuple(
                    (is_at(instance, group, kind.name, a), is_at(instance, group, kind.name, b))
                    for a, b, _ in instance.links
                )
                key = (speed, len(indices), group.devices[kind.name], group.zone, ends, group.link)
                found.setdefault(key, []).extend((node, indices) for node in group.node_names())
        for (speed, size, _, zone, ends, link), members in found.items():
            nodes = tuple(node for node, _ in members)
            places = frozenset((node, i) for node, indices in members for i in indices)
            result.append(NodeClass(kind.name, kind.memory, kind.price, speed, size, zone, ends, link, nodes, places))
    return tuple(result)


def is_at(instance: Instance, group: NodeGroup, kind: str, place: str) -> bool:
    if place in instance.zones:
        return group.zone == place
    if any(each.name == place for each in instance.nodes):
        return group.name == place
    return kind == place


def compact(devices: int, size: int) -> Part:
    """As plans take devices: whole nodes first."""
    whole, rest = divmod(devices, size)
    return (size,) * whole + ((rest,) if rest else ())


def slots(devices: int, size: int, nodes: int) -> int:
    """Devices that a group of the documented space takes out of a class: what does not fill a node takes the next size
    in the chain of divisors of a node, each by the smallest prime factor of the one before."""
    if nodes == 1:
        return devices
    whole, rest = devices // size * size, devices % size
    if not rest:
        return whole
    piece = size
    while True:
        smaller = piece // next(p for p in range(2, piece + 1) if piece % p == 0) if piece > 1 else 0
        if smaller < rest:
            return whole + piece
        piece = smaller


MOST_COUNTS = 128  # combinations of numbers of devices
MOST_WAYS = 32  # of a class whose devices a stage may have anywhere


def ways(size: int, nodes: int, available: int) -> int:
    """In how many ways stages of any size may lie: of so many nodes, with so many devices in one at most."""
    if size == 1 or nodes == 1:
        return 0
    return sum(
        used <= devices <= used * most and devices - most <= (used - 1) * most and devices - used + 1 >= most
        for devices in range(1, available + 1)
        for used in range(1, nodes + 1)
        for most in range(1, size + 1)
    )


@dataclass(frozen=True)
class Family:
    """Classes whose devices lie in some of the same nodes, where that matters to neighbours; or one class."""

    classes: tuple[int, ...]
    nodes: tuple[tuple[tuple[int, ...], int], ...]  # devices of each class in a node, and how many such nodes


@dataclass(frozen=True)
class Division:
    """How the devices of a family are given to stages."""

    parts: tuple[tuple[Part, ...], ...]  # by class and stage
    in_one_node: tuple[bool, ...]  # by stage: all that it has
    beside: tuple[bool, ...]  # by boundary: all that both neighbours have


@cache
def divisions(nodes: tuple[tuple[tuple[int, ...], int], ...], stages: int) -> tuple[Division, ...]:
    """All ways to give devices of a family to stages."""
    kinds = []  # of each kind of node: what all nodes of it give, by node, class and stage
    for sizes, count in nodes:
        columns = tuple(product(*(_columns(size, stages) for size in sizes)))
        kinds.append(tuple(combinations_with_replacement(columns, count)))
    found = set()
    for chosen in product(*kinds):
        given = [node for kind in chosen for node in kind]
        parts = tuple(
            tuple(tuple(sorted((node[c][i] for node in given if node[c][i]), reverse=True)) for i in range(stages))
            for c in range(len(nodes[0][0]))
        )
        lies = [{n for n, node in enumerate(given) if any(own[i] for own in node)} for i in range(stages)]
        alone, pairs = tuple(len(a) == 1 for a in lies), tuple(len(a | b) == 1 for a, b in zip(lies, lies[1:]))
        found.add((parts, alone, pairs))
    return tuple(Division(*each) for each in sorted(found))


@cache
def _columns(size: int, stages: int) -> tuple[tuple[int, ...], ...]:
    if stages == 0:
        return ((),)
    return tuple((first, *rest) for first in range(size + 1) for rest in _columns(size - first, stages - 1))


def slower(a: Link, b: Link) -> Link:
    return Link(min(a.bandwidth, b.bandwidth), max(a.nanoseconds, b.nanoseconds), max(a.loss, b.loss))


@dataclass(frozen=True)
class Shape:
    """The facts on which the time of a collective depends."""

    devices: int
    nodes: int
    in_node: int  # most devices in one node
    link: Link  # slowest within a node


@dataclass(frozen=True)
class Collective:
    latency: float = 0.0
    per_byte: float = 0.0
    lost_per_byte: float = 0.0  # computing that a byte on its way costs each device

    def time(self, size: float, count: int | None = None) -> float:
        """Time of `count` collectives, one after another, of `size` bytes together; 0 for no
        bytes."""
        return self.latency * ((size != 0) if count is None else count) + self.per_byte * size


@dataclass(frozen=True)
class Path:
    """Between two stages; so many devices of either share one end of the link. They take another one if it is faster."""

    link: Link
    senders: int
    receivers: int
    other: Path | None = None

    def time(self, sent: int, received: int, per_sample: float, fixed: float) -> float:
        """`sent` and `received`: the most samples of one device of either end."""
        if per_sample == 0 and fixed == 0:
            return 0.0
        samples = max(self.senders * sent, self.receivers * received)
        time = self.link.latency + (per_sample * samples + fixed * self.receivers) / self.link.bandwidth
        return min(time, self.other.time(sent, received, per_sample, fixed)) if self.other else time


class Machines:
    """Communication, as docs/clusters.md says it."""

    def __init__(self, instance: Instance):
        self.classes = classes_of(instance)
        self.network = instance.network
        self.zones = instance.zones
        self.links = [link for _, _, link in instance.links]
        self._shapes: dict[Group, Shape] = {}
        self._paths: dict[tuple[Group, Group], Path] = {}
        self._sums: dict[Group, Collective] = {}

    def size(self, group: Group) -> int:
        return sum(map(sum, group))

    def price(self, group: Group) -> float:
        return sum(each.price * sum(part) for each, part in zip(self.classes, group))

    def used(self, *groups: Group) -> list[NodeClass]:
        return [each for i, each in enumerate(self.classes) if any(group[i] for group in groups)]

    def common_node(self, *groups: Group) -> Link | None:
        """The link of the node that holds every device of each class of the groups."""
        nodes = {each.nodes for each in self.used(*groups)}
        return self.used(*groups)[0].link if len(nodes) == 1 and len(next(iter(nodes))) == 1 else None

    def links_nodes(self, kind: int, other: int) -> bool:
        """Whether there are several nodes of two classes, maybe the same, and some that have a device of each."""
        each, another = self.classes[kind], self.classes[other]
        return len({*each.nodes, *another.nodes}) > 1 and (
            each.size > 1 if kind == other else not set(each.nodes).isdisjoint(another.nodes)
        )

    def link_nodes(self, kinds: list[int]) -> bool:
        """Whether it matters of devices of several classes that they lie in one node."""
        return len(kinds) > 1 and all(self.links_nodes(a, b) for a in kinds for b in kinds if a < b)

    def families(self) -> tuple[Family, ...]:
        kinds = range(len(self.classes))
        groups = [{kind} for kind in kinds]
        for a in kinds:
            for b in kinds:
                if a < b and self.links_nodes(a, b):
                    joined = [group for group in groups if a in group or b in group]
                    groups = [group for group in groups if group not in joined] + [set().union(*joined)]
        return tuple(self._family(tuple(sorted(group))) for group in sorted(groups, key=min))

    def _family(self, kinds: tuple[int, ...]) -> Family:
        own = [self.classes[kind] for kind in kinds]
        names = dict.fromkeys(node for each in own for node in each.nodes)
        sizes = Counter(tuple(each.size if name in each.nodes else 0 for each in own) for name in names)
        return Family(kinds, tuple(sizes.items()))

    def network_of(self, sender: Group, receiver: Group) -> Link:
        return self._slowest(self.used(sender), self.used(receiver))

    def _slowest(self, some: list[NodeClass], others: list[NodeClass]) -> Link:
        """The slowest network between two nodes; a node needs no network to reach itself."""
        pairs = [(a, b) for a in some for b in others if len({*a.nodes, *b.nodes}) > 1]
        return reduce(slower, (self.network_between(a, b) for a, b in pairs)) if pairs else self.network

    def network_between(self, a: NodeClass, b: NodeClass) -> Link:
        for link, mine, other in zip(self.links, a.ends, b.ends):
            if (mine[0] and other[1]) or (mine[1] and other[0]):
                return link
        return self.zones.get(a.zone, self.network) if a.zone == b.zone else self.network

    def shape(self, group: Group) -> Shape:
        if group not in self._shapes:
            self._shapes[group] = self._shape(group)
        return self._shapes[group]

    def _shape(self, group: Group) -> Shape:
        devices, link = self.size(group), self.common_node(group)
        if group.in_one_node:
            link = reduce(slower, (each.link for each in self.used(group)))
        if link:
            return Shape(devices, 1, devices, link)
        nodes, in_node = 0, 0
        for each, part in zip(self.classes, group):
            if part:
                link = slower(link, each.link) if link else each.link
                nodes += len(part)
                in_node = max(in_node, part[0])
        return Shape(devices, nodes, in_node, link)

    def all_reduce(self, group: Group) -> Collective:
        if group not in self._sums:
            shape = self.shape(group)
            inside, between = ring(shape.in_node, shape.link), ring(shape.nodes, self.network_of(group, group))
            alone = shape.devices < 2
            self._sums[group] = (
                Collective()
                if alone
                else Collective(
                    inside.latency + between.latency, inside.per_byte + between.per_byte,
                    inside.lost_per_byte + between.lost_per_byte,
                )  # fmt: skip
            )
        return self._sums[group]

    def tied_sum(self, devices: int) -> Collective:
        """The all-reduce of gradients over stages of `devices` devices each: a ring of twice as
        many devices over the slowest link."""
        nodes = {node for each in self.classes for node in each.nodes}
        if len(nodes) == 1:
            return ring(2 * devices, self.classes[0].link)
        return ring(2 * devices, self._slowest(list(self.classes), list(self.classes)))

    def path(self, sender: Group, receiver: Group, beside: bool = False) -> Path:
        if beside:
            return Path(self.used(sender)[0].link, 1, 1, self.path(sender, receiver))
        key = (sender, receiver)
        if key not in self._paths:
            link = self.common_node(sender, receiver)
            self._paths[key] = (
                Path(link, 1, 1)
                if link
                else Path(
                    self.network_of(sender, receiver), self.shape(sender).in_node, self.shape(receiver).in_node
                )
            )
        return self._paths[key]


def ring(members: int, link: Link) -> Collective:
    """All-reduce: 2(k−1) steps, each of 1/k of the bytes."""
    if members < 2:
        return Collective()
    steps = 2 * (members - 1)
    per_byte = steps / members / link.bandwidth
    return Collective(steps * link.latency, per_byte, link.loss * per_byte)
