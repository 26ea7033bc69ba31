"""Shares of the batch that follow the machines while they train (LB-BSP, Chen et al., SoCC 2020).

At a barrier every few steps each rank says how long it takes for how many samples, as it expects; all
ranks come to the same shares from what all said, and go on with the Program at these shares. Gradients
count by their samples, so that every update is that of the whole batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .communication import Communicator
from .epochs import Epochs
from .errors import RuntimeFault
from .forecast import Forecast, make_forecast
from .interpreter import Interpreter
from .policies import REPLAY
from .program import MicroBatches, PlanSummary, RankProgram, read_rank_program
from .resize import Division, resized, stated_shares
from .shares import TimeModel, even, fill
from .stopwatch import Stopwatch
from .stragglers import Measured, stragglers


class Policy(Protocol):
    def decide(self, step: int, shares: dict[int, list[int]]) -> list[Decision]:
        """Shares of stages from `step` on, which differ from `shares`; the same on all ranks."""


@dataclass(frozen=True)
class Decision:
    """Times are those of the slowest replica in a step, as they were expected at these shares and at
    those before; 0 where nothing was expected."""

    step: int
    stage: int
    shares: list[int]
    before_seconds: float = 0.0
    seconds: float = 0.0

    def to_json(self) -> dict[str, object]:
        return {
            "step": self.step, "stage": self.stage, "shares": self.shares,
            "beforeSeconds": self.before_seconds, "seconds": self.seconds,
        }  # fmt: skip


@dataclass
class Replayed:
    """The decisions of an earlier run."""

    decisions: list[Decision]

    def decide(self, step: int, shares: dict[int, list[int]]) -> list[Decision]:
        return [each for each in self.decisions if each.step == step]


@dataclass
class Kept:
    def decide(self, step: int, shares: dict[int, list[int]]) -> list[Decision]:
        return []


@dataclass
class LoadBalanced:
    """`own`: of each part of this rank, its stage and replica. `most`: by stage, the samples of a
    micro-batch that the memory of each replica holds; 0 or absent where that is not known."""

    communicator: Communicator
    own: list[tuple[int, int]]
    forecasts: list[Forecast]
    most: Sequence[Sequence[int]]
    every: int
    hysteresis: float
    first_step: int = -1

    def decide(self, step: int, shares: dict[int, list[int]]) -> list[Decision]:
        if self.first_step < 0:
            self.first_step = step
        if step == self.first_step or (step - self.first_step) % self.every:
            return []
        models = self._exchange(shares)
        return [
            decision
            for stage, own in shares.items()
            if (decision := self._balance(step, stage, own, models[stage])) is not None
        ]

    def _exchange(self, shares: dict[int, list[int]]) -> dict[int, list[TimeModel]]:
        """Exchanges the time models of all replicas in one small all-reduce: each replica fills its
        own entries and leaves zeros elsewhere."""
        places = {
            (stage, replica): index
            for index, (stage, replica) in enumerate(
                (stage, replica) for stage, own in shares.items() for replica in range(len(own))
            )
        }
        told = [0.0] * (3 * len(places))
        for (stage, replica), forecast in zip(self.own, self.forecasts, strict=True):
            model = forecast.model(shares[stage][replica])
            index = 3 * places[stage, replica]
            told[index : index + 3] = [model.slope, model.constant, model.floor]
        found = self.communicator.largest_of(told)
        return {
            stage: [
                TimeModel(*found[3 * index : 3 * index + 3])
                for index in (places[stage, replica] for replica in range(len(own)))
            ]
            for stage, own in shares.items()
        }

    def _balance(
        self, step: int, stage: int, shares: list[int], models: list[TimeModel]
    ) -> Decision | None:
        """None where it does not pay."""
        if len(shares) < 2 or any(model.slope <= 0 for model in models):
            return None
        better = fill(models, sum(shares), self._limits(stage, shares))
        now = _slowest(models, shares)
        then = _slowest(models, better)
        if better == shares or then > now * (1 - self.hysteresis):
            return None
        return Decision(step, stage, better, now, then)


    def _limits(self, stage: int, shares: list[int]) -> list[int]:
        """No less than they have."""
        limits = self.most[stage] if stage < len(self.most) else ()
        if len(limits) != len(shares):
            return [sum(shares)] * len(shares)
        return [
            max(limit or sum(shares), share) for limit, share in zip(limits, shares, strict=True)
        ]


def _slowest(models: Sequence[TimeModel], shares: Sequence[int]) -> float:
    return max(model(share) for model, share in zip(models, shares, strict=True))


@dataclass
class Balancer:
    """Before each step it sees to it that the ranks have the shares of the step; after it, it notes
    how long they took."""

    program: RankProgram
    interpreter: Interpreter
    programs: Sequence[RankProgram]  # of the ranks of this shard; none where shares never move
    policy: Policy
    name: str
    epochs: Epochs
    stopwatch: Stopwatch
    forecasts: list[Forecast]
    shares: dict[int, list[int]]  # by stage; none where shares never move
    decisions: list[Decision] = field(default_factory=list)
    seconds: float = 0.0  # that it took
    steps: list[list[Measured]] = field(default_factory=list)  # by step: of each part
    _batch: int = 0

    def before_step(self, step: int) -> bool:
        """Returns whether the samples of this rank are others from now on."""
        begin = time.perf_counter()
        batch = self.epochs.batch_at(step)
        decisions = self.policy.decide(step, self.shares)
        for decision in decisions:
            self.shares[decision.stage] = decision.shares
        self.decisions += decisions
        changes = decisions or batch != (self._batch or self.program.global_batch)
        if self.programs and changes:
            self._adopt(batch)
        self._batch = batch
        self.seconds += time.perf_counter() - begin
        return bool(self.programs and changes)

    def _adopt(self, batch: int) -> None:
        sizes = MicroBatches(batch, self.program.micro_batches)
        division = Division(self.programs, sizes, self.shares)
        self.interpreter.adopt(resized(self.program, division))

    def after_step(self) -> None:
        measured = []
        for index, (part, forecast) in enumerate(
            zip(self.interpreter.parts, self.forecasts, strict=True)
        ):
            passes, update = self.stopwatch.read(index)
            samples = part.sample_count
            forecast.note(samples, passes, update)
            if not part.part.shard:  # the shards of a replica compute alike
                measured.append(
                    Measured(part.part.stage, part.part.replica, samples, passes, update)
                )
        self.steps.append(measured)

    def counters(self) -> list[dict[str, Any]]:
        """The shares of this rank, for its trace."""
        return [
            {
                "name": "samples", "cat": "measured", "ph": "C", "ts": 0.0, "dur": 0.0,
                "pid": part.part.stage, "tid": self.program.rank,
                "args": {"index": 0, "samples": part.sample_count},
            }
            for part in self.interpreter.parts
        ]  # fmt: skip

    def report(
        self, communicator: Communicator, say: Callable[[str], None], step_seconds: Sequence[float]
    ) -> dict[str, object]:
        """The facts for --json. The call is collective: all ranks make it."""
        found: dict[str, object] = {"policy": self.name}
        if self.name not in ("plan", "even"):
            found["decisions"] = [each.to_json() for each in self.decisions]
            found["seconds"] = self.seconds
            say(
                f"balance {self.name}: shares of {len({each.step for each in self.decisions})} steps moved, "
                f"at last {self.shares}; that took {self.seconds / max(sum(step_seconds), 1e-9):.2%} of the steps"
            )
        exact = communicator.total(float(self.stopwatch.exact))
        if exact < communicator.world_size or not step_seconds:
            return found
        found["stragglers"] = stragglers(
            communicator.gather(self.steps), sum(step_seconds) / len(step_seconds), say
        )
        return found


def _policy(
    options: Any, program: RankProgram, plan: PlanSummary, communicator: Communicator,
    forecasts: list[Forecast],
) -> Policy:  # fmt: skip
    if options.balance.startswith(REPLAY):
        return Replayed(read_decisions(Path(options.balance.removeprefix(REPLAY))))
    if options.balance in ("plan", "even"):
        return Kept()
    own = [(part.stage, part.replica) for part in program.parts]
    return LoadBalanced(
        communicator, own, forecasts, plan.most_samples, options.balance_every,
        options.balance_hysteresis,
    )  # fmt: skip


def read_decisions(path: Path) -> list[Decision]:
    """Reads the decisions that --json wrote."""
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))["balance"]["decisions"]
        decisions = [
            Decision(int(each["step"]), int(each["stage"]), [int(n) for n in each["shares"]])
            for each in stated
        ]
    except OSError as error:
        raise RuntimeFault(f"--balance {REPLAY}{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RuntimeFault(
            f"--balance {REPLAY}{path}: not what --json wrote of a run with --balance: {error!r}"
        ) from error
    return decisions


def _check_decisions(decisions: Sequence[Decision], shares: Mapping[int, Sequence[int]]) -> None:
    for each in decisions:
        own = shares.get(each.stage, [])
        if len(own) != len(each.shares) or sum(own) != sum(each.shares) or min(each.shares) < 0:
            raise RuntimeFault(
                f"--balance: shares {each.shares} of stage {each.stage} at step {each.step} do not "
                f"divide the {sum(own)} samples of its {len(own)} replicas"
            )


def make_balancer(
    options: Any, program: RankProgram, plan: PlanSummary, communicator: Communicator,
    interpreter: Interpreter, stopwatch: Stopwatch,
) -> Balancer:  # fmt: skip
    epochs = Epochs(program.global_batch, options.epoch_samples)
    epochs.check(program.micro_batches)
    moves = options.balance != "plan" or epochs.is_uneven
    if moves and communicator.has_direct_messages and program.stages > 1:
        raise RuntimeFault(
            "shares that change between stages are not supported where messages travel from GPU to "
            "GPU (NCCL); leave --balance and --epoch-samples out"
        )
    programs = []
    if moves and communicator.roster.has_unequal_degrees:
        raise RuntimeFault(
            "shares that change are not supported where stages have unequal degrees of tensor parallelism; "
            "leave --balance and --epoch-samples out"
        )
    if moves:
        read = (read_rank_program(options.directory, i) for i in range(program.world_size))
        programs = [each for each in read if each.shard == program.shard]
    stopwatch.exact = stopwatch.exact or options.balance.startswith("lb-bsp")
    shares = stated_shares(programs)
    if options.balance == "even":
        shares = {stage: even(sum(own), len(own)) for stage, own in shares.items()}
    forecasts = [
        make_forecast(options.balance, communicator.device, program.micro_batches)
        for _ in program.parts
    ]
    policy = _policy(options, program, plan, communicator, forecasts)
    if isinstance(policy, Replayed):
        _check_decisions(policy.decisions, shares)
    balancer = Balancer(
        program, interpreter, programs, policy, options.balance, epochs, stopwatch, forecasts, shares
    )
    if options.balance == "even":
        balancer._adopt(program.global_batch)
    return balancer
