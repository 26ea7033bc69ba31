"""A checkpoint on the disk: what training has come to, in pieces that any plan of the same model can
take up.

`step-NNNNNNNN/` has a safetensors file of each rank that wrote, and checkpoint.json, which names them
with their sizes and digests. It is written under another name, brought to the disk and renamed when it
is complete. torch.distributed.checkpoint is not used: its metadata is a pickle, which runs whatever code
a file holds, and it has no slices of flattened parameters.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .errors import RuntimeFault
from .fields import SCHEMA_MAJOR, Fields, read_fields
from .shards import Slicing
from .tensorfile import TensorWriter, read_tensors, sync_folder

INDEX = "checkpoint.json"
HOLDERS = "holders.json"
COMPLETE = re.compile(r"step-(\d{8,})")
BEGUN = ".saving-"
_PIECE_BYTES = 1 << 24


@dataclass(frozen=True)
class Piece:
    """Elements of the flattened tensor `name` from `begin` on: its values, or what the optimizer keeps
    of them under the name `kind`. `slicing`: elements of the part of it that shard `shard` has."""

    kind: str
    name: str
    begin: int
    slicing: Slicing | None = None
    shard: int = 0

    @property
    def place(self) -> str:
        """The tensor, or the part of it."""
        return self.name if self.slicing is None else f"{self.name} {self.shard}/{self.slicing.degree}"

    def __str__(self) -> str:
        return f"{self.kind}/{self.begin}/{self.name}"


@dataclass(frozen=True)
class Facts:
    """Fingerprints of the run that a checkpoint belongs to. `model`: of the parameters' names,
    types and shapes; the other fingerprints are of files."""

    step: int  # optimizer steps that were done
    global_batch: int
    optimizer: str
    seed: int
    model: str
    plan: str
    precision: str = "fp32"  # of parameters; "fp64" where the training was checked


@dataclass(frozen=True)
class WrittenFile:
    """A rank's part; `updates`: of each parameter, those that the optimizer counts; `shard`: whose parts
    of sliced tensors it has."""

    name: str
    bytes: int
    sha256: str
    updates: Mapping[str, int]
    shard: int = 0


def folder_of(parent: Path, step: int) -> Path:
    return parent / f"step-{step:08d}"


def write_part(
    folder: Path,
    rank: int,
    pieces: Mapping[Piece, Tensor],
    updates: Mapping[str, int],
    shard: int = 0,
) -> WrittenFile:
    """One rank's file, on the disk when this returns; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{rank:04d}.safetensors"
    specs = {str(piece): (values.dtype, tuple(values.shape)) for piece, values in pieces.items()}
    writer = TensorWriter(folder / name, specs)
    for values in pieces.values():
        writer.write(values)
    return WrittenFile(name, writer.bytes, writer.close(), dict(updates), shard)


# By (kind, name): the elements that a device holds, begin and end.
Held = dict[tuple[str, str], tuple[int, int]]


def write_holders(folder: Path, holders: Mapping[str, Held]) -> None:
    """Notes which pieces each device holds, not only writes: a later plan moves the others. Devices that hold
    the same share a list."""
    lists: dict[str, list[str]] = {}
    for device, held in holders.items():
        text = json.dumps([[kind, name, *span] for (kind, name), span in sorted(held.items())])
        lists.setdefault(text, []).append(device)
    groups = [{"devices": devices, "pieces": json.loads(text)} for text, devices in lists.items()]
    (folder / HOLDERS).write_text(json.dumps(groups), encoding="utf-8")


