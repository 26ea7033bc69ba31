"""Sparse tables: the ranks of a stage share the rows, and exchange those that their samples look up.

A lookup asks each rank for the rows that it holds (each row once, however often it is read, where
there are several ranks), the gradients of those rows go back the same way, and the step touches no
other rows. Until the step rows do not change, so that those of the next micro-batch are fetched while
this one is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
        self._name, self._weight, self.rate = name, weight, rate
        moments = {"sgd": 0, "momentum": 1, "adam": 2}[name]
        self.moments = [torch.zeros_like(weight) for _ in range(moments)]
        self.steps = 0

    def step(self, rows: Tensor, gradients: Tensor) -> None:
        """`rows` may repeat: their gradients sum. Called once a step, with no rows too."""
        self.steps += 1
        if self._name == "sgd":  # of which the sum is the change
            each = rows[:, None].expand(-1, self._weight.shape[1])
            self._weight.scatter_add_(0, each, gradients * -self.rate)
            return
        unique, inverse = torch.unique(rows, return_inverse=True)
        total = gradients.new_zeros((len(unique), gradients.shape[1]))
        total.index_add_(0, inverse, gradients)
        change = {"momentum": self._momentum, "adam": self._adam}[self._name]
        self._weight.index_add_(0, unique, change(unique, total), alpha=-self.rate)

    def _momentum(self, rows: Tensor, gradient: Tensor, decay: float = 0.9) -> Tensor:
        velocity = self.moments[0][rows] * decay + gradient
        self.moments[0][rows] = velocity
        return velocity

    def _adam(self, rows: Tensor, gradient: Tensor) -> Tensor:
        first_decay, second_decay, epsilon = 0.9, 0.999, 1e-8
        first = self.moments[0][rows].lerp(gradient, 1 - first_decay)
        second = self.moments[1][rows].lerp(gradient.square(), 1 - second_decay)
        self.moments[0][rows], self.moments[1][rows] = first, second
        correction = (1 - second_decay**self.steps) ** 0.5 / (1 - first_decay**self.steps)
        return correction * first / (second.sqrt() + epsilon)


class GroupedEmbedding:
    """All tables of a stage that have one type and one number of columns. Their rows that this rank
    holds are one tensor, so that one operation serves them all. The rows of all members have keys:
    first those of member 0, table by table, then those of member 1, and so on."""

    def __init__(
        self,
        specs: Sequence[TableSpec],
        own: int,
        rows: Callable[[TableSpec], Tensor],
        optimizer: str,
        rate: float,
        precision: str = "fp32",
    ) -> None:
        """`rows`: those of a table that this rank, member `own`, begins with."""
        self.specs = list(specs)
        self._own = own
        self.columns = specs[0].columns
        self.codec = RowCodec(precision, specs[0].dtype)
        held = [spec.rows[own] for spec in specs]
        first = rows(specs[0])
        self.weight = first.new_empty((sum(held), self.columns))
        for number, part in enumerate(self.weight.split(held)):
            part.copy_(rows(specs[number]) if number else first)
        self.optimizer = RowOptimizer(optimizer, self.weight, rate)
        self._place(torch.tensor([spec.rows for spec in specs], device=first.device))
        self.rows: list[Tensor] = []  # that have gradients since the last step
        self.gradients: list[Tensor] = []

    def _place(self, sizes: Tensor) -> None:
        """`sizes`: rows by table and member."""
        self.bounds = torch.nn.functional.pad(sizes.sum(0).cumsum(0), (1, 0))  # keys, by member
        self._totals = sizes.sum(1)
        self._ends = sizes.cumsum(1)
        firsts, starts = self._ends - sizes, sizes.cumsum(0) - sizes
        self._shifts = starts + self.bounds[:-1] - firsts

    def keys(self, tables: Sequence[int], indices: Sequence[Tensor]) -> Tensor:
        """Keys of the rows that `indices` read of `tables`, flat. ONNX counts negative ones from
        the end."""
        rows = torch.cat([index.reshape(-1).to(torch.int64) for index in indices])
        counts = torch.tensor([index.numel() for index in indices], device=rows.device)
        table = torch.tensor(tables, device=rows.device).repeat_interleave(counts)
        total = self._totals[table]
        rows = torch.where(rows < 0, rows + total, rows)
        outside = (rows < 0) | (rows >= total)
        if outside.any():
            spec = self.specs[int(table[outside][0])]
            raise RuntimeFault(
                f"an index of table '{spec.name}' is not below its {sum(spec.rows)} rows"
            )
        member = (rows[:, None] >= self._ends[table, :-1]).sum(1)
        return rows + self._shifts[table, member]

    def by_member(self, keys: Tensor) -> list[Tensor]:
        """Positions of each member's rows among these keys, which ascend."""
        cuts = torch.searchsorted(keys, self.bounds).tolist()
        return [
            keys[begin:end] - self.bounds[member]
            for member, (begin, end) in enumerate(zip(cuts, cuts[1:], strict=False))
        ]

    def bytes(self, rows: int) -> int:
        return rows * self.codec.size(self.columns)

    def shards(self) -> Iterator[tuple[TableSpec, int, list[Tensor]]]:
        """The shard of each table: the index of its first row, its rows, and their optimizer
        state."""
        divided = [self.divided(tensor) for tensor in (self.weight, *self.optimizer.moments)]
        for parts in zip(*divided, strict=True):
            spec, first, _ = parts[0]
            yield spec, first, [rows for _, _, rows in parts]

    def divided(self, whole: Tensor) -> Iterator[tuple[TableSpec, int, Tensor]]:
        """Rows like those of `weight`: of each table, the first one's number and those that are here."""
        held = [spec.rows[self._own] for spec in self.specs]
        for spec, rows in zip(self.specs, whole.split(held), strict=True):
            yield spec, spec.firsts[self._own], rows

    def dense_gradient(self) -> Tensor:
        """The gradient of all rows: zero for rows that have none in this step."""
        total = self.sum_gradients()
        return torch.zeros_like(self.weight).index_copy_(0, self.rows[0], total)

    def sum_gradients(self) -> Tensor:
        """One for each row."""
        none = self.weight.new_zeros((0, self.columns))
        rows = torch.cat([self.weight.new_zeros(0, dtype=torch.int64), *self.rows])
        unique, inverse = torch.unique(rows, return_inverse=True)
        total = self.weight.new_zeros((len(unique), self.columns))
        total.index_add_(0, inverse, torch.cat([none, *self.gradients]))
        self.rows, self.gradients = [unique], [total]
        return total

    def step(self) -> None:
        rows = torch.cat([self.weight.new_zeros(0, dtype=torch.int64), *self.rows])
        none = self.weight.new_zeros((0, self.columns))
        self.optimizer.step(rows, torch.cat([none, *self.gradients]))
        self.rows, self.gradients = [], []


