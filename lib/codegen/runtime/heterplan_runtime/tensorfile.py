"""Reads the safetensors layout: 8 bytes of header length, a JSON header, raw tensors.

The file is mapped, not read, and nothing in it is trusted: every offset is checked against the
length of the file before a tensor is made of it.
"""

from __future__ import annotations

import json
import math
import mmap
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


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file, as views of its private mapping; raises RuntimeFault."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:
        raise RuntimeFault(f"{path}: cannot be read: {error}") from error
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
        name: _tensor(data, start, entry, f"{path}: '{name}'") for name, entry in header.items()
    }


def _naturals(value: Any) -> list[int] | None:
    """A list of numbers from 0 up; None when it is anything else."""
    proper = isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
    return value if proper else None


def _tensor(data: mmap.mmap, start: int, entry: Any, where: str) -> torch.Tensor:
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
    flat = torch.frombuffer(data, dtype=dtype, count=count, offset=start + begin)
    return flat.reshape(shape)
