"""The collectives of the devices that share every layer of a replica, each device one rank."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .communication import Communicator
from .shards import Shards


class ShardGroup(Shards):
    """The shard that this rank is."""

    def __init__(self, communicator: Communicator) -> None:
        super().__init__(len(communicator.roster.shard_group), communicator.shard)
        self._communicator = communicator
        self._group = communicator.roster.shard_group

    def sum(self, x: Tensor) -> Tensor:
        return self._communicator.sum(x.contiguous(), self._group)

    def collect(self, x: Tensor) -> list[Tensor]:
        return self._communicator.collect(x, self._group)

    def sum_own(self, parts: Sequence[Tensor]) -> Tensor:
        flat = torch.cat([each.reshape(-1) for each in parts])
        return self._communicator.sum_own(flat, self._group).view(parts[0].shape)
