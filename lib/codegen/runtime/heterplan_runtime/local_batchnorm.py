"""Batch normalisation of each replica by its own samples: plans made with `--batch-norm local`.

Each replica moves running statistics of its own while it trains. Before anybody looks at them (an
evaluation, a checkpoint, the trained weights) they are brought together: how far each has moved counts by
its samples. Running statistics are averages, so that it does not matter how often that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class LocalStatistics:
    """The running statistics of a stage on one of its replicas."""

    def __init__(self, stage: nn.Module, sum_over_replicas: Callable[[list[Tensor]], None]) -> None:
        """`sum_over_replicas` sums tensors in place."""
        names = getattr(stage, "buffers_spec", {})
        self._running = [
            tensor for name, tensor in stage.named_buffers() if name in names and tensor.is_floating_point()
        ]
        self._sum = sum_over_replicas
        self._common: list[Tensor] | None = None

    def begin(self) -> None:
        """Before a step; before the first one they are those of all replicas."""
        if self._common is None:
            self._common = [tensor.clone() for tensor in self._running]

    @torch.no_grad()
    def bring_together(self, weight: float) -> None:
        """All replicas call it; `weight`: the part of the samples that is this one's."""
        if not self._common:
            return
        moved = [(now - common) * weight for now, common in zip(self._running, self._common, strict=True)]
        self._sum(moved)
        for now, common, by in zip(self._running, self._common, moved, strict=True):
            now.copy_(common.add_(by))


class ReplicasInOne:
    """Takes the place of a stage's `batch_norm` where one process does what its replicas do: for --check."""

    def __init__(self) -> None:
        self.counts: Sequence[int] = ()  # samples of the micro-batch in hand, by replica
        self.weights: Sequence[float] = ()  # parts of the samples of a step, by replica
        self._own: dict[int, list[tuple[Tensor, Tensor]]] = {}  # running statistics, by replica

    def __call__(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        momentum: float,
        eps: float,
        training: bool,
    ) -> Tensor:
        if not training:
            return functional.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
        rows = len(x) // sum(self.counts)
        whole = (running_mean, running_var)
        own = self._own.setdefault(
            id(running_mean), [(running_mean.clone(), running_var.clone()) for _ in self.counts]
        )
        parts = zip(x.split([count * rows for count in self.counts]), own, strict=True)
        result = [
            functional.batch_norm(part, mean, variance, weight, bias, True, momentum, eps)
            for part, (mean, variance) in parts
            if len(part)
        ]
        for running, of_replicas in zip(whole, zip(*own, strict=True), strict=True):
            running.copy_(sum(w * each for w, each in zip(self.weights, of_replicas, strict=True)))
        return torch.cat(result)
