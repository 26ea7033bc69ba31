"""Losses by name: the mean over the samples that they are given, or a sum and what it is to be divided by.

A mean is scaled by the part of the global batch that its samples are, so that gradients summed over
micro-batches and replicas are those of the mean over the global batch. Sums and denominators are summed
over the global batch before the one is divided by the other.
"""

from __future__ import annotations

import importlib
import math
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .errors import RuntimeFault
from .program import TensorSpec


@dataclass(frozen=True)
class Summed:
    """A loss that counts something else than samples, such as tokens."""

    total: Tensor
    denominator: float


@dataclass(frozen=True)
class Loss:
    """`takes_classes`: random targets are class numbers, otherwise values like the prediction."""

    name: str
    function: Callable[[Any, Any], Tensor | Summed]
    takes_classes: bool


def _precise(values: Tensor) -> Tensor:
    """In single precision at least."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def cross_entropy(outputs: tuple[Tensor, ...], targets: Tensor) -> Tensor:
    """Classes lie on the last axis; every other axis counts predictions."""
    logits = _precise(outputs[0])
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


IGNORED = -100  # a target that does not count


def token_cross_entropy(outputs: tuple[Tensor, ...], targets: Tensor) -> Summed:
    """The cross entropy over all predictions whose target is not IGNORED. The number of these
    predictions may differ between samples."""
    logits, flat = _precise(outputs[0]), targets.reshape(-1)
    total = functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), flat, reduction="sum", ignore_index=IGNORED
    )
    return Summed(total, float((flat != IGNORED).sum()))


def mean_squared_error(outputs: tuple[Tensor, ...], targets: Tensor) -> Tensor:
    predicted = _precise(outputs[0])
    if targets.shape != predicted.shape:
        raise RuntimeFault(
            f"--loss mse: the targets are {list(targets.shape)}, the output is {list(predicted.shape)}: give "
            "targets of that shape, or --loss cross_entropy for class numbers"
        )
    return functional.mse_loss(predicted, targets.to(predicted.dtype))


CLASSIFICATION: dict[str, Callable[[Any, Any], Tensor | Summed]] = {
    "cross_entropy": cross_entropy,
    "token_cross_entropy": token_cross_entropy,
}


def own_module_folders(directory: Path) -> list[str]:
    """Folders in which the user's modules are searched first: the folder in which the user started
    the run, which launch.sh passes to other hosts, and the folder of the plan."""
    return [os.environ.get("HETERPLAN_CALLER") or os.getcwd(), str(directory)]


def import_object(text: str, option: str) -> Any:
    """`module:name`, as given to an option."""
    module_name, _, name = text.partition(":")
    try:
        return getattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError as error:
        raise RuntimeFault(
            f"{option} {text}: {error} on host {socket.gethostname()}; looked in {', '.join(sys.path[:2])} and "
            "the rest of Python's path (PYTHONPATH)"
        ) from error
    except (ImportError, AttributeError, ValueError) as error:
        raise RuntimeFault(f"{option} {text}: {error}") from error


def import_function(text: str, option: str) -> Callable[..., Any]:
    function = import_object(text, option)
    if not callable(function):
        raise RuntimeFault(f"{option} {text}: not a function")
    return function  # type: ignore[no-any-return]


def own_function(text: str, option: str) -> Callable[[Any, Any], Tensor | Summed]:
    """A loss or a metric of the user's."""
    function = import_function(text, option)

    def call(outputs: tuple[Tensor, ...], targets: Any) -> Tensor | Summed:
        loss = function(outputs[0] if len(outputs) == 1 else outputs, targets)
        if isinstance(loss, tuple) and len(loss) == 2 and _is_number(loss[0]):
            return Summed(loss[0], _denominator(f"{option} {text}", loss[1]))
        if not _is_number(loss):
            raise RuntimeFault(
                f"{option} {text}: must return one number, the mean over its samples, or a pair: a sum and "
                "its denominator"
            )
        return loss

    return call


def _is_number(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() == 1


def _denominator(what: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise RuntimeFault(f"{what}: the denominator is not a number: {error}") from error
    if not 0 <= number < math.inf:
        raise RuntimeFault(f"{what}: the denominator is {number}")
    return number


def make_loss(text: str, prediction: TensorSpec) -> Loss:
    """The loss that `--loss` names, checked against what the model predicts."""
    if ":" in text:
        return Loss(text, own_function(text, "--loss"), takes_classes=False)
    if not prediction.dtype.is_floating_point:
        raise RuntimeFault(f"--loss {text}: output '{prediction.name}' is not floating-point")
    if text == "mse":
        return Loss(text, mean_squared_error, takes_classes=False)
    if text not in CLASSIFICATION:
        names = ", ".join(CLASSIFICATION)
        raise RuntimeFault(f"--loss {text}: expected {names}, mse or module:function")
    per_sample, classes = prediction.dims[-1] if prediction.dims else (1, 0)
    if per_sample or classes < 2:
        raise RuntimeFault(
            f"--loss {text}: the last axis of output '{prediction.name}' must hold two "
            "classes or more; use --loss mse or module:function"
        )
    return Loss(text, CLASSIFICATION[text], takes_classes=True)


def class_targets(prediction: TensorSpec) -> TensorSpec:
    """Class numbers for each prediction: the shape of the output less its last axis."""
    return TensorSpec("targets", torch.int64, prediction.dims[:-1])
