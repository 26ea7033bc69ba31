"""How parameters move: the learning rate of each step, weight decay, and the largest norm of the
gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .errors import RuntimeFault

# By name: the part of the learning rate after the warm-up, at `done` (0 to 1) of what is left.
SHAPES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
}


@dataclass(frozen=True)
class Schedule:
    """Rises linearly for `warmup` steps, then falls to `floor` of the rate at step `steps`."""

    shape: str
    warmup: int
    steps: int
    floor: float

    def factor(self, step: int) -> float:
        """The factor of the learning rate at a step; steps count from 0."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.floor + (1.0 - self.floor) * SHAPES[self.shape](done)


def parse_schedule(text: str, steps: int) -> Schedule:
    """`SHAPE[,warmup=N][,steps=N][,floor=F]`; `steps`: of the run, where the text does not say."""
    shape, *settings = text.split(",")
    values = {"warmup": 0.0, "steps": float(steps), "floor": 0.0}
    for setting in settings:
        key, _, value = setting.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        proper = 0 <= number < math.inf and (key == "floor" or number.is_integer())
        if key not in values or not proper:
            raise RuntimeFault(
                f"--lr-schedule {text}: '{setting}' is not warmup=STEPS, steps=STEPS or floor=PART"
            )
        values[key] = number
    if shape not in SHAPES:
        raise RuntimeFault(f"--lr-schedule {text}: expected one of {', '.join(SHAPES)}")
    return Schedule(shape, int(values["warmup"]), int(values["steps"]), values["floor"])


@dataclass(frozen=True)
class UpdateRule:
    """`weight_decay`: of dense parameters; with Adam apart from the gradient (AdamW, Loshchilov and
    Hutter, ICLR 2019). `clip`: largest Euclidean norm of all gradients together; 0: none."""

    optimizer: str
    rate: float
    schedule: Schedule
    weight_decay: float = 0.0
    clip: float = 0.0

    def rate_at(self, step: int) -> float:
        return self.rate * self.schedule.factor(step)
