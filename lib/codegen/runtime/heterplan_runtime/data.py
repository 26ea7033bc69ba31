"""Samples and targets of a step, each a function of (seed, step, sample) alone: a rank makes just
the samples that it needs, and they equal those of any other split of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from .errors import RuntimeFault
from .losses import Loss, class_targets
from .model import Model, seed_of
from .program import TensorSpec


@dataclass(frozen=True)
class Batch:
    inputs: dict[str, Tensor]
    targets: Any

    def pin_memory(self) -> Batch:
        """In pages that a GPU reads by itself."""
        targets = self.targets.pin_memory() if isinstance(self.targets, Tensor) else self.targets
        return Batch({name: tensor.pin_memory() for name, tensor in self.inputs.items()}, targets)

    def to(self, device: torch.device) -> Batch:
        """From pinned pages the copy is not waited for."""
        targets = self.targets
        if isinstance(targets, Tensor):
            targets = targets.to(device, non_blocking=True)
        inputs = {name: tensor.to(device, non_blocking=True) for name, tensor in self.inputs.items()}
        return Batch(inputs, targets)


class DataSource(Protocol):
    def load(self, step: int, samples: range) -> Batch:
        """`samples` count from the first sample of the global batch of `step`."""


def integer_range(name: str, bound: int) -> tuple[int, int]:
    """Integers of input `name` are drawn from low up to, not including, high. 0: no known bound."""
    if bound:
        return (0, max(1, bound))
    return (1, 2) if "mask" in name.lower() else (0, 2)


class RandomData:
    """Floats are normal; integers uniform below their bound, which is 2 where none is known; an
    integer input that is called a mask is all ones. `fixed`: those of the first step in every step,
    which a model can learn by heart."""

    def __init__(self, model: Model, loss: Loss, seed: int, fixed: bool = False) -> None:
        self._fixed = fixed
        self._model = model
        self._seed = seed
        prediction = model.prediction
        self._targets = class_targets(prediction) if loss.takes_classes else prediction
        self._target_range = (0, prediction.dims[-1][1]) if loss.takes_classes else (0, 2)

    def load(self, step: int, samples: range) -> Batch:
        step = 0 if self._fixed else step
        bounds = self._model.bounds
        inputs = {
            name: self._draw(spec, step, samples, integer_range(name, bounds.get(name, 0)))
            for name, spec in self._model.inputs.items()
        }
        return Batch(inputs, self._draw(self._targets, step, samples, self._target_range))

    def _draw(self, spec: TensorSpec, step: int, samples: range, limits: tuple[int, int]) -> Tensor:
        if spec.batch_axis is None:
            return self._one(spec, step, samples.start if self._model.is_whole else -1, limits)
        parts = [self._one(spec, step, sample, limits) for sample in samples]
        return torch.cat(parts, spec.batch_axis)

    def _one(self, spec: TensorSpec, step: int, sample: int, limits: tuple[int, int]) -> Tensor:
        seed = seed_of("data", spec.name, self._seed, step, sample)
        generator = torch.Generator().manual_seed(seed)
        shape = spec.shape(1)
        if spec.dtype.is_floating_point:
            return torch.randn(shape, generator=generator).to(spec.dtype)
        return torch.randint(*limits, shape, generator=generator).to(spec.dtype)


class UserData:
    """A function(step, sample_indices) -> (inputs by name, targets)."""

    def __init__(self, what: str, function: Callable[..., Any], model: Model) -> None:
        """`what`: the option and its text, for errors."""
        self._what, self._function, self._model = what, function, model

    def load(self, step: int, samples: range) -> Batch:
        try:
            inputs, targets = self._function(step, list(samples))
        except (TypeError, ValueError) as error:
            raise RuntimeFault(f"{self._what}: {error}") from error
        found = {}
        for name, spec in self._model.inputs.items():
            if name not in inputs:
                raise RuntimeFault(f"{self._what}: gives no input '{name}'")
            found[name] = spec.restored(inputs[name])
            spec.check(found[name], len(samples))
        return Batch(found, targets)
