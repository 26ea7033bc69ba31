"""One step of an optimizer, as the domain ai.onnx.preview.training has them: from parameters,
gradients and states to new parameters and states."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

__all__ = ["adagrad", "adam", "momentum"]

Tensors = Sequence[Tensor]


def adagrad(
    rate: Tensor,
    step: Tensor,
    parameters: Tensors,
    gradients: Tensors,
    sums: Tensors,
    *,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    now = rate / (1 + step * decay_factor)
    regular = [norm_coefficient * x + g for x, g in zip(parameters, gradients)]
    squares = [h + g * g for h, g in zip(sums, regular)]
    moved = [x - now * g / (h.sqrt() + epsilon) for x, g, h in zip(parameters, regular, squares)]
    return (*moved, *squares)


def adam(
    rate: Tensor,
    step: Tensor,
    parameters: Tensors,
    gradients: Tensors,
    means: Tensors,
    squares: Tensors,
    *,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    regular = [norm_coefficient * x + g for x, g in zip(parameters, gradients)]
    first = [alpha * v + (1 - alpha) * g for v, g in zip(means, regular)]
    second = [beta * h + (1 - beta) * g * g for h, g in zip(squares, regular)]
    now = rate
    if int(step) > 0:
        now = rate * (1 - beta ** int(step)) ** 0.5 / (1 - alpha ** int(step))
    moved = [
        (1 - norm_coefficient_post) * (x - now * v / (h.sqrt() + epsilon))
        for x, v, h in zip(parameters, first, second)
    ]
    return (*moved, *first, *second)


def momentum(
    rate: Tensor,
    step: Tensor,
    parameters: Tensors,
    gradients: Tensors,
    velocities: Tensors,
    *,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Tensor, ...]:
    regular = [norm_coefficient * x + g for x, g in zip(parameters, gradients)]
    fresh = beta if int(step) > 0 else 1.0
    moved = [alpha * v + fresh * g for v, g in zip(velocities, regular)]
    steps = moved
    if mode == "nesterov":
        steps = [g + alpha * v for g, v in zip(regular, moved)]
    return (*(x - rate * s for x, s in zip(parameters, steps)), *moved)
