"""Losses by name, each the mean over the samples that it is given.

The interpreter scales the loss of a slice by its part of the global batch, so that gradients summed
over micro-batches and replicas are those of the mean over the global batch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .errors import RuntimeFault
from .program import TensorSpec


@dataclass(frozen=True)
class Loss:
    """`takes_classes`: random targets are class numbers, otherwise values like the prediction."""

    name: str
    function: Callable[[Any, Any], Tensor]
    takes_classes: bool


def cross_entropy(outputs: tuple[Tensor, ...], targets: Tensor) -> Tensor:
    """Classes lie on the last axis; every other axis counts predictions."""
    logits = outputs[0].float()
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def mean_squared_error(outputs: tuple[Tensor, ...], targets: Tensor) -> Tensor:
    return functional.mse_loss(outputs[0].float(), targets.float())


def import_function(text: str, option: str) -> Callable[..., Any]:
    """`module:function`, as given to an option."""
    module_name, _, function_name = text.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise RuntimeFault(f"{option} {text}: {error}") from error
    if not callable(function):
        raise RuntimeFault(f"{option} {text}: not a function")
    return function


def _custom(text: str) -> Callable[[Any, Any], Tensor]:
    function = import_function(text, "--loss")

    def call(outputs: tuple[Tensor, ...], targets: Any) -> Tensor:
        loss = function(outputs[0] if len(outputs) == 1 else outputs, targets)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise RuntimeFault(f"--loss {text}: must return one number, the mean over its samples")
        return loss

    return call


def make_loss(text: str, prediction: TensorSpec) -> Loss:
    """The loss that `--loss` names, checked against what the model predicts."""
    if ":" in text:
        return Loss(text, _custom(text), takes_classes=False)
    if not prediction.dtype.is_floating_point:
        raise RuntimeFault(f"--loss {text}: output '{prediction.name}' is not floating-point")
    if text == "mse":
        return Loss(text, mean_squared_error, takes_classes=False)
    if text != "cross_entropy":
        raise RuntimeFault(f"--loss {text}: expected cross_entropy, mse or module:function")
    per_sample, classes = prediction.dims[-1] if prediction.dims else (1, 0)
    if per_sample or classes < 2:
        raise RuntimeFault(
            f"--loss cross_entropy: the last axis of output '{prediction.name}' must hold two "
            "classes or more; use --loss mse or module:function"
        )
    return Loss(text, cross_entropy, takes_classes=True)


def class_targets(prediction: TensorSpec) -> TensorSpec:
    """Class numbers for each prediction: the shape of the output less its last axis."""
    return TensorSpec("targets", torch.int64, prediction.dims[:-1])
