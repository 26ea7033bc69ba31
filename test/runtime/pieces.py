"""Trainings in pieces: each goes on from the checkpoint that the one before it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chains import chain
from packages import Package
from ranks import Outcome, run_ranks

STEPS = 6


class Job:
    """A training in pieces; each gives the losses of its steps."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.checkpoints = folder / "checkpoints"
        self._pieces = 0

    def outcomes(self, package: Package, steps: int, *more: str, text: str = "", **how: Any) -> list[Outcome]:
        """`text`: is added to model.py."""
        self._pieces += 1
        plan = self.folder / f"plan{self._pieces}"
        package.write(plan)
        with (plan / "model.py").open("a") as model:
            model.write(text)
        self.result = plan / "result.json"
        self.weights = plan / "trained/model.safetensors"
        return run_ranks(
            package.world_size, self.folder / "logs",
            [str(plan), "--loss", "mse", "--lr", "0.05", "--steps", str(steps), *self.options, *more,
             "--json", str(self.result), "--checkpoint-dir", str(self.checkpoints)],
            **how,
        )  # fmt: skip

    def run(self, package: Package, steps: int, *more: str) -> list[float]:
        outcomes = self.outcomes(package, steps, "--resume", *more)
        for outcome in outcomes:
            assert outcome.status == 0, outcome.out + "".join(o.err for o in outcomes)
        self.out = outcomes[0].out
        return json.loads(self.result.read_text())["losses"]


PIPELINE = chain([1, 2], [[4], [3, 1], [4]], 2, "adam")  # four ranks
PARALLEL = chain([], [[3, 1]], 2, "adam")  # two
