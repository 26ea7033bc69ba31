"""Evaluation of the model on samples that it is not trained with: forward passes in inference mode,
after every so many steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .communication import Communicator
from .data import DataSource
from .errors import RuntimeFault
from .interpreter import Interpreter
from .losses import IGNORED, Loss, Summed, own_function

Metric = Callable[[Any, Any], Tensor | Summed]


def accuracy(outputs: tuple[Tensor, ...], targets: Tensor) -> Summed:
    """The part of the targets, but for those that do not count, that the largest output names."""
    counted = targets != IGNORED
    hits = (outputs[0].argmax(-1) == targets) & counted
    return Summed(hits.sum(), float(counted.sum()))


METRICS: Mapping[str, Metric] = {"accuracy": accuracy}


def make_metric(text: str) -> Metric:
    if text in METRICS:
        return METRICS[text]
    if ":" not in text:
        raise RuntimeFault(f"--metric {text}: expected {', '.join(METRICS)} or module:function")
    return own_function(text, "--metric")


def counted(value: Tensor | Summed, samples: int) -> Summed:
    """A mean over samples as a sum."""
    return value if isinstance(value, Summed) else Summed(value * samples, samples)


@dataclass(frozen=True)
class Evaluation:
    """An evaluation on `steps` global batches of `data`, after every `every` steps and after the
    last one."""

    every: int
    steps: int
    data: DataSource
    measures: Mapping[str, Metric]  # the loss and the metrics, by name

    def is_due(self, step: int, is_last: bool) -> bool:
        return is_last or step % self.every == 0

    @torch.no_grad()
    def run(self, interpreter: Interpreter, communicator: Communicator) -> dict[str, float]:
        """All ranks call it. By measure: what all samples together give; NaN where none counts."""
        sums = [0.0] * (2 * len(self.measures))
        names = list(self.measures)

        def measure(outputs: Any, targets: Any, samples: int) -> None:
            for index, name in enumerate(names):
                value = counted(self.measures[name](outputs, targets), samples)
                sums[2 * index] += float(value.total)
                sums[2 * index + 1] += value.denominator

        interpreter.bring_together()
        for step in range(self.steps):
            interpreter.evaluate(step, self.data, measure)
        totals = communicator.totals_of(sums)
        pairs = zip(names, totals[::2], totals[1::2], strict=True)
        return {name: total / count if count else float("nan") for name, total, count in pairs}


def make_evaluation(
    every: int, steps: int, data: DataSource, loss: Loss, metrics: list[str]
) -> Evaluation:
    return Evaluation(
        every, steps, data, {"loss": loss.function} | {text: make_metric(text) for text in metrics}
    )
