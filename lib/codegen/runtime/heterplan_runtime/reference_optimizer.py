"""The optimizers once more, element by element as they are published, for --check: it shares no code with
what it judges."""

from __future__ import annotations

import torch
from torch import Tensor

MOMENTUM = 0.9
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # Kingma and Ba, ICLR 2015


class ReferenceOptimizer:
    """The update of one parameter. `moments`: optimizer state by PyTorch's names; empty before the
    first update."""

    def __init__(self, name: str, parameter: Tensor, weight_decay: float) -> None:
        self._name, self._parameter, self._decay = name, parameter, weight_decay
        self._steps = 0
        self.moments: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self, gradient: Tensor, rate: float) -> None:
        self._steps += 1
        decay = self._decay * self._parameter
        if self._name == "adam":
            self._parameter -= rate * (self._direction(gradient) + decay)
        else:
            self._parameter -= rate * self._direction(gradient + decay)

    def _direction(self, gradient: Tensor) -> Tensor:
        if self._name == "sgd":
            return gradient
        if self._name == "momentum":
            velocity = MOMENTUM * self._moment("momentum_buffer") + gradient
            self.moments["momentum_buffer"] = velocity
            return velocity
        mean = BETA_1 * self._moment("exp_avg") + (1 - BETA_1) * gradient
        square = BETA_2 * self._moment("exp_avg_sq") + (1 - BETA_2) * gradient * gradient
        self.moments = {"exp_avg": mean, "exp_avg_sq": square}
        unbiased = mean / (1 - BETA_1**self._steps), square / (1 - BETA_2**self._steps)
        return unbiased[0] / (unbiased[1].sqrt() + EPSILON)

    def _moment(self, name: str) -> Tensor:
        return self.moments.get(name, torch.zeros_like(self._parameter))


class ReferenceRows:
    """The update of a sparse table. Only rows that have a gradient change, together with their
    optimizer state, and Adam's epsilon is added before the bias of the moments is corrected, as in
    PyTorch's SparseAdam."""

    def __init__(self, name: str, table: Tensor) -> None:
        self._name, self._table = name, table
        self._steps = 0
        count = {"sgd": 0, "momentum": 1, "adam": 2}[name]
        self.moments = [torch.zeros_like(table) for _ in range(count)]

    @torch.no_grad()
    def update(self, rows: Tensor, gradient: Tensor, rate: float) -> None:
        """`rows` do not repeat."""
        self._steps += 1
        change = gradient
        if self._name == "momentum":
            change = MOMENTUM * self.moments[0][rows] + gradient
            self.moments[0][rows] = change
        elif self._name == "adam":
            mean = BETA_1 * self.moments[0][rows] + (1 - BETA_1) * gradient
            square = BETA_2 * self.moments[1][rows] + (1 - BETA_2) * gradient * gradient
            self.moments[0][rows], self.moments[1][rows] = mean, square
            scale = (1 - BETA_2**self._steps) ** 0.5 / (1 - BETA_1**self._steps)
            change = scale * mean / (square.sqrt() + EPSILON)
        self._table[rows] -= rate * change
