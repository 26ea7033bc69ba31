"""Optimizer state that the replicas of a stage divide among them (ZeRO stages 1 and 2, Rajbhandari et
al., SC 2020).

The parameters of a stage lie in flat buffers, each padded to as many equal slices as there are
replicas. Each replica gets the sum of the gradients of its slice, its optimizer updates that slice,
and the slices are gathered again. If gradients are divided too, a buffer's gradients are summed as
soon as the backward pass has made them, so that at most two buffers have whole gradients at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

# Starts to sum a flat tensor over the replicas; what it returns waits for the own slice of the sum.
Scatter = Callable[[Tensor], Callable[[], Tensor]]
# Fills a flat tensor with the slices of all replicas, of which the own one is given.
Gather = Callable[[Tensor, Tensor], None]

BUFFER_BYTES = 1 << 20  # a buffer is full from this size on; it holds whole parameters
MOST_PENDING = 1  # buffers that are summed while the backward pass goes on


@dataclass(frozen=True)
class OwnedPart:
    """Elements [begin, end) of a flattened parameter that this replica updates, and where they
    lie in its slice of the buffer."""

    name: str
    begin: int
    end: int
    slice: nn.Parameter
    offset: int


class FlatBuffer:
    """Parameters of one type on one device, whose values it holds."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], replicas: int, own: int) -> None:
        self.parameters = dict(parameters)
        tensors = list(self.parameters.values())
        size = sum(tensor.numel() for tensor in tensors)
        self._slice_size = -(-size // replicas)
        self._own = own
        self.values = tensors[0].new_zeros(self._slice_size * replicas, requires_grad=False)
        begin = 0
        for tensor in tensors:
            values = self.values[begin : begin + tensor.numel()].view(tensor.shape)
            values.copy_(tensor.detach())
            tensor.data = values
            begin += tensor.numel()
        self.slice = nn.Parameter(self._own_slice(self.values))

    def _own_slice(self, flat: Tensor) -> Tensor:
        return flat[self._own * self._slice_size : (self._own + 1) * self._slice_size]

    def take_gradients(self) -> Tensor:
        """All of them, flat and padded; the parameters have none afterwards. Zeros where a parameter
        took no part."""
        flat = self.values.new_zeros(self.values.shape)
        begin = 0
        for parameter in self.parameters.values():
            if parameter.grad is not None:
                flat[begin : begin + parameter.numel()].copy_(parameter.grad.reshape(-1))
                parameter.grad = None
            begin += parameter.numel()
        return flat

    def take_own_gradients(self) -> Tensor:
        """Takes the gradients of the own slice from gradients that are already sums over the
        replicas."""
        return self._own_slice(self.take_gradients()).clone()

    def add(self, gradient: Tensor) -> None:
        """`gradient`: of the own slice."""
        if self.slice.grad is None:
            self.slice.grad = gradient
        else:
            self.slice.grad.add_(gradient)

    def owned(self) -> Iterator[OwnedPart]:
        first = self._own * self._slice_size
        begin = 0
        for name, parameter in self.parameters.items():
            low = max(begin, first)
            high = min(begin + parameter.numel(), first + self._slice_size)
            if low < high:
                yield OwnedPart(name, low - begin, high - begin, self.slice, low - first)
            begin += parameter.numel()


def flat_buffers(
    parameters: Mapping[str, nn.Parameter], replicas: int, own: int, buffer_bytes: int
) -> list[FlatBuffer]:
    """The parameters in their order, those of one type and device together, in buffers of whole
    parameters. All replicas make the same ones."""
    full: list[dict[str, nn.Parameter]] = []
    filling: dict[tuple[torch.dtype, torch.device], dict[str, nn.Parameter]] = {}
    for name, parameter in parameters.items():
        kind = (parameter.dtype, parameter.device)
        current = filling.setdefault(kind, {})
        current[name] = parameter
        if sum(tensor.nbytes for tensor in current.values()) >= buffer_bytes:
            full.append(filling.pop(kind))
    return [FlatBuffer(each, replicas, own) for each in [*full, *filling.values()]]


class ShardedState:
    """The training state of a stage that one replica keeps. `shared`: parameters that other stages
    use too; their gradients stay whole until all stages have summed them. `gradients`: whether
    gradients are divided as well, as soon as there are any."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        shared: Collection[str],
        replicas: int,
        own: int,
        scatter: Scatter,
        gather: Gather,
        gradients: bool = False,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        single = {name: p for name, p in parameters.items() if name not in shared}
        several = {name: p for name, p in parameters.items() if name in shared}
        self._buffers = flat_buffers(single, replicas, own, buffer_bytes)
        self._shared = flat_buffers(several, replicas, own, buffer_bytes)
        self._scatter, self._gather = scatter, gather
        self._pending: deque[tuple[FlatBuffer, Callable[[], Tensor]]] = deque()
        self._begin_pass()
        if gradients:
            self._count_gradients()

    def _begin_pass(self) -> None:
        self._scattered = 0  # buffers, the last one first as gradients come
        self._missing = [set(buffer.parameters) for buffer in self._buffers]

    @property
    def slices(self) -> list[nn.Parameter]:
        """Slices that the optimizer of this replica updates."""
        return [buffer.slice for buffer in [*self._buffers, *self._shared]]

    def shared_parameters(self) -> dict[str, nn.Parameter]:
        """Parameters that other stages use too."""
        return {name: p for buffer in self._shared for name, p in buffer.parameters.items()}

    @property
    def divided(self) -> frozenset[str]:
        """The parameters of which each replica has a slice alone."""
        return frozenset()

    def divided_parts(self) -> list[OwnedPart]:
        """The slices of them that this replica has."""
        return []

    def owned(self) -> list[OwnedPart]:
        """The parts of parameters that this replica updates."""
        return [part for buffer in [*self._buffers, *self._shared] for part in buffer.owned()]

    def _count_gradients(self) -> None:
        for index, buffer in enumerate(self._buffers):
            for name, parameter in buffer.parameters.items():
                parameter.register_post_accumulate_grad_hook(partial(self._arrived, index, name))

    def _arrived(self, index: int, name: str, _: Tensor) -> None:
        """Buffers are summed in one order, which all replicas keep; most gradients come in it."""
        self._missing[index].discard(name)
        while self._scattered < len(self._buffers) and not self._missing[self._next()]:
            self._start()

    def _next(self) -> int:
        return len(self._buffers) - 1 - self._scattered

    def _start(self) -> None:
        buffer = self._buffers[self._next()]
        self._scattered += 1
        self._pending.append((buffer, self._scatter(buffer.take_gradients())))
        while len(self._pending) > MOST_PENDING:
            self._finish()

    def _finish(self) -> None:
        buffer, wait = self._pending.popleft()
        buffer.add(wait())

    def reduce_scatter(self) -> None:
        """Sums what gradients the parameters have, and adds the own slices to those from before."""
        while self._scattered < len(self._buffers):
            self._start()
        while self._pending:
            self._finish()
        self._begin_pass()

    def take_shared(self) -> None:
        """The gradients of shared parameters are sums over all stages now."""
        for buffer in self._shared:
            buffer.add(buffer.take_own_gradients())

    @torch.no_grad()
    def all_gather(self) -> None:
        """After the update: every replica has all parameters again."""
        for buffer in [*self._buffers, *self._shared]:
            self._gather(buffer.values, buffer.slice.detach())
