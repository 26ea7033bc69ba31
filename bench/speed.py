"""Times of steps on cores of another speed.

The cores of a busy host are slower by half for seconds or minutes, each by itself. A reference kernel, a fixed
piece of work beside each session of a layer and around each step (heterplan_runtime/device_classes.py), says
how slow they are. A step takes the longer the slower the slowest of its ranks is:

    log seconds = what its plan takes + s · log reference kernel

with one s for all plans of a model, found by least squares within the plans.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

Reading = tuple[float, float]  # seconds of the reference kernel and of the step beside it


def slowest(by_rank: Sequence[Sequence[float]]) -> list[float]:
    """For each step the largest reference kernel of a rank, before and after it on average."""
    around = [
        [(before + after) / 2 for before, after in zip(rank, rank[1:])] for rank in by_rank
    ]
    return [max(step) for step in zip(*around, strict=True)]


def exponent(plans: Iterable[Sequence[Reading]]) -> float:
    """s; 0 where the reference kernel never changes."""
    covariance = variance = 0.0
    for readings in plans:
        sticks = [math.log(stick) for stick, _ in readings]
        steps = [math.log(seconds) for _, seconds in readings]
        stick, step = statistics.fmean(sticks), statistics.fmean(steps)
        covariance += sum((a - stick) * (b - step) for a, b in zip(sticks, steps, strict=True))
        variance += sum((a - stick) ** 2 for a in sticks)
    return covariance / variance if variance > 0 else 0.0


def geometric_mean(sticks: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(stick) for stick in sticks))


def of_profile(path: Path, batches: Sequence[int]) -> float:
    """Geometric mean over the sessions at these batches; each counts as its passes take."""
    weights = total = 0.0
    for entry in json.loads(path.read_text("utf-8"))["entries"]:
        for session in entry["sessions"] if entry["batch"] in batches else ():
            weight = session["forwardSeconds"] + session["backwardSeconds"]
            weights += weight
            total += weight * math.log(session["referenceKernelSeconds"])
    return math.exp(total / weights)
