"""One layer of a model, run by itself: what its forward pass, backward pass and update take.

A layer in a training run finds its weights and inputs in memory rather than in a cache, since the
rest of the model ran in between. So several copies of it are used in turn, more than a cache holds.
"""

from __future__ import annotations

import functools
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .data import integer_range
from .interpreter import dense_parameters, make_optimizer
from .model import initial, seed_of
from .program import TableSpec, dtype_of
from .tables import Bank, LookedUp, Tables, make_banks

MOST_COPIES = 16
MOST_LOOKUPS, MOST_TABLE_BYTES = 64, 256 << 20  # looked up at once
UPDATES, HARNESS = 7, 200  # repetitions
Range = tuple[int, int]  # of integers, the upper one excluded


@dataclass(frozen=True)
class Argument:
    """A tensor that the layer reads. Each dimension is `per_sample * samples + fixed`."""

    name: str
    dtype: torch.dtype
    dims: tuple[tuple[int, int], ...]
    differentiable: bool
    bound: int  # integers are below it; 0: not known

    def random(self, samples: int, seed: int) -> Tensor:
        shape = tuple(per_sample * samples + fixed for per_sample, fixed in self.dims)
        values = random_values(shape, self.dtype, integer_range(self.name, self.bound), seed)
        return values.requires_grad_(self.differentiable and self.dtype.is_floating_point)


@dataclass(frozen=True)
class Layer:
    """A line of LAYERS in the script. `count` layers of the model are like this one."""

    name: str
    signature: str
    count: int
    modelled_seconds: float  # of one sample, for the order of measuring
    stage: type[Any]  # a module, as model.py has it
    arguments: tuple[Argument, ...]
    constants: dict[str, Range]  # where the values of an integer constant lie

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
        )


def footprint(layers: Sequence[Layer], samples: int) -> int:
    """Bytes that a pass over the model touches, roughly: before a layer is back at its weights and
    inputs, the rest of the model has had the cache. Of sparse tables no more than the rows read."""
    total = 0
    for layer in layers:
        shapes = [
            (tuple(per_sample * samples + fixed for per_sample, fixed in argument.dims), argument.dtype)
            for argument in layer.arguments
        ]
        shapes += [
            (shape, dtype_of(dtype, layer.name))
            for name, (shape, dtype, _) in layer.stage.parameters_spec.items()
            if name not in layer.stage.tables_spec
        ]
        total += layer.count * sum(math.prod(shape) * dtype.itemsize for shape, dtype in shapes)
    return 2 * total  # with gradients


