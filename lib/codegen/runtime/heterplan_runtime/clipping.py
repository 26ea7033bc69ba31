"""Limits the Euclidean norm of the gradients of the whole model, which no rank has alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .communication import Communicator
from .gradients import multiply, sum_of_squares
from .part import PartExecution


def clip_gradients(
    parts: Sequence[PartExecution],
    communicator: Communicator,
    shared: Mapping[str, Iterable[int]],
    limit: float,
) -> None:
    """All ranks call it, when all gradients are sums over the replicas. A tensor that several ranks
    hold counts on the first of them, and a slice of a tensor on the shard that has it."""
    own = []
    for part in parts:
        stage = part.part.stage
        first = communicator.roster.stage_group(stage)[0] == communicator.rank
        for name, gradient, divided in part.trained.gradients():
            alone = divided or (first and next(iter(shared.get(name, (stage,)))) == stage)
            if alone and part.trained.speaks_for(name):
                own.append(gradient)
    norm = communicator.total(sum_of_squares(own)) ** 0.5
    if norm > limit:
        for part in parts:
            multiply((gradient for _, gradient, _ in part.trained.gradients()), limit / norm)
