"""The runs of bench/balance.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MODEL = Path(__file__).resolve().parents[1] / "test/data/small/cnn.onnx"
KINDS = ("steps", "bursts", "diurnal", "heavy-tailed")
POLICIES = ("even", "static", "lb-bsp-last", "lb-bsp-ema", "lb-bsp-ar", "lb-bsp-narx", "ssp", "asp", "oracle")
WORKERS, ITERATIONS = 32, 300
SIMULATED_BATCH = 4096


@dataclass(frozen=True)
class Workload:
    """A real run on two cores."""

    name: str
    batch: int
    stride: int  # between the fixed splits that are tried
    steps: int
    rounds: int
    turn: float = 0  # seconds that a competitor computes, and then sleeps, in turns; 0: it always computes


# A step of the first takes about 20 ms undisturbed, so that it waits for the core as often as it computes.
# The scheduler shares a core unevenly between a rank that waits for messages and a competitor that never waits;
# in turns it gets half, neither more nor less.
WORKLOADS = {
    each.name: each
    for each in (
        Workload("short", 96, 4, 40, 5), Workload("long", 1536, 64, 20, 5),
        Workload("turns", 1536, 96, 40, 3, turn=0.005),
    )
}  # fmt: skip
