"""Optimizers on GPUs have fused kernels, or kernels for each parameter where the plan wants that. CPUs stand for GPUs
here: PyTorch has fused kernels for both."""

from __future__ import annotations

import pytest
import torch
from heterplan_runtime import trained_state
from heterplan_runtime.device_classes import class_named
from heterplan_runtime.optimizer_state import begin_at, fill_missing_momentum, steps_of
from heterplan_runtime.trained_state import make_optimizer
from torch import nn

OPTIMIZERS = ("sgd", "momentum", "adam")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained_state, "class_of", lambda device: class_named("gpu"))


def made(name: str, kernels: str = "fused") -> tuple[torch.optim.Optimizer, list[nn.Parameter]]:
    generator = torch.Generator().manual_seed(1)
    parameters = [nn.Parameter(torch.randn(size, generator=generator)) for size in ((3, 4), (5,))]
    optimizer = make_optimizer(name, parameters, 0.1, kernels=kernels)
    assert optimizer is not None
    return optimizer, parameters


def train(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], steps: range) -> None:
    for step in steps:
        for number, parameter in enumerate(parameters):
            parameter.grad = torch.sin(parameter.detach() * (step + 1) + number)
        fill_missing_momentum(optimizer)
        optimizer.step()


def flags(optimizer: torch.optim.Optimizer) -> tuple[bool, bool]:
    (group,) = optimizer.param_groups
    return group["fused"], group["foreach"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_gpu_has_fused_kernels(name: str, gpu: None) -> None:
    assert flags(made(name)[0]) == (True, False)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_plan_may_want_kernels_for_each_parameter(name: str, gpu: None) -> None:
    assert flags(made(name, "for-loop")[0]) == (False, False)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_cpu_updates_one_parameter_after_another(name: str) -> None:
    assert flags(made(name)[0]) == (False, False)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_kernels_train_like_the_others(name: str, gpu: None) -> None:
    fused, other = made(name), made(name, "for-loop")
    for each in (fused, other):
        train(*each, range(4))
    for a, b in zip(fused[1], other[1], strict=True):
        torch.testing.assert_close(a, b)


def test_a_first_gradient_may_come_late(gpu: None) -> None:
    fused, other = made("momentum"), made("momentum", "for-loop")
    for optimizer, parameters in (fused, other):
        for step in range(3):
            for number, parameter in enumerate(parameters):
                parameter.grad = torch.ones_like(parameter) if number <= step else None
            fill_missing_momentum(optimizer)
            optimizer.step()
    for a, b in zip(fused[1], other[1], strict=True):
        torch.testing.assert_close(a, b)


def test_fused_kernels_alone_refuse_a_late_gradient(gpu: None) -> None:
    optimizer, parameters = made("momentum")
    parameters[0].grad = torch.ones_like(parameters[0])
    optimizer.step()
    parameters[1].grad = torch.ones_like(parameters[1])
    with pytest.raises((RuntimeError, TypeError)):
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_optimizers_go_on_from_a_checkpoint(name: str, gpu: None) -> None:
    whole, part = made(name), made(name)
    train(*whole, range(4))
    train(*part, range(2))
    resumed = made(name)
    named = [(str(index), parameter) for index, parameter in enumerate(resumed[1])]
    counts = steps_of(part[0], [(str(index), each) for index, each in enumerate(part[1])])
    begin_at(resumed[0], name, named, counts)
    with torch.no_grad():
        for new, old in zip(resumed[1], part[1], strict=True):
            new.copy_(old)
            for key, value in resumed[0].state[new].items():
                value.copy_(part[0].state[old][key])
    train(*resumed, range(2, 4))
    for a, b in zip(whole[1], resumed[1], strict=True):
        torch.testing.assert_close(a, b)
