"""Stages that run as torch.compile makes them (--torch-compile).

A whole stage is compiled, or each segment of a stage that computes activations again. Functions that the
runtime puts into a stage stay outside of compiled code: their results depend on the pass, or they exchange
tensors with other ranks.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .errors import RuntimeFault
from .program import Part

OPTION = "--torch-compile"


def refuse_uncompilable(part: Part, stage: type[nn.Module]) -> None:
    """Raises RuntimeFault if the stage runs in a way that compiled code cannot follow."""
    where = f"{OPTION}: stage {part.stage}"
    if part.gathers_parameters:
        raise RuntimeFault(
            f"{where} has sharded parameters, which come and go while it runs; compiled code keeps them. "
            "Compile the plan with --shard-state gradients, or run it without this option"
        )
    if part.tables:
        raise RuntimeFault(
            f"{where} has the sparse table '{part.tables[0].name}', whose rows arrive while it runs; compiled "
            "code needs them before. Run the plan without this option"
        )
    for name, what in (("batch_norm", "batch normalisation"), ("dropout", "dropout")):
        if part.recompute and _segments_use(stage, len(part.recompute), name):
            raise RuntimeFault(
                f"{where} computes its {what} again, by other code than in the first pass; compiled passes would "
                "keep unlike tensors. Compile the plan with --recompute never, or run it without this option"
            )


def _segments_use(stage: type[nn.Module], segments: int, name: str) -> bool:
    """Whether the generated code of a segment names a function of the stage."""
    codes = [getattr(stage, f"segment{index}").__code__ for index in range(segments)]
    return any(name in code.co_names for code in codes)


def check_compiler(device: torch.device) -> None:
    """Raises RuntimeFault if PyTorch cannot compile for the device on this machine."""
    if device.type == "cpu" and "TORCHINDUCTOR_COMPILE_THREADS" not in os.environ:
        import torch._inductor.config as config

        config.compile_threads = 1  # ranks share the machine; the workers of a killed rank would outlive it
    x = torch.ones(64, device=device, requires_grad=True)
    try:
        torch.compile(_probe)(x).sum().backward()
    except Exception as error:
        raise RuntimeFault(
            f"{OPTION}: PyTorch cannot compile on this machine: {_reason(error)}. For CPUs it needs g++ or "
            "clang++ (CXX names another one), for GPUs Triton"
        ) from error


def _probe(x: torch.Tensor) -> torch.Tensor:
    return (x * 2 + 1).sigmoid()


def outside(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which compiled code calls as it is."""

    @torch.compiler.disable
    def call(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return call


class _Outside:
    """An object whose public methods compiled code calls as they are."""

    def __init__(self, of: Any) -> None:
        for name in dir(of):
            value = getattr(of, name)
            if not name.startswith("_"):
                setattr(self, name, outside(value) if callable(value) else value)
        self._called = outside(of) if callable(of) else None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        assert self._called is not None
        return self._called(*arguments, **named)


def compiled_stage(stage: nn.Module, part: Part) -> Callable[..., Any]:
    """Returns a function that runs the forward pass of the stage, whose own functions must be final."""
    described: Any = stage
    if part.recompute:  # both passes of a segment need the same code, hence one for each size of micro-batches
        described.checkpoint.runs = functools.cache(lambda segment: _compiled(segment, part, dynamic=False))
        return stage
    for name in ("batch_norm", "dropout", "shards"):
        if name in vars(stage):
            setattr(stage, name, _Outside(vars(stage)[name]))
    return _compiled(stage.forward, part)


def _compiled(
    function: Callable[..., Any], part: Part, dynamic: bool | None = None
) -> Callable[..., Any]:
    compiled = torch.compile(function, dynamic=dynamic)

    def run(*arguments: Any) -> Any:
        try:
            return compiled(*arguments)
        except torch._dynamo.exc.TorchDynamoException as error:
            raise RuntimeFault(
                f"{OPTION}: PyTorch cannot compile stage {part.stage}: {_reason(error)}"
            ) from error

    return run


def _reason(error: BaseException) -> str:
    """The first line of the innermost error."""
    while isinstance(inner := getattr(error, "inner_exception", None) or error.__cause__, BaseException):
        error = inner
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
