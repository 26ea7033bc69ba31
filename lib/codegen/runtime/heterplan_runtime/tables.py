"""Sparse tables: the ranks of a stage share the rows, and exchange those that their samples look up.

A lookup asks each rank for the rows that it holds (each row once, however often it is read), the
gradients of those rows go back the same way, and the step touches no other rows. Until the step rows
do not change, so that those of the next micro-batch are fetched while this one is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from .errors import RuntimeFault
from .program import TableSpec


class Exchange(Protocol):
    """Gives part i to the i-th member of a group, and returns what each member has for this one."""

    def __call__(self, parts: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """`parts` are flat and of one type; `sizes`: the elements that come from each member."""


def keep(parts: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
    """The exchange of a group of one."""
    return list(parts)


class RowCodec:
    """Rows as bytes. `fp16`: half precision, each row scaled by its largest element, so that small
    gradients do not vanish; a row of c elements takes 2·c + 4 bytes."""

    def __init__(self, precision: str, dtype: torch.dtype) -> None:
        self._half = precision == "fp16" and dtype in (torch.float32, torch.float64)
        self._dtype = dtype

    def size(self, columns: int) -> int:
        return 2 * columns + 4 if self._half else columns * self._dtype.itemsize

    def encode(self, rows: Tensor) -> Tensor:
        if not self._half:
            return rows.contiguous().view(torch.uint8).reshape(-1)
        scale = rows.abs().amax(1, keepdim=True).float().clamp(min=torch.finfo(torch.float32).tiny)
        half = (rows / scale).to(torch.float16)
        return torch.cat([scale.view(torch.uint8), half.view(torch.uint8)], 1).reshape(-1)

    def decode(self, data: Tensor, columns: int) -> Tensor:
        rows = data.view(-1, self.size(columns))
        if not self._half:
            return rows.view(self._dtype)
        scale = rows[:, :4].contiguous().view(torch.float32)
        half = rows[:, 4:].contiguous().view(torch.float16)
        return half.to(self._dtype) * scale.to(self._dtype)


class RowOptimizer:
    """Updates the rows that have a gradient and no others. SGD is that of dense training; the
    momentum of a row, and Adam's moments, stand still while it has none, as in PyTorch's
    SparseAdam."""

    def __init__(self, name: str, weight: Tensor, rate: float) -> None:
        self._name, self._weight, self._rate = name, weight, rate
        moments = {"sgd": 0, "momentum": 1, "adam": 2}[name]
        self._moments = [torch.zeros_like(weight) for _ in range(moments)]
        self._steps = 0

    def step(self, rows: Tensor, gradients: Tensor) -> None:
        """`rows` may repeat: their gradients sum. Called once a step, with no rows too."""
        self._steps += 1
        unique, inverse = torch.unique(rows, return_inverse=True)
        total = gradients.new_zeros((len(unique), gradients.shape[1]))
        total.index_add_(0, inverse, gradients)
        change = {"sgd": self._sgd, "momentum": self._momentum, "adam": self._adam}[self._name]
        self._weight.index_add_(0, unique, change(unique, total), alpha=-self._rate)

    def _sgd(self, rows: Tensor, gradient: Tensor) -> Tensor:
        return gradient

    def _momentum(self, rows: Tensor, gradient: Tensor, decay: float = 0.9) -> Tensor:
        velocity = self._moments[0][rows] * decay + gradient
        self._moments[0][rows] = velocity
        return velocity

    def _adam(self, rows: Tensor, gradient: Tensor) -> Tensor:
        first_decay, second_decay, epsilon = 0.9, 0.999, 1e-8
        first = self._moments[0][rows].lerp(gradient, 1 - first_decay)
        second = self._moments[1][rows].lerp(gradient.square(), 1 - second_decay)
        self._moments[0][rows], self._moments[1][rows] = first, second
        correction = (1 - second_decay**self._steps) ** 0.5 / (1 - first_decay**self._steps)
        return correction * first / (second.sqrt() + epsilon)


@dataclass
class Shard:
    """The rows of one table that a rank holds, and what has come for them since the last step."""

    spec: TableSpec
    weight: Tensor
    optimizer: RowOptimizer
    rows: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)

    def step(self) -> None:
        rows = torch.cat([self.weight.new_zeros(0, dtype=torch.int64), *self.rows])
        none = self.weight.new_zeros((0, self.spec.columns))
        self.optimizer.step(rows, torch.cat([none, *self.gradients]))
        self.rows, self.gradients = [], []


@dataclass
class LookedUp:
    """The rows of one micro-batch, by lookup: each once, as leaves whose gradients are wanted."""

    leaves: list[Tensor]
    places: list[Tensor]  # of each index among the rows
    asked: list[list[int]]  # by member and lookup: how many rows came from it
    given: list[list[Tensor]]  # by member and lookup: own rows that went to it
    taken: int = 0  # lookups that the forward pass has done

    def take(self, name: str, indices: Tensor) -> Tensor:
        leaf, place = self.leaves[self.taken], self.places[self.taken]
        if place.shape != indices.shape:
            raise RuntimeFault(f"lookup {self.taken} of '{name}' reads other rows than announced")
        self.taken += 1
        return functional.embedding(place, leaf)


class Tables:
    """The tables of a stage on one rank. `lookups`: the table of each lookup of the stage; `fetch`,
    `give_back`: exchanges among the ranks that share the tables, used by two threads at once."""

    def __init__(
        self,
        shards: dict[str, Shard],
        lookups: Sequence[str],
        fetch: Exchange,
        give_back: Exchange,
        precision: str = "fp32",
    ) -> None:
        self._shards = shards
        self._lookups = [shards[name] for name in lookups]
        self._members = len(self._lookups[0].spec.rows)
        self._fetch, self._give_back = fetch, give_back
        self._codecs = [RowCodec(precision, shard.spec.dtype) for shard in self._lookups]
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="lookup")
        self._started: dict[int, Future[LookedUp]] = {}

    def start(self, micro_batch: int, indices: Callable[[], Sequence[Tensor]]) -> None:
        """Begins to fetch, unless that has begun. All ranks of a stage start in one order."""
        if micro_batch not in self._started:
            self._started[micro_batch] = self._worker.submit(self._look_up, list(indices()))

    def finish(self, micro_batch: int) -> LookedUp:
        return self._started.pop(micro_batch).result()

    def weights(self) -> list[Tensor]:
        return [shard.weight for shard in self._shards.values()]

    def close(self) -> None:
        self._worker.shutdown()

    def _look_up(self, indices: list[Tensor]) -> LookedUp:
        wanted, places = [], []
        for shard, index in zip(self._lookups, indices, strict=True):
            rows, place = torch.unique(self._checked(shard.spec, index), return_inverse=True)
            wanted.append(self._by_member(shard.spec, rows))
            places.append(place)
        by_member = [list(parts) for parts in zip(*wanted, strict=True)]
        asked = [[len(part) for part in parts] for parts in by_member]
        given = self._ask(by_member, asked)
        leaves = self._answer(given, asked)
        return LookedUp([leaf.requires_grad_() for leaf in leaves], places, asked, given)

    def _checked(self, spec: TableSpec, index: Tensor) -> Tensor:
        """Row numbers from 0; ONNX counts negative ones from the end."""
        total = sum(spec.rows)
        rows = torch.where(index < 0, index + total, index).to(torch.int64)
        if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < total:
            raise RuntimeFault(f"an index of table '{spec.name}' is not below its {total} rows")
        return rows

    def _by_member(self, spec: TableSpec, rows: Tensor) -> list[Tensor]:
        """The rows (ascending) that each member holds, counted from its first one."""
        ends = torch.tensor(spec.rows, device=rows.device).cumsum(0)
        cuts = torch.searchsorted(rows, ends).tolist()
        return [
            rows[begin:end] - first
            for begin, end, first in zip([0, *cuts], cuts, spec.firsts, strict=False)
        ]

    def _ask(self, wanted: list[list[Tensor]], asked: list[list[int]]) -> list[list[Tensor]]:
        """The own rows that each member asks for, by lookup."""
        width = len(self._lookups)
        device = wanted[0][0].device
        counts = [torch.tensor(count, device=device) for count in asked]
        given = [count.tolist() for count in self._fetch(counts, [width] * self._members)]
        rows = self._fetch([torch.cat(parts) for parts in wanted], [sum(count) for count in given])
        return [list(part.split(count)) for part, count in zip(rows, given, strict=True)]

    def _answer(self, given: list[list[Tensor]], asked: list[list[int]]) -> list[Tensor]:
        with torch.no_grad():
            parts = [self._encode([s.weight[rows] for s, rows in self._pairs(g)]) for g in given]
            rows = self._fetch(parts, [self._bytes(count) for count in asked])
            return self._assemble(rows, asked)

    def _pairs(self, rows: list[Tensor]) -> list[tuple[Shard, Tensor]]:
        return list(zip(self._lookups, rows, strict=True))

    def _encode(self, rows: list[Tensor]) -> Tensor:
        encoded = [codec.encode(part) for codec, part in zip(self._codecs, rows, strict=True)]
        return torch.cat(encoded)

    def _sizes(self, counts: Sequence[int]) -> list[int]:
        """Bytes of so many rows of each lookup."""
        return [
            count * codec.size(shard.spec.columns)
            for count, codec, shard in zip(counts, self._codecs, self._lookups, strict=True)
        ]

    def _bytes(self, counts: Sequence[int]) -> int:
        return sum(self._sizes(counts))

    def _decode(self, data: Tensor, counts: Sequence[int]) -> list[Tensor]:
        parts = data.split(self._sizes(counts))
        return [
            codec.decode(part, shard.spec.columns)
            for part, codec, shard in zip(parts, self._codecs, self._lookups, strict=True)
        ]

    def _assemble(self, data: list[Tensor], counts: list[list[int]]) -> list[Tensor]:
        """The rows of each lookup, those of the first member first."""
        decoded = [self._decode(part, count) for part, count in zip(data, counts, strict=True)]
        return [torch.cat(parts) for parts in zip(*decoded, strict=True)]

    def give_gradients(self, found: LookedUp) -> None:
        """Gradients of the rows to the ranks that hold them, which keep them until step()."""
        gradients = [
            torch.zeros_like(leaf, requires_grad=False) if leaf.grad is None else leaf.grad
            for leaf in found.leaves
        ]
        split = [
            gradient.split([count[lookup] for count in found.asked])
            for lookup, gradient in enumerate(gradients)
        ]
        parts = [self._encode(list(rows)) for rows in zip(*split, strict=True)]
        counts = [[len(rows) for rows in given] for given in found.given]
        received = self._give_back(parts, [self._bytes(count) for count in counts])
        for data, count, given in zip(received, counts, found.given, strict=True):
            decoded = self._decode(data, count)
            for (shard, rows), gradient in zip(self._pairs(given), decoded, strict=True):
                shard.rows.append(rows)
                shard.gradients.append(gradient)

    def step(self) -> None:
        for shard in self._shards.values():
            shard.step()
