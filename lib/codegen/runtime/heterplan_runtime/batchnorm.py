"""Batch normalisation over the replicas of a stage.

The statistics are those of the whole micro-batch, weighted by the samples of each replica, and so
are the sums of the gradient; so that any split of the micro-batch trains as one process does. One
sum over the replicas is taken in the forward and one in the backward pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

SumOverReplicas = Callable[[Tensor], Tensor]
Statistics = tuple[Tensor, ...]  # mean, biased variance, number of elements a channel


def _statistics(x: Tensor, over_replicas: SumOverReplicas) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance (biased) and number of elements a channel of all replicas together. Sums are
    taken in double precision, since squares of means are subtracted."""
    mean, variance = (t.double() for t in torch.batch_norm_update_stats(x, None, None, 1.0))
    own = x.new_full((1,), x.numel() // x.shape[1], dtype=torch.float64)
    total = over_replicas(torch.cat([mean * own, (variance + mean.square()) * own, own]))
    count, channels = total[-1], x.shape[1]
    mean = total[:channels] / count
    variance = (total[channels:-1] / count - mean.square()).clamp(min=0)
    return mean.to(x.dtype), variance.to(x.dtype), count


class _Normalise(torch.autograd.Function):
    """Normalises by statistics that depend on the samples of all replicas. The gradients of weight
    and bias are those of the own samples: like all others they are summed once an iteration."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        mean: Tensor,
        variance: Tensor,
        count: Tensor,
        eps: float,
        over_replicas: SumOverReplicas,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, variance, count)
        ctx.eps, ctx.over_replicas = eps, over_replicas
        return functional.batch_norm(x, mean, variance, weight, bias, False, 0.0, eps)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """With r = 1/√(variance + eps), x̂ = (x − mean)·r and N elements a channel:
        dx = weight·r·(dy − Σdy/N − x̂·Σ(dy·x̂)/N), the sums over all replicas."""
        x, weight, mean, variance, count = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        _, own_weight, own_bias = torch.ops.aten.native_batch_norm_backward(
            gradient, x, weight, mean, variance, None, None, False, ctx.eps, [False, True, True]
        )
        sums = ctx.over_replicas(torch.cat([own_weight, own_bias])) / count.to(x.dtype)
        of_weight, of_bias = sums.chunk(2)
        rate = (variance + ctx.eps).rsqrt()
        scale = weight * rate
        # What dy is not in, −scale·(Σdy/N + x̂·Σ(dy·x̂)/N), is linear in x: one pass.
        result = functional.batch_norm(
            x, mean, variance, -scale * of_weight, -scale * of_bias, False, 0.0, ctx.eps
        )
        shape = [1, -1] + [1] * (x.dim() - 2)
        result.addcmul_(gradient, scale.view(shape))
        return (result, own_weight, own_bias, *[None] * 5)


def batch_norm_again(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
    training: bool,
) -> Tensor:
    """Recomputes a batch normalisation whose running statistics the first pass has already moved.
    Copies of them move this time, so that autograd keeps the same tensors as in the first pass."""
    if training:
        running_mean, running_var = running_mean.clone(), running_var.clone()
    return functional.batch_norm(
        x, running_mean, running_var, weight, bias, training, momentum, eps
    )


class SynchronisedBatchNorm:
    """Takes the place of a stage's `batch_norm` when the stage has several replicas."""

    def __init__(
        self,
        over_replicas: SumOverReplicas,
        record: list[Statistics] | None = None,
        known: Sequence[Statistics] | None = None,
    ) -> None:
        """`record` gets the statistics of each call. `known`: those of the calls to come, which are
        made once more: nothing is summed for them, and the running statistics stay."""
        self._over_replicas = over_replicas
        self._record = record
        self._known = None if known is None else deque(known)

    def recording(self, record: list[Statistics]) -> SynchronisedBatchNorm:
        return SynchronisedBatchNorm(self._over_replicas, record=record)

    def repeating(self, known: Sequence[Statistics]) -> SynchronisedBatchNorm:
        return SynchronisedBatchNorm(self._over_replicas, known=known)

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
        """`momentum` is the weight of the new statistics, as in PyTorch. Half-precision activations are
        normalised in single precision."""
        if not training:
            return functional.batch_norm(
                x, running_mean, running_var, weight, bias, False, momentum, eps
            )
        given = x.dtype
        x = x.to(torch.promote_types(given, running_mean.dtype))
        if self._known is not None:
            mean, variance, count = self._known.popleft()
        else:
            mean, variance, count = self._measure(x, running_mean, running_var, momentum)
        normalised: Tensor = _Normalise.apply(  # type: ignore[no-untyped-call]
            x, weight, bias, mean, variance, count, eps, self._over_replicas
        )
        return normalised.to(given)

    @torch.no_grad()
    def _measure(
        self, x: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float
    ) -> Statistics:
        """Moves the running statistics, too."""
        mean, variance, count = _statistics(x, self._over_replicas)
        unbiased = count / (count - 1).clamp(min=1)
        running_mean.lerp_(mean, momentum)
        running_var.lerp_(variance * unbiased.to(variance.dtype), momentum)
        if self._record is not None:
            self._record.append((mean, variance, count))
        return mean, variance, count
