"""Sharded optimizer state trains as if each replica had all of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from heterplan_runtime.trained_state import make_optimizer
from heterplan_runtime.sharded_state import ShardedState
from hypothesis import given, settings
from hypothesis import strategies as st
from live_memory import LiveMemory
from packages import awkward, linear, tables
from torch import Tensor, nn


class Threads:
    """Collectives of replicas that are threads of this process."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._barrier = threading.Barrier(count, timeout=20)
        self._places: list[Tensor | None] = [None] * count

    def _together(self, own: int, tensor: Tensor) -> list[Tensor]:
        self._places[own] = tensor
        self._barrier.wait()
        everything = [place for place in self._places if place is not None]
        self._barrier.wait()
        return everything

    def scatter(self, own: int) -> Callable[[Tensor], Callable[[], Tensor]]:
        def start(flat: Tensor) -> Callable[[], Tensor]:
            total = torch.stack(self._together(own, flat)).sum(0)
            return lambda: total.chunk(self.count)[own].clone()

        return start

    def gather(self, own: int) -> Callable[[Tensor, Tensor], None]:
        return lambda whole, mine: whole.copy_(torch.cat(self._together(own, mine.clone())))


def made(shapes: list[tuple[int, ...]]) -> dict[str, nn.Parameter]:
    generator = torch.Generator().manual_seed(7)
    return {
        f"p{i}": nn.Parameter(torch.randn(shape, generator=generator))
        for i, shape in enumerate(shapes)
    }


def loss(parameters: dict[str, nn.Parameter], step: int, part: int, sample: int) -> Tensor:
    """Differs from replica to replica; now and then leaves a parameter out."""
    total = torch.zeros((), requires_grad=True) * 1
    for index, parameter in enumerate(parameters.values()):
        if (step + sample + index) % 3 == 2:
            continue
        total = total + ((parameter * (part + 1)).sin() * (index + sample + 1)).sum()
    return total


def shard(
    shapes: list[tuple[int, ...]],
    replicas: int,
    optimizer: str,
    gradients: bool,
    shared: tuple[str, ...] = (),
    buffer_bytes: int = 64,
) -> list[dict[str, Tensor]]:
    """Parameters of each replica after three steps of two micro-batches."""
    threads = Threads(replicas)

    def replica(own: int) -> dict[str, Tensor]:
        parameters = made(shapes)
        state = ShardedState(
            parameters, shared, replicas, own, threads.scatter(own), threads.gather(own),
            gradients, buffer_bytes,
        )  # fmt: skip
        update = make_optimizer(optimizer, state.slices, 0.05)
        assert update is not None
        for step in range(3):
            for sample in range(2):
                loss(parameters, step, own, sample).backward()
                if gradients:
                    state.reduce_scatter()
            if not gradients:
                state.reduce_scatter()
            for name in shared:
                mine = parameters[name].grad
                mine = torch.zeros_like(parameters[name]) if mine is None else mine
                parameters[name].grad = torch.stack(threads._together(own, mine.clone())).sum(0)
            state.take_shared()
            update.step()
            update.zero_grad(set_to_none=True)
            state.all_gather()
        assert all(parameter.grad is None for parameter in parameters.values())
        return {name: parameter.detach() for name, parameter in parameters.items()}

    with ThreadPoolExecutor(replicas) as pool:
        return list(pool.map(replica, range(replicas)))


def whole(shapes: list[tuple[int, ...]], replicas: int, optimizer: str) -> dict[str, Tensor]:
    parameters = made(shapes)
    update = make_optimizer(optimizer, list(parameters.values()), 0.05)
    assert update is not None
    for step in range(3):
        for parameter in parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        for part in range(replicas):
            for sample in range(2):
                loss(parameters, step, part, sample).backward()
        update.step()
    return {name: parameter.detach() for name, parameter in parameters.items()}


SHAPES = st.lists(
    st.lists(st.integers(1, 5), min_size=0, max_size=3).map(tuple), min_size=1, max_size=5
)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(1, 4), st.sampled_from(("sgd", "momentum", "adam")), st.booleans())
def test_slices_train_like_the_whole(shapes, replicas: int, optimizer: str, gradients: bool):
    wanted = whole(shapes, replicas, optimizer)
    for found in shard(shapes, replicas, optimizer, gradients):
        for name, value in wanted.items():
            torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gradients", [False, True])
