"""Settings of operators: numbers where model.py knows them, tensors where they are computed."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

Integers = Tensor | Sequence[int]
Number = Tensor | float


def integers(values: Integers) -> list[int]:
    return [int(value) for value in values.tolist()] if isinstance(values, Tensor) else list(values)
