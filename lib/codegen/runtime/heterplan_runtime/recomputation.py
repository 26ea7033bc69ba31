"""Activation recomputation: segments of a stage that keep only what enters them.

The generated stage calls self.checkpoint(segment, *arguments) for each of its segments. Here that
becomes torch.utils.checkpoint, whose second forward pass must leave no trace: it draws the same
random numbers, reads the same rows of sparse tables, and neither moves the running statistics of batch
normalisation again nor sums over the replicas again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .batchnorm import SynchronisedBatchNorm, batch_norm_again
from .dropout import SampleDropout
from .tables import LookedUp

Segment = Callable[..., tuple[Any, ...]]


class Recomputation:
    """Takes the place of a stage's `checkpoint`. Made when its `batch_norm` is what it will be."""

    def __init__(self, stage: nn.Module) -> None:
        self._stage: Any = stage
        self.runs: Callable[[Segment], Segment] = lambda segment: segment  # as other code runs it

    def __call__(self, segment: Segment, *arguments: Any) -> tuple[Any, ...]:
        result: tuple[Any, ...] = checkpoint(
            self.runs(segment),
            *arguments,
            use_reentrant=False,
            preserve_rng_state=True,
            context_fn=self._passes,
        )
        return result

    def _passes(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        """Around the first forward pass, and around the second."""
        statistics: list[tuple[Tensor, ...]] = []
        lookup = self._lookups()
        dropout = getattr(self._stage, "dropout", None)
        if isinstance(dropout, SampleDropout):  # other passes may come in between
            dropout = dropout.held()
        return self._first(statistics), self._again(statistics, lookup, dropout)

    def _lookups(self) -> Callable[[], Any] | None:
        """Makes a lookup that begins where the segment does; None where no rows are looked up."""
        owner = getattr(getattr(self._stage, "lookup", None), "__self__", None)
        if not isinstance(owner, LookedUp):
            return None
        start = owner.rest()
        return lambda: start.rest().take

    @contextmanager
    def _first(self, statistics: list[tuple[Tensor, ...]]) -> Iterator[None]:
        normalise = getattr(self._stage, "batch_norm", None)
        if not isinstance(normalise, SynchronisedBatchNorm):
            yield
            return
        with self._instead("batch_norm", normalise.recording(statistics)):
            yield

    @contextmanager
    def _again(
        self, statistics: list[tuple[Tensor, ...]], lookup: Callable[[], Any] | None, dropout: Any
    ) -> Iterator[None]:
        normalise = getattr(self._stage, "batch_norm", None)
        again: Any = batch_norm_again
        if isinstance(normalise, SynchronisedBatchNorm):
            again = normalise.repeating(statistics)
        taken = lookup() if lookup else getattr(self._stage, "lookup", None)
        batch_norm, rows = self._instead("batch_norm", again), self._instead("lookup", taken)
        try:
            with batch_norm, rows, self._instead("dropout", dropout):
                yield
        finally:  # parameters that the segment has gathered
            getattr(self._stage, "begin_layer", lambda: None)()

    @contextmanager
    def _instead(self, name: str, function: Any) -> Iterator[None]:
        """The stage has `function` under this name for a while."""
        attributes = self._stage.__dict__
        missing = object()
        before = attributes.get(name, missing)
        attributes[name] = function
        try:
            yield
        finally:
            if before is missing:
                del attributes[name]
            else:
                attributes[name] = before


def recompute_segments(stage: nn.Module) -> None:
    """Has the segments of the stage, if it has any, computed again in the backward pass."""
    if getattr(stage, "segments", ()):
        setattr(stage, "checkpoint", Recomputation(stage))