def read_holders(folder: Path, device: str) -> Held:
    """The pieces that a device held; none if the checkpoint does not say."""
    try:
        groups = json.loads((folder / HOLDERS).read_text(encoding="utf-8"))
        own = next((group["pieces"] for group in groups if device in group["devices"]), [])
        return {(str(kind), str(name)): (int(begin), int(end)) for kind, name, begin, end in own}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def commit(
    folder: Path,
    parent: Path,
    facts: Facts,
    files: Iterable[WrittenFile],
    slicings: Mapping[str, Slicing] | None = None,
) -> Path:
    """Makes a complete checkpoint of the files in `folder`, which have all been written. `slicings`: of
    the tensors of which files have the parts of shards."""
    for file in files:
        path = folder / file.name
        if not path.is_file() or path.stat().st_size != file.bytes:
            raise RuntimeFault(
                f"{path}: not what its rank has written; checkpoints of ranks on several hosts need "
                "a file system that they share"
            )
    index = {"schemaVersion": f"{SCHEMA_MAJOR}.0", **_camel(asdict(facts))}
    index["files"] = [asdict(file) for file in files]
    if slicings:
        index["slices"] = [{"name": name, **asdict(each)} for name, each in slicings.items()]
    with (folder / INDEX).open("w", encoding="utf-8") as output:
        json.dump(index, output, indent=1)
        output.flush()
        os.fsync(output.fileno())
    sync_folder(folder)
    final = folder_of(parent, facts.step)
    os.rename(folder, final)
    sync_folder(parent)
    return final


def _camel(facts: dict[str, Any]) -> dict[str, Any]:
    return {re.sub(r"_(.)", lambda found: found[1].upper(), key): facts[key] for key in facts}


def complete_ones(parent: Path) -> list[Path]:
    """The newest first."""
    if not parent.is_dir():
        return []
    found = [
        (int(match[1]), path)
        for path in parent.iterdir()
        if (match := COMPLETE.fullmatch(path.name)) and (path / INDEX).is_file()
    ]
    return [path for _, path in sorted(found, reverse=True)]


def keep_newest(parent: Path, count: int) -> None:
    """Removes older ones; each loses its index first, so that half of one is never taken for one."""
    for path in complete_ones(parent)[count:]:
        (path / INDEX).unlink()
        shutil.rmtree(path)


def remove_begun(parent: Path) -> None:
    """Removes the unfinished checkpoints that killed runs have left."""
    for path in parent.iterdir():
        if path.name.startswith(BEGUN) or (
            COMPLETE.fullmatch(path.name) and not (path / INDEX).exists()
        ):
            shutil.rmtree(path, ignore_errors=True)


