"""Keyword arguments of compile() and Plan.run(), typed: one for each option of the command line.

A test holds them to the options of the program, so that an editor completes all of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

Path = str | os.PathLike[str]
Paths = Path | Sequence[Path]
Names = str | Sequence[str]
Groups = str | Sequence[str | Sequence[str]]  # of layers or parameters: [("a", "b"), ("c", "d")]
Time = float | str  # seconds, or with a unit: "200ms"


class CompileOptions(TypedDict, total=False):
    """Options of `heterplan compile` (docs/cli.md), but for the model, the cluster and the output."""

    # Goal
    objective: Literal["throughput", "cost", "gpu-seconds"]
    batch: int
    samples: int
    epochs: int
    pareto: bool
    pareto_points: int
    # Constraints
    min_throughput: float
    max_iteration_time: Time
    max_cost_per_hour: float
    max_cost_per_million_samples: float
    max_cost_per_iteration: float
    max_devices: Mapping[str, int] | Names
    max_memory_fraction: float
    memory_headroom: float
    pin: Mapping[str, str] | Names
    colocate: Groups
    separate: Groups
    # Parallelism
    schedule: Literal["auto", "pipeline", "data-parallel", "burst"]
    micro_batches: int
    recompute: Literal["auto", "never", "always"]
    shard_state: Literal["auto", "none", "optimizer", "gradients", "parameters"]
    overlap_grad_reduce: bool
    overlap_transfers: bool
    tensor_parallel: int | Literal["auto", "by-stage"]
    sequence_parallel: Literal["auto", "never"]
    amplification_limit: float
    widths: Literal["powers", "any"]
    # Training
    optimizer: Literal["sgd", "momentum", "adam"]
    optimizer_kernels: Literal["fused", "for-loop"]
    precision: Literal["fp32", "tf32", "bf16", "fp16"]
    memory_format: Literal["auto", "channels-first", "channels-last"]
    batch_norm: Literal["synchronised", "local"]
    # Search
    time_limit: Time
    work_limit: int
    gap: float
    strategy: str
    layer_order: Literal["auto", "given", "narrow"]
    iteration_model: str
    rounding: Literal["exact", "ceiling", "floor-repair", "randomised"]
    seed: int
    threads: int
    policy_in: Path
    policy_out: Path
    alternatives: int
    # Input
    profile: Paths
    require_measured: bool
    batch_dim: int | Mapping[str, int | str] | Names
    dim: Mapping[str, int] | Names
    freeze: Names
    train: Names
    tie: Groups
    untie: Names
    background: Path
    background_batch: int
    max_slowdown: float | str
    # Output
    force: bool
    no_weights: bool
    verbose: bool


class RunOptions(TypedDict, total=False):
    """Options of `heterplan run` (docs/runtime.md), but for the steps."""

    check: bool
    warmup: int
    loss: str
    data: str
    data_workers: int
    log_file: Path
    tensorboard: Path
    evaluate_every: int
    evaluation_data: str
    evaluation_steps: int
    metric: Names
    lr: float
    lr_schedule: str
    weight_decay: float
    gradient_clip: float
    seed: int
    module: str
    trace: Path
    transfer_precision: Literal["fp32", "fp16"]
    save: Path
    no_save: bool
    checkpoint_every: int
    checkpoint_dir: Path
    keep: int
    resume: bool
    max_restarts: int
    elastic: bool
    allow_nan: bool
    ignore_memory: bool
    balance: str
    balance_every: int
    balance_hysteresis: float
    epoch_samples: int
    threads: int
    pin: bool
    torch_compile: bool
    timeout: float
    allow_edits: bool
    device: Literal["auto", "cpu"]
    no_background: bool
    background_options: str
    node: str
    hosts: str
    node_rank: int
    port: int
    dry_run: bool
    oversubscribe: bool
