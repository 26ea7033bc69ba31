"""Which replicas waited for which, how long, and what other shares would have saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .shares import TimeModel, even, fill

NOTICEABLE = 0.05  # of a step


@dataclass(frozen=True)
class Measured:
    """A step of a part: its samples, and the seconds that its passes and its update took."""

    stage: int
    replica: int
    samples: int
    passes: float
    update: float

    @property
    def seconds(self) -> float:
        return self.passes + self.update


Step = list[Measured]  # of the replicas of a stage, in their order


def stragglers(
    ranks: Sequence[Sequence[Sequence[Measured]]], step_seconds: float, say: Callable[[str], None]
) -> list[dict[str, object]]:
    """Figures of each stage that has replicas. `ranks`: times of its parts by rank and step. The
    first step allocates memory and fills caches, so it does not count if there are others. `say`
    gets a message if replicas waited for a considerable part of `step_seconds`, the times of a
    step."""
    stages: dict[int, list[Step]] = {}
    for steps in zip(*(rank[1:] or rank for rank in ranks), strict=True):
        for stage, step in _by_stage(steps).items():
            stages.setdefault(stage, []).append(step)
    several = {stage: own for stage, own in stages.items() if len(own[0]) > 1}
    found = [_stage(stage, own) for stage, own in several.items()]
    for facts, own in zip(found, several.values(), strict=True):
        if max(_numbers(facts["waitedSeconds"])) > NOTICEABLE * step_seconds * len(own):
            say(_text(len(own), step_seconds, facts))
    return found


def _by_stage(ranks: Sequence[Sequence[Measured]]) -> dict[int, Step]:
    parts = sorted((each for rank in ranks for each in rank), key=lambda m: (m.stage, m.replica))
    stages: dict[int, Step] = {}
    for each in parts:
        stages.setdefault(each.stage, []).append(each)
    return stages


def _stage(stage: int, steps: list[Step]) -> dict[str, object]:
    replicas = range(len(steps[0]))
    waited, caused, slowest = ([0.0] * len(replicas) for _ in range(3))
    for step in steps:
        last = max(step, key=lambda each: each.seconds)
        slowest[last.replica] += 1
        for each in step:
            waited[each.replica] += last.seconds - each.seconds
            caused[last.replica] += last.seconds - each.seconds
    took = sum(max(each.seconds for each in step) for step in steps)
    models = [_models(step) for step in steps]
    fixed = _best_fixed(steps, models)
    return {
        "stage": stage, "waitedSeconds": waited, "causedSeconds": caused, "slowestSteps": slowest,
        "computeSeconds": took, "evenSeconds": _at(steps, models, even(_batch(steps[0]), len(replicas))),
        "staticSeconds": _at(steps, models, fixed), "staticShares": fixed,
        "dynamicSeconds": _dynamic(steps, models),
    }  # fmt: skip


def _batch(step: Step) -> int:
    return sum(each.samples for each in step)


def _models(step: Step) -> list[TimeModel | None]:
    """Proportional to the samples; None of a replica that had none."""
    return [
        TimeModel(each.passes / each.samples, each.update) if each.samples else None
        for each in step
    ]


def _at(steps: list[Step], models: list[list[TimeModel | None]], shares: Sequence[int]) -> float:
    """Seconds of all steps at fixed shares of a whole batch, in proportion of those of a smaller one."""
    total, whole = 0.0, sum(shares)
    for step, own in zip(steps, models, strict=True):
        part = _batch(step) / whole
        total += max(
            each.update + (model.slope * share * part if model else 0.0)
            for each, model, share in zip(step, own, shares, strict=True)
        )
    return total


def _best_fixed(steps: list[Step], models: list[list[TimeModel | None]]) -> list[int]:
    """By the mean time of a sample on each replica; one that never had any gets none."""
    batch = max(_batch(step) for step in steps)
    means = []
    for replica in range(len(steps[0])):
        known = [model.slope for own in models if (model := own[replica]) is not None]
        constant = sum(step[replica].update for step in steps) / len(steps)
        means.append(TimeModel(sum(known) / len(known), constant) if known else None)
    return _filled(means, batch)


def _filled(models: Sequence[TimeModel | None], batch: int) -> list[int]:
    most = [batch if model is not None and model.slope > 0 else 0 for model in models]
    if not any(most):
        return even(batch, len(models))
    return fill([model or TimeModel(0.0) for model in models], batch, most)


def _dynamic(steps: list[Step], models: list[list[TimeModel | None]]) -> float:
    """With the best shares of each step, which nobody knew before it."""
    total = 0.0
    for step, own in zip(steps, models, strict=True):
        shares = _filled(own, _batch(step))
        total += max(
            each.update + (model.slope * share if model else 0.0)
            for each, model, share in zip(step, own, shares, strict=True)
        )
    return total


def _text(steps: int, step_seconds: float, found: dict[str, object]) -> str:
    stage = found["stage"]
    waited, slowest = _numbers(found["waitedSeconds"]), _numbers(found["slowestSteps"])
    worst = max(range(len(slowest)), key=lambda replica: slowest[replica])
    took = _number(found["computeSeconds"])
    others = ", ".join(
        f"{replica} {seconds / steps * 1e3:.2f} ms"
        for replica, seconds in enumerate(waited)
        if seconds > NOTICEABLE * step_seconds * steps
    )
    saved = ", ".join(
        f"{what} {_number(found[key]) / steps * 1e3:.2f} ms"
        for what, key in (
            ("even", "evenSeconds"), ("the best fixed ones", "staticSeconds"),
            ("the best of each step", "dynamicSeconds"),
        )
    )  # fmt: skip
    return (
        f"stage {stage}: replica {worst} was the slowest in {slowest[worst]:.0f} of {steps} steps; "
        f"replicas waited for others, a step: {others}\n"
        f"stage {stage}: computing took {took / steps * 1e3:.2f} ms a step with these shares; with "
        f"others: {saved} (best fixed: {found['staticShares']})"
    )


def _numbers(value: object) -> list[float]:
    assert isinstance(value, list)
    return value


def _number(value: object) -> float:
    assert isinstance(value, float)
    return value
