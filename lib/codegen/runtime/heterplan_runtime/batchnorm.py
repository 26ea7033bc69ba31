"""Batch normalisation over the replicas of a stage.

The statistics are those of the whole micro-batch, weighted by the samples of each replica, and the
gradient flows through the sums; so that any split of the micro-batch trains as one process does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

SumOverReplicas = Callable[[Tensor], Tensor]


class _DifferentiableSum(torch.autograd.Function):
    """y = sum of x over the replicas. Each replica's loss depends on y: the gradients sum too."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, over_replicas: SumOverReplicas) -> Tensor:
        ctx.over_replicas = over_replicas
        return over_replicas(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.over_replicas(gradients[0].contiguous()), None


class SynchronisedBatchNorm:
    """Takes the place of a stage's `batch_norm` when the stage has several replicas."""

    def __init__(self, over_replicas: SumOverReplicas) -> None:
        self._over_replicas = over_replicas

    def _sum(self, tensor: Tensor) -> Tensor:
        total: Tensor = _DifferentiableSum.apply(tensor, self._over_replicas)  # type: ignore[no-untyped-call]
        return total

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
        """`momentum` is the weight of the new statistics, as in PyTorch."""
        if not training:
            return functional.batch_norm(
                x, running_mean, running_var, weight, bias, False, momentum, eps
            )
        axes = [0, *range(2, x.dim())]
        shape = [1, -1] + [1] * (x.dim() - 2)
        own_count = x.new_full((1,), x.numel() // x.shape[1])
        sums = self._sum(torch.cat([x.sum(axes), own_count]))
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = x - mean.view(shape)
        variance = self._sum(centred.square().sum(axes)) / count
        with torch.no_grad():
            running_mean.lerp_(mean, momentum)
            running_var.lerp_(variance * (count / (count - 1).clamp(min=1)), momentum)
        scale = weight * (variance + eps).rsqrt()
        return centred * scale.view(shape) + bias.view(shape)