def random_values(shape: tuple[int, ...], dtype: torch.dtype, limits: Range, seed: int) -> Tensor:
    """Normal floats, uniform integers within `limits`, true Booleans; complex as pairs of floats."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype)
    return torch.randint(limits[0], max(limits[1], limits[0] + 1), shape, generator=generator).to(
        dtype
    )


@dataclass
class Times:
    """One visit: medians in seconds; `spread` is the relative half-width of the 95% interval of
    forward and backward together."""

    forward: float
    backward: float
    update: float
    spread: float
    repetitions: int
    accumulate: float = 0.0  # adding the gradients of one more micro-batch


@dataclass
class Samples:
    """What the repetitions took, in their order."""

    forward: list[float] = field(default_factory=list)
    backward: list[float] = field(default_factory=list)
    rows: list[float] = field(default_factory=list)  # updates of those of sparse tables

    def __len__(self) -> int:
        return len(self.forward)

    @property
    def passes(self) -> list[float]:
        return [f + b for f, b in zip(self.forward, self.backward, strict=True)]

    def times(self, update: float, accumulate: float) -> Times:
        """`update`: that of the other parameters."""
        return Times(
            statistics.median(self.forward),
            statistics.median(self.backward),
            update + (statistics.median(self.rows) if self.rows else 0.0),
            spread_of(self.passes),
            len(self),
            accumulate,
        )


def spread_of(values: list[float]) -> float:
    """Relative half-width of the interval that holds the median with 95%, by order statistics;
    with few values it is their whole range."""
    ordered = sorted(values)
    median = statistics.median(ordered)
    outside = max(0, math.floor((len(ordered) - 1.96 * math.sqrt(len(ordered))) / 2))
    width = ordered[len(ordered) - 1 - outside] - ordered[outside]
    return width / 2 / median if median > 0 else 0.0


class Part:
    """The layer with weights and arguments of its own."""

    def __init__(self, layer: Layer, samples: int, number: int, device: torch.device) -> None:
        self.stage: Any = _stage(layer, number).to(device).train()
        self.arguments = [
            argument.random(samples, seed_of("argument", argument.name, number))
            .to(device)
            .detach()
            .requires_grad_(argument.differentiable and argument.dtype.is_floating_point)
            for argument in layer.arguments
        ]

    def forward(self, rows: LookedUp | None) -> tuple[Any, ...]:
        if rows is not None:
            self.stage.lookup = rows.take
        return tuple(self.stage(*self.arguments))

    def indices(self) -> tuple[Tensor, ...]:
        inputs = self.arguments[len(self.stage.receives) :]
        return tuple(self.stage.indices(*inputs))


class Copy:
    """What runs at once, with output gradients of its own: one layer, or as many layers with sparse
    tables as a stage may look up together, since most of a small lookup is the same for all."""

    def __init__(
        self, layer: Layer, samples: int, number: int, device: torch.device, optimizer: str
    ) -> None:
        self.layers = _at_once(layer)
        first = number * self.layers
        self._parts = [
            Part(layer, samples, part, device) for part in range(first, first + self.layers)
        ]
        self._tables = _own_tables([part.stage for part in self._parts], first, device, optimizer)
        self._rows: LookedUp | None = None
        self.parameters = [p for part in self._parts for p in dense_parameters(part.stage)]
        self._gradients = [
            torch.randn_like(output) for output in self.forward() if _takes_gradient(output)
        ]
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
        return [output for part in self._parts for output in part.forward(self._rows)]

    def backward(self, outputs: list[Any]) -> None:
        ends = [output for output in outputs if _takes_gradient(output)]
        if ends:
            torch.autograd.backward(ends, self._gradients)
        if self._tables is not None and self._rows is not None:
            self._tables.give_gradients(self._rows)

    @property
    def has_tables(self) -> bool:
        return self._tables is not None

    def update_rows(self) -> None:
        """Of the tables; the other parameters are updated for all copies at once."""
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

    banks = make_banks(list(kinds), lambda specs: Bank(specs, 0, rows, optimizer, 1e-6))
    return Tables(banks, lookups)


def _takes_gradient(output: Any) -> bool:
    return isinstance(output, Tensor) and output.requires_grad and output.grad_fn is not None


def _stage(layer: Layer, number: int) -> nn.Module:
    stage: Any = layer.stage(tables=False) if layer.stage.tables_spec else layer.stage()
    with torch.no_grad():
        for name, (shape, dtype, kind) in (stage.parameters_spec | stage.buffers_spec).items():
            values = initial(name, tuple(shape), kind, number)
            stage.tensor(name).copy_(values.to(dtype_of(dtype, layer.name)))
        for name, (shape, dtype) in stage.constants_spec.items():
            limits = layer.constants.get(name, (0, 1))
            seed = seed_of("constant", name, number)
            stage.tensor(name).copy_(
                random_values(tuple(shape), dtype_of(dtype, layer.name), limits, seed)
            )
    return stage  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Effort:
    """When a visit is long enough: after `least` repetitions, once the spread is at most `spread`
    or `seconds` have passed; never after more than `most`."""

    least: int = 3
    most: int = 200
    seconds: float = 0.4
    spread: float = 0.01
    settle: float = 0.1  # seconds that even a steady measurement takes

    def suffices(self, samples: Samples, elapsed: float) -> bool:
        if len(samples) < self.least:
            return False
        if len(samples) >= self.most or elapsed >= self.seconds:
            return True
        return elapsed >= self.settle and spread_of(samples.passes) <= self.spread


class Nothing(nn.Module):
    """A layer that does nothing: what it takes is the harness, of which a stage of many layers has
    little, the call of a module and of a backward pass for each layer."""

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (x.view_as(x),)


@functools.cache
def harness_seconds(device: torch.device) -> tuple[float, float]:
    """Of the forward and of the backward pass of a layer run by itself."""
    stage, x = Nothing(), torch.ones(1, device=device, requires_grad=True)
    gradient = [torch.ones(1, device=device)]
    forward, backward = [], []
    for _ in range(HARNESS):
        begin = _now(device)
        outputs = list(stage(x))
        computed = _now(device)
        torch.autograd.backward([o for o in outputs if _takes_gradient(o)], gradient)
        backward.append(_now(device) - computed)
        forward.append(computed - begin)
        x.grad = None
    return statistics.median(forward), statistics.median(backward)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Bench:
    """Measures one layer at one number of samples."""

    def __init__(
        self,
        layer: Layer,
        samples: int,
        device: torch.device,
        optimizer: str = "sgd",
        cache_bytes: int = 64 << 20,
        memory_bytes: int = 1 << 30,
    ) -> None:
        self._device = device
        self._optimizer = optimizer
        first = Copy(layer, samples, 0, device, optimizer)
        copies = math.ceil(cache_bytes / max(1, first.bytes)) + 1
        copies = max(1, min(copies, MOST_COPIES, memory_bytes // max(1, first.bytes)))
        self._copies = [first]
        for number in range(1, copies):
            self._copies.append(Copy(layer, samples, number, device, optimizer))

    @property
    def copies(self) -> int:
        return len(self._copies)

    def measure(self, effort: Effort) -> Times:
        """Warms every copy up, then repeats until `effort` suffices."""
        for copy in self._copies:
            self._repeat(copy, Samples())
        gc.collect()
        gc.disable()  # a collection would count as part of a pass
        try:
            samples = self._passes(effort)
            return samples.times(*self._update(UPDATES))
        finally:
            gc.enable()

    def _passes(self, effort: Effort) -> Samples:
        samples = Samples()
        begin = time.perf_counter()
        for copy in self._rotation():
            self._repeat(copy, samples)
            if effort.suffices(samples, time.perf_counter() - begin):
                break
        return samples

    def _rotation(self) -> Iterator[Copy]:
        while True:
            yield from self._copies

    def _now(self) -> float:
        return _now(self._device)

    def _repeat(self, copy: Copy, samples: Samples) -> None:
        begin = self._now()
        outputs = copy.forward()
        computed = self._now()
        copy.backward(outputs)
        returned = self._now()
        if copy.has_tables:
            copy.update_rows()
            samples.rows.append((self._now() - returned) / copy.layers)
        copy.forget()
        forward, backward = harness_seconds(self._device)
        samples.forward.append(max(0.0, (computed - begin) / copy.layers - forward))
        samples.backward.append(max(0.0, (returned - computed - backward) / copy.layers))

    def _update(self, repetitions: int) -> tuple[float, float]:
        """Of the parameters, and what it takes to add gradients to theirs. One optimizer updates the
        parameters of all layers of a stage together; so here those of all copies, each of which
        takes its part of the time."""
        parameters = [parameter for copy in self._copies for parameter in copy.parameters]
        optimizer = make_optimizer(self._optimizer, parameters, 1e-6)
        if optimizer is None:
            return 0.0, 0.0
        for copy in self._copies:
            copy.backward(copy.forward())
            copy.update_rows()
        gradients = [parameter.grad for parameter in parameters]
        more = [None if gradient is None else gradient.clone() for gradient in gradients]

        def accumulate() -> None:
            for gradient, other in zip(gradients, more, strict=True):
                if gradient is not None and other is not None:
                    gradient.add_(other)

        def step() -> None:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        def restore() -> None:
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient

        adding = self._of_a_layer(repetitions, accumulate)
        return self._of_a_layer(repetitions, step, restore), adding

    def _of_a_layer(
        self, repetitions: int, action: Callable[[], None], before: Callable[[], None] | None = None
    ) -> float:
        """Median seconds; the first repetition may make what the others find."""
        times = []
        for _ in range(repetitions + 1):
            if before is not None:
                before()
            begin = self._now()
            action()
            times.append(self._now() - begin)
        return statistics.median(times[1:]) / sum(copy.layers for copy in self._copies)
