"""The profile file: what is in it already, and how it grows by one measurement at a time.

It is written whole beside its place and renamed, so that any reader, and whatever ends the
process, finds every measurement that was finished.
"""

from __future__ import annotations

import datetime
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .device_classes import class_of
from .errors import RuntimeFault
from .fields import read_fields
from .profile_bench import Times
from .robust import spread_of, trimmed_mean

ENVIRONMENT = ("device", "driver", "engine", "threads")


@dataclass(frozen=True)
class Environment:
    """Under which all entries of one file were measured."""

    device: str
    driver: str
    clocks: str
    engine: str
    threads: int
    precision: str = "fp32"
    memory_format: str = "channels-first"

    def as_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "driver": self.driver,
            "clocks": self.clocks,
            "engine": self.engine,
            "threads": self.threads,
            "precision": self.precision,
            "memoryFormat": self.memory_format,
        }


def environment(
    device: torch.device, threads: int, optimizer: str, precision: str = "fp32",
    memory_format: str = "channels-first",
) -> Environment:
    computing = "" if precision == "fp32" else f", {precision}"
    computing += "" if memory_format == "channels-first" else f", {memory_format}"
    engine = f"torch {torch.__version__}{computing}, update by {optimizer}"
    found = class_of(device).describe(device, threads)
    return Environment(found.device, found.driver, found.clocks, engine, found.threads, precision, memory_format)


def _session(times: Times) -> dict[str, Any]:
    return {
        "forwardSeconds": times.forward,
        "backwardSeconds": times.backward,
        "updateSeconds": times.update,
        "accumulateSeconds": times.accumulate,
        "spread": times.spread,
        "repetitions": times.repetitions,
        "referenceKernelSeconds": times.reference_kernel,
    }


def summary(sessions: list[dict[str, Any]]) -> dict[str, Any]:
    """Trimmed means over the sessions; `spread` is that of their passes, of a single session its own."""
    times = {
        name: trimmed_mean(float(session.get(name, 0)) for session in sessions)
        for name in ("forwardSeconds", "backwardSeconds", "updateSeconds", "accumulateSeconds")
    }
    passes = [float(session["forwardSeconds"] + session["backwardSeconds"]) for session in sessions]
    return {
        **times,
        "spread": spread_of(passes) if len(sessions) > 1 else sessions[0]["spread"],
        "repetitions": sum(session["repetitions"] for session in sessions),
    }


Key = tuple[str, str, int, str, int]


def _key(entry: dict[str, Any], device_type: str, batch: int) -> Key:
    return entry.get("signature", ""), entry.get("layer", ""), entry.get("shardDegree", 1), device_type, batch


class ProfileFile:
    """Entries by what they are of (a signature, or the name of a layer, and how many devices share it), device
    type and batch. Fails when the file was measured elsewhere."""

    def __init__(self, path: Path, model: str, now: Environment) -> None:
        self._path = path
        self._head = {"schemaVersion": "1.0", "model": model, **now.as_json()}
        self._entries: dict[Key, dict[str, Any]] = {}
        self._rest: dict[str, Any] = {}
        if path.exists():
            self._resume()

    def _resume(self) -> None:
        fields = read_fields(self._path)
        for name in ENVIRONMENT:
            found = fields.integer(name) if name == "threads" else fields.text(name)
            if found != self._head[name]:
                raise RuntimeFault(
                    f"{self._path}: was measured with {name} '{found}', and here it is "
                    f"'{self._head[name]}'; give another file, or remove this one"
                )
        for entry in json.loads(self._path.read_text(encoding="utf-8")).get("entries", []):
            self._entries[_key(entry, entry.get("deviceType", ""), int(entry["batch"]))] = entry

    def missing(self, of: dict[str, Any], device_type: str, batch: int, wanted: int) -> int:
        """Sessions until there are `wanted`. An entry that does not state its sessions is taken as it is."""
        entry = self._entries.get(_key(of, device_type, batch), {})
        if not entry or entry.get("loss", "") != of.get("loss", ""):
            return wanted
        have = len(entry.get("sessions", ()))
        return max(0, wanted - have) if have else 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, of: dict[str, Any], device_type: str, batch: int, times: Times) -> None:
        """Adds a session and writes the file. `of`: {"signature": ...} or {"layer": ..., "loss": ...}, perhaps
        with "shardDegree"; those of another loss give way."""
        key = _key(of, device_type, batch)
        known = self._entries.get(key, {})
        same = known.get("loss", "") == of.get("loss", "")
        sessions = (known.get("sessions", []) if same else []) + [_session(times)]
        self._entries[key] = {
            **of,
            "deviceType": device_type,
            "batch": batch,
            **summary(sessions),
            "sessions": sessions,
        }
        self.write()

    def write(self) -> None:
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        entries = [self._entries[key] for key in sorted(self._entries)]
        text = json.dumps({**self._head, "date": date, "entries": entries}, indent=1) + "\n"
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(self._path)
        except OSError as error:
            raise RuntimeFault(f"{self._path}: cannot be written: {error.strerror}") from error
