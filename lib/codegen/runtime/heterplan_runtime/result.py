"""The measurements of a run, and its comparison with training in one process: the content of
--json."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from typing import Any

from .reference import largest_difference
from .state_check import STATE_TOLERANCE

TOLERANCE = 1e-6  # of a loss, in double precision
HALF_TOLERANCE = 2.0**-10  # a row and its gradient are rounded to 11 bits each


@dataclass
class Result:
    """The result of a run, as --json writes it."""

    predicted_seconds: float
    global_batch: int
    losses: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    data_seconds: list[float] = field(default_factory=list)  # that the slowest rank waited for samples
    wall_seconds: list[float] = field(default_factory=list)  # from the end of one step to that of the next
    evaluations: list[dict[str, float]] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)  # by rank: beyond what PyTorch takes by itself
    resident_bytes: list[int] = field(default_factory=list)  # by rank: of the whole process
    predicted_bytes: list[float] = field(default_factory=list)  # by rank; 0: the plan does not say
    reference_kernel_seconds: list[list[float]] = field(default_factory=list)  # by rank: around each step
    reference_losses: list[float] | None = None
    state_difference: float = 0.0  # of what ranks end with; at most 1 is accepted
    differing_state: str = ""
    warmup: int = 0
    tolerance: float = TOLERANCE
    state_tolerance: float = STATE_TOLERANCE
    first_step: int = 0  # steps that were done before, by a run that this one goes on from
    resumed_bytes: float = 0.0  # of parameters and optimizer state, by all ranks
    moved_bytes: float = 0.0  # the part that the devices did not hold before
    background: dict[str, Any] | None = None  # what its copies have done
    balance: dict[str, object] = field(default_factory=dict)

    @property
    def measured_seconds(self) -> float:
        """Median of the steps after the warm-up; of all when there are no others; 0 without any."""
        return statistics.median(self._counted(self.step_seconds) or [0.0])

    def _counted(self, seconds: list[float]) -> list[float]:
        return seconds[self.warmup :] or seconds

    @property
    def samples_per_second(self) -> float:
        """Throughput of the run in wall-clock time, which includes waiting for samples and writing
        checkpoints."""
        wall = self._counted(self.wall_seconds)
        return self.global_batch * len(wall) / sum(wall) if wall else 0.0

    @property
    def waiting(self) -> float:
        """The fraction of wall-clock time that ranks wait for samples."""
        wall = self._counted(self.wall_seconds)
        return sum(self._counted(self.data_seconds)) / sum(wall) if wall else 0.0

    def seconds_left(self, steps: int) -> float:
        """Until so many steps are done, at the speed so far."""
        wall = self._counted(self.wall_seconds)
        return (steps - self.first_step - len(self.losses)) * sum(wall) / max(1, len(wall))

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
            "dataSeconds": self.data_seconds,
            "wallSeconds": self.wall_seconds,
            "peakBytes": self.peak_bytes,
            "residentBytes": self.resident_bytes,
            "predictedBytes": self.predicted_bytes,
            "referenceKernelSeconds": self.reference_kernel_seconds,
            "predictedSeconds": self.predicted_seconds,
            "measuredSeconds": self.measured_seconds,
            "samplesPerSecond": self.samples_per_second,
            "firstStep": self.first_step,
            "resumedBytes": self.resumed_bytes,
            "movedBytes": self.moved_bytes,
            "balance": self.balance,
        }
        if self.background is not None:
            facts["background"] = self.background
        if self.evaluations:
            facts["evaluations"] = self.evaluations
        if self.reference_losses is not None:
            facts["referenceLosses"] = self.reference_losses
            facts["stateDifference"] = self.state_difference * self.state_tolerance
            facts["checkPassed"] = self.passed
        return json.dumps(facts, indent=1) + "\n"
