"""Sharded parameters train as if each replica had all of them, and are whole for few layers at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from heterplan_runtime.micro_batch import Presence
from heterplan_runtime.recomputation import recompute_segments
from heterplan_runtime.sharded_parameters import GatheredLayer, ShardedParameters
from heterplan_runtime.trained_state import make_optimizer
from hypothesis import given, settings
from hypothesis import strategies as st
from live_memory import LiveMemory
from packages import gathered
from pieces import Job
from safetensors.torch import load_file
from test_sharded_state import Threads
from torch import Tensor, nn


class Chain(nn.Module):
    """Square layers one after another; `uses`: which of the weights each layer multiplies by."""

    segments: tuple[str, ...] = ()

    def __init__(self, weights: dict[str, Tensor], uses: list[str], segments: int = 0) -> None:
        super().__init__()
        self._weights = {name: nn.Parameter(value.clone()) for name, value in weights.items()}
        self._uses = uses
        self.segments = tuple(map(str, range(segments)))
        recompute_segments(self)

    def tensor(self, name: str) -> Tensor:
        return self._weights[name]

    def begin_layer(self) -> None:
        pass

    def checkpoint(self, segment: Callable[..., tuple[Tensor]], x: Tensor) -> tuple[Tensor]:
        return segment(x)

    def forward(self, x: Tensor) -> Tensor:
        count = max(1, len(self.segments))
        ends = [len(self._uses) * number // count for number in range(count + 1)]
        for begin, end in zip(ends, ends[1:], strict=False):
            (x,) = self.checkpoint(partial(self._layers, self._uses[begin:end]), x)
        return x

    def _layers(self, uses: list[str], x: Tensor) -> tuple[Tensor]:
        for name in uses:
            self.begin_layer()
            x = torch.tanh(x @ self.tensor(name).t()) + x
        return (x,)


def weights(count: int, size: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(7)
    return {f"w{i}": torch.randn(size, size, generator=generator).double() / size for i in range(count)}


def sharded(
    stage: Chain, values: dict[str, Tensor], replicas: int, own: int, scatter: Any, gather: Any
) -> ShardedParameters:
    layers = [
        GatheredLayer({name: tuple(value.shape)}, value.dtype, torch.device("cpu"), replicas, own)
        for name, value in values.items()
    ]
    for layer in layers:
        layer.fill(layer.names[0], values[layer.names[0]])
    state = ShardedParameters(layers, {}, replicas, own, scatter, gather, Presence())
    state.serve(stage)
    return state


def samples(size: int, own: int, micro_batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(100 + 10 * own + micro_batch)
    return torch.randn(3, size, generator=generator).double()


def trained(values: dict[str, Tensor], uses: list[str], replicas: int, optimizer: str, segments: int) -> list[Tensor]:
    """The values on all replicas together after three steps of two micro-batches in flight."""
    threads = Threads(replicas)
    size = next(iter(values.values())).shape[0]

    def replica(own: int) -> ShardedParameters:
        stage = Chain(values, uses, segments)
        state = sharded(stage, values, replicas, own, threads.scatter(own), threads.gather(own))
        update = make_optimizer(optimizer, state.slices, 0.005)
        assert update is not None
        for _ in range(3):
            results = []
            for micro_batch in range(2):
                with state.forward(keeps=not segments):
                    results.append(stage(samples(size, own, micro_batch)))
            for result in results:
                result.square().sum().backward()
                state.reduce_scatter()
            update.step()
            update.zero_grad(set_to_none=True)
        return state

    with ThreadPoolExecutor(replicas) as pool:
        states = list(pool.map(replica, range(replicas)))
    found = {name: torch.zeros(value.numel(), dtype=value.dtype) for name, value in values.items()}
    for state in states:
        for part in state.owned():
            found[part.name][part.begin : part.end] = part.slice.detach()[part.offset :][: part.end - part.begin]
    return [found[name].view(value.shape) for name, value in values.items()]


def expected(values: dict[str, Tensor], uses: list[str], replicas: int, optimizer: str) -> list[Tensor]:
    stage = Chain(values, uses)
    parameters = [stage.tensor(name) for name in values]
    update = make_optimizer(optimizer, parameters, 0.005)
    assert update is not None
    size = parameters[0].shape[0]
    for _ in range(3):
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        for own in range(replicas):
            for micro_batch in range(2):
                stage(samples(size, own, micro_batch)).square().sum().backward()
        update.step()
    return [parameter.detach() for parameter in parameters]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 4), st.integers(1, 5),
    st.sampled_from(("sgd", "momentum", "adam")), st.integers(0, 3),
)  # fmt: skip
def test_slices_train_like_the_whole(uses, replicas: int, size: int, optimizer: str, segments: int):
    """Layers may share weights, and weights may take no part."""
    values, names = weights(4, size), [f"w{i}" for i in uses]
    wanted = expected(values, names, replicas, optimizer)
    found = trained(values, names, replicas, optimizer, min(segments, len(names)))
    for have, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(have, want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("segments", [0, 1, 4, 16])
@pytest.mark.parametrize("half", [False, True])
def test_parameters_are_whole_for_few_layers_at_a_time(segments: int, half: bool):
    """Sixteen layers of 256 KiB over eight replicas: no more than plans count (docs/memory.md)."""
    size, layers, replicas = 256, 16, 8
    layer = size * size * 4
    values = {name: value.float() for name, value in weights(layers, size).items()}
    with LiveMemory() as memory:
        stage = Chain({"w0": torch.zeros(1)}, list(values), segments)
        state = sharded(
            stage, values, replicas, 0, lambda flat: lambda: flat.chunk(replicas)[0].clone(),
            lambda whole, own: whole.zero_(),
        )  # fmt: skip
        with torch.autocast("cpu", torch.bfloat16, enabled=half), state.forward(keeps=not segments):
            result = stage(samples(size, 0, 0).float())
        result.float().sum().backward()
        state.reduce_scatter()
    slices = 2 * layers / replicas  # values and gradients
    together = layers / segments if segments else 1
    rounded = (together if segments else layers) / 2
    gathered = (1 if segments else together) + rounded if half else together
    activations = 0.8
    assert memory.peak / layer < slices + gathered + 1 + 1 / replicas + activations


# Ranks.

CHECK = ("--check", "--steps", "5", "--lr", "0.05")


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("widths", [[[3, 1, 2]], [[3, 1], [2, 2]]])
@pytest.mark.parametrize("again", [False, True])
def test_ranks_equal_one_process(train, optimizer: str, widths: list[list[int]], again: bool):
    package = gathered(widths, micro_batches=3, optimizer=optimizer).sharded("parameters").shortened(1)
    result = train(package.recomputed() if again else package, "--gradient-clip", "0.5", *CHECK)
    assert result["checkPassed"]
    assert result["losses"][-1] != pytest.approx(result["losses"][0], rel=1e-3), "nothing trained"


@pytest.mark.parametrize("backwards", [False, True])
def test_another_plan_goes_on(tmp_path: Path, backwards: bool):
    """From whole parameters in a pipeline to slices in one stage of three replicas, or the other way."""
    plans = [gathered([[4], [3, 1]], 2, "adam"), gathered([[1, 2, 1]], 2, "adam").sharded("parameters")]
    first, second = reversed(plans) if backwards else plans
    whole = Job(tmp_path / "whole")
    whole.folder.mkdir()
    wanted = whole.run(second, 4)
    job = Job(tmp_path)
    assert [*job.run(first, 2), *job.run(second, 4)] == pytest.approx(wanted, rel=1e-5)
    weights, expected = load_file(job.weights), load_file(whole.weights)
    assert weights.keys() == expected.keys()
    for name, values in expected.items():
        torch.testing.assert_close(weights[name], values, rtol=1e-4, atol=1e-6)


def test_a_model_that_gathers_nothing_is_refused(fail, tmp_path: Path):
    package = gathered([[2, 2]], 1).sharded("parameters")
    package.model = package.model.replace("gathered = FIRST | SECOND, BN[1], (*OF_FIRST,", "gathered = FIRST | SECOND, BN[1], (")
    outcomes = fail(package.write(tmp_path / "plan"), 2, "--steps", "1")
    assert {outcome.status for outcome in outcomes} == {1}
    assert "stage 0 gathers other parameters in model.py than in the plan" in outcomes[0].err
