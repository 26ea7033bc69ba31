"""Loops over bodies, which model.py writes as local functions, and lists of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .operators_support import Integers, Number, integers

__all__ = [
    "concat_from_sequence",
    "loop",
    "scan",
    "scan_of_batch",
    "sequence_erase",
    "sequence_insert",
    "sequence_map",
    "split_to_sequence",
]

Value = Tensor | list[Tensor] | None
Body = Callable[..., tuple[Value, ...]]


def _stacked(steps: list[Tensor], axis: int = 0) -> Tensor:
    return torch.stack(steps, dim=axis) if steps else torch.empty(0)


def loop(
    body: Body, count: Number | None, condition: Number | None, *carried: Value, device: object
) -> tuple[Value, ...]:
    """The carried values after the last iteration, and what each iteration returned besides, as
    one tensor with an axis of iterations."""
    values = carried
    scanned: list[list[Tensor]] = []
    index, limit = 0, None if count is None else int(count)
    going = condition is None or bool(condition)
    while going and (limit is None or index < limit):
        one = torch.ones((), dtype=torch.bool, device=device)  # type: ignore[call-overload]
        number = torch.tensor(index, device=device)  # type: ignore[arg-type]
        again, *results = body(number, one, *values)
        values = tuple(results[: len(carried)])
        scanned = scanned or [[] for _ in results[len(carried) :]]
        for steps, value in zip(scanned, results[len(carried) :]):
            assert isinstance(value, Tensor)
            steps.append(value)
        going = bool(again)
        index += 1
    return (*values, *(_stacked(steps) for steps in scanned))


def _sequence(value: Tensor, axis: int, backwards: int) -> list[Tensor]:
    steps = list(value.unbind(axis))
    return steps[::-1] if backwards else steps


def _axis(axes: Sequence[int], index: int) -> int:
    return axes[index] if axes else 0


def scan(
    body: Body,
    states: int,
    *values: Tensor,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> tuple[Tensor, ...]:
    """The first `states` values are carried from step to step; the others are read one slice a
    step."""
    state: tuple[Value, ...] = values[:states]
    inputs = [
        _sequence(value, _axis(scan_input_axes, i), _axis(scan_input_directions, i))
        for i, value in enumerate(values[states:])
    ]
    outputs: list[list[Tensor]] = []
    for slices in zip(*inputs):
        results = body(*state, *slices)
        state = tuple(results[:states])
        outputs = outputs or [[] for _ in results[states:]]
        for steps, value in zip(outputs, results[states:]):
            assert isinstance(value, Tensor)
            steps.append(value)
    stacked = [
        _stacked(steps[::-1] if _axis(scan_output_directions, i) else steps,
                 _axis(scan_output_axes, i))
        for i, steps in enumerate(outputs)
    ]  # fmt: skip
    return (*state, *stacked)  # type: ignore[arg-type]


def scan_of_batch(
    body: Body, states: int, lengths: Tensor | None, *values: Tensor, directions: Sequence[int] = ()
) -> tuple[Tensor, ...]:
    """Scan as opset 8 had it: each value has a leading axis of samples."""
    results = []
    for sample in range(values[0].shape[0]):
        parts = [value[sample] for value in values]
        if lengths is not None:
            count = int(lengths[sample])
            parts[states:] = [part[:count] for part in parts[states:]]
        results.append(scan(body, states, *parts, scan_input_directions=directions))
    return tuple(torch.stack(list(parts)) for parts in zip(*results))


def sequence_map(body: Body, count: int, first: list[Tensor], *others: Value) -> tuple[Value, ...]:
    """`body` for each element; the other values are walked along where they are lists."""
    results: list[list[Tensor]] = [[] for _ in range(count)]
    for index, element in enumerate(first):
        arguments = [other[index] if isinstance(other, list) else other for other in others]
        for steps, value in zip(results, body(element, *arguments)):
            assert isinstance(value, Tensor)
            steps.append(value)
    return tuple(results)


def sequence_insert(
    sequence: list[Tensor], tensor: Tensor, position: Number | None = None
) -> list[Tensor]:
    place = len(sequence) if position is None else int(position)
    place += len(sequence) if place < 0 else 0
    return [*sequence[:place], tensor, *sequence[place:]]


def sequence_erase(sequence: list[Tensor], position: Number | None = None) -> list[Tensor]:
    place = len(sequence) - 1 if position is None else int(position) % len(sequence)
    return sequence[:place] + sequence[place + 1 :]


def split_to_sequence(
    x: Tensor, split: Integers | int | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Tensor]:
    if split is None:
        return list(x.split(1, dim=axis) if keepdims else x.unbind(axis))
    if isinstance(split, int) or (isinstance(split, Tensor) and split.dim() == 0):
        return list(x.split(int(split), dim=axis))
    return list(x.split(integers(split), dim=axis))


def concat_from_sequence(sequence: list[Tensor], *, axis: int, new_axis: int = 0) -> Tensor:
    return torch.stack(sequence, dim=axis) if new_axis else torch.cat(sequence, dim=axis)
