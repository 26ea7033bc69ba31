"""Predictions and measurements of each plan, and the tables that compare them."""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import speed
from fidelity_workloads import Bootstrap, Workloads

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "lib/codegen/runtime"), str(ROOT / "scripts")]
from heterplan_runtime.robust import trimmed_mean  # noqa: E402
from rank_correlation import spearman  # noqa: E402


@dataclass(frozen=True)
class Run:
    steps: tuple[float, ...]  # seconds of each
    reference_kernels: tuple[float, ...]  # beside each, of the slowest rank
    bytes: float  # of the rank that needs most, all that its process has
    others: float  # cores that other processes took meanwhile

    @property
    def seconds(self) -> float:
        return trimmed_mean(self.steps)


@dataclass(frozen=True)
class Outcome:
    model: str
    form: str
    batch: int
    predicted: float
    predicted_bytes: float
    layout: str  # layers and devices of the stages
    reference_kernel: float  # beside the sessions of its layers
    least: float = 0  # the interval of the predicted time; 0: none is stated
    most: float = 0
    runs: tuple[Run, ...] = ()

    @property
    def measured(self) -> float:
        return trimmed_mean(run.seconds for run in self.runs)

    @property
    def spread(self) -> float:
        """Half of the range of its runs, relative."""
        seconds = [run.seconds for run in self.runs]
        return (max(seconds) - min(seconds)) / 2 / self.measured

    @property
    def measured_bytes(self) -> float:
        """The most of all runs: predictions are upper bounds."""
        return max(run.bytes for run in self.runs)

    @property
    def others(self) -> float:
        return statistics.median(run.others for run in self.runs)

    @property
    def readings(self) -> list[speed.Reading]:
        return [pair for run in self.runs for pair in zip(run.reference_kernels, run.steps, strict=True)]

    def slower(self, exponent: float) -> float:
        """How much longer cores as slow as those of its runs take than those of its sessions."""
        sticks = [stick for stick, _ in self.readings]
        return (speed.geometric_mean(sticks) / self.reference_kernel) ** exponent

    def error(self, exponent: float = 0) -> float:
        """Relative; at equal speed with the exponent of the reference kernel."""
        return self.predicted * self.slower(exponent) / self.measured - 1

    @property
    def covered(self) -> bool | None:
        """Whether its interval holds what was measured; None where it states none."""
        return self.least <= self.measured <= self.most if self.most else None

    @property
    def memory_share(self) -> float:
        """The used fraction of the predicted memory: at most 1 if the prediction is an upper bound."""
        return self.measured_bytes / self.predicted_bytes


def interval(
    runs: Sequence[Sequence[float]], figure: Callable[[list[float]], float], bootstrap: Bootstrap
) -> tuple[float, float]:
    """The interval of a figure of the times of plans: percentile bootstrap over the runs
    of each plan."""
    source = random.Random(bootstrap.seed)
    found = sorted(
        figure([trimmed_mean(source.choices(times, k=len(times))) for times in runs])
        for _ in range(bootstrap.resamples)
    )
    out = round((1 - bootstrap.confidence) / 2 * (len(found) - 1))
    return found[out], found[len(found) - 1 - out]


def median_error(outcomes: Sequence[Outcome], exponents: Sequence[float]) -> Callable[[list[float]], float]:
    """As a function of measured times."""
    predicted = [o.predicted * o.slower(s) for o, s in zip(outcomes, exponents, strict=True)]
    return lambda measured: statistics.median(
        abs(p / m - 1) for p, m in zip(predicted, measured, strict=True)
    )


def order(outcomes: Sequence[Outcome], exponents: Sequence[float]) -> Callable[[list[float]], float]:
    """Whether samples take longest where they are predicted to: rank correlation, as a function of measured times."""
    predicted = [o.predicted / o.batch for o in outcomes]
    slower = [o.slower(s) * o.batch for o, s in zip(outcomes, exponents, strict=True)]
    return lambda measured: spearman(predicted, [m / s for m, s in zip(measured, slower, strict=True)])


def regret(outcomes: Sequence[Outcome], exponents: Sequence[float]) -> Callable[[list[float]], float]:
    """By how much longer a sample takes with the plan that is predicted to be the fastest than with the one
    that is, uneven ones among them, which have a sample more: as a function of measured times."""
    choice = min(range(len(outcomes)), key=lambda index: outcomes[index].predicted / outcomes[index].batch)
    slower = [o.slower(s) * o.batch for o, s in zip(outcomes, exponents, strict=True)]

    def of(measured: list[float]) -> float:
        samples = [m / s for m, s in zip(measured, slower, strict=True)]
        return samples[choice] / min(samples) - 1

    return of


