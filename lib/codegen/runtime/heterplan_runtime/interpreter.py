"""Executes the instructions of one rank, in order, each on the part that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from .clipping import clip_gradients
from .communication import Communicator
from .data import DataSource
from .errors import RuntimeFault
from .gradients import multiply
from .loss_scale import LossScale
from .part import Measure, PartExecution
from .program import Instruction, RankProgram
from .recorder import Recorder
from .shards import Slicing
from .state_check import StateEntry
from .stopwatch import Stopwatch
from .update_rule import UpdateRule


class Interpreter:
    """`parts` are those of the program, in its order; `shared`: parameters that several stages of the
    model use, with those stages and how the shards of each divide it."""

    def __init__(
        self,
        program: RankProgram,
        parts: Sequence[PartExecution],
        communicator: Communicator,
        recorder: Recorder,
        shared: dict[str, dict[int, Slicing | None]],
        rule: UpdateRule,
        stopwatch: Stopwatch,
        scale: LossScale | None = None,
    ) -> None:
        """`scale`: of the losses, where a rank computes in fp16."""
        self._program = program
        self._parts = parts
        self._communicator = communicator
        self._recorder = recorder
        self._shared = shared
        self._rule = rule
        self._stopwatch = stopwatch
        self._scale = scale
        self._first_update = _first_update(program)
        self._step = 0
        self._position = 0
        self._loss_factor = 1.0
        self._counts_samples: bool | None = None  # the loss is a mean over them; known after a step
        self._kept_step: int | None = None
        self.gradients: list[StateEntry] = []  # of the step that keep_gradients() has named

    @property
    def parts(self) -> tuple[PartExecution, ...]:
        return tuple(self._parts)

    def adopt(self, program: RankProgram) -> None:
        """Goes on with a program of the same parts at other shares."""
        self._program = program
        self._first_update = _first_update(program)
        self._position = 0
        for execution, part in zip(self._parts, program.parts, strict=True):
            execution.adopt(program, part)

    def position(self) -> str:
        """The position in the program, for messages about a failure while it runs."""
        what = self._program.instructions[self._position]
        return f"step {self._step + 1}, instruction {self._position} {what}"

    def prepare(self, step: int, data: DataSource) -> None:
        """Takes the samples of `step`, so that no pass waits for them."""
        self._step = step
        for index, instruction in enumerate(self._program.instructions):
            if instruction.op == "load":
                with self._located(index, instruction):
                    self._parts[instruction.part].prepare(step, instruction, data)

    def sample_ranges(self) -> list[range]:
        """Ranges of samples within the global batch, in the order in which prepare() takes them."""
        return [
            self._parts[instruction.part].samples(instruction.micro_batch)
            for instruction in self._program.instructions
            if instruction.op == "load"
        ]

    def bring_together(self) -> None:
        """Merges the state that replicas keep apart during training. The call is collective."""
        for part in self._parts:
            part.bring_together()

    def evaluate(self, step: int, data: DataSource, measure: Measure) -> None:
        """The forward passes of an iteration over other samples, in inference mode."""
        self._step = step
        for part in self._parts:
            part.begin_evaluation(step, measure)
        self.prepare(step, data)
        for index, instruction in enumerate(self._program.instructions):
            self._position = index
            if instruction.info.phase == "forward":
                with self._located(index, instruction):
                    self._parts[instruction.part].execute(instruction)
        self._communicator.drain()
        for part in self._parts:
            part.end_evaluation()

    def run_step(self, step: int) -> float:
        """One iteration, after prepare(); returns this rank's part of the loss of the global
        batch."""
        self._step = step
        for part in self._parts:
            part.begin_training(step)
            part.trained.set_rate(self._rule.rate_at(step))
        with ExitStack() as passes:
            for part in self._parts:
                passes.enter_context(part.passes_of_step())
            for index, instruction in enumerate(self._program.instructions):
                if index == self._first_update:
                    passes.close()
                self._execute(index, instruction)
        self._communicator.drain()
        return sum(part.loss for part in self._parts) * self._loss_factor

    def _execute(self, index: int, instruction: Instruction) -> None:
        self._position = index
        with (
            self._located(index, instruction),
            self._recorder.instruction(index, instruction),
            self._stopwatch.instruction(instruction),
        ):
            if index == self._first_update:
                for part in self._parts:
                    part.trained.end_sum()
                self._finish_gradients()
            self._parts[instruction.part].execute(instruction)
            if self._recorder.is_on or index + 1 == self._first_update:
                self._parts[instruction.part].trained.end_sum()

    def keep_gradients(self, step: int) -> None:
        """Keeps the gradients by which this step updates parameters."""
        self._kept_step = step

    def state_entries(self) -> list[StateEntry]:
        return [entry for part in self._parts for entry in part.trained.state_entries()]

    def close(self) -> None:
        for part in self._parts:
            part.close()

    def _located(self, index: int, instruction: Instruction) -> _Located:
        return _Located(self._program, self._step, index, instruction)

    def _finish_gradients(self) -> None:
        self._sum_shared()
        if self._scale is not None:
            self._undo_scale(self._scale)
        self._divide_by_denominator()
        if self._rule.clip:
            clip_gradients(self._parts, self._communicator, self._shared, self._rule.clip)
        if self._step == self._kept_step:
            self.gradients = [e for part in self._parts for e in part.trained.gradient_entries()]

    def _undo_scale(self, scale: LossScale) -> None:
        """A step in which the gradients of any rank are not finite updates nothing."""
        own = [each for part in self._parts for _, each, _ in part.trained.gradients()]
        finite = not self._communicator.largest(float(not scale.undo(own)))
        for part in self._parts:
            part.trained.skips_update = not finite
        scale.adapt(finite)

    def _divide_by_denominator(self) -> None:
        """Divides the gradients if the loss is a sum over something other than samples."""
        own = [part.denominator for part in self._parts]
        if self._counts_samples is None:
            summed = any(each is not None for each in own)
            self._counts_samples = not self._communicator.largest(float(summed))
        if self._counts_samples:
            return
        total = self._communicator.total(sum(each or 0.0 for each in own))
        if not total:
            raise RuntimeFault("the denominator of the loss is 0: nothing in the global batch counts")
        self._loss_factor = self._program.global_batch / total
        for part in self._parts:
            multiply((gradient for _, gradient, _ in part.trained.gradients()), self._loss_factor)

    def _sum_shared(self) -> None:
        """A parameter that several stages use: each stage has its part of the gradient, the same on
        all its ranks, of which the first speaks for it; or each of its ranks has a part. All
        gradients are there before the first update of any stage."""
        for name, slicings in self._shared.items():
            own = [part for part in self._parts if part.part.stage in slicings]
            if not own:
                continue
            gradients = [part.trained.gradient(name) for part in own]
            spoken = [
                gradient if self._speaks(part) else torch.zeros_like(gradient)
                for part, gradient in zip(own, gradients, strict=True)
            ]
            if self._communicator.roster.has_unequal_degrees:
                self._sum_whole(own, gradients, spoken, slicings)
                continue
            total = self._communicator.sum(reduce(torch.add, spoken), self._communicator.roster.stages_group(slicings))
            for gradient in gradients:
                gradient.copy_(total)

    def _speaks(self, part: PartExecution) -> bool:
        """Whether what this rank has of a gradient counts, before several stages sum it."""
        first = self._communicator.roster.stage_group(part.part.stage)[0] == self._program.rank
        return first or not part.trained.has_whole_gradients

    def _sum_whole(
        self, own: list[PartExecution], gradients: list[Tensor], spoken: list[Tensor],
        slicings: Mapping[int, Slicing | None],
    ) -> None:  # fmt: skip
        """The stages may divide the parameter in unlike ways: all ranks sum the whole gradient, to which each
        shard brings its slice, and the first one what all shards have."""
        shapes = (each.shape for each in slicings.values() if each is not None)
        whole = spoken[0].new_zeros(next(shapes, spoken[0].shape))
        for part, gradient in zip(own, spoken, strict=True):
            divided, shard = slicings[part.part.stage], part.part.shard
            if divided is not None:
                parts = [torch.zeros_like(gradient)] * divided.degree
                parts[shard] = gradient
                whole += divided.joined(parts)
            elif not shard:
                whole += gradient
        total = self._communicator.sum(whole, self._communicator.roster.all_shards_of(slicings))
        for part, gradient in zip(own, gradients, strict=True):
            divided = slicings[part.part.stage]
            share = total if divided is None else divided.part(total, part.part.shard)
            gradient.copy_(share.reshape(gradient.shape))


def _first_update(program: RankProgram) -> int | None:
    return next((i for i, each in enumerate(program.instructions) if each.op == "step"), None)


class _Located:
    """Says which instruction failed."""

    def __init__(self, program: RankProgram, step: int, index: int, what: Instruction) -> None:
        self._part = program.parts[what.part]
        self._step, self._index, self._what = step, index, what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception):
            place = f"stage {self._part.stage}, replica {self._part.replica}"
            reason = str(error) if isinstance(error, RuntimeFault) else f"{kind.__name__}: {error}"
            raise RuntimeFault(
                f"{place}, step {self._step + 1}: instruction {self._index} {self._what} failed: "
                f"{reason}"
            ) from error
