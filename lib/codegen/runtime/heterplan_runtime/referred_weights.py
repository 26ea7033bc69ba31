"""Weights that a plan has no copy of (`compile --no-weights`): `weights/stage-NNNN.json` states where they
lie in the files of the model, and a SHA-256 of each."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from .errors import RuntimeFault
from .tensorfile import mapped, tensor_in

Verified = set[tuple[Path, str]]  # a file of references, and a tensor of it whose SHA-256 has been compared


class ReferredTensors(Mapping[str, Tensor]):
    """The tensors of a file of references by name, which are read when they are asked for. Raises RuntimeFault.

    `verified`: what the run has verified so far; it grows."""

    def __init__(self, path: Path, verified: Verified | None = None) -> None:
        self._path = path
        self._verified: Verified = set() if verified is None else verified
        self._mapped: dict[Path, mmap.mmap] = {}
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            self._folder, self._entries = Path(facts["folder"]), dict(facts["tensors"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RuntimeFault(f"{path}: cannot be read: {error!r}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> Tensor:
        entry = self._entries[name]
        file = self.file_of(entry, name)
        if file not in self._mapped:
            if not file.is_file():
                raise RuntimeFault(
                    f"{file}: the weights are read from this file, which does not exist (the plan was made with "
                    "--no-weights); put it back, or compile the model again without --no-weights"
                )
            self._mapped[file] = mapped(file)
        values = tensor_in(self._mapped[file], 0, entry, f"{self._path}: '{name}'")
        if (self._path, name) not in self._verified:
            begin, end = entry["data_offsets"]
            if hashlib.sha256(memoryview(self._mapped[file])[begin:end]).hexdigest() != entry.get("sha256"):
                raise RuntimeFault(
                    f"{file}: the values of '{name}' have changed since the plan was made with --no-weights; put the "
                    "file back, or compile the model again"
                )
            self._verified.add((self._path, name))
        return values

    def file_of(self, entry: Any, name: str) -> Path:
        if not isinstance(entry, dict) or not isinstance(entry.get("file"), str):
            raise RuntimeFault(f"{self._path}: '{name}': names no file")
        file = Path(entry["file"])
        if file.is_absolute() or ".." in file.parts:
            raise RuntimeFault(f"{self._path}: '{name}': '{file}' is not inside the model's folder")
        return self._folder / file

    def files(self) -> list[Path]:
        return sorted({self.file_of(entry, name) for name, entry in self._entries.items()})


def referred_files(directory: Path) -> list[Path]:
    """The files of the model that the stages of a plan read their weights from."""
    found = (directory / "weights").glob("stage-*.json")
    return sorted({file for path in found for file in ReferredTensors(path).files()})
