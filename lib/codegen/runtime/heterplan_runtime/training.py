"""One rank's run: set up, steps, report, check."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .allocator import give_back_freed_memory, keep_freed_memory
from .background import Background, describe_jobs, make_recorder, start_background
from .batchnorm import SynchronisedBatchNorm
from .checkpoints import Checkpoints
from .communication import Communicator, choose_device
from .data import DataSource, make_data
from .device_classes import class_named, class_of
from .errors import CheckFailed, Ended, RuntimeFault
from .fits import check_device_memory, rank_bytes
from .interpreter import Interpreter
from .lasting import first_step, make_checkpoints, save_trained, weights_folder
from .losses import Loss, make_loss
from .machine import Usage, describe
from .memory import PeakMemory
from .model import (
    Model,
    build_stage,
    check_model,
    load_model,
    seed_draws,
    stages_with_tables,
    table_rows,
)
from .part import PartExecution, Presence, dense_parameters, make_optimizer
from .pinning import pin_to_core
from .program import Part, PlanSummary, RankProgram, TableSpec, read_plan, read_rank_program
from .recomputation import recompute_segments
from .recorder import Recorder, write_trace
from .reference import Reference, largest_difference
from .sharded_state import ShardedState
from .state_check import STATE_TOLERANCE, worst_difference
from .tables import GroupedEmbedding, Tables, make_groups
from .update_rule import UpdateRule, parse_schedule
from .watch import Watch

TOLERANCE = 1e-4
HALF_TOLERANCE = 2.0**-10  # a row and its gradient are rounded to 11 bits each


@dataclass
class Result:
    """What --json writes."""

    predicted_seconds: float
    global_batch: int
    losses: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)  # by rank
    reference_kernel_seconds: list[list[float]] = field(default_factory=list)  # by rank: around each step
    reference_losses: list[float] | None = None
    state_difference: float = 0.0  # of what ranks end with; at most 1 is accepted
    differing_state: str = ""
    warmup: int = 0
    tolerance: float = TOLERANCE
    first_step: int = 0  # steps that were done before, by a run that this one goes on from
    background: dict[str, Any] | None = None  # what its copies have done

    @property
    def measured_seconds(self) -> float:
        """Median of the steps after the warm-up; of all when there are no others; 0 without any."""
        return statistics.median(self.step_seconds[self.warmup :] or self.step_seconds or [0.0])

    @property
    def samples_per_second(self) -> float:
        return self.global_batch / self.measured_seconds if self.step_seconds else 0.0

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
            "peakBytes": self.peak_bytes,
            "referenceKernelSeconds": self.reference_kernel_seconds,
            "predictedSeconds": self.predicted_seconds,
            "measuredSeconds": self.measured_seconds,
            "samplesPerSecond": self.samples_per_second,
            "firstStep": self.first_step,
        }
        if self.background is not None:
            facts["background"] = self.background
        if self.reference_losses is not None:
            facts["referenceLosses"] = self.reference_losses
            facts["stateDifference"] = self.state_difference * STATE_TOLERANCE
            facts["checkPassed"] = self.passed
        return json.dumps(facts, indent=1) + "\n"


@dataclass
class Run:
    """Everything that one rank trains with."""

    options: argparse.Namespace
    program: RankProgram
    plan: PlanSummary
    model: Model
    communicator: Communicator
    data: DataSource
    loss: Loss
    recorder: Recorder
    memory: PeakMemory
    rule: UpdateRule
    background: Background | None

    @property
    def leads(self) -> bool:
        return self.program.rank == 0

    def say(self, text: str) -> None:
        if self.leads:
            print(text, flush=True)


def _prepare(options: argparse.Namespace) -> Run:
    directory: Path = options.directory
    program = read_rank_program(directory, _environment_rank())
    plan = read_plan(directory)
    _choose_allocation(program)
    sys.path[:0] = [os.getcwd(), str(directory)]
    model = load_model(directory)
    check_model(model, program)
    _set_precision(plan.precision)
    if options.threads or options.pin:
        torch.set_num_threads(options.threads or 1)
    device = choose_device(program.device_kind, options.device)
    _check_device_memory(options, program, plan, device)
    rule = UpdateRule(
        program.optimizer, options.lr, parse_schedule(options.lr_schedule, options.steps),
        options.weight_decay, options.gradient_clip,
    )  # fmt: skip
    loss = make_loss(options.loss, model.prediction)
    data = make_data(options.data, model, loss, options.seed)
    communicator = Communicator(program, device, timedelta(seconds=options.timeout))
    memory = PeakMemory(device)
    background = start_background(options, program)
    recorder = make_recorder(options, program, device, background)
    return Run(
        options, program, plan, model, communicator, data, loss, recorder, memory, rule, background
    )


def _check_device_memory(
    options: argparse.Namespace, program: RankProgram, plan: PlanSummary, device: torch.device
) -> None:
    free = class_of(device).free_memory(device)
    if free is not None and not options.ignore_memory:
        check_device_memory(program.rank, rank_bytes(program, plan), free)


def _choose_allocation(program: RankProgram) -> None:
    """A plan that takes time to save memory has none to lose to the allocator."""
    saves = any(part.recompute or part.state_sharding != "none" for part in program.parts)
    give_back_freed_memory() if saves else keep_freed_memory()


def _environment_rank() -> int:
    text = os.environ["RANK"]
    if not text.isdigit():
        raise RuntimeFault(f"RANK is '{text}'; expected a number")
    return int(text)


def _set_precision(precision: str) -> None:
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32


def _notes(run: Run) -> list[str]:
    """What differs from the plan; nothing of it happens in silence."""
    notes = []
    device = run.communicator.device
    if class_named(run.program.device_kind) is not class_of(device):
        notes.append("planned for a GPU, runs on the CPU")
    if run.communicator.staged:
        notes.append("messages are staged through the CPU (gloo)")
    has_tables = any(part.tables for part in run.program.parts)
    if has_tables and run.options.transfer_precision == "fp16":
        notes.append("rows of sparse tables and their gradients travel in half precision")
    if run.plan.precision == "bf16":
        notes.append("planned in bf16, runs in fp32")
    return [f"note: rank {run.program.rank}: {note}" for note in notes]


def _print_notes(run: Run) -> None:
    for notes in run.communicator.gather(_notes(run)):
        for note in notes:
            run.say(note)


def _make_interpreter(run: Run) -> Interpreter:
    program, communicator = run.program, run.communicator
    shared = run.model.shared_parameters()
    communicator.share_across_stages(shared.values())
    communicator.share_tables(stages_with_tables(run.model))
    if run.options.pin:
        pin_to_core(int(os.environ.get("LOCAL_RANK", "0")))
    parts = [_make_part(run, part) for part in program.parts]
    return Interpreter(program, parts, communicator, run.recorder, shared, run.rule)


def _make_part(run: Run, part: Part) -> PartExecution:
    program, communicator, options = run.program, run.communicator, run.options
    stage = build_stage(
        run.model, part.stage, options.directory, options.seed, communicator.device
    )
    presence = Presence()
    _synchronise_batch_norm(stage, part.stage, communicator, presence)
    recompute_segments(stage)
    state = _shard_state(run, part, stage)
    updated = dense_parameters(stage) if state is None else state.slices
    optimizer = make_optimizer(program.optimizer, updated, options.lr, options.weight_decay)
    return PartExecution(
        program, part, stage, communicator, run.data, run.loss, optimizer,
        _make_tables(run, part, stage), state, presence,
    )  # fmt: skip


def _shard_state(run: Run, part: Part, stage: nn.Module) -> ShardedState | None:
    """Where the plan divides the state of the stage among its ranks."""
    if part.state_sharding == "none":
        return None
    communicator = run.communicator
    group = communicator.stage_group(part.stage)
    return ShardedState(
        dict(stage.named_parameters()), run.model.shared_parameters(), len(group),
        group.index(communicator.rank), partial(communicator.start_reduce_scatter, part.stage),
        partial(communicator.all_gather, part.stage), part.state_sharding == "gradients",
    )  # fmt: skip


def _make_tables(run: Run, part: Part, stage: Any) -> Tables | None:
    """The rows that this rank holds, with the exchanges among the ranks of its stage."""
    program, options = run.program, run.options
    if not part.tables:
        return None
    group = run.communicator.stage_group(part.stage)
    own = group.index(program.rank)

    def rows(spec: TableSpec) -> Tensor:
        mine = range(spec.firsts[own], spec.firsts[own] + spec.rows[own])
        weight = table_rows(
            run.model, part.stage, spec.name, mine, options.directory, options.seed
        )
        return weight.to(run.communicator.device)

    def grouped(specs: Sequence[TableSpec]) -> GroupedEmbedding:
        return GroupedEmbedding(
            specs, own, rows, program.optimizer, options.lr, options.transfer_precision
        )

    groups = make_groups(part.tables, grouped)
    exchanges = None
    if len(group) > 1:
        exchange = run.communicator.exchange
        exchanges = (partial(exchange, part.stage, False), partial(exchange, part.stage, True))
    return Tables(groups, stage.lookups, exchanges)


def _synchronise_batch_norm(
    stage: nn.Module, index: int, communicator: Communicator, presence: Presence
) -> None:
    replicas = communicator.stage_group(index)
    if len(replicas) > 1 and hasattr(stage, "batch_norm"):
        batch_norm = SynchronisedBatchNorm(
            lambda tensor: communicator.sum(presence.counted(tensor), replicas)
        )
        setattr(stage, "batch_norm", batch_norm)


def _steps(
    run: Run, interpreter: Interpreter, result: Result, checkpoints: Checkpoints | None
) -> bool:
    """Returns whether a signal ended them."""
    steps = run.options.steps
    reference_kernels: list[float] = []
    ended = False
    if run.background is not None:
        run.background.begin()
    for step in range(result.first_step, steps):
        seed_draws(run.options.seed, step, run.program.rank)
        interpreter.prepare(step)
        _measure_core(run, reference_kernels)
        run.communicator.barrier()
        begin = time.perf_counter()
        if step == steps - 1 and run.options.trace is not None:
            run.recorder.start()
        own = interpreter.run_step(step)
        class_of(run.communicator.device).synchronize(run.communicator.device)
        seconds = run.communicator.largest(time.perf_counter() - begin)
        loss = run.communicator.total(own)
        result.losses.append(loss)
        result.step_seconds.append(seconds)
        if run.background is not None:
            run.background.after_step(seconds)
        rate = result.global_batch / seconds
        run.say(f"step {step + 1}  loss {loss:.6f}  {seconds * 1e3:.2f} ms  {rate:.1f} samples/s")
        if not (math.isfinite(loss) or run.options.allow_nan):
            if checkpoints is not None:
                checkpoints.finish()
            raise RuntimeFault(
                f"step {step + 1}: the loss is {loss}; a smaller --lr may help, and --allow-nan goes on"
            )
        if checkpoints is not None:
            ended = checkpoints.after_step(step + 1, step + 1 == steps)
        if ended:
            break
    _measure_core(run, reference_kernels)
    result.reference_kernel_seconds = run.communicator.gather(reference_kernels)
    return ended


def _measure_core(run: Run, reference_kernels: list[float]) -> None:
    """Between steps."""
    device = run.communicator.device
    reference_kernels.append(class_of(device).reference_kernel(device))


def _finish_background(run: Run, result: Result) -> None:
    background = run.background
    if background is None:
        return
    done = [each for each in run.communicator.gather(background.finish()) if each is not None]
    result.background, lines = describe_jobs(done, background.control, background.job, result.global_batch)
    for line in lines:
        run.say(line)


def _report_machine(run: Run, result: Result, usage: Usage) -> None:
    """Where all ranks are on this machine."""
    usages = run.communicator.gather(usage.read())
    if os.environ.get("LOCAL_WORLD_SIZE") != str(run.program.world_size):
        return
    if text := describe(usages, result.reference_kernel_seconds):
        run.say(f"note: {text}")


def _report(run: Run, result: Result) -> None:
    if not result.step_seconds:
        return
    predicted, measured = result.predicted_seconds, result.measured_seconds
    ratio = f", {measured / predicted:.2f} times the prediction" if predicted > 0 else ""
    counted = max(1, len(result.step_seconds) - result.warmup)
    run.say(
        f"predicted {predicted * 1e3:.2f} ms, measured {measured * 1e3:.2f} ms a step "
        f"(median of {counted}){ratio}"
    )


def _write_trace(run: Run) -> None:
    if run.options.trace is None:
        return
    events = run.communicator.gather(run.recorder.events)
    if run.leads:
        write_trace(run.options.trace, run.program.model, [e for rank in events for e in rank])


def _check(run: Run, interpreter: Interpreter, result: Result) -> None:
    """Rank 0 trains alone; the others wait for its losses, then show it what they end with."""
    losses: list[float] = []
    expected = None
    if run.leads:
        reference = Reference(
            run.program, run.model, run.options.directory, run.data, run.loss,
            run.options.seed, run.rule, run.communicator.device,
        )  # fmt: skip
        losses = [reference.run_step(step) for step in range(run.options.steps)]
        losses = losses[result.first_step :]
        expected = reference.state()
    result.reference_losses = run.communicator.wait_for_rank0(losses)
    result.state_difference, result.differing_state = worst_difference(
        run.communicator, interpreter.state_entries(), expected
    )


def train(options: argparse.Namespace) -> None:
    """Raises CheckFailed on every rank when --check finds other losses, Ended when a signal ended the
    training."""
    run = _prepare(options)
    interpreter = _make_interpreter(run)
    run.memory.restart()
    watch = Watch(run.communicator, interpreter.position)
    try:
        _train(run, interpreter, watch)
    except (CheckFailed, Ended):
        watch.close()
        raise
    except Exception:
        if run.background is not None:
            run.background.abandon()
        watch.failed()
        raise
    watch.close()
    run.communicator.close()


def _train(run: Run, interpreter: Interpreter, watch: Watch) -> None:
    options = run.options
    _print_notes(run)
    if watch.unwatched:
        run.say(f"note: ranks {watch.unwatched} cannot reach rank 0: their loss is noticed by --timeout")
    result = Result(run.plan.predicted_seconds, run.program.global_batch, warmup=options.warmup)
    if options.transfer_precision == "fp16":
        result.tolerance += HALF_TOLERANCE
    folder = weights_folder(run)
    checkpoints = make_checkpoints(run, interpreter)
    if checkpoints is not None:
        result.first_step = first_step(run, checkpoints)
    usage = Usage()
    ended = _steps(run, interpreter, result, checkpoints)
    _finish_background(run, result)
    result.peak_bytes = run.communicator.gather(run.memory.bytes())
    interpreter.close()
    if ended:
        raise Ended(f"ended by a signal after step {result.first_step + len(result.losses)}")
    _report(run, result)
    _report_machine(run, result, usage)
    _write_trace(run)
    if options.check:
        _check(run, interpreter, result)
    if run.leads and options.json is not None:
        options.json.write_text(result.to_json(), encoding="utf-8")
    if not result.passed:
        _explain_difference(run, result)
    if options.check:
        run.say(
            f"check: {len(result.losses)} losses equal those of one process "
            f"(largest relative difference {result.difference:.1e}), and so do parameters, buffers "
            "and optimizer state"
        )
    if folder is not None:
        save_trained(run, interpreter, folder)


def _explain_difference(run: Run, result: Result) -> None:
    for step, (found, wanted) in enumerate(zip(result.losses, result.reference_losses or [])):
        run.say(f"check: step {step + 1}: {found:.8g} here, {wanted:.8g} in one process")
    if result.difference <= result.tolerance:
        raise CheckFailed(
            f"{result.differing_state}, has not moved as in one process: it is off by "
            f"{result.state_difference * STATE_TOLERANCE:.1e} of the movement (accepted "
            f"{STATE_TOLERANCE:.0e})"
        )
    raise CheckFailed(
        f"losses differ from those of one process by {result.difference:.1e} (relative; "
        f"accepted {result.tolerance:.0e})"
    )
