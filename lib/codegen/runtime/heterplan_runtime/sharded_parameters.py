"""Parameters that the replicas of a stage divide among them (ZeRO stage 3, Rajbhandari et al., SC 2020).

Each replica holds a slice of the parameters of a layer, of their gradients and of the state of the
optimizer. The code of a layer gathers the parameters of the layer, and lets go of them when the next layer
begins. Autograd notes which of their elements it needs, and the backward pass gathers them again; a
segment that is recomputed gathers them itself. When the backward pass has all gradients of a layer, they
are summed over the replicas, and each replica keeps its slice of the sum. All of it is done in the order
of the generated code, which is the same on all replicas. Parameters that other stages use, too, stay whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from .micro_batch import Presence
from .sharded_state import Gather, OwnedPart, Scatter, ShardedState

Shape = tuple[int, ...]


class GatheredLayer:
    """Parameters of one type that are gathered together, and the slice of them that this replica has."""

    def __init__(
        self, shapes: Mapping[str, Shape], dtype: torch.dtype, device: torch.device, replicas: int, own: int
    ) -> None:
        self.shapes = dict(shapes)
        self.sizes = {name: torch.Size(shape).numel() for name, shape in shapes.items()}
        self._slice_size = -(-sum(self.sizes.values()) // replicas)
        self._replicas, self._own = replicas, own
        self.slice = nn.Parameter(torch.zeros(self._slice_size, dtype=dtype, device=device))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.shapes)

    def owned(self) -> Iterator[OwnedPart]:
        first = self._own * self._slice_size
        begin = 0
        for name, size in self.sizes.items():
            low, high = max(begin, first), min(begin + size, first + self._slice_size)
            if low < high:
                yield OwnedPart(name, low - begin, high - begin, self.slice, low - first)
            begin += size

    @torch.no_grad()
    def fill(self, name: str, values: Tensor) -> None:
        """Copies this replica's part of the values of a parameter."""
        for part in self.owned():
            if part.name == name:
                end = part.offset + part.end - part.begin
                self.slice[part.offset : end].copy_(values.reshape(-1)[part.begin : part.end])

    def empty(self) -> Tensor:
        """Returns a new flat tensor that has room for all parameters and padding."""
        return self.slice.new_empty(self._slice_size * self._replicas, requires_grad=False)

    def views(self, flat: Tensor) -> tuple[Tensor, ...]:
        """Returns the parameters in `flat`."""
        parts = flat[: sum(self.sizes.values())].split(list(self.sizes.values()))
        return tuple(part.view(shape) for part, shape in zip(parts, self.shapes.values(), strict=True))

    def flattened(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """Returns the gradients, flat and padded; zeros for a parameter without one."""
        flat = self.slice.new_zeros(self._slice_size * self._replicas, requires_grad=False)
        for view, gradient in zip(self.views(flat), gradients):
            if gradient is not None:
                view.copy_(gradient)
        return flat


@dataclass(frozen=True)
class _Note:
    """Elements of the parameters of a layer, which can be gathered again."""

    layer: GatheredLayer
    size: Shape
    stride: Shape
    offset: int


class _Gathered(torch.autograd.Function):
    """Gathers the parameters of a layer; the backward pass scatters the sum of their gradients."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, layer: GatheredLayer, state: ShardedParameters) -> tuple[Tensor, ...]:
        ctx.layer, ctx.state = layer, state
        ctx.set_materialize_grads(False)
        return layer.views(state.gathered(layer))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        return ctx.state.scattered(ctx.layer, gradients), None, None


class ShardedParameters(ShardedState):
    """The training state of one replica of a stage with divided parameters. `layers` are filled with
    values before the first pass. `shared`: parameters that other stages use, too."""

    def __init__(
        self,
        layers: Sequence[GatheredLayer],
        shared: Mapping[str, nn.Parameter],
        replicas: int,
        own: int,
        scatter: Scatter,
        gather: Gather,
        presence: Presence,
    ) -> None:
        super().__init__(shared, tuple(shared), replicas, own, scatter, gather)
        self._layers = list(layers)
        self._layer_of = {name: layer for layer in layers for name in layer.names}
        self._presence = presence
        self._whole: Callable[[str], Tensor] | None = None
        self._at_hand: dict[GatheredLayer, tuple[Tensor, ...]] = {}  # in a forward pass
        self._again: dict[GatheredLayer, Tensor] = {}  # in a backward pass

    def serve(self, stage: Any) -> None:
        """The code of `stage` takes its parameters from here."""
        self._whole = stage.tensor
        stage.__dict__["tensor"] = self.tensor
        stage.__dict__["begin_layer"] = self.begin_layer

    @property
    def slices(self) -> list[nn.Parameter]:
        return [*(layer.slice for layer in self._layers), *super().slices]

    @property
    def divided(self) -> frozenset[str]:
        return frozenset(self._layer_of)

    def divided_parts(self) -> list[OwnedPart]:
        return [part for layer in self._layers for part in layer.owned()]

    def owned(self) -> list[OwnedPart]:
        return [*self.divided_parts(), *super().owned()]

    def tensor(self, name: str) -> Tensor:
        """Returns the parameter or buffer with this ONNX name."""
        layer = self._layer_of.get(name)
        if layer is None:
            assert self._whole is not None
            return self._whole(name)
        if layer not in self._at_hand:
            self._at_hand[layer] = _Gathered.apply(layer.slice, layer, self)
        return self._at_hand[layer][layer.names.index(name)]

    def begin_layer(self) -> None:
        """Frees the parameters that the forward pass has gathered."""
        self._at_hand.clear()

    @contextmanager
    def forward(self, keeps: bool) -> Iterator[None]:
        """Surrounds a forward pass. `keeps`: activations are kept for the backward pass, which would keep
        parameters with them."""
        try:
            if keeps:
                with saved_tensors_hooks(self._note, self._take):
                    yield
            else:
                yield
        finally:
            self.begin_layer()

    def gathered(self, layer: GatheredLayer) -> Tensor:
        flat = layer.empty()
        self._gather(flat, layer.slice.detach())
        return flat

    def _note(self, tensor: Tensor) -> Tensor | _Note:
        if tensor.layout != torch.strided or not tensor.numel():
            return tensor
        place = tensor.untyped_storage().data_ptr()
        for layer, views in self._at_hand.items():
            if views[0].untyped_storage().data_ptr() == place and views[0].dtype == tensor.dtype:
                return _Note(layer, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))
        return tensor

    @torch.no_grad()
    def _take(self, noted: Tensor | _Note) -> Tensor:
        if isinstance(noted, Tensor):
            return noted
        if noted.layer not in self._again:
            self._again[noted.layer] = self.gathered(noted.layer)
        return self._again[noted.layer].as_strided(noted.size, noted.stride, noted.offset)

    @torch.no_grad()
    def scattered(self, layer: GatheredLayer, gradients: Sequence[Tensor | None]) -> Tensor:
        """The own slice of the sum over the replicas; the parameters are not needed any more."""
        self._again.pop(layer, None)
        counted = () if self._presence.absent else gradients
        return self._scatter(layer.flattened(counted))()

    def reduce_scatter(self) -> None:
        """Ends a backward pass. A layer that took no part gets the gradient zero."""
        self._again.clear()
        for layer in self._layers:
            if layer.slice.grad is None:
                layer.slice.grad = torch.zeros_like(layer.slice)