PLAN_COLUMNS = (
    "model", "plan", "predicted ms", "interval", "measured ms", "error", "slower", "at equal speed", "runs",
    "spread", "others", "memory MB", "measured MB", "of it",
)  # fmt: skip
COLUMNS = (
    "model", "plans", "speed matters", "median error", "its interval", "worst", "Spearman",
    "its interval", "regret of the choice", "its interval", "in their intervals", "memory held", "median of it",
)  # fmt: skip


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _head(columns: Sequence[str]) -> list[str]:
    return [_row(columns), _row(["---"] * len(columns))]


def report(outcomes: Sequence[Outcome], workloads: Workloads) -> str:
    models = {model: [o for o in outcomes if o.model == model] for model in by_model(outcomes)}
    exponents = {model: speed.exponent(o.readings for o in plans) for model, plans in models.items()}
    lines = [f"Workloads version {workloads.version}, {workloads.runs} runs of each plan in turns, "
             f"{workloads.bootstrap.confidence:.0%} intervals by bootstrap.", ""]  # fmt: skip
    lines += _head(PLAN_COLUMNS) + [_plan_row(o, exponents[o.model]) for o in outcomes]
    lines += ["", *_head(COLUMNS)]
    held_out = {subject.name for subject in workloads.models if subject.held_out}
    for at_equal_speed in (False, True):
        used = {model: s * at_equal_speed for model, s in exponents.items()}
        for model, plans in models.items():
            lines.append(_summary(model, plans, used, workloads.bootstrap, at_equal_speed))
        ending = ", equal speed" if at_equal_speed else ""
        some = [o for o in outcomes if o.model in held_out]
        if some and len(some) < len(outcomes):
            lines.append(_summary(f"held out{ending}", some, used, workloads.bootstrap))
        lines.append(_summary(f"all{ending}", outcomes, used, workloads.bootstrap))
    return "\n".join(lines) + "\n"


def by_model(outcomes: Sequence[Outcome]) -> list[str]:
    return list(dict.fromkeys(o.model for o in outcomes))


def _plan_row(o: Outcome, s: float) -> str:
    stated = f"{o.least * 1e3:.1f} to {o.most * 1e3:.1f}" if o.most else ""
    return _row([
        o.model, o.form, f"{o.predicted * 1e3:.1f}", stated, f"{o.measured * 1e3:.1f}", f"{o.error():+.1%}",
        f"{o.slower(s) - 1:+.0%}", f"{o.error(s):+.1%}", len(o.runs), f"{o.spread:.0%}", f"{o.others:.0%}",
        f"{o.predicted_bytes / 1e6:.0f}", f"{o.measured_bytes / 1e6:.0f}", f"{o.memory_share:.0%}",
    ])  # fmt: skip


def _summary(
    name: str, outcomes: Sequence[Outcome], exponents: dict[str, float], bootstrap: Bootstrap,
    names_speed: bool = False,
) -> str:  # fmt: skip
    """Plans of several models have no order."""
    used = [exponents[o.model] for o in outcomes]
    sizes = [abs(o.error(s)) for o, s in zip(outcomes, used, strict=True)]
    runs = [[run.seconds for run in o.runs] for o in outcomes]
    low, high = interval(runs, median_error(outcomes, used), bootstrap)
    covered = [o.covered for o in outcomes if o.covered is not None]
    single = len(by_model(outcomes)) == 1
    ranks, rank_bounds, loss, loss_bounds = "", "", "", ""
    if single:
        measured = [o.measured for o in outcomes]
        correlation, lost = order(outcomes, used), regret(outcomes, used)
        ranks, loss = f"{correlation(measured):.2f}", f"{lost(measured):.1%}"
        rank_bounds = "{:.2f} to {:.2f}".format(*interval(runs, correlation, bootstrap))
        loss_bounds = "{:.1%} to {:.1%}".format(*interval(runs, lost, bootstrap))
    shares = [o.memory_share for o in outcomes]
    return _row([
        name, len(outcomes), f"y^{used[0]:.2f}" if names_speed else "", f"{statistics.median(sizes):.1%}",
        f"{low:.1%} to {high:.1%}", f"{max(sizes):.1%}", ranks, rank_bounds, loss, loss_bounds,
        f"{statistics.mean(covered):.0%}" if covered else "", f"{sum(s <= 1 for s in shares)} of {len(shares)}",
        f"{statistics.median(shares):.0%}",
    ])  # fmt: skip
