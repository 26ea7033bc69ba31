"""Cases that are timed between the ranks at the ends of a link: messages, all-reduces, and lookups
of rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from .communication import Communicator
from .program import Instruction, SampleRange, TableSpec, TensorSpec
from .rank_group import RankGroup
from .tables import GroupedEmbedding, LookedUp, Tables

TENSOR = 4 << 20  # gradients of more bytes are several tensors
BYTE = TensorSpec("message", torch.uint8, ((1, 0),))
TABLE_ROWS = 1 << 18  # of which a rank holds its part


class Case:
    """Something to time among the first `members` ranks. Each computes, then communicates; what the
    second part takes on all of them together is divided by `share`."""

    members = 2
    share = 1
    steps = 1.0  # of the model of its time
    bytes = 0.0
    rows = 0.0

    def before(self) -> None:
        """Not timed."""

    def communicate(self) -> None:
        """Timed."""


class Transfer(Case):
    """Rank 0 sends to rank 1. The time includes the send, and on rank 1 the wait until the message
    has arrived."""

    def __init__(self, communicator: Communicator, pool: Tensor, size: int) -> None:
        self._communicator, self._size = communicator, size
        self._messages = _rotation(pool, size)
        self._sent = 0
        self.bytes = size

    def before(self) -> None:
        """A message is let go once a later one is on its way."""
        self._communicator.settle(self._message("receiveGradient", 1, self._sent - 2))

    def communicate(self) -> None:
        if self._communicator.rank == 0:
            message = self._message("send", 1, self._sent)
            self._communicator.send([next(self._messages)], message)
        else:
            self._communicator.receive([BYTE], self._message("receive", 0, self._sent))
        self._sent += 1

    def _message(self, op: str, peer: int, number: int) -> Instruction:
        return Instruction(op, 0, number, peer, 0, SampleRange(0, self._size), RankGroup())


class AllReduce(Case):
    """A ring of k ranks takes 2(k−1) steps, and moves 2(k−1)/k of the bytes."""

    def __init__(self, communicator: Communicator, pool: Tensor, members: int, size: int) -> None:
        self._communicator = communicator
        self._gradients = _rotation(pool, size)
        self.members = self.share = members
        self.steps = 2 * (members - 1)
        self.bytes = self.steps / members * size

    def communicate(self) -> None:
        parts = next(self._gradients).view(torch.float32).split(TENSOR // 4)
        self._communicator.sum_in_place(list(parts), tuple(range(self.members)))


class Half(Case):
    """Half of a ring: k ranks take k−1 steps, and move (k−1)/k of the bytes."""

    def __init__(self, communicator: Communicator, pool: Tensor, members: int, size: int) -> None:
        size -= size % (4 * members)
        self._communicator = communicator
        self._group = tuple(range(members))
        self.members = self.share = members
        self.steps = members - 1
        self.bytes = self.steps / members * size
        self._tensors = _rotation(pool, self._given(size))

    def _given(self, size: int) -> int:
        """Bytes that each rank gives, of a whole of `size` bytes."""
        return size


class ReduceScatter(Half):
    def communicate(self) -> None:
        self._communicator.sum_own(next(self._tensors).view(torch.float32), self._group)


class AllGather(Half):
    def _given(self, size: int) -> int:
        return size // self.members

    def communicate(self) -> None:
        self._communicator.collect(next(self._tensors).view(torch.float32), self._group)


class Table:
    """One table of which each rank holds a part."""

    def __init__(self, communicator: Communicator, columns: int) -> None:
        members, device = communicator.world_size, communicator.device
        share, more = divmod(TABLE_ROWS, members)
        rows = tuple(share + (member < more) for member in range(members))
        own, spec = communicator.rank, TableSpec("table", torch.float32, columns, rows)
        group = GroupedEmbedding(
            [spec], own, lambda _: torch.zeros(rows[own], columns, device=device), "sgd", 1e-3
        )
        exchanges = tuple(partial(communicator.exchange, 0, gradients) for gradients in (False, True))
        self.columns = columns
        self.tables = Tables([group], ["table"], exchanges)


class Lookup(Case):
    """All k ranks read rows of a table of which each holds a part: how many, which, and the rows take k−1
    messages each, and (k−1)/k of the rows travel. Then each row is put where it is read."""

    exchanges = 3

    def __init__(self, communicator: Communicator, table: Table, read: int) -> None:
        members = communicator.world_size
        self.members = self.share = members
        self.steps = self.exchanges * (members - 1)
        self.bytes = (members - 1) / members * read * table.columns * 4
        self.rows = read
        self._read, self._device, self._tables = read, communicator.device, table.tables
        self._generator = torch.Generator(self._device).manual_seed(1 + communicator.rank)
        self._indices = torch.empty(0)

    def before(self) -> None:
        self._indices = torch.randint(
            TABLE_ROWS, (self._read,), generator=self._generator, device=self._device
        )

    def communicate(self) -> None:
        self._look_up()

    def _look_up(self) -> tuple[LookedUp, Tensor]:
        self._tables.start(0, lambda: [self._indices])
        found = self._tables.finish(0)
        return found, found.take("table", self._indices)


class LookupGradient(Lookup):
    """The gradients of those rows on their way back, for which nobody asks."""

    exchanges = 1

    def before(self) -> None:
        super().before()
        self._found, self._values = self._look_up()
        self._gradient = torch.ones_like(self._values)

    def communicate(self) -> None:
        self._values.backward(self._gradient)
        self._tables.push_gradients(self._found)
        self._tables.forget()


def _rotation(pool: Tensor, size: int) -> Iterator[Tensor]:
    """Parts of the pool in turn."""
    parts = [part for part in pool.split(size) if len(part) == size]
    while True:
        yield from parts
