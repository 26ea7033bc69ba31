"""What a part of a rank holds of a micro-batch, and what it does where it has no sample of one."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from .data import Batch
from .program import SampleRange
from .tables import LookedUp

STAND_IN = SampleRange(0, 1)  # computed where a part has no sample of a micro-batch


@dataclass
class Presence:
    """Whether a part has samples of the micro-batch in hand. Where it has none, and replicas do something
    together within a pass, it computes the first sample of the micro-batch instead; nothing of that
    counts. (Rows of tables that this sample reads are read by the replica that has it, too.)"""

    absent: bool = False
    together: bool = False  # replicas do something together within a pass

    def counted(self, tensor: Tensor) -> Tensor:
        return torch.zeros_like(tensor) if self.absent else tensor


@dataclass
class MicroBatch:
    """What a part holds of a micro-batch between its instructions."""

    batch: Batch | None = None
    received: list[list[tuple[int, Tensor]]] = field(default_factory=list)  # by tensor: begin, part
    leaves: list[Tensor] = field(default_factory=list)  # received tensors, whole
    rows: LookedUp | None = None  # of the tables
    outputs: tuple[Tensor, ...] = ()
    output_gradients: list[Tensor | None] = field(default_factory=list)
    input_gradients: list[Tensor] = field(default_factory=list)
    returned: int = 0  # samples whose input gradients are sent
