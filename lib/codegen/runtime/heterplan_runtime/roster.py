"""Who the ranks are: the stages, replicas and shards of each, and the groups that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Group = tuple[int, ...]  # ranks, ascending


@dataclass(frozen=True)
class RosterEntry:
    """Facts that each rank sends to the others before the first step."""

    rank: int
    stages: tuple[int, ...]
    place: tuple[str, int] | None  # host and GPU; None on a CPU
    groups: tuple[Group, ...]
    beside: tuple[int, ...] = ()  # stages that sum gradients beside their passes
    build: str = "cuda"  # of PyTorch: NCCL and RCCL do not talk to each other
    replicas: tuple[int, ...] = ()  # of its stages
    shard: int = 0  # of these replicas


class Roster:
    """The entries of all ranks, as rank `rank` sees them."""

    def __init__(self, entries: Sequence[RosterEntry], rank: int) -> None:
        self.entries = entries
        self._own = entries[rank]
        replicas: dict[tuple[Group, Group], list[int]] = {}
        for entry in entries:
            replicas.setdefault((entry.stages, entry.replicas), []).append(entry.rank)
        self._replicas = {rank: tuple(group) for group in replicas.values() for rank in group}
        self.shards = sorted({entry.shard for entry in entries})
        self.is_pipeline = all(len(entry.stages) <= 1 for entry in entries)  # ranks have a part each
        # Whether replicas of some stages have more shards than those of others.
        self.has_unequal_degrees = len({len(group) for group in self._replicas.values()}) > 1

    def stage_group(self, stage: int, shard: int | None = None) -> Group:
        """Returns the ranks that have the same shard of the replicas of a stage as this rank, or shard
        `shard`. Their parameters are equal."""
        number = self._own.shard if shard is None else shard
        return tuple(
            entry.rank for entry in self.entries if stage in entry.stages and entry.shard == number
        )

    def stages_group(self, stages: Iterable[int], shard: int | None = None) -> Group:
        """Returns the ranks of some stages, as stage_group() does for one."""
        return tuple(sorted({rank for stage in stages for rank in self.stage_group(stage, shard)}))

    def all_shards_of(self, stages: Iterable[int]) -> Group:
        """Returns the ranks of some stages, whatever shards they are."""
        wanted = set(stages)
        return tuple(entry.rank for entry in self.entries if wanted & set(entry.stages))

    def shards_with(self, rank: int) -> Group:
        """Returns the ranks that share every layer with `rank`, by their shards."""
        return self._replicas[rank]

    @property
    def shard_group(self) -> Group:
        """The ranks that share every layer with this one, by their shards."""
        return self.shards_with(self._own.rank)

    def groups(self) -> set[Group]:
        """Returns the groups that ranks sum or exchange over: those that programs name, those of stages
        and those of replicas."""
        named = {group for entry in self.entries for group in entry.groups}
        of_stages = {self.stage_group(stage, entry.shard) for entry in self.entries for stage in entry.stages}
        return named | of_stages | set(self._replicas.values())