def make_groups(
    specs: Sequence[TableSpec], make: Callable[[Sequence[TableSpec]], GroupedEmbedding]
) -> list[GroupedEmbedding]:
    """A group for the tables of each type and number of columns, in their order."""
    kinds: dict[tuple[torch.dtype, int], list[TableSpec]] = {}
    for spec in specs:
        kinds.setdefault((spec.dtype, spec.columns), []).append(spec)
    return [make(alike) for alike in kinds.values()]


@dataclass
class LookedUp:
    """The rows of one micro-batch, by group, as leaves whose gradients are wanted: each once where
    they have travelled, else one for each index."""

    leaves: list[Tensor]
    places: list[Tensor | None]  # among the rows: of the indices of all lookups, flat; None: in turn
    shapes: list[torch.Size]  # of the indices, by lookup
    groups: Sequence[int]  # by lookup
    asked: list[list[int]]  # by member and group: how many rows came from it
    given: list[list[Tensor]]  # by member and group: own rows that went to it
    taken: int = 0  # lookups that the forward pass has done
    _read: dict[int, list[Tensor]] = field(default_factory=dict)  # by group: what is left of it

    def rest(self) -> LookedUp:
        """The same rows, with the lookups that are still to come: to be taken once more."""
        return replace(self, _read={group: list(read) for group, read in self._read.items()})

    def take(self, name: str, indices: Tensor) -> Tensor:
        shape, group = self.shapes[self.taken], self.groups[self.taken]
        if shape != indices.shape:
            raise RuntimeFault(f"lookup {self.taken} of '{name}' reads other rows than announced")
        self.taken += 1
        if group not in self._read:
            counts = [s.numel() for s, b in zip(self.shapes, self.groups, strict=True) if b == group]
            read, places = self.leaves[group], self.places[group]
            if places is not None:
                read = functional.embedding(places, read)
            self._read[group] = list(read.split(counts))
        return self._read[group].pop(0).view(*shape, -1)


