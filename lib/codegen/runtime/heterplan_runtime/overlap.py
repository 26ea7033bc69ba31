"""Sums of gradients over the replicas of a stage that begin while its last backward pass computes others.

Gradients travel in buckets as in DistributedDataParallel (Li et al., VLDB 2020): from the last parameter to the first,
because backward passes make gradients in about this order. A bucket is sent when its gradients are there and all
buckets before it are on their way, so that all replicas send them in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

BUCKET_BYTES = 4 << 20  # a slow network should not wait for more

Wait = Callable[[], None]


class OverlappedSum:
    """The sums of one stage. Between begin_last_backward() and finish() a backward pass sends what it makes."""

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        start: Callable[[list[Tensor]], Wait],
        bucket_bytes: int = BUCKET_BYTES,
    ) -> None:
        """`start` begins to sum tensors in place; the function that it returns waits for that."""
        self._start = start
        self._buckets = buckets_of(parameters, bucket_bytes)
        self._missing: list[int] = []  # gradients, by bucket; empty outside of the last backward pass
        self._waits: list[Wait] = []  # of the buckets that are on their way
        for number, bucket in enumerate(self._buckets):
            for parameter in bucket:
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(self._counter(number))

    def begin_last_backward(self) -> None:
        """The next backward pass completes the gradients of the iteration."""
        self._missing = [len(bucket) for bucket in self._buckets]

    def finish(self) -> Wait:
        """Sends what no backward pass has sent. The function that it returns waits for all sums."""
        while len(self._waits) < len(self._buckets):
            self._send_next()
        waits, self._waits, self._missing = self._waits, [], []

        def wait() -> None:
            for each in waits:
                each()

        return wait

    def _counter(self, number: int) -> Callable[[Tensor], None]:
        def count(_: Tensor) -> None:
            if not self._missing:
                return
            self._missing[number] -= 1
            while len(self._waits) < len(self._buckets) and self._missing[len(self._waits)] == 0:
                self._send_next()

        return count

    def _send_next(self) -> None:
        bucket = self._buckets[len(self._waits)]
        self._waits.append(self._start([gradient_of(parameter) for parameter in bucket]))


def buckets_of(parameters: Sequence[nn.Parameter], most: int) -> list[list[nn.Parameter]]:
    """The parameters from the last to the first, those without a gradient behind them, in lists of at most
    `most` bytes, or of a single larger one."""
    order = sorted(reversed(parameters), key=lambda parameter: not parameter.requires_grad)
    buckets: list[list[nn.Parameter]] = []
    size = most
    for parameter in order:
        if size + parameter.nbytes > most:
            buckets.append([])
            size = 0
        buckets[-1].append(parameter)
        size += parameter.nbytes
    return buckets


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """Its gradient; zeros where no pass has used it."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
