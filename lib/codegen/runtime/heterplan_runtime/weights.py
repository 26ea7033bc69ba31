"""Trained weights as one file: parameters, sparse tables and statistics of all ranks, by their ONNX
names, in the safetensors layout."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .communication import Communicator
from .errors import RuntimeFault
from .model import TensorTypes
from .shards import Slicing
from .state_check import StateEntry
from .tensorfile import TensorWriter, sync_folder

NAME = "model.safetensors"


@dataclass(frozen=True)
class _Held:
    """Elements [begin, end) of a tensor or of a shard's part of it, which rank `rank` has as the index-th
    of its entries."""

    rank: int
    index: int
    begin: int
    end: int
    shard: int = 0


def prepare_folder(folder: Path) -> None:
    """Raises RuntimeFault where no weights can be written: better before the training than after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _temporary(folder).touch()
        _temporary(folder).unlink()
    except OSError as error:
        raise RuntimeFault(f"{folder}: weights cannot be written: {error.strerror}") from error


def save_weights(
    communicator: Communicator,
    entries: list[StateEntry],
    specs: TensorTypes,
    folder: Path,
    facts: Mapping[str, str],
    slicings: Mapping[str, Slicing],
) -> Path:
    """All ranks call it; rank 0 writes the file, which is replaced as a whole. `entries`: the state of
    the calling rank; `facts` go into the file's metadata; `slicings`: of tensors of which each shard has
    a part. Returns the path of the file."""
    own = [
        entry
        for entry in entries
        if entry.kind == "value" and entry.name in specs and entry.slicing == slicings.get(entry.name)
    ]
    described = communicator.gather([(each.name, each.begin, each.end, each.shard) for each in own])
    holders: dict[str, list[_Held]] = {name: [] for name in specs}
    for rank, held in enumerate(described):
        for index, (name, begin, end, shard) in enumerate(held):
            holders[name].append(_Held(rank, index, begin, end, shard))
    writer = None
    try:
        if communicator.rank == 0:
            folder.mkdir(parents=True, exist_ok=True)
            writer = TensorWriter(_temporary(folder), specs, {"format": "pt", **facts})
        for name, (dtype, shape) in specs.items():
            pieces = _pieces(communicator, own, name, holders[name], dtype, shape, slicings.get(name))
            for values in pieces:
                if writer is not None:
                    writer.write(values)
        if writer is not None:
            writer.close()
            os.replace(_temporary(folder), folder / NAME)
            sync_folder(folder)
    except OSError as error:
        raise RuntimeFault(f"{folder}: weights cannot be written: {error.strerror}") from error
    return folder / NAME


def _pieces(
    communicator: Communicator,
    own: list[StateEntry],
    name: str,
    holders: list[_Held],
    dtype: torch.dtype,
    shape: tuple[int, ...],
    slicing: Slicing | None,
) -> Iterator[Tensor]:
    """The elements of a tensor in their order, on rank 0; nothing on the others, which give theirs."""
    if slicing is None:
        for begin, end, holder in _cover(name, holders, math.prod(shape)):
            values = _bring(communicator, own, holder, begin, end, dtype)
            if values is not None:
                yield values
        return
    parts: list[Tensor] = []
    for shard in range(slicing.degree):
        held = [each for each in holders if each.shard == shard]
        found = [
            _bring(communicator, own, holder, begin, end, dtype)
            for begin, end, holder in _cover(name, held, slicing.local_size)
        ]
        if communicator.rank == 0:
            parts.append(torch.cat([values for values in found if values is not None]))
    if parts:
        yield slicing.joined(parts)


def _temporary(folder: Path) -> Path:
    return folder / f".{NAME}.{os.getpid()}"


def _cover(name: str, holders: list[_Held], count: int) -> list[tuple[int, int, _Held]]:
    """Which holder gives which elements: the first that has those that are next."""
    parts, begin = [], 0
    while begin < count:
        holder = next((held for held in holders if held.begin <= begin < held.end), None)
        if holder is None:
            raise RuntimeFault(f"no rank has element {begin} of '{name}'")
        parts.append((begin, holder.end, holder))
        begin = holder.end
    return parts


def _bring(
    communicator: Communicator,
    own: list[StateEntry],
    holder: _Held,
    begin: int,
    end: int,
    dtype: torch.dtype,
) -> Tensor | None:
    if holder.rank == communicator.rank:
        values = own[holder.index].values[begin - holder.begin : end - holder.begin].to("cpu", dtype)
    elif communicator.rank == 0:
        values = torch.empty(end - begin, dtype=dtype)
    else:
        return None
    return communicator.bring(values, holder.rank)