class Checkpoint:
    """A complete checkpoint, its files mapped. Every complaint is a RuntimeFault."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        fields = read_fields(folder / INDEX)
        self.facts = Facts(
            step=fields.integer("step"),
            global_batch=fields.integer("globalBatch", least=1),
            optimizer=fields.text("optimizer"),
            seed=fields.integer("seed"),
            model=fields.text("model"),
            plan=fields.text("plan"),
            precision=fields.text("precision", default="fp32"),
        )
        if f"{folder_of(folder.parent, self.facts.step)}" != str(folder):
            raise RuntimeFault(f"{folder}: holds step {self.facts.step}")
        self._files = [_file(item) for item in fields.objects("files")]
        self._slicings = {item.text("name"): _slicing(item) for item in fields.objects("slices")}
        self._last: tuple[tuple[str, str], Tensor] | None = None  # that whole() has made
        self.updates: dict[str, int] = {}
        for file in self._files:
            for name, count in file.updates.items():
                self.updates[name] = max(count, self.updates.get(name, 0))
        self._pieces: dict[tuple[str, str, int], list[tuple[int, Tensor]]] | None = None

    def verify(self, share: int, shares: int) -> None:
        """Every shares-th file from `share` on has the size and the digest that it was written with."""
        for file in self._files[share::shares]:
            path = self.folder / file.name
            if not path.is_file() or path.stat().st_size != file.bytes:
                raise RuntimeFault(f"{path}: missing, or not of {file.bytes} bytes")
            if _digest(path) != file.sha256:
                raise RuntimeFault(f"{path}: changed since it was written")

    def _opened(self) -> dict[tuple[str, str, int], list[tuple[int, Tensor]]]:
        """By kind, name and shard; tensors that are not sliced are of shard 0."""
        if self._pieces is None:
            self._pieces = {}
            for file in self._files:
                path = self.folder / file.name
                for key, values in read_tensors(path).items():
                    kind, begin, name = _parsed(key, path)
                    key_of_part = kind, name, file.shard if name in self._slicings else 0
                    self._pieces.setdefault(key_of_part, []).append((begin, values.reshape(-1)))
            for parts in self._pieces.values():
                parts.sort(key=lambda part: part[0])
        return self._pieces

    @torch.no_grad()
    def fill(self, piece: Piece, target: Tensor, shape: tuple[int, ...] = ()) -> None:
        """Puts the elements of `piece` into `target`, which is flat. `shape`: of the whole tensor, where it may
        be sliced otherwise than it was."""
        saved = self._slicings.get(piece.name)
        if saved == piece.slicing:
            self._fill(piece, target)
            return
        whole = self._whole(piece, saved, shape)
        if piece.slicing is not None:
            whole = piece.slicing.part(whole, piece.shard).reshape(-1)
        target.copy_(whole[piece.begin : piece.begin + target.numel()])

    def _whole(self, piece: Piece, saved: Slicing | None, shape: tuple[int, ...]) -> Tensor:
        """The whole flat tensor, of which `piece` has elements."""
        key = piece.kind, piece.name
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        if saved is not None and saved.shape != shape:
            raise RuntimeFault(f"{self.folder}: '{piece.name}' is {list(saved.shape)}, not {list(shape)}")
        parts = []
        for shard in range(1 if saved is None else saved.degree):
            known = self._opened().get((*key, shard), [])
            size = math.prod(shape) if saved is None else saved.local_size
            parts.append(torch.empty(size, dtype=known[0][1].dtype if known else torch.float32))
            self._fill(Piece(piece.kind, piece.name, 0, saved, shard), parts[-1])
        whole = parts[0] if saved is None else saved.joined(parts).reshape(-1)
        self._last = key, whole
        return whole

    def _fill(self, piece: Piece, target: Tensor) -> None:
        """Puts the elements of `piece`, which is sliced as it was, into `target`."""
        end, filled = piece.begin + target.numel(), piece.begin
        shard = 0 if piece.slicing is None else piece.shard
        for begin, values in self._opened().get((piece.kind, piece.name, shard), []):
            low, high = max(begin, filled), min(begin + values.numel(), end)
            if low == filled < high:
                part = values[low - begin : high - begin]
                target[low - piece.begin : high - piece.begin].copy_(part)
                filled = high
        if filled < end:
            raise RuntimeFault(f"{self.folder}: element {filled} of '{piece.name}' ({piece.kind}) is missing")


def _file(fields: Fields) -> WrittenFile:
    name = fields.text("name")
    if not re.fullmatch(r"\d{4,}\.safetensors", name):
        raise RuntimeFault(f"{fields.where}: field 'name' is not the name of a rank's file")
    return WrittenFile(
        name, fields.integer("bytes"), fields.text("sha256"), fields.naturals_by_name("updates"),
        fields.integer("shard"),
    )  # fmt: skip


def _slicing(fields: Fields) -> Slicing:
    slicing = Slicing(
        fields.integer("axis"), fields.integers("segments"), fields.integers("shape"),
        fields.integer("degree", least=1),
    )  # fmt: skip
    if not slicing.is_possible:
        raise RuntimeFault(f"{fields.where}: {slicing.degree} shards cannot divide a tensor so")
    return slicing


def _parsed(key: str, path: Path) -> tuple[str, int, str]:
    kind, _, rest = key.partition("/")
    begin, _, name = rest.partition("/")
    if not begin.isdecimal() or len(begin) > 18:
        raise RuntimeFault(f"{path}: '{key}' is not the name of a piece")
    return kind, int(begin), name


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
