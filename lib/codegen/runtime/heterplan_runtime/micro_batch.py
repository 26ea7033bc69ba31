"""The state that a part of a rank holds for a micro-batch, and the behaviour of a part without
samples."""

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
    """Whether a part has samples of the micro-batch in hand. If it has none and replicas make a
    collective within a pass, the part computes the first sample of the micro-batch instead, and its
    result does not count."""

    absent: bool = False
    together: bool = False  # replicas do something together within a pass

    def counted(self, tensor: Tensor) -> Tensor:
        return torch.zeros_like(tensor) if self.absent else tensor


@dataclass
class MicroBatch:
    """Tensors of a micro-batch that a part holds between its instructions."""

    batch: Batch | None = None
    received: list[list[tuple[int, Tensor]]] = field(default_factory=list)  # by tensor: begin, part
    leaves: list[Tensor] = field(default_factory=list)  # received tensors, whole
    rows: LookedUp | None = None  # of the tables
    outputs: tuple[Tensor, ...] = ()
    output_gradients: list[Tensor | None] = field(default_factory=list)
    input_gradients: list[Tensor] = field(default_factory=list)
    returned: int = 0  # messages with input gradients that are sent
