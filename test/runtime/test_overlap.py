"""All-reduces that begin within the last backward pass of their stage."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from heterplan_runtime.overlap import OverlappedSum, buckets_of
from packages import Package, awkward, dropout, tables
from torch import nn

UNEVEN = awkward([[3, 1], [4], [2, 2]], 2, "adam")


@pytest.mark.parametrize(
    "package",
    [
        UNEVEN.recomputed(),
        replace(awkward([[1, 1], [2], [2]], 3, "adam"), batch_norm="local").shortened(1),
        UNEVEN.sharded("optimizer"),
        dropout([[2, 2], [1, 3]], 2, "momentum"),
    ],
    ids=["recomputed", "without samples", "sharded", "dropout"],
)
def test_one_process_does_the_same(train, package: Package) -> None:
    """Clipping takes the whole gradients."""
    result = train(package.overlapped(), "--steps", "4", "--check", "--lr", "0.05", "--gradient-clip", "0.5")
    assert result["checkPassed"] and result["stateDifference"] < 1e-6


def test_sparse_tables_are_exchanged_beside_the_sums(train) -> None:
    package = tables([[1, 3], [2, 2]], [7, 6], [4, 3], 2, "adam").overlapped()
    assert train(package, "--steps", "4", "--check", "--loss", "cross_entropy", "--data", "random")["checkPassed"]


def chain(layers: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(8, 8) for _ in range(layers)))


class Network:
    """Notes which tensors are sent, and doubles them when somebody waits: two equal replicas."""

    def __init__(self) -> None:
        self.sent: list[list[torch.Tensor]] = []

    def start(self, tensors: list[torch.Tensor]):
        self.sent.append(tensors)
        return lambda: [tensor.mul_(2) for tensor in tensors]


def test_buckets_are_sent_while_the_backward_pass_goes_on() -> None:
    model, network = chain(), Network()
    overlapped = OverlappedSum(list(model.parameters()), network.start, bucket_bytes=300)
    sent_at: list[int] = []  # buckets on their way when the backward pass of a layer begins
    for layer in model:
        layer.register_full_backward_pre_hook(lambda *_: sent_at.append(len(network.sent)))
    overlapped.begin_last_backward()
    model(torch.ones(2, 8, requires_grad=True)).sum().backward()
    assert sent_at == [0, 1, 2, 3]
    assert [tensors[0].shape for tensors in network.sent] == [(8,)] * 4
    overlapped.finish()()
    assert len(network.sent) == 4


def test_only_the_last_backward_pass_sends() -> None:
    model, network = chain(), Network()
    overlapped = OverlappedSum(list(model.parameters()), network.start)
    model(torch.ones(1, 8)).sum().backward()
    assert not network.sent
    overlapped.begin_last_backward()
    model(torch.ones(1, 8)).sum().backward()
    expected = [2 * parameter.grad.clone() for parameter in model.parameters()]
    overlapped.finish()()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.equal(parameter.grad, gradient)


def test_buckets_keep_their_order_and_unused_parameters_are_sent() -> None:
    """Replicas whose passes use other parameters must send the same buckets in the same order."""
    model, network = chain(3), Network()
    parameters = list(model.parameters())
    overlapped = OverlappedSum(parameters, network.start, bucket_bytes=1)
    for _ in range(2):
        overlapped.begin_last_backward()
        model[0](torch.ones(1, 8)).sum().backward()  # the last parameters never
        assert not network.sent
        overlapped.finish()()
        shapes = [tensors[0].shape for tensors in network.sent]
        assert shapes == [parameter.shape for parameter in reversed(parameters)]
        network.sent.clear()


def test_without_a_backward_pass_everything_is_sent_at_the_end() -> None:
    model, network = chain(2), Network()
    overlapped = OverlappedSum(list(model.parameters()), network.start)
    overlapped.finish()()
    assert sum(len(tensors) for tensors in network.sent) == 4
    assert all(not tensor.any() for tensors in network.sent for tensor in tensors)


def test_frozen_parameters_hold_up_no_bucket() -> None:
    model = chain(2)
    model[1].weight.requires_grad_(False)
    buckets = buckets_of(list(model.parameters()), 1)
    assert [bucket[0] is model[1].weight for bucket in buckets] == [False, False, False, True]
