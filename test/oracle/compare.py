"""Compares the answer of `heterplan compile` for an instance with an enumeration of all plans."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from burst import BurstPlanner
from instance import Instance
from machines import kinds_of
from plans import CLOSE, Best, Planner
from steady import SteadyPlanner
from synchronous import SynchronousPlanner

BINARY = os.environ.get("HETERPLAN_BINARY", str(Path(__file__).resolve().parents[2] / "build/bin/heterplan"))
PLANNERS: dict[str, type[Planner]] = {
    "synchronous-1f1b": SynchronousPlanner,
    "steady-state": SteadyPlanner,
    "burst": BurstPlanner,
}


@dataclass
class Answer:
    status: int
    found: dict
    messages: str = ""

    @property
    def feasible(self) -> bool:
        return self.status == 0

    @property
    def refused(self) -> bool:
        """The exhaustive search has more to list than it takes on."""
        return self.status == 1 and "HP1503" in self.messages

    @property
    def leaves_shares_out(self) -> bool:
        words = ("uneven shares", "other shares")
        return any(limit.startswith(words) for limit in self.found.get("searchSpaceLimits", []))

    @property
    def divides_falling_times(self) -> bool:
        """Whether unlike devices share a layer whose time falls with more samples; docs/formats.md
        leaves the shares open in this case."""
        return any(limit.startswith("uneven shares") for limit in self.found.get("searchSpaceLimits", []))

    @property
    def leaves_mixes_out(self) -> bool:
        """Too many combinations of numbers of devices to look at all stages of several types."""
        return any(limit.startswith("most mixes") for limit in self.found.get("searchSpaceLimits", []))

    @property
    def complete(self) -> bool:
        """Nothing was left out of the search."""
        return not self.found.get("searchSpaceLimits") and not self.found.get("searchSpace", "").endswith("-reduced")


@dataclass
class Verdict:
    """The result of a comparison. `disagreements` are defects of one side; `beyond` lists plans
    outside of the searched space, which are not."""

    answer: Answer
    documented: float | None  # objective values as `compile` states them; None: no plan
    whole: float | None
    disagreements: list[tuple[str, str]] = field(default_factory=list)  # kind, in words
    beyond: list[str] = field(default_factory=list)
    mixed: bool = False  # a stage of the answer has several device types
    optimal: bool = False
    planner: Planner | None = None


def compile_instance(instance: Instance, folder: Path | None = None, extra: tuple[str, ...] = ()) -> Answer:
    with tempfile.TemporaryDirectory() as scratch:
        files = instance.write(folder or Path(scratch))
        command = [BINARY, "compile", *files, *extra, "-o", str(Path(scratch) / "out"), "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 2) or not done.stdout.startswith("{"):
        return Answer(done.returncode, {}, done.stdout[-500:] + done.stderr[-500:])
    return Answer(done.returncode, json.loads(done.stdout), done.stderr)


def stated(instance: Instance, best: Best) -> float | None:
    """An objective as `compile` states it."""
    if best.plan is None:
        return None
    return instance.request.batch / best.objective if instance.request.objective == "throughput" else best.objective


def compare(instance: Instance, answer: Answer | None = None) -> Verdict:
    planner = PLANNERS[instance.request.iteration_model](instance)
    planner.search()
    answer = answer or compile_instance(instance)
    verdict = Verdict(answer, stated(instance, planner.documented), stated(instance, planner.whole), planner=planner)
    if answer.refused:
        pass
    elif answer.status not in (0, 2) or not answer.found:
        verdict.disagreements.append(("failed", f"exit status {answer.status}: {answer.messages}"))
    elif answer.status == 2 and "stages" in answer.found:
        verdict.disagreements.append(("check", f"the plan fails its own check: {answer.messages}"))
    elif answer.feasible:
        _judge_plan(verdict, instance, planner)
    else:
        _judge_none(verdict, planner)
    return verdict


def _judge_none(verdict: Verdict, planner: Planner) -> None:
    proven = verdict.answer.found.get("proven")
    words = f"no plan, proven: {proven}; there is one with {verdict.documented}"
    if verdict.documented is not None and proven:
        verdict.disagreements.append(("false proof", words))
    elif _needs_mixes_left_out(verdict, planner):
        verdict.beyond.append("missed, for mixes of types that are said to be left out")
    elif verdict.documented is not None and planner.request.is_exact:
        verdict.disagreements.append(("missed", words))
    elif verdict.documented is not None:
        verdict.beyond.append("no plan found, by a search that is not exact")
    elif verdict.whole is not None:
        how = "proven infeasible" if proven else "infeasible"
        verdict.beyond.append(f"{how}, but for {planner.outside(planner.whole.plan)}")


def _needs_mixes_left_out(verdict: Verdict, planner: Planner) -> bool:
    plan = planner.documented.plan
    return plan is not None and verdict.answer.leaves_mixes_out and any(len(kinds_of(each)) > 1 for each in plan.groups)


def _judge_plan(verdict: Verdict, instance: Instance, planner: Planner) -> None:
    plan, sign = verdict.answer.found, 1 if instance.request.objective == "throughput" else -1
    value, bound = plan["objectiveValue"], plan["lowerBound"]
    verdict.optimal = plan.get("optimal", False)
    verdict.mixed = any(
        len({device["type"] for replica in stage["replicas"] for device in replica["devices"]}) > 1
        for stage in plan["stages"]
    )

    def better(a: float, b: float) -> bool:
        return sign * (a - b) > CLOSE * abs(b)

    def note(kind: str, words: str) -> None:
        verdict.disagreements.append((kind, words))

    mixes_left_out = _needs_mixes_left_out(verdict, planner)
    if verdict.documented is None:
        note("not there", f"a plan with {value}, where there is none")
    else:
        if better(verdict.documented, bound) and not mixes_left_out:
            note("bound", f"bound {bound}, but there is {verdict.documented}")
        if better(value, verdict.whole):
            note("impossible", f"{value}, but the best of all plans is {verdict.whole}")
        elif better(value, verdict.documented) and not verdict.answer.divides_falling_times:
            note("too good", f"{value}, but the best of the searched space is {verdict.documented}")
        if verdict.optimal and better(verdict.documented, value) and not mixes_left_out:
            note("optimal", f"{value} is called optimal, but there is {verdict.documented}")
        if not mixes_left_out and not verdict.optimal and planner.request.is_exact and better(verdict.documented, value):
            note("not best", f"{value}, but there is {verdict.documented}, and nothing cut the search short")
    if planner.whole.plan and better(verdict.whole, bound):
        gain, outside = sign * (verdict.whole - bound) / bound, planner.outside(planner.whole.plan)
        outside = outside or ("mixes" if mixes_left_out else "")
        is_said = outside == "mixes" or (outside == "shares" and verdict.answer.leaves_shares_out)
        said = ", which is said" if is_said else ""
        verdict.beyond.append(f"bound beaten with {outside}{said}: by {gain:.1e}")
    for words in planner.figures_apart(plan):
        note("figures", words)
