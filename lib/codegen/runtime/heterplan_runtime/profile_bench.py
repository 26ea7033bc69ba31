"""The times of the forward pass, the backward pass and the update of a layer.

A layer in a training run finds its weights and inputs where the rest of the model, which ran in
between, has left them. So several copies of it are used in turn.
"""

from __future__ import annotations

import functools
import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .trained_state import make_optimizer
from .laps import laps_of
from .precision import Precision
from .profile_layer import Copy, Layer, takes_gradient
from .robust import spread_of, trimmed_mean
from .device_classes import class_of

MOST_COPIES = 16
UPDATES, HARNESS = 7, 200  # repetitions


@dataclass
class Times:
    """One session: trimmed means in seconds; `spread` is the relative half-width of the 95% interval
    of the median of forward and backward together."""

    forward: float
    backward: float
    update: float
    spread: float
    repetitions: int
    accumulate: float = 0.0  # adding the gradients of one more micro-batch
    reference_kernel: float = 0.0  # beside the passes, the mean; 0: not measured


@dataclass
class Samples:
    """The times of the repetitions, in their order."""

    forward: list[float] = field(default_factory=list)
    backward: list[float] = field(default_factory=list)
    rows: list[float] = field(default_factory=list)  # updates of those of sparse tables
    reference_kernels: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.forward)

    @property
    def passes(self) -> list[float]:
        return [f + b for f, b in zip(self.forward, self.backward, strict=True)]

    def times(self, update: float, accumulate: float) -> Times:
        """`update`: that of the other parameters."""
        return Times(
            trimmed_mean(self.forward),
            trimmed_mean(self.backward),
            update + (trimmed_mean(self.rows) if self.rows else 0.0),
            spread_of(self.passes),
            len(self),
            accumulate,
            trimmed_mean(self.reference_kernels),
        )


@dataclass(frozen=True)
class Effort:
    """When a session is long enough: after `least` repetitions, once the spread is at most `spread`
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
    """The overhead of measuring the forward and the backward pass of a layer by itself."""
    stage, x = Nothing(), torch.ones(1, device=device, requires_grad=True)
    gradient = [torch.ones(1, device=device)]
    laps, passes = laps_of(device), []
    for _ in range(HARNESS):
        laps.begin()
        outputs = list(stage(x))
        laps.lap()
        torch.autograd.backward([o for o in outputs if takes_gradient(o)], gradient)
        laps.lap()
        passes.append(laps.seconds(0.0))
        x.grad = None
    forward, backward = zip(*passes, strict=True)
    return statistics.median(forward), statistics.median(backward)


def _now(device: torch.device) -> float:
    class_of(device).synchronize(device)
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
        precision: Precision = Precision("fp32"),
        channels_last: bool = False,
    ) -> None:
        self._device = device
        self._optimizer = optimizer
        first = Copy(layer, samples, 0, device, optimizer, precision, channels_last)
        copies = math.ceil(cache_bytes / max(1, first.bytes)) + 1
        copies = max(1, min(copies, MOST_COPIES, memory_bytes // max(1, first.bytes)))
        self._forward_laps, self._backward_laps = laps_of(device), laps_of(device)
        self._copies = [first]
        for number in range(1, copies):
            self._copies.append(Copy(layer, samples, number, device, optimizer, precision, channels_last))

    @property
    def copies(self) -> int:
        return len(self._copies)

    def measure(self, effort: Effort) -> Times:
        """Updates the copies by the gradients that they have, then repeats passes until `effort`
        suffices. Once."""
        gc.collect()
        gc.disable()  # a collection would count as part of a pass
        try:
            updates = self._update(UPDATES)
            for copy in self._copies:
                copy.forget()
            return self._passes(effort).times(*updates)
        finally:
            gc.enable()

    def _passes(self, effort: Effort) -> Samples:
        if not (self._forward_laps.ready and self._backward_laps.ready):
            self._sweep(Samples())
        samples = Samples()
        begin = time.perf_counter()
        samples.reference_kernels.append(class_of(self._device).reference_kernel(self._device))
        while not effort.suffices(samples, time.perf_counter() - begin):
            self._sweep(samples)
            samples.reference_kernels.append(class_of(self._device).reference_kernel(self._device))
        return samples

    def _sweep(self, samples: Samples) -> None:
        """The copies stand for the layers of a stage: all forward passes, then all backward passes,
        the last one first. Activations then come to lie where others were a step ago, and not where
        the cache still has those of the pass before."""
        outputs = self._forward(samples)
        self._backward(outputs, samples)
        for copy in self._copies:
            copy.forget()

    def _forward(self, samples: Samples) -> list[list[Any]]:
        """Runs the forward pass of all copies and returns their outputs."""
        outputs, laps = [], self._forward_laps
        laps.begin()
        for copy in self._copies:
            outputs.append(copy.forward())
            laps.lap()
        passes = laps.seconds(harness_seconds(self._device)[0])
        samples.forward += [
            seconds / copy.layers for seconds, copy in zip(passes, self._copies, strict=True)
        ]
        return outputs

    def _backward(self, outputs: list[list[Any]], samples: Samples) -> None:
        """Runs the backward pass of all copies. If a copy has sparse tables, a second lap is the
        update of their rows."""
        laps = self._backward_laps
        laps.begin()
        for copy in reversed(self._copies):
            copy.backward(outputs.pop())
            laps.lap()
            if copy.has_tables:
                copy.update_rows()
                laps.lap()
        times = laps.seconds(harness_seconds(self._device)[1])
        layers = self._copies[0].layers  # of each of them
        if self._copies[0].has_tables:
            samples.rows += [seconds / layers for seconds in times[1::2]]
            times = times[::2]
        samples.backward += [seconds / layers for seconds in reversed(times)]

    def _update(self, repetitions: int) -> tuple[float, float]:
        """The time to update the parameters, and the time to add gradients to theirs. One optimizer
        updates the parameters of all layers of a stage together; so here those of all copies, each
        of which takes its part of the time."""
        parameters = [parameter for copy in self._copies for parameter in copy.parameters]
        optimizer = make_optimizer(self._optimizer, parameters, 1e-6)
        if optimizer is None:
            return 0.0, 0.0
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
        """Seconds; the first repetition may make what the others find."""
        times = []
        for _ in range(repetitions + 1):
            if before is not None:
                before()
            begin = _now(self._device)
            action()
            times.append(_now(self._device) - begin)
        return trimmed_mean(times[1:]) / sum(copy.layers for copy in self._copies)