class Tables:
    """The tables of a stage on one rank. `lookups`: the table of each lookup of the stage;
    `exchanges`, where several ranks share the tables: of rows and of their gradients, used by two
    threads at once."""

    def __init__(
        self,
        groups: Sequence[GroupedEmbedding],
        lookups: Sequence[str],
        exchanges: tuple[Exchange, Exchange] | None = None,
    ) -> None:
        self._groups = groups
        places = {
            spec.name: (number, table)
            for number, group in enumerate(groups)
            for table, spec in enumerate(group.specs)
        }
        self._lookups = [places[name] for name in lookups]
        self._group_of = [group for group, _ in self._lookups]
        self._exchanges = exchanges
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="lookup")
        self._started: dict[int, Future[LookedUp]] = {}

    def start(self, micro_batch: int, indices: Callable[[], Sequence[Tensor]]) -> None:
        """Begins to fetch, unless that has begun. All ranks of a stage start in one order."""
        if micro_batch not in self._started:
            self._started[micro_batch] = self._worker.submit(self._look_up, list(indices()))

    def finish(self, micro_batch: int) -> LookedUp:
        return self._started.pop(micro_batch).result()

    @property
    def groups(self) -> Sequence[GroupedEmbedding]:
        return self._groups

    def weights(self) -> list[Tensor]:
        return [group.weight for group in self._groups]

    def close(self) -> None:
        self._worker.shutdown()

    def _look_up(self, indices: list[Tensor]) -> LookedUp:
        shapes = [index.shape for index in indices]
        keys = [self._keys(number, indices) for number in range(len(self._groups))]
        if self._exchanges is None:
            with torch.no_grad():
                leaves = [group.weight.index_select(0, rows) for group, rows in self._pairs(keys)]
            leaves = [leaf.requires_grad_() for leaf in leaves]
            return LookedUp(leaves, [None] * len(keys), shapes, self._group_of, [], [keys])
        once = [torch.unique(of_group, return_inverse=True) for of_group in keys]
        wanted = [group.by_member(rows) for group, (rows, _) in zip(self._groups, once, strict=True)]
        by_member = [list(parts) for parts in zip(*wanted, strict=True)]
        asked = [[len(part) for part in parts] for parts in by_member]
        fetch, _ = self._exchanges
        given = self._ask(fetch, by_member, asked)
        leaves = [leaf.requires_grad_() for leaf in self._answer(fetch, given, asked)]
        places = [place for _, place in once]
        return LookedUp(leaves, places, shapes, self._group_of, asked, given)

    def _keys(self, group: int, indices: list[Tensor]) -> Tensor:
        """Keys of the rows that the lookups in this group read."""
        read = [
            (table, index)
            for (group_of, table), index in zip(self._lookups, indices, strict=True)
            if group_of == group
        ]
        return self._groups[group].keys([table for table, _ in read], [index for _, index in read])

    def _ask(
        self, fetch: Exchange, wanted: list[list[Tensor]], asked: list[list[int]]
    ) -> list[list[Tensor]]:
        """The own rows that each member asks for, by group."""
        width = len(self._groups)
        device = wanted[0][0].device
        counts = [torch.tensor(count, device=device) for count in asked]
        given = [count.tolist() for count in fetch(counts, [width] * len(asked))]
        rows = fetch([torch.cat(parts) for parts in wanted], [sum(count) for count in given])
        return [list(part.split(count)) for part, count in zip(rows, given, strict=True)]

    def _answer(
        self, fetch: Exchange, given: list[list[Tensor]], asked: list[list[int]]
    ) -> list[Tensor]:
        with torch.no_grad():
            parts = [
                self._encode([group.weight.index_select(0, rows) for group, rows in self._pairs(member)])
                for member in given
            ]
            rows = fetch(parts, [self._bytes(count) for count in asked])
            return self._assemble(rows, asked)

    def _pairs(self, parts: Sequence[Tensor]) -> list[tuple[GroupedEmbedding, Tensor]]:
        return list(zip(self._groups, parts, strict=True))

    def _encode(self, rows: Sequence[Tensor]) -> Tensor:
        return torch.cat([group.codec.encode(part) for group, part in self._pairs(rows)])

    def _sizes(self, counts: Sequence[int]) -> list[int]:
        """Bytes of so many rows of each group."""
        return [group.bytes(count) for group, count in zip(self._groups, counts, strict=True)]

    def _bytes(self, counts: Sequence[int]) -> int:
        return sum(self._sizes(counts))

    def _decode(self, data: Tensor, counts: Sequence[int]) -> list[Tensor]:
        parts = data.split(self._sizes(counts))
        return [group.codec.decode(part, group.columns) for group, part in self._pairs(parts)]

    def _assemble(self, data: list[Tensor], counts: list[list[int]]) -> list[Tensor]:
        """The rows of each group, those of the first member first."""
        decoded = [self._decode(part, count) for part, count in zip(data, counts, strict=True)]
        return [torch.cat(parts) for parts in zip(*decoded, strict=True)]

    def push_gradients(self, found: LookedUp) -> None:
        """Gradients of the rows to the ranks that hold them, which keep them until step()."""
        gradients = [
            torch.zeros_like(leaf, requires_grad=False) if leaf.grad is None else leaf.grad
            for leaf in found.leaves
        ]
        if self._exchanges is None:
            self._keep(found.given[0], gradients)
            return
        split = [
            gradient.split([count[group] for count in found.asked])
            for group, gradient in enumerate(gradients)
        ]
        parts = [self._encode(rows) for rows in zip(*split, strict=True)]
        counts = [[len(rows) for rows in given] for given in found.given]
        _, give_back = self._exchanges
        received = give_back(parts, [self._bytes(count) for count in counts])
        for data, count, given in zip(received, counts, found.given, strict=True):
            self._keep(given, self._decode(data, count))

    def _keep(self, rows: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Until the step; by group."""
        for (group, of_group), gradient in zip(self._pairs(rows), gradients, strict=True):
            group.rows.append(of_group)
            group.gradients.append(gradient)

    def step(self) -> None:
        for group in self._groups:
            group.step()

    def forget(self) -> None:
        """Drops the gradients that are kept for the step."""
        for group in self._groups:
            group.rows, group.gradients = [], []

    def set_rate(self, rate: float) -> None:
        for group in self._groups:
            group.optimizer.rate = rate

    def gradients(self) -> list[Tensor]:
        """Gradients of the rows that were read, each row once; changes to them affect the
        update."""
        return [group.sum_gradients() for group in self._groups]

    def updates(self) -> dict[str, int]:
        """The number of updates of each table whose optimizer keeps state."""
        return {
            spec.name: group.optimizer.steps
            for group in self._groups
            for spec in group.specs
            if group.optimizer.moments and group.optimizer.steps
        }

    def begin_at(self, updates: Mapping[str, int]) -> None:
        for group in self._groups:
            group.optimizer.steps = max(updates.get(spec.name, 0) for spec in group.specs)