def test_parameters_of_several_stages_are_summed_by_them_all(gradients: bool):
    shapes = [(3, 2), (5,), (2, 2), ()]
    wanted = whole(shapes, 3, "adam")
    for found in shard(shapes, 3, "adam", gradients, shared=("p1", "p3")):
        for name, value in wanted.items():
            torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_each_element_has_one_owner(replicas: int):
    shapes = [(3, 3), (7,), (), (2, 5)]
    threads = Threads(1)
    count = {name: torch.zeros(parameter.numel()) for name, parameter in made(shapes).items()}
    for own in range(replicas):
        parameters = made(shapes)
        state = ShardedState(
            parameters, ("p1",), replicas, own, threads.scatter(0), threads.gather(0),
            buffer_bytes=16,
        )  # fmt: skip
        for part in state.owned():
            count[part.name][part.begin : part.end] += 1
            values = parameters[part.name].detach().reshape(-1)[part.begin : part.end]
            own_values = part.slice.detach()[part.offset : part.offset + len(values)]
            assert torch.equal(values, own_values)
            assert values.data_ptr() == own_values.data_ptr(), "a copy"
    assert all((each == 1).all() for each in count.values())


def test_state_of_a_slice_is_one_part_of_all():
    parameters = made([(100, 100), (50,)])
    threads = Threads(1)
    state = ShardedState(parameters, (), 4, 1, threads.scatter(0), threads.gather(0))
    update = make_optimizer("adam", state.slices, 0.1)
    assert update is not None
    for slice_ in state.slices:
        slice_.grad = torch.ones_like(slice_)
    update.step()
    moments = sum(
        tensor.numel() for entry in update.state.values() for tensor in entry.values()
        if isinstance(tensor, Tensor) and tensor.dim()
    )  # fmt: skip
    assert moments == 2 * -(-10050 // 4)


def test_gradients_are_whole_for_few_buffers_at_a_time():
    """Sixteen layers of 64 KiB over eight replicas: of gradients, an eighth and what is on its way."""
    layer, layers, replicas = 128 * 128 * 4, 16, 8

    def peak(gradients: bool) -> float:
        parameters = {f"w{i}": nn.Parameter(torch.randn(128, 128)) for i in range(layers)}
        state = ShardedState(
            parameters, (), replicas, 0, lambda flat: lambda: flat.chunk(replicas)[0].clone(),
            lambda whole, own: None, gradients, buffer_bytes=layer,
        )  # fmt: skip
        x = torch.randn(4, 128)
        with LiveMemory() as memory:
            y = x
            for weight in parameters.values():
                y = torch.tanh(y @ weight)
            y.sum().backward()
            state.reduce_scatter()
        return memory.peak / layer

    assert peak(False) > layers
    assert peak(True) < layers / replicas + 5


# Ranks.

CHECK = ("--check", "--steps", "5", "--lr", "0.05")


@pytest.mark.parametrize("sharding", ["optimizer", "gradients"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_ranks_with_sharded_state_equal_one_process(train, sharding: str, optimizer: str):
    package = awkward([[3, 1], [4], [2, 2]], micro_batches=3, optimizer=optimizer)
    result = train(package.sharded(sharding), *CHECK)
    assert result["checkPassed"]
    assert result["losses"][-1] != pytest.approx(result["losses"][0], rel=1e-3), "nothing trained"


@pytest.mark.parametrize("sharding", ["optimizer", "gradients"])
def test_uneven_shares_of_four_ranks(train, sharding: str):
    package = linear([1, 2, 4, 1], micro_batches=2, optimizer="adam").sharded(sharding)
    assert train(package, "--loss", "mse", *CHECK)["checkPassed"]


@pytest.mark.parametrize("sharding", ["optimizer", "gradients"])
def test_tables_stay_divided_by_rows(train, sharding: str):
    package = tables([[1, 3], [4]], [7, 6], [4, 3], micro_batches=3, optimizer="adam")
    assert train(package.recomputed().sharded(sharding), *CHECK)["checkPassed"]


def test_both_features_at_once(train):
    package = awkward([[1, 3], [4], [3, 1]], micro_batches=3, optimizer="adam")
    assert train(package.recomputed().sharded("gradients"), *CHECK)["checkPassed"]
