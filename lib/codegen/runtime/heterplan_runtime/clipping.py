"""Limits the Euclidean norm of the gradients of the whole model, which no rank has alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from .communication import Communicator
from .part import PartExecution


@torch.no_grad()
def clip_gradients(
    parts: Sequence[PartExecution],
    communicator: Communicator,
    shared: Mapping[str, tuple[int, ...]],
    limit: float,
) -> None:
    """All ranks call it, when all gradients are sums over the replicas. A tensor that several ranks
    hold counts on the first of them, and a slice of a tensor on the shard that has it."""
    squares = 0.0
    for part in parts:
        stage = part.part.stage
        first = communicator.stage_group(stage)[0] == communicator.rank
        for name, gradient, divided in part.trained.gradients():
            alone = divided or (first and shared.get(name, (stage,))[0] == stage)
            if alone and part.trained.speaks_for(name):
                squares += float(gradient.double().square().sum())
    norm = communicator.total(squares) ** 0.5
    if norm > limit:
        for part in parts:
            for _, gradient, _ in part.trained.gradients():
                gradient.mul_(limit / norm)
