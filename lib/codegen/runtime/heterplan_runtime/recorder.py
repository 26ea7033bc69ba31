"""The measured Timeline: when each instruction ran, as Chrome trace JSON (heterplan.v1.Trace).

One process a stage, one thread a rank, microseconds from the start of the step, so that it overlays
the predicted one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from .device_classes import class_of
from .program import Instruction, RankProgram


class Recorder:
    """Times the instructions of one rank. Off until start(); each start() begins anew."""

    def __init__(self, program: RankProgram, device: torch.device) -> None:
        self._program = program
        self._device = device
        self._on = False
        self._origin = 0.0
        self.events: list[dict[str, Any]] = []

    def start(self) -> None:
        """All ranks call it right after a barrier: that is the common zero of their clocks."""
        self._on = True
        self._origin = time.perf_counter()
        self.events = []

    @property
    def is_on(self) -> bool:
        """Sums of gradients then end before what follows begins, so that each is timed by itself."""
        return self._on

    def _now(self) -> float:
        """On a GPU the recorded step waits for each instruction, to see where it ends."""
        class_of(self._device).synchronize(self._device)
        return (time.perf_counter() - self._origin) * 1e6

    @contextmanager
    def instruction(self, index: int, instruction: Instruction) -> Iterator[None]:
        if not self._on:
            yield
            return
        begin = self._now()
        yield
        self.events.append(self._event(index, instruction, begin, self._now()))

    def _event(
        self, index: int, instruction: Instruction, begin: float, end: float
    ) -> dict[str, Any]:
        arguments = {"index": index}
        if instruction.micro_batch >= 0:
            arguments["microBatch"] = instruction.micro_batch
        return {
            "name": instruction.op,
            "cat": "measured",
            "ph": "X",
            "ts": round(begin, 3),
            "dur": round(end - begin, 3),
            "pid": self._program.parts[instruction.part].stage,
            "tid": self._program.rank,
            "args": arguments,
        }


def _names(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events by which viewers name processes and threads."""

    def name(what: str, stage: int, rank: int, text: str) -> dict[str, Any]:
        event = {"name": what, "ph": "M", "ts": 0, "dur": 0, "pid": stage, "tid": rank}
        return {**event, "args": {"index": 0, "name": text}}

    tracks = sorted({(event["pid"], event["tid"]) for event in events})
    first = {stage: rank for stage, rank in reversed(tracks)}
    processes = [name("process_name", s, r, f"stage {s}") for s, r in sorted(first.items())]
    return processes + [name("thread_name", s, r, f"rank {r}") for s, r in tracks]


def write_trace(path: Path, model: str, events: list[dict[str, Any]]) -> None:
    """`events` of all ranks, by rank and then by begin."""
    last = max((event["ts"] + event["dur"] for event in events), default=0.0)
    trace = {
        "traceEvents": sorted(events, key=lambda event: (event["tid"], event["ts"]))
        + _names(events),
        "displayTimeUnit": "ms",
        "otherData": {
            "schemaVersion": "1.0",
            "model": model,
            "measured": True,
            "iterationSeconds": last / 1e6,
        },
    }
    path.write_text(json.dumps(trace, indent=1) + "\n", encoding="utf-8")
