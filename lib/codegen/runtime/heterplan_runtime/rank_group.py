"""The ranks of a collective, in ranges as a rank's file has them: the file may say that they are more
than there is memory for, and only the launch knows better."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from .errors import RuntimeFault
from .fields import Fields


@dataclass(frozen=True)
class RankGroup:
    """Ascending."""

    ranges: tuple[range, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __contains__(self, rank: object) -> bool:
        return any(rank in ranks for ranks in self.ranges)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.ranges)


def read_group(fields: Fields, world_size: int) -> RankGroup:
    """Reads the rank group of an instruction: `ranges`, or `group` in files of version 1.0."""
    ranges: list[range] = []
    for item in fields.objects("ranges"):
        ranges.append(_range(item, ranges[-1][-1] if ranges else -1, world_size))
    listed = fields.ranks("group", world_size)
    if listed and ranges:
        raise RuntimeFault(f"{fields.where}: has both 'group' and 'ranges'")
    return RankGroup(tuple(ranges) or tuple(range(rank, rank + 1) for rank in listed))


def _range(fields: Fields, before: int, world_size: int) -> range:
    first, count = fields.integer("first"), fields.integer("count", least=1)
    stride = fields.integer("stride", least=1)
    if first <= before or first + (count - 1) * stride >= world_size:
        raise RuntimeFault(
            f"{fields.where}: {count} ranks from {first} on, {stride} apart; expected ranks above "
            f"{before} and below {world_size}"
        )
    return range(first, first + count * stride, stride)
