"""Time and memory of a stage on a group of devices, for each way of sharing a micro-batch among
them.

Formulas: docs/formats.md (plans, micro-batches), docs/clusters.md (what a layer costs) and docs/rationale/search.md
(execution modes).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from instance import Instance
from machines import Group, Machines

COPIES = {"sgd": 2, "momentum": 3, "adam": 4}
BUFFER = 1 << 20  # of gradients that are divided
Shares = tuple[tuple[int, ...], ...]  # by class, largest first


@dataclass(frozen=True)
class Way:
    recomputes: bool = False
    sharding: str = "none"


@dataclass(frozen=True)
class Crossing:
    """Bytes that cross a cut."""

    forward: float
    backward: float
    fixed: float
    fixed_gradient: float


@dataclass(frozen=True)
class Run:
    """A stage on a group, by itself: seconds of a micro-batch."""

    forward: float  # of the slowest replica, as an iteration counts it
    backward: float
    sync: float
    update: float
    reduce_scatter: float
    gather: float
    largest: int  # samples of a micro-batch on one device
    replicas: tuple[tuple[float, float], ...]  # forward and backward of each
    shares: Shares
    way: Way
    segments: tuple[int, ...]  # first layers; empty: it keeps its activations
    memory: float  # of the device that needs most


def _never_worse(run: Run, other: Run) -> bool:
    """In any pipeline, as both divide a micro-batch alike and nothing of `run` takes longer."""
    return (
        run.shares == other.shares
        and run.forward <= other.forward
        and run.backward <= other.backward
        and run.sync <= other.sync
        and all(f <= g and b <= c for (f, b), (g, c) in zip(run.replicas, other.replicas))
    )


def partitions(samples: int, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """Descending, each at least 1."""
    if parts == 0:
        if samples == 0:
            yield ()
        return
    for first in range(min(most, samples - parts + 1), 0, -1):
        if first * parts < samples:
            return
        for rest in partitions(samples - first, parts - 1, first):
            yield (first, *rest)


def even(samples: int, parts: int) -> tuple[int, ...]:
    small, more = divmod(samples, parts)
    return (small + 1,) * more + (small,) * (parts - more)


class Stages:
    def __init__(self, instance: Instance, machines: Machines):
        self.instance, self.machines = instance, machines
        self.request = instance.request
        self.count = len(instance.layers)
        self.cuts = [self._crossing(position) for position in range(self.count + 1)]
        users = [i for i, layer in enumerate(instance.layers) if layer.parameters]  # of the one tied parameter
        self.tied = users if len(users) > 1 else []
        self._times: dict[tuple, tuple[float, float, float]] = {}
        self._documented: dict[tuple, tuple[Run, ...]] = {}
        self._all: dict[tuple, tuple[Run, ...]] = {}
        self._rising: dict[tuple[int, int, int], bool] = {}

    # The model.

    def _crossing(self, position: int) -> Crossing:
        crossing = [t for t in self.instance.tensors if t.producer < position <= max(t.consumers)]
        return Crossing(
            sum(t.sample_bytes for t in crossing),
            sum(t.sample_bytes for t in crossing if t.differentiable),
            sum(t.fixed_bytes for t in crossing),
            sum(t.fixed_bytes for t in crossing if t.differentiable),
        )

    def _dense(self, begin: int, end: int) -> list[float]:
        """Bytes of the parameters of each layer of a stage; a tied one counts in the first that uses it."""
        result = [float(layer.parameter_bytes) for layer in self.instance.layers[begin:end]]
        own = [i for i in self.tied if begin <= i < end]
        if own and self.tied[0] < begin:
            result[own[0] - begin] += self.instance.layers[self.tied[0]].parameter_bytes
        return result

    def _gathered(self, begin: int, end: int) -> list[list[float]]:
        """Bytes of each gather of each layer of a stage that divides its parameters: the layer's own parameters, unless
        another stage uses one of them, and those of the first layer that uses the tied one."""
        outside = any(not begin <= i < end for i in self.tied)
        result = []
        for i, layer in enumerate(self.instance.layers[begin:end], begin):
            own = 0 if outside and i == self.tied[0] else layer.parameter_bytes
            again = 0 if outside or i not in self.tied[1:] else self.instance.layers[self.tied[0]].parameter_bytes
            result.append([float(size) for size in (own, again) if size])
        return result

    def _tied_outside(self, begin: int, end: int) -> float:
        """Bytes of the tied parameter where other stages use it, too."""
        inside = [begin <= i < end for i in self.tied]
        return self.instance.layers[self.tied[0]].parameter_bytes if any(inside) and not all(inside) else 0.0

    @cached_property
    def forbidden_cuts(self) -> set[int]:
        names = [layer.name for layer in self.instance.layers]
        result: set[int] = set()
        if self.request.schedule == "burst" and self.tied:
            result |= set(range(self.tied[0] + 1, self.tied[-1] + 1))
        for together in self.request.colocations:
            places = [names.index(name) for name in together]
            result |= set(range(min(places) + 1, max(places) + 1))
        return result

    def may_be_stage(self, begin: int, end: int) -> bool:
        names = {layer.name for layer in self.instance.layers[begin:end]}
        return all(len(names & set(apart)) < 2 for apart in self.request.separations)

    def keeps_pins(self, begin: int, end: int, group: Group) -> bool:
        names = {layer.name for layer in self.instance.layers[begin:end]}
        wanted = {kind for layer, kind in self.request.pins if layer in names}
        return all({each.type} >= wanted for each in self.machines.used(group))

    # Computing.

    def times(self, begin: int, end: int, kind: int, samples: int, micro_batches: int) -> tuple[float, float, float]:
        """Forward, backward and update of one device of class `kind`."""
        key = (begin, end, kind, samples, micro_batches)
        if key not in self._times:
            device = self.machines.classes[kind]
            forward = backward = update = 0.0
            for layer in self.instance.layers[begin:end]:
                one = self.instance.times[layer.name, device.type, samples]
                forward += one.forward
                backward += one.backward + one.accumulate * (micro_batches - 1) / micro_batches
                update += one.update
            self._times[key] = forward / device.speed, backward / device.speed, update / device.speed
        return self._times[key]

    def rises(self, begin: int, end: int, kind: int) -> bool:
        """Whether more samples never take less: then no shares of equal devices are better than even ones, of which the
        largest is least."""
        key = (begin, end, kind)
        if key not in self._rising:
            rows = [self.times(*key, samples, 1) for samples in range(1, self.request.batch + 1)]
            self._rising[key] = all(a <= b for low, high in zip(rows, rows[1:]) for a, b in zip(low, high))
        return self._rising[key]

    # Memory.

    def _segment_starts(self, begin: int, end: int, segments: int) -> list[int]:
        """For each equal part of the activations, the narrowest cut within a quarter of a part, the nearest of equal
        ones; the next one where there is none. One for each allowed cut where there are no more."""
        inner = list(range(begin + 1, end))
        if segments > len(inner):
            return [begin, *inner]
        before = [sum(layer.activation_bytes for layer in self.instance.layers[:p]) for p in range(end + 1)]
        part = (before[end] - before[begin]) / segments
        starts = [begin]
        for i in range(1, segments):
            target = before[begin] + part * i
            left = [p for p in inner if p > starts[-1] and before[p] >= target - part / 4]
            near = [p for p in left if before[p] < target + part / 4]
            if near:
                left = [min(near, key=lambda p: (self.cuts[p].forward, abs(before[p] - target)))]
            starts += left[:1]
        return starts

    def _segmentings(self, begin: int, end: int) -> list[list[int]]:
        most = end - begin
        counts = [2**i for i in range(most.bit_length()) if 2**i < most] + [most]
        return [self._segment_starts(begin, end, count) for count in counts]

    def _kept(self, starts: list[int], end: int) -> tuple[float, float, float]:
        """Memory of a stage that recomputes: bytes of a sample and of a micro-batch in flight, and
        bytes of a sample once."""
        largest = 0.0
        for start, stop in zip(starts, [*starts[1:], end]):
            largest = max(largest, sum(layer.activation_bytes for layer in self.instance.layers[start:stop]))
        return sum(self.cuts[s].forward for s in starts), sum(self.cuts[s].fixed for s in starts), largest

    def _at_hand(self, begin: int, end: int, starts: list[int]) -> float:
        """Bytes of gathered parameters for a segment; without segments, for a layer. Under autocast a segment keeps
        rounded ones, and only a layer has its own."""
        gathered = [sum(sizes) for sizes in self._gathered(begin, end)]
        if not starts:
            return max(gathered)
        most = max(sum(gathered[a - begin : b - begin]) for a, b in zip(starts, [*starts[1:], end]))
        return most / 2 + max(gathered) if self.request.precision == "bf16" else most

    def segments(self, begin: int, end: int, way: Way, share: int, in_flight: int) -> tuple[int, ...]:
        if not way.recomputes:
            return ()
        gathers = way.sharding == "parameters"

        def need(starts: list[int]) -> float:
            kept, fixed, largest = self._kept(starts, end)
            at_hand = self._at_hand(begin, end, starts) if gathers else 0
            return (kept * share + fixed) * in_flight + largest * share + at_hand

        return tuple(min(self._segmentings(begin, end), key=need))  # of equal ones the first

    def _trained(self, dense: list[float], sharding: str, devices: int) -> float:
        copies = COPIES[self.request.optimizer]
        parameters, largest = sum(dense), max(dense)
        piece = math.ceil(parameters / (4 * devices)) * 4
        if devices < 2 or sharding == "none":
            return parameters * copies + largest * (2 if copies == 4 else 1)
        buffers = min(parameters, 2 * (largest + BUFFER))
        if sharding == "optimizer":
            return parameters * 2 + piece * (copies - 2) + buffers
        return parameters + piece * (copies - 1) + buffers

    def _sliced(self, begin: int, end: int, devices: int, segments) -> float:
        """Memory of divided parameters: those that other stages use are whole, and their gradients are there twice."""
        gathered = [sum(sizes) for sizes in self._gathered(begin, end)]
        whole = self._whole(begin, end)
        copies = COPIES[self.request.optimizer]

        def piece(size: float) -> float:
            return math.ceil(size / (4 * devices)) * 4

        held = piece(sum(self._dense(begin, end)) - whole) * copies + whole * 3 + piece(whole) * (copies - 2)
        return held + self._at_hand(begin, end, list(segments)) + max(gathered) + piece(max(gathered))

    def _whole(self, begin: int, end: int) -> float:
        """Bytes of parameters that are not gathered."""
        own = sum(layer.parameter_bytes for i, layer in enumerate(self.instance.layers[begin:end], begin)
                  if not (i in self.tied[:1] and self._tied_outside(begin, end)))  # fmt: skip
        return sum(self._dense(begin, end)) - own

    def memory(self, begin: int, end: int, devices: int, way: Way, segments, share: int, in_flight: int) -> float:
        layers = self.instance.layers[begin:end]
        dense = self._dense(begin, end)
        gathers = way.sharding == "parameters" and devices > 1
        if gathers:
            trained = self._sliced(begin, end, devices, segments)
        else:
            trained = self._trained(dense, way.sharding, devices)
        fixed = trained + sum(layer.buffer_bytes for layer in layers)
        workspace = max(layer.workspace_bytes for layer in layers)
        kept_weights = self._whole(begin, end) if gathers and segments else sum(dense)
        rounded = kept_weights / 2 if self.request.precision == "bf16" else 0
        boundary = 0.0
        if gathers and not segments:
            boundary = rounded  # each pass gathers anew
        else:
            fixed += rounded
        if segments:
            kept, fixed_kept, again = self._kept(list(segments), end)
            workspace += again
        else:
            kept = self.cuts[begin].forward + sum(layer.activation_bytes for layer in layers)
            # In the backward pass of a layer the activations of the layers behind it are gone.
            later = [sum(layer.activation_bytes for layer in layers[i + 1 :]) for i in range(len(layers))]
            workspace = max(0, *(layer.workspace_bytes - gone for layer, gone in zip(layers, later)))
            fixed_kept = self.cuts[begin].fixed
        kept, boundary = kept + self.cuts[end].forward, boundary + fixed_kept + self.cuts[end].fixed
        workspace += self.cuts[begin].backward + self.cuts[end].backward  # messages
        fixed += self.cuts[begin].fixed_gradient + self.cuts[end].fixed_gradient
        if self.request.overlaps_transfers:  # one more of each message, and of the input
            workspace += self.cuts[begin].backward + self.cuts[end].backward + self.cuts[begin].forward
            fixed += self.cuts[begin].fixed_gradient + self.cuts[end].fixed_gradient + self.cuts[begin].fixed
        return fixed + in_flight * (share * kept + boundary) + share * workspace

    def room(self, kind: int) -> float:
        return self.machines.classes[kind].memory * (self.request.max_memory_fraction or 1)

    def fits(self, begin, end, group: Group, way: Way, segments, shares: Shares, in_flight: int) -> bool:
        devices = self.machines.size(group)
        return all(
            self.memory(begin, end, devices, way, segments, own[0], in_flight) <= self.room(kind)
            for kind, own in enumerate(shares)
            if own
        )

    # Runs.

    def ways(self, devices: int) -> list[Way]:
        """The plainest first."""
        asked = self.request.shard_state
        shardings = ["none", "optimizer", "gradients", "parameters"] if asked == "auto" else [asked]
        recomputes = {"never": [False], "always": [True], "auto": [False, True]}[self.request.recompute]
        return [Way(again, s) for again in recomputes for s in (shardings if devices > 1 else ["none"])]

    def run(self, begin, end, group: Group, micro_batches: int, in_flight: int, last: bool, way: Way, shares) -> Run:
        """Without looking at memory."""
        devices = self.machines.size(group)
        layers = self.instance.layers[begin:end]
        dense = sum(self._dense(begin, end))
        collective = self.machines.all_reduce(group)
        together = 0.0
        if self.request.batch_norm == "synchronised":
            together = collective.time(sum(x.sum_bytes for x in layers), sum(x.sums for x in layers))
        whole = collective.time(dense)
        scatter = whole / 2 if way.sharding == "gradients" else 0.0
        gather, summed = 0.0, whole - scatter
        if way.sharding == "parameters":  # each layer by itself, half of an all-reduce each way
            gather = scatter = sum(collective.time(size) / 2 for sizes in self._gathered(begin, end) for size in sizes)
            summed = collective.time(self._whole(begin, end))
        if self.request.overlaps_sums and way.sharding == "none":
            summed = self._exposed(begin, end, collective, shares, micro_batches)
        share = -(-sum(map(sum, shares)) // devices)
        segments = self.segments(begin, end, way, share, in_flight)
        replicas, updates = [], []
        for kind, own in enumerate(shares):
            for samples in own:
                forward, backward, update = self.times(begin, end, kind, samples, micro_batches)
                if way.recomputes:
                    backward += forward
                replicas.append((forward + together + gather, backward + together + gather + scatter))
                updates.append(update if way.sharding == "none" else update / devices)
        forward, backward = max(f for f, _ in replicas), max(b for _, b in replicas)
        if last:  # replicas need not wait for each other between the passes
            forward, backward = max(replicas, key=sum)
        largest = max(own[0] for own in shares if own)
        tied = self.machines.tied_sum(devices).time(self._tied_outside(begin, end))
        return Run(
            forward, backward, summed + max(updates) + tied, max(updates), scatter, gather, largest, tuple(replicas),
            shares, way, segments, self.memory(begin, end, devices, way, segments, largest, in_flight),
        )  # fmt: skip

    def _exposed(self, begin, end, collective, shares: Shares, micro_batches: int) -> float:
        """The sum of gradients that begins within the last backward pass, behind the end of this pass: gradients of
        layers up to one are summed from when the backward pass of this one is done, while those of the layers before it
        still take what they take on the device that is fastest in them, and later by what the sums of layers behind it have
    cost. Recomputation hides nothing."""
        dense = self._dense(begin, end)
        exposed = 0.0
        for i in range(begin, end):
            hidden = min(
                self.times(begin, i, kind, samples, micro_batches)[1]
                for kind, own in enumerate(shares)
                for samples in own
            )
            made, before = sum(dense[: i + 1 - begin]), sum(dense[i + 1 - begin :])
            exposed = max(exposed, collective.time(made) + collective.lost_per_byte * before - hidden)
        return exposed

    def balanced(self, begin, end, group: Group, micro_batches: int, in_flight: int, way: Way) -> Shares | None:
        """Balanced shares over several classes: each device gets one sample; each further sample
        goes to the device that would finish first. If several would, it goes to the last class.
        Other shares may be faster where times fall: then the fastest ones in which devices of a
        class have even shares, with the fewest samples on the first classes."""
        size = -(-self.request.batch // micro_batches)
        devices = self.machines.size(group)
        segments = self.segments(begin, end, way, -(-size // devices), in_flight)
        shares = {kind: [1] * sum(part) for kind, part in enumerate(group) if part}

        def fits(kind: int, samples: int) -> bool:
            return self.memory(begin, end, devices, way, segments, samples, in_flight) <= self.room(kind)

        def done(kind: int, samples: int) -> float:
            forward, backward, _ = self.times(begin, end, kind, samples, micro_batches)
            return forward + backward + (forward if way.recomputes else 0)

        if not all(fits(kind, 1) for kind in shares):
            return None
        for _ in range(size - devices):
            free = [kind for kind in shares if fits(kind, min(shares[kind]) + 1)]
            if not free:
                return None
            first = min(free, key=lambda kind: (done(kind, min(shares[kind]) + 1), -kind))
            shares[first][shares[first].index(min(shares[first]))] += 1

        def slowest(found) -> float:
            return max(done(kind, samples) for kind, own in found.items() for samples in own)

        kinds = list(shares)
        for sums in product(*(range(len(shares[kind]), size + 1) for kind in kinds)):
            if sum(sums) == size:
                other = {kind: even(of, len(shares[kind])) for kind, of in zip(kinds, sums)}
                if all(fits(kind, max(own)) for kind, own in other.items()) and slowest(other) < slowest(shares):
                    shares = other
        return tuple(tuple(sorted(shares.get(kind, ()), reverse=True)) for kind in range(len(group.parts)))

    def documented(
        self, begin, end, group: Group, micro_batches: int, in_flight: int, last: bool
    ) -> tuple[Run, ...]:
        """How a stage of the searched space may run: even or balanced shares, in each mode that fits."""
        key = (begin, end, group, micro_batches, in_flight, last)
        if key not in self._documented:
            size = -(-self.request.batch // micro_batches)
            single = sum(map(bool, group)) == 1

            def shares_for(way: Way) -> Shares | None:
                if single:
                    return tuple(even(size, sum(part)) if part else () for part in group)
                return self.balanced(begin, end, group, micro_batches, in_flight, way)

            self._documented[key] = tuple(self._in_modes(key, shares_for))
        return self._documented[key]

    def _in_modes(self, key, shares_for) -> list[Run]:
        """In each mode that fits, but for those of which another one is never worse."""
        begin, end, group, micro_batches, in_flight, _ = key
        found: list[Run] = []
        size = -(-self.request.batch // micro_batches)
        devices = self.machines.size(group)
        for way in self.ways(devices):
            segments = self.segments(begin, end, way, -(-size // devices), in_flight)
            shares = shares_for(way)
            if shares is None or not self.fits(begin, end, group, way, segments, shares, in_flight):
                continue
            run = self.run(*key, way, shares)
            if not any(_never_worse(other, run) for other in found):
                found = [other for other in found if not _never_worse(run, other)] + [run]
        return found

    def runs(self, begin, end, group: Group, micro_batches: int, in_flight: int, last: bool) -> tuple[Run, ...]:
        """One for each way to share a micro-batch that can matter, and each mode."""
        key = (begin, end, group, micro_batches, in_flight, last)
        if key not in self._all:
            self._all[key] = tuple(
                run
                for shares in self._every_share(*key[:4])
                for run in self._in_modes(key, lambda way, s=shares: s)
            )
        return self._all[key]

    def _every_share(self, begin, end, group: Group, micro_batches: int) -> Iterator[Shares]:
        size = -(-self.request.batch // micro_batches)
        used = [kind for kind, part in enumerate(group) if part]
        counts = [sum(group[kind]) for kind in used]
        for sums in product(*(range(count, size + 1) for count in counts)):
            if sum(sums) != size:
                continue
            choices = [
                [even(of, count)] if self.rises(begin, end, kind) else partitions(of, count, of)
                for kind, count, of in zip(used, counts, sums)
            ]
            for chosen in product(*choices):
                by_kind = dict(zip(used, chosen))
                yield tuple(by_kind.get(kind, ()) for kind in range(len(group.parts)))
