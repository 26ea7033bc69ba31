"""Shards as threads of one process: the graph of a shard that emit-model writes, run by every one of them,
with the outputs and gradients of the whole model beside it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import generated
import torch
from heterplan_runtime.dropout import Position, drop_by_sample
from heterplan_runtime.shards import Shards, part
from torch import Tensor, nn

SAMPLES = 3
Slices = dict[str, tuple[int, tuple[int, ...]]]


class Meeting:
    """A place at which threads hand each other what they have."""

    def __init__(self, degree: int) -> None:
        self._barrier = threading.Barrier(degree, timeout=60)
        self._given: list[Any] = [None] * degree

    def exchange(self, index: int, value: Any) -> list[Any]:
        self._given[index] = value
        self._barrier.wait()
        result = list(self._given)
        self._barrier.wait()
        return result

    def abort(self) -> None:
        self._barrier.abort()


@dataclass
class ThreadShards(Shards):
    degree: int
    index: int
    meeting: Meeting
    calls: list[str] = field(default_factory=list)

    def _exchange(self, what: str, value: Any) -> list[Any]:
        self.calls.append(what)
        return self.meeting.exchange(self.index, value)

    def sum(self, x: Tensor) -> Tensor:
        return torch.stack(self._exchange("all-reduce", x.detach())).sum(0)

    def collect(self, x: Tensor) -> list[Tensor]:
        return self._exchange("all-gather", x.detach())

    def sum_own(self, parts: Sequence[Tensor]) -> Tensor:
        given = self._exchange("reduce-scatter", [each.detach() for each in parts])
        return torch.stack([each[self.index] for each in given]).sum(0)


@dataclass
class Result:
    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]
    forward: list[str] = field(default_factory=list)  # collectives
    backward: list[str] = field(default_factory=list)


def emit(*arguments: object) -> str:
    """Runs emit-model; returns its error, "" for none."""
    run = subprocess.run(
        [generated.EMIT_MODEL, *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    return run.stderr if run.returncode else ""


def read_slices(folder: Path) -> Slices:
    found = json.loads((folder / "slices.json").read_text())
    return {name: (each["axis"], tuple(each["segments"])) for name, each in found.items()}


def inputs_of(module: ModuleType, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = {}
    for name, (dtype, dims) in module.INPUTS.items():
        shape = [SAMPLES * per_sample + fixed for per_sample, fixed in dims]
        if dtype.startswith("float"):
            inputs[name] = torch.randn(shape, generator=generator, dtype=torch.float64)
        elif dtype == "bool":
            inputs[name] = torch.randint(0, 2, shape, generator=generator).bool()
        else:
            bound = getattr(module, "INPUT_BOUNDS", {}).get(name, 2)
            inputs[name] = torch.randint(
                0, bound, shape, generator=generator, dtype=getattr(torch, dtype)
            )
    return inputs


def _loss(outputs: Sequence[Tensor]) -> Tensor:
    """A sum of the outputs with weights that tell their elements apart."""
    total = torch.zeros((), dtype=torch.float64)
    for output in outputs:
        if output.is_floating_point():
            weights = torch.arange(1, output.numel() + 1, dtype=torch.float64).sin()
            total = total + (output.reshape(-1) * weights).sum()
    return total


def run_stage(stage: nn.Module, inputs: dict[str, Tensor]) -> Result:
    outputs = stage(*(inputs[name] for name in stage.inputs))
    shards = stage.__dict__.get("shards")
    forward = list(shards.calls) if shards else []
    loss = _loss(outputs)
    if loss.requires_grad:
        loss.backward()
    gradients = {
        name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in stage.named_parameters()
    }
    calls = shards.calls[len(forward) :] if shards else []
    return Result(dict(zip(stage.sends, outputs, strict=True)), gradients, forward, calls)


def whole_stage(folder: Path, train: bool = False) -> tuple[ModuleType, nn.Module]:
    module = generated.load(folder)
    (stage,) = generated.stages(module, folder)
    drop_by_sample(stage, 5, Position())
    return module, stage.double().train(train)


def slice_of(tensor: Tensor, name: str, slices: Slices, degree: int, index: int) -> Tensor:
    if name not in slices:
        return tensor
    return part(tensor, *slices[name], degree, index)


def run_shards(
    folder: Path, whole: nn.Module, inputs: dict[str, Tensor], degree: int, train: bool = False
) -> list[Result]:
    """The results of all shards, which have slices of the weights of `whole`."""
    module, slices, meeting = generated.load(folder), read_slices(folder), Meeting(degree)
    stages = []
    for index in range(degree):
        stage = module.STAGES[0]().double()
        state = {
            name: slice_of(tensor, name, slices, degree, index)
            for name, tensor in whole.state_dict().items()
        }
        stage.load_state_dict(state)
        stage.__dict__["shards"] = ThreadShards(degree, index, meeting)
        drop_by_sample(stage, 5, Position())
        stages.append(stage.train(train))
    return in_threads(lambda index: run_stage(stages[index], inputs), degree, meeting)


def in_threads(work: Callable[[int], Any], degree: int, meeting: Meeting) -> list[Any]:
    results: list[Any] = [None] * degree
    failures: list[BaseException] = []

    def run(index: int) -> None:
        try:
            results[index] = work(index)
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)
            meeting.abort()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(degree)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise next((f for f in failures if not isinstance(f, threading.BrokenBarrierError)), failures[0])
    return results


def check_shards(folder: Path, wanted: Result, results: Sequence[Result], what: str) -> None:
    """Every shard has the outputs of the whole model, and its part of the gradients."""
    slices, degree = read_slices(folder), len(results)
    for index, result in enumerate(results):
        for name, tensor in wanted.outputs.items():
            torch.testing.assert_close(
                result.outputs[name], tensor, rtol=1e-9, atol=1e-9, equal_nan=True,
                msg=lambda text: f"{what}, output {name}: {text}",
            )
        assert set(result.gradients) == set(wanted.gradients), what
        for name, gradient in wanted.gradients.items():
            own = slice_of(gradient, name, slices, degree, index)
            torch.testing.assert_close(
                result.gradients[name], own, rtol=1e-9, atol=1e-9,
                msg=lambda text: f"{what}, gradient of {name}: {text}",
            )
