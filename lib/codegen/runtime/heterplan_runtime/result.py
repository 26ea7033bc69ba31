"""What a run has measured, and whether it equals the training in one process: what --json writes."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from typing import Any

from .reference import largest_difference
from .state_check import STATE_TOLERANCE

TOLERANCE = 1e-4
HALF_TOLERANCE = 2.0**-10  # a row and its gradient are rounded to 11 bits each


@dataclass
class Result:
    """What --json writes."""

    predicted_seconds: float
    global_batch: int
    losses: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)  # by rank
    reference_kernel_seconds: list[list[float]] = field(default_factory=list)  # by rank: around each step
    reference_losses: list[float] | None = None
    state_difference: float = 0.0  # of what ranks end with; at most 1 is accepted
    differing_state: str = ""
    warmup: int = 0
    tolerance: float = TOLERANCE
    first_step: int = 0  # steps that were done before, by a run that this one goes on from
    background: dict[str, Any] | None = None  # what its copies have done

    @property
    def measured_seconds(self) -> float:
        """Median of the steps after the warm-up; of all when there are no others; 0 without any."""
        return statistics.median(self.step_seconds[self.warmup :] or self.step_seconds or [0.0])

    @property
    def samples_per_second(self) -> float:
        return self.global_batch / self.measured_seconds if self.step_seconds else 0.0

    @property
    def difference(self) -> float:
        return largest_difference(self.losses, self.reference_losses or [])

    @property
    def passed(self) -> bool:
        if self.reference_losses is None:
            return True
        return self.difference <= self.tolerance and self.state_difference <= 1

    def to_json(self) -> str:
        facts: dict[str, object] = {
            "losses": self.losses,
            "stepSeconds": self.step_seconds,
            "peakBytes": self.peak_bytes,
            "referenceKernelSeconds": self.reference_kernel_seconds,
            "predictedSeconds": self.predicted_seconds,
            "measuredSeconds": self.measured_seconds,
            "samplesPerSecond": self.samples_per_second,
            "firstStep": self.first_step,
        }
        if self.background is not None:
            facts["background"] = self.background
        if self.reference_losses is not None:
            facts["referenceLosses"] = self.reference_losses
            facts["stateDifference"] = self.state_difference * STATE_TOLERANCE
            facts["checkPassed"] = self.passed
        return json.dumps(facts, indent=1) + "\n"
