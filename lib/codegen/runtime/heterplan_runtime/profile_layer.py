"""One layer of a model, made to run by itself: its weights, its arguments, its sparse tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .data import integer_range
from .losses import CLASSIFICATION, Summed, mean_squared_error
from .model import initial, seed_of
from .trained_state import dense_parameters
from .precision import Precision
from .program import TableSpec, dtype_of
from .shards import LoneShard
from .tables import GroupedEmbedding, LookedUp, Tables, make_groups

MOST_LOOKUPS, MOST_TABLE_BYTES = 64, 256 << 20  # looked up at once
CPU = torch.device("cpu")
Range = tuple[int, int]  # of integers, the upper one excluded


@dataclass(frozen=True)
class Argument:
    """A tensor that the layer reads. Each dimension is `per_sample * samples + fixed`."""

    name: str
    dtype: torch.dtype
    dims: tuple[tuple[int, int], ...]
    differentiable: bool
    bound: int  # integers are below it; 0: not known

    def random(
        self, samples: int, seed: int, device: torch.device = CPU, dtype: torch.dtype | None = None,
        channels_last: bool = False,
    ) -> Tensor:
        """`dtype`: of floating-point values, where it is another than the model's. `channels_last`: the
        layout of images."""
        shape = tuple(per_sample * samples + fixed for per_sample, fixed in self.dims)
        limits = integer_range(self.name, self.bound)
        values = random_values(shape, self.dtype, limits, seed, device)
        if dtype is not None and self.dtype == torch.float32:
            values = values.to(dtype)
        if channels_last and values.dim() == 4 and values.is_floating_point():
            values = values.contiguous(memory_format=torch.channels_last)
        return values.requires_grad_(self.differentiable and self.dtype.is_floating_point)


@dataclass(frozen=True)
class LossSpec:
    """The loss of a tensor that a layer returns: by its name, and which of them that is."""

    name: str
    output: int


@dataclass(frozen=True)
class Layer:
    """A line of LAYERS in the script. `count` layers of the model are like this one; one with a loss stands
    for itself alone."""

    name: str
    signature: str
    count: int
    modelled_seconds: float  # of one sample, for the order of measuring
    stage: type[Any]  # a module, as model.py has it
    arguments: tuple[Argument, ...]
    constants: dict[str, Range]  # where the values of an integer constant lie
    loss: LossSpec | None = None
    degree: int = 1  # devices that share the layer
    also: tuple[int, ...] = ()  # other degrees at which the model has such layers

    @property
    def entry(self) -> dict[str, Any]:
        """The fields that identify an entry of the profile."""
        shared = {"shardDegree": self.degree} if self.degree > 1 else {}
        if self.loss is None:
            return {"signature": self.signature, **shared}
        return {"layer": self.name, "loss": self.loss.name, **shared}

    @property
    def label(self) -> str:
        return self.name + (f" of degree {self.degree}" if self.degree > 1 else "")

    @staticmethod
    def of(line: dict[str, Any]) -> Layer:
        arguments = tuple(
            Argument(name, dtype_of(dtype, line["name"]), dims, differentiable, bound)
            for name, dtype, dims, differentiable, bound in line["arguments"]
        )
        return Layer(
            line["name"],
            line["signature"],
            line["count"],
            line["modelledSeconds"],
            line["stage"],
            arguments,
            line["constants"],
            LossSpec(*line["loss"]) if "loss" in line else None,
            line.get("degree", 1),
            line.get("also", ()),
        )


def footprint(layers: Sequence[Layer], samples: int, degree: int = 1) -> int:
    """Bytes that a pass over the model touches, roughly: before a layer is back at its weights and
    inputs, the rest of the model has had the cache. For sparse tables only the rows that are read
    count."""
    total = 0
    for layer in layers:
        if layer.loss is not None:  # that layer is among the others, too
            continue
        if degree not in (layer.degree, *layer.also):
            continue
        shapes = [
            (tuple(per_sample * samples + fixed for per_sample, fixed in argument.dims), argument.dtype)
            for argument in layer.arguments
        ]
        shapes += [
            (shape, dtype_of(dtype, layer.name))
            for shape, dtype, _ in layer.stage.parameters_spec.values()
        ]
        total += layer.count * sum(math.prod(shape) * dtype.itemsize for shape, dtype in shapes)
    return 2 * total  # with gradients


def random_values(
    shape: tuple[int, ...], dtype: torch.dtype, limits: Range, seed: int, device: torch.device = CPU
) -> Tensor:
    """Normal floats, uniform integers within `limits`, true Booleans; complex as pairs of floats."""
    generator = torch.Generator(device).manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, device=device).to(dtype)
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype, device=device)
    high = max(limits[1], limits[0] + 1)
    return torch.randint(limits[0], high, shape, generator=generator, device=device).to(dtype)


class Part:
    """The layer with weights and arguments of its own. Inputs from other layers have the type in
    which those layers mostly compute. Only a layer with filters has images to lay out."""

    def __init__(
        self, layer: Layer, samples: int, number: int, device: torch.device, precision: Precision,
        channels_last: bool,
    ) -> None:
        filters = any(len(shape) == 4 for shape, _, _ in layer.stage.parameters_spec.values())
        self.stage: Any = _stage(layer, number).to(device).train()
        received, computed = len(self.stage.receives), precision.activations
        self.arguments = [
            argument.random(
                samples,
                seed_of("argument", argument.name, number),
                device,
                computed if index < received else None,
                channels_last and filters,
            )
            for index, argument in enumerate(layer.arguments)
        ]

    def forward(self, rows: LookedUp | None) -> tuple[Any, ...]:
        if rows is not None:
            self.stage.lookup = rows.take
        return tuple(self.stage(*self.arguments))

    def indices(self) -> tuple[Tensor, ...]:
        inputs = self.arguments[len(self.stage.receives) :]
        return tuple(self.stage.indices(*inputs))


class LossBehind:
    """The loss of what a layer returns, for targets that are drawn once."""

    def __init__(self, spec: LossSpec, seed: int) -> None:
        self._spec, self._seed = spec, seed
        self._function = CLASSIFICATION.get(spec.name, mean_squared_error)
        self._targets: Tensor | None = None

    def applied_to(self, outputs: list[Any]) -> list[Any]:
        """`outputs` with the loss in place of what it is of."""
        place = self._spec.output
        predicted = outputs[place]
        if self._targets is None:
            self._targets = self._draw(predicted)
        loss = self._function((predicted,), self._targets)
        return [*outputs[:place], loss.total if isinstance(loss, Summed) else loss, *outputs[place + 1 :]]

    def _draw(self, predicted: Tensor) -> Tensor:
        shape, device = tuple(predicted.shape), predicted.device
        if self._spec.name in CLASSIFICATION:
            return random_values(shape[:-1], torch.int64, (0, shape[-1]), self._seed, device)
        return random_values(shape, torch.float32, (0, 1), self._seed, device)


class Copy:
    """A unit of layers that runs at once, with its own output gradients. It is one layer, or as
    many layers with sparse tables as a stage may look up together, because most of the time of a
    small lookup is independent of the number of tables. It has run once, so that it is warm, and
    has gradients until it forgets them."""

    def __init__(
        self, layer: Layer, samples: int, number: int, device: torch.device, optimizer: str,
        precision: Precision, channels_last: bool = False,
    ) -> None:
        self.layers = _at_once(layer)
        self._device, self._precision = device, precision
        first = number * self.layers
        self._parts = [
            Part(layer, samples, part, device, precision, channels_last)
            for part in range(first, first + self.layers)
        ]
        self._tables = _own_tables([part.stage for part in self._parts], first, device, optimizer)
        self._rows: LookedUp | None = None
        self._loss = LossBehind(layer.loss, seed_of("loss", layer.name, first)) if layer.loss else None
        self.parameters = [p for part in self._parts for p in dense_parameters(part.stage)]
        outputs = self.forward()
        self._gradients = [torch.randn_like(end) for end in outputs if takes_gradient(end)]
        self.backward(outputs)
        self.update_rows()
        stored = [*self._gradients, *self.parameters]  # as many gradients as parameters
        for part in self._parts:
            stored += [*part.arguments, *part.stage.state_dict().values()]
        if self._tables is not None:
            stored += self._tables.weights()
        self.bytes = sum(tensor.numel() * tensor.element_size() for tensor in stored)

    def forward(self) -> list[Any]:
        if self._tables is not None:
            self._tables.start(0, lambda: [i for part in self._parts for i in part.indices()])
            self._rows = self._tables.finish(0)
        with self._precision.forward(self._device):
            outputs = [output for part in self._parts for output in part.forward(self._rows)]
        return outputs if self._loss is None else self._loss.applied_to(outputs)

    def backward(self, outputs: list[Any]) -> None:
        ends = [output for output in outputs if takes_gradient(output)]
        if ends:
            torch.autograd.backward(ends, self._gradients)
        if self._tables is not None and self._rows is not None:
            self._tables.push_gradients(self._rows)

    @property
    def has_tables(self) -> bool:
        return self._tables is not None

    def update_rows(self) -> None:
        """Updates the rows of the tables; the other parameters of all copies are updated
        together."""
        if self._tables is not None:
            self._tables.step()

    def forget(self) -> None:
        """Drops the gradients of a pass."""
        for part in self._parts:
            for tensor in [*part.arguments, *part.stage.parameters()]:
                tensor.grad = None


def _at_once(layer: Layer) -> int:
    tables = layer.stage.tables_spec.values()
    if not tables:
        return 1
    size = sum(
        math.prod(shape) * dtype_of(dtype, layer.name).itemsize for shape, dtype, _ in tables
    )
    return max(1, min(layer.count, MOST_LOOKUPS, MOST_TABLE_BYTES // max(1, size)))


def _own_tables(
    stages: list[Any], number: int, device: torch.device, optimizer: str
) -> Tables | None:
    """The sparse tables of layers as the runtime keeps them where no other rank shares them."""
    kinds, lookups = {}, []
    for index, stage in enumerate(stages):
        for name, (shape, dtype, kind) in stage.tables_spec.items():
            spec = TableSpec(f"{index}.{name}", dtype_of(dtype, name), shape[1], (shape[0],))
            kinds[spec] = (tuple(shape), kind, number + index)
        if stage.tables_spec:
            lookups += [f"{index}.{name}" for name in stage.lookups]
    if not kinds:
        return None

    def rows(spec: TableSpec) -> Tensor:
        shape, kind, seed = kinds[spec]
        return initial(spec.name, shape, kind, seed).to(spec.dtype).to(device)

    groups = make_groups(list(kinds), lambda specs: GroupedEmbedding(specs, 0, rows, optimizer, 1e-6))
    return Tables(groups, lookups)


def takes_gradient(output: Any) -> bool:
    return isinstance(output, Tensor) and output.requires_grad and output.grad_fn is not None


def _stage(layer: Layer, number: int) -> nn.Module:
    stage: Any = layer.stage(tables=False) if layer.stage.tables_spec else layer.stage()
    if layer.degree > 1:
        stage.shards = LoneShard(layer.degree)
    with torch.no_grad():
        filled = stage.parameters_spec | stage.frozen_spec | stage.buffers_spec
        for name, (shape, dtype, kind) in filled.items():
            values = initial(name, tuple(shape), kind, number)
            stage.tensor(name).copy_(values.to(dtype_of(dtype, layer.name)))
        for name, (shape, dtype) in stage.constants_spec.items():
            limits = layer.constants.get(name, (0, 1))
            seed = seed_of("constant", name, number)
            stage.tensor(name).copy_(
                random_values(tuple(shape), dtype_of(dtype, layer.name), limits, seed)
            )
    return stage  # type: ignore[no-any-return]
