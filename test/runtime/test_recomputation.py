"""Segments that are computed again in the backward pass: the same losses, gradients and statistics, and
less memory."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import generated
import pytest
import torch
from heterplan_runtime.batchnorm import SynchronisedBatchNorm
from heterplan_runtime.recomputation import recompute_segments
from heterplan_runtime.tables import LookedUp
from live_memory import LiveMemory
from packages import awkward, tables
from test_generated_models import MODELS, sample_inputs
from torch import Tensor, nn
from torch.nn import functional

CHECK = ("--check", "--steps", "6", "--lr", "0.05")


# A stage by hand: two segments with everything that a second forward pass may disturb.


class Chain(nn.Module):
    segments = ("first", "second")

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(8, 8) for _ in range(4))
        self.scale, self.shift = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("variance", torch.ones(8))

    def checkpoint(self, segment: Any, *arguments: Any) -> Any:
        return segment(*arguments)

    def batch_norm(self, x, weight, bias, mean, variance, momentum, eps, training):
        return functional.batch_norm(x, mean, variance, weight, bias, training, momentum, eps)

    def lookup(self, name: str, indices: Tensor) -> Tensor:
        raise AssertionError("replaced")

    def first(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = functional.dropout(torch.tanh(x @ self.weights[0]), 0.5)
        return y, torch.relu(x @ self.weights[1])

    def second(self, x: Tensor, y: Tensor) -> tuple[Tensor]:
        z = self.batch_norm(
            x @ self.weights[2], self.scale, self.shift, self.mean, self.variance, 0.1, 1e-5, True
        )
        return (functional.dropout(torch.tanh(z @ self.weights[3]), 0.2) * y,)

    def forward(self, x: Tensor) -> Tensor:
        y, z = self.checkpoint(self.first, x)
        return self.checkpoint(self.second, y, z)[0]


def train_once(stage: nn.Module, batches: list[Tensor]) -> tuple[list[Tensor], dict[str, Tensor]]:
    """All forward passes come before the first backward pass, as in a pipeline."""
    torch.manual_seed(3)
    results = [stage(batch) for batch in batches]
    for result in results:
        result.square().mean().backward()
    gradients = {f"{name}.grad": p.grad for name, p in stage.named_parameters()}
    return [result.detach() for result in results], {**gradients, **dict(stage.named_buffers())}


@pytest.mark.parametrize("synchronised", [False, True])
def test_dropout_and_batch_normalisation_are_as_if_computed_once(synchronised: bool):
    torch.manual_seed(0)
    plain = Chain()
    again = copy.deepcopy(plain)
    sums: list[int] = []
    if synchronised:
        for stage, counts in ((plain, []), (again, sums)):
            stage.batch_norm = SynchronisedBatchNorm(lambda x, counts=counts: counts.append(1) or x)
    recompute_segments(again)
    batches = [torch.randn(5, 8) for _ in range(3)]
    wanted, expected = train_once(plain, batches)
    found, state = train_once(again, batches)
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)
    for name, value in expected.items():
        assert torch.equal(state[name], value), name
    assert not torch.equal(state["mean"], torch.zeros(8)), "the statistics do not move"
    assert len(sums) == (6 if synchronised else 0)  # one a pass and batch: none for the second one


def test_stage_without_segments_stays_as_it_is():
    stage = Chain()
    stage.segments = ()
    before = dict(vars(stage))
    recompute_segments(stage)
    assert vars(stage) == before


def test_failure_in_the_second_pass_leaves_the_stage_as_it_was():
    stage = Chain()
    recompute_segments(stage)
    result = stage(torch.randn(5, 8))
    before = dict(vars(stage))
    stage.weights[3].data = torch.randn(8, 3)  # no longer what the first pass saw
    with pytest.raises(Exception, match="shape|size|metadata"):
        result.sum().backward()
    assert vars(stage).keys() == before.keys()


class Lookups(nn.Module):
    """Reads rows in both segments; the first reads twice."""

    segments = ("a", "b")
    lookup: Any

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def checkpoint(self, segment: Any, *arguments: Any) -> Any:
        return segment(*arguments)

    def a(self, i: Tensor, j: Tensor) -> tuple[Tensor]:
        return (torch.tanh(self.lookup("t", i) @ self.weight) * self.lookup("t", j),)

    def b(self, x: Tensor, k: Tensor) -> tuple[Tensor]:
        return (torch.sin(x * self.lookup("t", k)) @ self.weight,)

    def forward(self, i: Tensor, j: Tensor, k: Tensor) -> Tensor:
        (x,) = self.checkpoint(self.a, i, j)
        return self.checkpoint(self.b, x, k)[0]


def test_rows_are_looked_up_in_the_micro_batch_that_is_computed_again():
    torch.manual_seed(0)
    table = torch.randn(6, 4)
    index = [[torch.tensor([m, 5 - m]), torch.tensor([m, m]), torch.tensor([0, m])] for m in (1, 2)]

    def gradients(stage: Lookups) -> list[Tensor]:
        rows = []
        results = []
        for of_batch in index:
            once, places = torch.unique(torch.cat(of_batch), return_inverse=True)
            leaf = table[once].clone().requires_grad_()
            found = LookedUp([leaf], [places], [i.shape for i in of_batch], [0, 0, 0], [], [])
            stage.lookup = found.take
            results.append(stage(*of_batch))
            rows.append(leaf)
        for result in results:  # lookup is now that of the last micro-batch
            result.square().sum().backward()
        return [*(leaf.grad for leaf in rows), stage.weight.grad]

    plain = Lookups()
    again = copy.deepcopy(plain)
    recompute_segments(again)
    for one, other in zip(gradients(again), gradients(plain), strict=True):
        assert torch.equal(one, other)


# What is kept.


class Deep(nn.Module):
    """`count` segments of four activations each."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.segments = tuple(f"layer{i}" for i in range(count))
        self.weights = nn.ParameterList(torch.randn(16, 16) for _ in range(count))

    def checkpoint(self, segment: Any, *arguments: Any) -> Any:
        return segment(*arguments)

    def layer(self, x: Tensor, index: int) -> tuple[Tensor]:
        y = x @ self.weights[index]
        return (x + torch.tanh(torch.sigmoid(torch.sin(y))),)

    def forward(self, x: Tensor) -> Tensor:
        for index in range(len(self.segments)):
            (x,) = self.checkpoint(self.layer, x, index)
        return x


