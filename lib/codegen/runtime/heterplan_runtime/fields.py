"""Typed access to the fields of a JSON file (Protobuf's JSON mapping).

Fields at their default value may be left out of a file, unknown fields are skipped, and a newer
major version is refused. Every complaint names the file and the field.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from .errors import RuntimeFault

SCHEMA_MAJOR = 1


class Fields:
    """One JSON object with typed access; errors name the file and the path of the field."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise RuntimeFault(f"{where}: expected an object, found {json.dumps(value)[:60]}")
        self._value = value
        self.where = where

    def _wrong(self, name: str, wanted: str) -> RuntimeFault:
        found = json.dumps(self._value.get(name))[:60]
        return RuntimeFault(f"{self.where}: field '{name}' is {found}; expected {wanted}")

    def number(self, name: str, default: float = 0.0) -> float:
        value = self._value.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, "a number")
        if not math.isfinite(value):
            raise self._wrong(name, "a finite number")
        return float(value)

    def integer(self, name: str, default: int = 0, least: int = 0) -> int:
        value = self.number(name, default)
        if value != int(value) or not least <= value <= 2**53:
            raise self._wrong(name, f"a whole number of at least {least}")
        return int(value)

    def text(self, name: str, accepted: tuple[str, ...] = (), default: str = "") -> str:
        value = self._value.get(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        if accepted and value not in accepted:
            raise self._wrong(name, "one of " + ", ".join(accepted))
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name)
        if not all(isinstance(value, str) for value in values):
            raise self._wrong(name, "a list of texts")
        return tuple(values)

    def flag(self, name: str) -> bool:
        value = self._value.get(name, False)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def _list(self, name: str) -> list[Any]:
        value = self._value.get(name, [])
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return value

    def objects(self, name: str) -> list[Fields]:
        return [
            Fields(item, f"{self.where}: {name}[{index}]")
            for index, item in enumerate(self._list(name))
        ]

    def ranks(self, name: str, world_size: int) -> tuple[int, ...]:
        values = self._list(name)
        for value in values:
            if type(value) is not int or not 0 <= value < world_size:
                raise self._wrong(name, f"ranks below {world_size}")
        return tuple(sorted(set(values)))

    def integers(self, name: str) -> tuple[int, ...]:
        values = self._list(name)
        for value in values:
            whole = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not whole or value != int(value) or not 0 <= value <= 2**53:
                raise self._wrong(name, "whole numbers")
        return tuple(int(value) for value in values)

    def naturals_by_name(self, name: str) -> dict[str, int]:
        fields = self.object(name)
        return {key: fields.integer(key) for key in fields._value}

    def object(self, name: str) -> Fields:
        return Fields(self._value.get(name, {}), f"{self.where}: {name}")


def read_fields(path: Path) -> Fields:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RuntimeFault(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RuntimeFault(f"{path}: not JSON: {error}") from error
    fields = Fields(value, str(path))
    major = fields.text("schemaVersion", default="1.0").split(".")[0]
    if major != str(SCHEMA_MAJOR):
        raise RuntimeFault(
            f"{path}: schemaVersion {major}.x is not known; this runtime reads {SCHEMA_MAJOR}.x"
        )
    return fields
