"""Reads and writes the safetensors layout: 8 bytes of header length, a JSON header, raw tensors.

A file that is read is mapped, and nothing in it is trusted: every offset is checked against the
length of the file before a tensor is made of it. One that is written is on the disk when it is closed.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from .errors import RuntimeFault

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_ALIGNMENT = 8
_PIECE_BYTES = 1 << 24


class TensorWriter:
    """A file of tensors whose types and shapes are known before their values, which come in pieces and
    in order: no more than one piece is held."""

    def __init__(
        self,
        path: Path,
        specs: Mapping[str, tuple[torch.dtype, tuple[int, ...]]],
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Raises OSError like the other functions."""
        self._digest = hashlib.sha256()
        self._file = path.open("wb")
        self.bytes = 0
        self._rest = sum(dtype.itemsize * math.prod(shape) for dtype, shape in specs.values())
        header = _header(specs, dict(metadata or {})).encode()
        header += b" " * (-len(header) % _ALIGNMENT)
        self._put(len(header).to_bytes(8, "little"))
        self._put(header)

    def _put(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.bytes += len(data)

    def write(self, values: torch.Tensor) -> None:
        """The next elements, on the CPU."""
        flat = values.detach().contiguous().reshape(-1).view(torch.uint8)
        self._rest -= flat.numel()
        for begin in range(0, flat.numel(), _PIECE_BYTES):
            self._put(flat[begin : begin + _PIECE_BYTES].numpy().data)

    def close(self) -> str:
        """The SHA-256 of the file, which is complete."""
        assert self._rest == 0, "tensors are missing"
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._digest.hexdigest()


def _header(
    specs: Mapping[str, tuple[torch.dtype, tuple[int, ...]]], metadata: dict[str, str]
) -> str:
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    begin = 0
    for name, (dtype, shape) in specs.items():
        end = begin + dtype.itemsize * math.prod(shape)
        header[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    return json.dumps(header, separators=(",", ":"))


def sync_folder(folder: Path) -> None:
    """Brings the names of its files to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def mapped(path: Path) -> mmap.mmap:
    """A private mapping of a file; raises RuntimeFault."""
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:
        raise RuntimeFault(f"{path}: cannot be read: {error}") from error


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file, as views of its private mapping; raises RuntimeFault."""
    data = mapped(path)
    start = 8 + int.from_bytes(data[:8], "little")
    if len(data) < 8 or start > len(data):
        raise RuntimeFault(f"{path}: cut short: the header ends at byte {start} of {len(data)}")
    try:
        header = json.loads(data[8:start].decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RuntimeFault(f"{path}: the header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise RuntimeFault(f"{path}: the header is not an object")
    header.pop("__metadata__", None)
    return {
        name: tensor_in(data, start, entry, f"{path}: '{name}'") for name, entry in header.items()
    }


def _naturals(value: Any) -> list[int] | None:
    """A list of numbers from 0 up; None when it is anything else."""
    proper = isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
    return value if proper else None


def tensor_in(data: mmap.mmap, start: int, entry: Any, where: str) -> torch.Tensor:
    """The tensor that `entry` describes, a view of `data`; its offsets count from `start`. Raises RuntimeFault."""
    if not isinstance(entry, dict):
        raise RuntimeFault(f"{where}: not described by an object")
    dtype = _DTYPES.get(str(entry.get("dtype")))
    shape, offsets = _naturals(entry.get("shape")), _naturals(entry.get("data_offsets"))
    if dtype is None or shape is None or offsets is None or len(offsets) != 2:
        raise RuntimeFault(f"{where}: has no proper dtype, shape and data_offsets")
    count, (begin, end) = math.prod(shape), offsets
    size = count * dtype.itemsize
    if end - begin != size or start + end > len(data):
        raise RuntimeFault(
            f"{where}: bytes {begin}..{end} do not hold {dtype} {shape} within the "
            f"{len(data) - start} bytes of the file"
        )
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    if (start + begin) % dtype.itemsize:  # in a file of another layout
        return torch.frombuffer(bytearray(data[start + begin : start + end]), dtype=dtype).reshape(shape)
    flat = torch.frombuffer(data, dtype=dtype, count=count, offset=start + begin)
    return flat.reshape(shape)
