"""Hand-made plan directories for the tests of the runtime: what `heterplan compile` would write.

The lowering here is an independent small one (1F1B over any widths); the model has everything that
is awkward at once: batch normalisation, a skip tensor that a stage relays, an integer tensor, a
tensor without samples, and a parameter that two stages use.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from package_models import (
    AGAIN,
    AWKWARD,
    AWKWARD_BOUNDARIES,
    DROPOUT,
    DROPOUT_BOUNDARY,
    GATHERED,
    GATHERED_BOUNDARY,
    LARGE,
    LINEAR,
    TABLES,
    TABLES_BOUNDARY,
)

RUNTIME = Path(__file__).resolve().parents[2] / "lib/codegen/runtime"


@dataclass
class Package:
    """A plan directory to be written: `widths` holds the samples of each replica of each stage."""

    model: str
    boundaries: list[list[dict[str, Any]]]
    widths: list[list[int]]
    micro_batches: int
    optimizer: str = "sgd"
    # By stage: its sparse tables with the rows of each replica.
    tables: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    segments: list[str] = field(default_factory=list)  # of each stage
    sharding: str = "none"
    precision: str = "fp32"
    batch_norm: str = "synchronised"
    short: int = 0  # micro-batches, the last ones, that have a sample less
    overlaps_sums: bool = False
    overlaps_transfers: bool = False

    def shortened(self, short: int) -> Package:
        """The same, but so many micro-batches have one sample less."""
        return replace(self, short=short)

    def recomputed(self) -> Package:
        """The same, but each stage is a segment that is computed again in the backward pass."""
        return replace(self, model=self.model + AGAIN, segments=["whole"])

    def sharded(self, sharding: str) -> Package:
        """The same, with the state of stages that have several replicas divided among them."""
        return replace(self, sharding=sharding)

    def overlapped(self) -> Package:
        """The same, but all-reduces begin within the last backward pass of their stage."""
        return replace(self, overlaps_sums=True)

    def with_overlapped_transfers(self) -> Package:
        """The same, but messages between stages travel while both compute."""
        return replace(self, overlaps_transfers=True)

    @property
    def samples(self) -> int:
        return sum(self.widths[0])

    @property
    def world_size(self) -> int:
        return sum(len(stage) for stage in self.widths)

    def write(self, folder: Path) -> Path:
        (folder / "ranks").mkdir(parents=True)
        (folder / "model.py").write_text(self.model)
        plan = {
            "schemaVersion": "1.0",
            "iterationSeconds": 0.001,
            "optimizer": self.optimizer,
            "precision": self.precision,
            "batchNorm": self.batch_norm,
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        for rank, program in enumerate(self.programs()):
            (folder / "ranks" / f"{rank:04d}.json").write_text(json.dumps(program))
        shutil.copytree(
            RUNTIME / "heterplan_runtime",
            folder / "heterplan_runtime",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        return folder

    def ranks(self, stage: int) -> list[int]:
        first = sum(len(s) for s in self.widths[:stage])
        return list(range(first, first + len(self.widths[stage])))

    def ranges(self, stage: int, i: int) -> list[tuple[int, int]]:
        """Ranges of samples of micro-batch `i`. If it has a sample less, the last of the widest
        replicas has one less."""
        widths = list(self.widths[stage])
        if i >= self.micro_batches - self.short:
            widths[len(widths) - 1 - widths[::-1].index(max(widths))] -= 1
        begins = [sum(widths[:replica]) for replica in range(len(widths))]
        return list(zip(begins, widths))

    def overlaps(self, stage: int, own: tuple[int, int], i: int) -> list[tuple[int, dict[str, int]]]:
        """Ranks of `stage` whose samples of micro-batch `i` meet those of `own`, with the common
        range."""
        found = []
        for rank, (begin, count) in zip(self.ranks(stage), self.ranges(stage, i)):
            low, high = max(begin, own[0]), min(begin + count, own[0] + own[1])
            if low < high:
                found.append((rank, {"begin": low, "count": high - low}))
        return found

    def programs(self) -> list[dict[str, Any]]:
        return [
            self.program(stage, replica)
            for stage in range(len(self.widths))
            for replica in range(len(self.widths[stage]))
        ]

    def program(self, stage: int, replica: int) -> dict[str, Any]:
        last = len(self.widths) - 1
        own = self.ranges(stage, 0)[replica]
        part = {
            "stage": stage,
            "replica": replica,
            "samples": {"begin": own[0], "count": own[1]},
            "receives": self.boundaries[stage - 1] if stage else [],
            "sends": self.boundaries[stage] if stage < last else [],
            "tables": self.tables.get(stage, []),
            "recompute": self.segments,
            "stateSharding": self.sharding_of(stage),
        }
        program: dict[str, Any] = {
            "schemaVersion": "1.0",
            "rank": self.ranks(stage)[replica],
            "worldSize": self.world_size,
            "stages": len(self.widths),
            "deviceKind": "cpu",
            "globalBatch": self.samples * self.micro_batches - self.short,
            "microBatches": self.micro_batches,
            "optimizer": self.optimizer,
            "parts": [part],
            "overlapGradReduce": self.overlaps_sums,
            "overlapTransfers": self.overlaps_transfers,
        }
        program["instructions"] = self.instructions(stage, replica)
        return program

    def instructions(self, stage: int, replica: int) -> list[dict[str, Any]]:
        m = self.micro_batches
        behind = len(self.widths) - stage - 1
        ahead = min(m, 1 + behind * (2 if self.overlaps_transfers else 1))
        order = [("F", i) for i in range(ahead)]
        for i in range(m):
            order.append(("B", i))
            if i + ahead < m:
                order.append(("F", i + ahead))
        steps: list[dict[str, Any]] = []
        for kind, i in order:
            own = self.ranges(stage, i)[replica]
            steps += self.forward(stage, own, i) if kind == "F" else self.backward(stage, own, i)
        group, sharding = self.ranks(stage), self.sharding_of(stage)
        if len(group) > 1 and sharding not in ("gradients", "parameters"):
            steps.append({"op": "allReduce" if sharding == "none" else "reduceScatter", "group": group})
        steps.append({"op": "step"})
        if sharding != "none":
            steps.append({"op": "allGather", "group": group})
        return steps

    def sharding_of(self, stage: int) -> str:
        return self.sharding if len(self.widths[stage]) > 1 else "none"

    def sums(self, stage: int, i: int) -> list[dict[str, Any]]:
        if self.sharding_of(stage) not in ("gradients", "parameters"):
            return []
        return [{"op": "gradientReduceScatter", "microBatch": i, "group": self.ranks(stage)}]

    def transfers(
        self, op: str, boundary: int, stage: int, own: tuple[int, int], i: int
    ) -> list[dict[str, Any]]:
        """With the ranks of `stage`, over the boundary."""
        if not 0 <= stage < len(self.widths):
            return []
        return [
            {"op": op, "microBatch": i, "peer": peer, "samples": part, "boundary": boundary}
            for peer, part in self.overlaps(stage, own, i)
        ]

    def lookups(self, op: str, stage: int, i: int) -> list[dict[str, Any]]:
        if stage not in self.tables:
            return []
        return [{"op": op, "microBatch": i, "group": self.ranks(stage)}]

    def forward(self, stage: int, own: tuple[int, int], i: int) -> list[dict[str, Any]]:
        loads = stage in (0, len(self.widths) - 1)
        return [
            *([_pass("load", own, i)] if loads else []),
            *self.lookups("lookup", stage, i),
            *self.transfers("receive", stage - 1, stage - 1, own, i),
            _pass("forward", own, i),
            *self.transfers("send", stage, stage + 1, own, i),
        ]

    def backward(self, stage: int, own: tuple[int, int], i: int) -> list[dict[str, Any]]:
        return [
            *self.transfers("receiveGradient", stage, stage + 1, own, i),
            _pass("backward", own, i),
            *self.sums(stage, i),
            *self.lookups("lookupGradient", stage, i),
            *self.transfers("sendGradient", stage - 1, stage - 1, own, i),
        ]


def _pass(op: str, own: tuple[int, int], i: int) -> dict[str, Any]:
    return {"op": op, "microBatch": i, "samples": {"begin": own[0], "count": own[1]}}


def awkward(widths: list[list[int]], micro_batches: int, optimizer: str = "sgd") -> Package:
    return Package(AWKWARD, AWKWARD_BOUNDARIES, widths, micro_batches, optimizer)


def gathered(widths: list[list[int]], micro_batches: int, optimizer: str = "sgd") -> Package:
    boundaries = [GATHERED_BOUNDARY] if len(widths) > 1 else []
    model = GATHERED if len(widths) > 1 else GATHERED.replace("STAGES = (Stage0, Stage1)", "STAGES = (Whole,)")
    return Package(model, boundaries, widths, micro_batches, optimizer)


def dropout(widths: list[list[int]], micro_batches: int, optimizer: str = "sgd") -> Package:
    return Package(DROPOUT, [DROPOUT_BOUNDARY], widths, micro_batches, optimizer)


def linear(widths: list[int], micro_batches: int, optimizer: str = "sgd") -> Package:
    return Package(LINEAR, [], [widths], micro_batches, optimizer)


def large(widths: list[int], micro_batches: int, recompute: bool, sharding: str) -> Package:
    segments = [f"w{i}" for i in range(0, 24, 2)] if recompute else []
    model = LARGE.replace('sends = ("y",)', f'sends = ("y",)\n    segments = {tuple(segments)!r}')
    return Package(
        model, [], [widths], micro_batches, "adam", segments=segments, sharding=sharding
    )  # fmt: skip


def tables(
    widths: list[list[int]],
    users: list[int],
    items: list[int],
    micro_batches: int,
    optimizer: str = "sgd",
) -> Package:
    """`users`, `items`: the rows of the tables on each replica of the first stage."""
    shards = [
        {"name": "users", "type": "float32", "columns": 4, "rows": users},
        {"name": "items", "type": "float32", "columns": 6, "rows": items},
    ]
    return Package(TABLES, [TABLES_BOUNDARY], widths, micro_batches, optimizer, {0: shards})
