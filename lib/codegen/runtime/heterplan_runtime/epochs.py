"""Epochs of a number of samples that the batch need not divide: the last batch of each has what is
left, so that every sample is used exactly once an epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .errors import RuntimeFault
from .program import RankProgram


@dataclass(frozen=True)
class Epochs:
    """Sample i of the batch of step s is number (s mod n)·batch + i of its epoch, of n steps."""

    batch: int
    samples: int = 0  # of an epoch; 0: no end

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return -(-self.samples // self.batch)

    @property
    def is_uneven(self) -> bool:
        return self.samples % self.batch != 0

    def first_sample(self, step: int) -> int:
        """Number of the first sample of `step`, counted over all epochs."""
        if not self.is_uneven:
            return step * self.batch
        return step // self.steps * self.samples + step % self.steps * self.batch

    def batch_at(self, step: int) -> int:
        if not self.is_uneven:
            return self.batch
        return min(self.batch, self.samples - step % self.steps * self.batch)

    def program_at(self, step: int, program: RankProgram) -> RankProgram:
        return replace(program, global_batch=self.batch_at(step))

    def check(self, micro_batches: int) -> None:
        last = self.samples % self.batch
        if 0 < last < micro_batches:
            raise RuntimeFault(
                f"--epoch-samples {self.samples}: the last batch of an epoch has {last} samples, less "
                f"than one for each of {micro_batches} micro-batches"
            )
