"""Compares what a distributed run comes to, the gradients of its first step and then parameters, buffers
and optimizer state, with what one process comes to. Both compute in double precision.

Equality is of how far things have moved: a comparison of values would pass a run that hardly learns, and
one of movements alone would fail where a gradient is nothing but rounding (say, of a bias that a batch
normalisation follows).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from .communication import Communicator
from .shards import Slicing
from .tables import Tables

STATE_TOLERANCE = 1e-4  # of the movement of a tensor
HALF_STATE_TOLERANCE = 1e-2  # the same tolerance if rows travel in half precision
ROUNDING = 1e-12  # of its values
NOISE = 1e-6  # of the usual movement in its stage: what is below is rounding


@dataclass(frozen=True)
class StateEntry:
    """Elements [begin, begin + len(values)) of one flattened tensor of a stage, or of the part of it that
    shard `shard` has."""

    stage: int
    kind: str  # "value", "gradient", or the optimizer's name of a state
    name: str  # of the parameter or buffer
    begin: int
    values: Tensor
    slicing: Slicing | None = None  # of a tensor of which each shard has a part
    shard: int = 0

    def own(self, whole: Tensor) -> Tensor:
        """The elements of a flat tensor that this entry has."""
        if self.slicing is not None:
            whole = self.slicing.part(whole, self.shard).reshape(-1)
        return whole[self.begin : self.end]

    def fits(self, whole: Tensor) -> bool:
        """Whether a flat tensor has the elements of this entry."""
        if self.slicing is None:
            return self.end <= whole.numel()
        return whole.numel() == math.prod(self.slicing.shape) and self.end <= self.slicing.local_size

    @property
    def end(self) -> int:
        return self.begin + self.values.numel()

    def __str__(self) -> str:
        what = "" if self.kind == "value" else f"{self.kind} of "
        part = "" if self.slicing is None else f" of shard {self.shard}"
        return f"{what}'{self.name}'[{self.begin}:{self.end}]{part} of stage {self.stage}"


def optimizer_entries(
    stage: int, name: str, state: dict[str, Tensor], begin: int, part: slice
) -> Iterable[StateEntry]:
    """`state`: of the optimizer for the tensor in which `part` is elements of parameter `name` from
    `begin` on. Counts of steps are no tensors of elements."""
    for kind, values in state.items():
        if isinstance(values, Tensor) and values.dim():
            yield StateEntry(stage, kind, name, begin, values.detach().reshape(-1)[part])


def stage_values(stage: int, module: nn.Module, without: Iterable[str] = ()) -> list[StateEntry]:
    """Parameters and buffers, whole."""
    return [
        StateEntry(stage, "value", name, 0, tensor.detach().reshape(-1))
        for name, tensor in module.state_dict().items()
        if name not in without
    ]


def table_entries(stage: int, tables: Tables) -> Iterable[StateEntry]:
    """The rows that this rank holds, and what the optimizer keeps of them."""
    for group in tables.groups:
        for spec, first, tensors in group.shards():
            for number, rows in enumerate(tensors):
                kind = f"moment {number}" if number else "value"
                yield StateEntry(stage, kind, spec.name, first * spec.columns, rows.reshape(-1))


def table_gradients(stage: int, tables: Tables) -> Iterable[StateEntry]:
    """Gradients of all rows that this rank holds."""
    for group in tables.groups:
        gradient = group.dense_gradient()
        for spec, first, rows in group.divided(gradient):
            yield StateEntry(stage, "gradient", spec.name, first * spec.columns, rows.reshape(-1))


class ExpectedState:
    """The state that training in one process reaches, by stage, kind and name. `initial`: the state
    before training; gradients and optimizer states begin at zero. `tolerance`: relative to the
    change of a value."""

    def __init__(
        self,
        initial: Iterable[StateEntry],
        final: Iterable[StateEntry],
        tolerance: float = STATE_TOLERANCE,
    ) -> None:
        self._tolerance = tolerance
        self._initial = {_key(entry): entry.values for entry in initial}
        self._final = {_key(entry): entry.values for entry in final}
        self._usual: dict[tuple[int, str], float] = {}
        for (stage, kind, _), moved in self._movements():
            rms = float(moved.square().mean().sqrt()) if moved.numel() else 0.0
            self._usual[stage, kind] = max(rms, self._usual.get((stage, kind), 0.0))

    @property
    def device(self) -> torch.device:
        return next(iter(self._final.values())).device if self._final else torch.device("cpu")

    def _movements(self) -> Iterable[tuple[tuple[int, str, str], Tensor]]:
        for key, final in self._final.items():
            if final.is_floating_point():
                yield key, _moved(final, self._initial.get(key))

    def difference(self, found: StateEntry) -> float:
        """At most 1 where it is accepted; infinite where there is no such state or no number."""
        key = _key(found)
        wanted = self._final.get(key)
        if wanted is None and found.kind != "value" and not bool(found.values.count_nonzero()):
            return 0.0  # no gradient reaches it in one process, and here it has the gradient zero
        if wanted is None or not found.fits(wanted):
            return float("inf")
        wanted = found.own(wanted)
        if not wanted.is_floating_point():
            return 0.0 if torch.equal(found.values, wanted) else float("inf")
        initial = self._initial.get(key)
        moved = _moved(wanted, None if initial is None else found.own(initial))
        off = _off(found.values, wanted)
        trusted = self._trusted(key, found)
        if trusted is not None:
            off, moved = off[trusted], moved[trusted]
        return self._excess(key, off, moved, wanted)

    def _excess(self, key: tuple[int, str, str], off: Tensor, moved: Tensor, wanted: Tensor) -> float:
        if not off.numel():
            return 0.0
        usual = self._usual[key[:2]] * NOISE * off.numel() ** 0.5
        accepted = self._tolerance * (float(moved.norm()) + usual)
        accepted += ROUNDING * float(torch.where(wanted.isfinite(), wanted.double(), 0.0).norm())
        worst = float(off.norm())
        if worst != worst or (worst and not accepted):
            return float("inf")
        return worst / accepted if worst else 0.0

    def _trusted(self, key: tuple[int, str, str], found: StateEntry) -> Tensor | None:
        """Adam moves all elements alike, also those whose gradients are rounding; these do not
        count."""
        squares = self._final.get((key[0], "exp_avg_sq", key[2]))
        if squares is None or key[1] != "value":
            return None
        usual = self._usual[key[0], "exp_avg_sq"]
        return found.own(squares).double() > usual * NOISE**2


def _key(entry: StateEntry) -> tuple[int, str, str]:
    return entry.stage, entry.kind, entry.name


def _moved(final: Tensor, initial: Tensor | None) -> Tensor:
    if initial is None:
        return final.double()
    same = final == initial  # infinite values, too, as masks have
    return torch.where(same, 0.0, final.double() - initial.double())


def _off(found: Tensor, wanted: Tensor) -> Tensor:
    """By element; none where `found` is `wanted` as its type rounds it, such as that of a file."""
    return torch.where(found == wanted.to(found.dtype), 0.0, found.double() - wanted.double())


def worst_difference(
    communicator: Communicator, own: list[StateEntry], expected: ExpectedState | None
) -> tuple[float, str]:
    """Compares the states of all ranks and returns the largest difference and the name of its
    tensor. Rank 0 has `expected` and receives the states one after another; the other ranks receive
    the result."""
    described = communicator.gather([_described(entry) for entry in own])
    worst, what = 0.0, ""
    for rank, entries in enumerate(described):
        for number, entry in enumerate(entries):
            mine = own[number] if rank == communicator.rank else entry
            values = communicator.bring(mine.values, rank)
            if expected is None or values is None:
                continue
            found = replace(entry, values=values.to(expected.device))
            difference = expected.difference(found)
            if difference > worst:
                worst, what = difference, f"{found}, rank {rank}"
    return communicator.wait_for_rank0((worst, what))


def _described(entry: StateEntry) -> StateEntry:
    """Without the values."""
    return replace(entry, values=torch.empty_like(entry.values, device="meta"))