def test_peak_is_the_boundaries_and_one_segment():
    rows, count = 512, 8
    activation = rows * 16 * 4

    def peak(stage: nn.Module) -> float:
        x = torch.randn(rows, 16)
        with LiveMemory() as memory:
            stage(x).sum().backward()
        return memory.peak / activation

    plain, again = Deep(count), Deep(count)
    recompute_segments(again)
    assert peak(plain) > 4 * count - 2  # x, y and two of the chain each
    assert peak(again) < count + 8  # one boundary each; a segment with its gradients


# Generated stages.


def trained(parts: list[nn.Module], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    for part in parts:
        part.train()
    outputs = generated.forward(parts, inputs)
    next(iter(outputs.values())).square().sum().backward()
    state = {}
    for number, part in enumerate(parts):
        state |= {f"{number}/{name}": p.grad for name, p in part.named_parameters()}
        state |= {f"{number}/{name}": b for name, b in part.named_buffers()}
    return {**{name: x.detach() for name, x in outputs.items()}, **state}


@pytest.mark.parametrize("name", MODELS)
def test_generated_segments_compute_what_the_stage_does(name: str, tmp_path: Path):
    path = MODELS[name](tmp_path / f"{name}.onnx")
    jobs = [(path, tmp_path / f"{s}-{layers}", s, layers) for s in (1, 2) for layers in (0, 1, 2, 99)]
    assert not any(generated.emit(jobs))
    for _, folder, count, layers in jobs:
        module = generated.load(folder)
        parts = generated.stages(module, folder)
        inputs = sample_inputs(module, 3)
        for part in parts:
            assert bool(part.segments) == bool(layers)
            assert part.segments[:1] in ((), part.layers[:1])
            recompute_segments(part)
        if not layers:
            plain = trained(parts, inputs)
            continue
        found = trained(parts, inputs)
        assert found.keys() == plain.keys()
        for key, value in plain.items():
            assert value is None or torch.equal(found[key], value), (count, layers, key)


def test_generated_segments_keep_less(tmp_path: Path):
    path = MODELS["transformer"](tmp_path / "unused.onnx")
    jobs = [(path, tmp_path / str(layers), 1, layers) for layers in (0, 4)]
    assert not any(generated.emit(jobs))
    kept, peaks = [], []
    for _, folder, _, _ in jobs:
        module = generated.load(folder)
        (stage,) = generated.stages(module, folder)
        recompute_segments(stage.train())
        inputs = sample_inputs(module, 64)
        with LiveMemory() as memory:
            outputs = generated.forward([stage], inputs)
            kept.append(memory.now)
            next(iter(outputs.values())).square().sum().backward()
        peaks.append(memory.peak)
    assert kept[1] < 0.5 * kept[0], kept
    assert peaks[1] < 0.8 * peaks[0], peaks


# Ranks.


@pytest.mark.parametrize("widths", [[[4], [4], [4]], [[3, 1], [4], [2, 2]], [[1, 3], [1, 3], [4]]])
def test_ranks_that_recompute_equal_one_process_that_does_not(train, widths):
    package = awkward(widths, micro_batches=3, optimizer="momentum").recomputed()
    assert train(package, *CHECK)["checkPassed"]


def test_tables_are_looked_up_again(train):
    package = tables([[1, 3], [4]], [7, 6], [4, 3], micro_batches=3, optimizer="adam")
    assert train(package.recomputed(), *CHECK)["checkPassed"]
