"""Makes what one rank trains with: its program and model, the connections to the others, its parts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .allocator import give_back_freed_memory, keep_freed_memory
from .background import Background, make_recorder, start_background
from .batchnorm import SynchronisedBatchNorm
from .communication import Communicator
from .compilation import check_compiler, compiled_stage, refuse_uncompilable
from .data_option import make_data
from .device_classes import class_of, local_rank
from .device_choice import choose_device, local_programs
from .double_precision import doubled_program
from .dropout import Position, drop_by_sample
from .errors import RuntimeFault
from .fits import check_device_memory, rank_bytes
from .interpreter import Interpreter
from .launched import environment_rank
from .local_batchnorm import LocalStatistics
from .loss_scale import LossScale
from .losses import Loss, make_loss, own_module_folders
from .memory import PeakMemory
from .micro_batch import Presence
from .model import (
    Model, build_stage, check_model, load_model, stages_with_tables, table_rows,
)  # fmt: skip
from .overlap import OverlappedSum
from .part import PartExecution
from .pinning import pin_to_cores
from .precision import Precision
from .prefetch import PrefetchedData
from .program import Part, PlanSummary, RankProgram, TableSpec, read_plan, read_rank_program
from .recomputation import recompute_segments
from .recorder import Recorder
from .sharded_parameters import GatheredLayer, ShardedParameters
from .sharded_state import ShardedState
from .shard_group import ShardGroup
from .stopwatch import Stopwatch
from .tables import GroupedEmbedding, Tables, make_groups
from .trained_state import TrainedState, dense_parameters, make_optimizer
from .update_rule import UpdateRule, parse_schedule


@dataclass
class Run:
    """Everything that one rank trains with."""

    options: argparse.Namespace
    program: RankProgram
    plan: PlanSummary
    model: Model
    communicator: Communicator
    data: PrefetchedData
    loss: Loss
    recorder: Recorder
    memory: PeakMemory
    rule: UpdateRule
    background: Background | None
    precision: Precision
    device_note: str
    stopwatch: Stopwatch

    @property
    def leads(self) -> bool:
        return self.program.rank == 0

    def say(self, text: str) -> None:
        if self.leads:
            print(text, flush=True)


def prepare(options: argparse.Namespace, store: Any = None) -> Run:
    """`store`: of meet(); without it the ranks meet here."""
    directory: Path = options.directory
    program = read_rank_program(directory, environment_rank())
    plan = read_plan(directory)
    _choose_allocation(program)
    sys.path[:0] = own_module_folders(directory)
    model = load_model(directory, double=options.check)
    check_model(model, program)
    _refuse_moving_shares(options, plan, program.global_batch)
    _refuse_shared_tables(model, program)
    precision = Precision("fp64" if options.check else plan.precision)
    if options.check:
        program = doubled_program(program)
    precision.apply()
    if options.threads or options.pin:
        torch.set_num_threads(options.threads or 1)
    device, device_note = choose_device(
        program.device_kind, options.device, program.rank, local_programs(directory, program)
    )
    precision = precision.on(device)
    if options.torch_compile:
        for part in program.parts:
            refuse_uncompilable(part, model.stages[part.stage])
        check_compiler(device)
    _check_device_memory(options, program, plan, device)
    rule = UpdateRule(
        program.optimizer, options.lr, parse_schedule(options.lr_schedule, options.steps),
        options.weight_decay, options.gradient_clip,
    )  # fmt: skip
    loss = make_loss(options.loss, model.prediction)
    data = _make_data(options, model, loss, program.global_batch, device)
    communicator = Communicator(program, device, timedelta(seconds=options.timeout), store)
    memory = PeakMemory(device)
    background = start_background(options, program)
    recorder = make_recorder(options, program, device, background)
    stopwatch = Stopwatch(device, lambda: communicator.waited)
    return Run(
        options, program, plan, model, communicator, data, loss, recorder, memory, rule, background,
        precision, device_note, stopwatch,
    )  # fmt: skip


def _make_data(
    options: argparse.Namespace, model: Model, loss: Loss, global_batch: int, device: torch.device
) -> PrefetchedData:
    source = make_data(
        "--data", options.data, model, loss, options.seed, global_batch, options.epoch_samples
    )
    workers = options.data_workers
    if workers is None:
        workers = int(":" in options.data) or class_of(device).spare_workers()
    return PrefetchedData(source, workers, options.timeout, class_of(device).reads_pinned_memory)


def _check_device_memory(
    options: argparse.Namespace, program: RankProgram, plan: PlanSummary, device: torch.device
) -> None:
    free = class_of(device).free_memory(device)
    if free is not None and not options.ignore_memory:
        check_device_memory(program.rank, rank_bytes(program, plan), free)


def _refuse_moving_shares(options: argparse.Namespace, plan: PlanSummary, global_batch: int) -> None:
    """One process does what the replicas do with the shares of the plan, and no others."""
    moves = options.balance != "plan" or options.epoch_samples % global_batch
    if options.check and plan.batch_norm == "local" and moves:
        raise RuntimeFault(
            "--check of a plan with local batch normalisation, whose losses depend on the shares, is not "
            "supported where shares move (--balance, --epoch-samples)"
        )


def _refuse_shared_tables(model: Model, program: RankProgram) -> None:
    if model.is_divided and any(part.tables for part in program.parts):
        raise RuntimeFault(
            "a sparse table is not supported with layers that several devices share (--tensor-parallel)"
        )


def _choose_allocation(program: RankProgram) -> None:
    """A plan that takes time to save memory has none to lose to the allocator."""
    saves = any(part.recompute or part.divides_state for part in program.parts)
    give_back_freed_memory() if saves else keep_freed_memory()


def make_interpreter(run: Run) -> Interpreter:
    program, communicator = run.program, run.communicator
    shared = run.model.shared_parameters()
    communicator.share_across_stages(shared.values())
    communicator.share_tables(stages_with_tables(run.model))
    if run.options.pin:
        pin_to_cores(local_rank(), run.options.threads or 1)
    scale = LossScale() if communicator.largest(float(run.precision.scales_losses)) else None
    parts = [_make_part(run, part, scale) for part in program.parts]
    shared_slicings = {
        name: {stage: run.model.slicings_of(stage).get(name) for stage in stages}
        for name, stages in shared.items()
    }
    return Interpreter(
        program, parts, communicator, run.recorder, shared_slicings, run.rule, run.stopwatch, scale
    )


def _make_part(run: Run, part: Part, scale: LossScale | None) -> PartExecution:
    program, communicator, options = run.program, run.communicator, run.options
    presence, position = Presence(), Position()
    layers = _gathered_layers(run, part)
    stage = build_stage(
        run.model, part.stage, options.directory, options.seed, communicator.device,
        elsewhere={name: layer.fill for layer in layers for name in layer.names}, shard=part.shard,
    )  # fmt: skip
    if run.model.degrees[part.stage] > 1:
        _share_layers(run, part, stage)
    sharded = _shard_state(run, part, stage, layers, presence)
    if run.plan.batch_norm == "synchronised":
        _synchronise_batch_norm(stage, part.stage, communicator, presence)
    drop_by_sample(stage, options.seed, position)
    recompute_segments(stage)
    presence.together |= bool(part.tables) or part.divides_state
    trained = _make_trained(run, part, stage, sharded)
    runs = compiled_stage(stage, part) if options.torch_compile else stage
    return PartExecution(
        program, part, stage, communicator, run.loss, trained, presence, position, run.precision,
        run.plan.channels_last, scale, runs,
    )  # fmt: skip


def _share_layers(run: Run, part: Part, stage: nn.Module) -> None:
    """Gives the code of a shard its collectives."""
    group, degree = run.communicator.roster.shard_group, run.model.degrees[part.stage]
    if len(group) != degree:
        raise RuntimeFault(
            f"ranks {list(group)} share every layer; model.py is the code of one of {degree}"
        )
    setattr(stage, "shards", ShardGroup(run.communicator))


def _make_trained(
    run: Run, part: Part, stage: nn.Module, sharded: ShardedState | None
) -> TrainedState:
    kind, options = run.program.optimizer, run.options
    updated = dense_parameters(stage) if sharded is None else sharded.slices
    optimizer = make_optimizer(
        kind, updated, options.lr, options.weight_decay, run.program.optimizer_kernels
    )
    tables = _make_tables(run, part, stage)
    statistics = _local_statistics(run, part, stage)
    return TrainedState(
        part, stage, run.communicator, kind, optimizer, tables, sharded, statistics,
        run.model.slicings_of(part.stage), _overlapped_sum(run, part, stage),
    )  # fmt: skip


def _overlapped_sum(run: Run, part: Part, stage: nn.Module) -> OverlappedSum | None:
    if not run.program.overlaps_sum_of(part):
        return None
    communicator = run.communicator
    return OverlappedSum(
        list(stage.parameters()), lambda tensors: communicator.begin_sum_beside_passes(tensors, part.stage)
    )


def _local_statistics(run: Run, part: Part, stage: nn.Module) -> LocalStatistics | None:
    """The statistics of a stage whose replicas each normalise by their own samples; None for other
    stages."""
    group = run.communicator.roster.stage_group(part.stage)
    if run.plan.batch_norm != "local" or len(group) < 2 or not hasattr(stage, "batch_norm"):
        return None
    return LocalStatistics(stage, lambda tensors: run.communicator.sum_in_place(tensors, group))


def _gathered_layers(run: Run, part: Part) -> list[GatheredLayer]:
    """The divided parameters of a stage whose parameters the plan divides among its ranks, by layer and
    type; empty for other stages. Parameters that other stages use, too, are left out."""
    if not part.gathers_parameters:
        return []
    communicator, shared = run.communicator, run.model.shared_parameters()
    group = communicator.roster.stage_group(part.stage)
    own = group.index(communicator.rank)
    found = []
    for names in run.model.gathered(part.stage):
        shapes: dict[torch.dtype, dict[str, tuple[int, ...]]] = {}
        for name in names:
            dtype, shape = run.model.parameter(part.stage, name)
            if name not in shared:
                shapes.setdefault(dtype, {})[name] = shape
        found += [
            GatheredLayer(each, dtype, communicator.device, len(group), own)
            for dtype, each in shapes.items()
        ]
    return found


def _shard_state(
    run: Run, part: Part, stage: nn.Module, layers: list[GatheredLayer], presence: Presence
) -> ShardedState | None:
    """The divided state of a stage whose state the plan divides among its ranks; None for other
    stages."""
    if not part.divides_state:
        return None
    communicator = run.communicator
    parameters, shared = dict(stage.named_parameters()), run.model.shared_parameters()
    group = communicator.roster.stage_group(part.stage)
    own = group.index(communicator.rank)
    scatter = partial(communicator.start_reduce_scatter, part.stage)
    gather = partial(communicator.all_gather, part.stage)
    if not part.gathers_parameters:
        scatters = part.scatters_gradients
        return ShardedState(parameters, shared, len(group), own, scatter, gather, scatters)
    whole = {name: value for name, value in parameters.items() if name in shared}
    sharded = ShardedParameters(layers, whole, len(group), own, scatter, gather, presence)
    sharded.serve(stage)
    return sharded


def _make_tables(run: Run, part: Part, stage: Any) -> Tables | None:
    """The rows that this rank holds, with the exchanges among the ranks of its stage."""
    program, options = run.program, run.options
    if not part.tables:
        return None
    group = run.communicator.roster.stage_group(part.stage)
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
    replicas = communicator.roster.stage_group(index)
    if len(replicas) > 1 and hasattr(stage, "batch_norm"):
        batch_norm = SynchronisedBatchNorm(
            lambda tensor: communicator.sum(presence.counted(tensor), replicas)
        )
        setattr(stage, "batch_norm", batch_norm)
        presence.together = True
