"""A plan in bf16 runs as autocast in one process does: products in bf16, all that is kept in fp32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from heterplan_runtime.data_option import make_data
from heterplan_runtime.loss_scale import GROWTH_INTERVAL, LossScale
from heterplan_runtime.losses import make_loss
from heterplan_runtime.model import Model, build_stage, load_model
from heterplan_runtime.precision import Precision
from live_memory import LiveMemory
from packages import Package, awkward
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

STEPS, RATE, BATCH = 6, 0.05, 8


def in_one_process(
    model: Model, folder: Path, bf16: bool, half: torch.dtype = torch.bfloat16
) -> list[float]:
    """By autocast alone; a parameter that two stages use is one."""
    cpu = torch.device("cpu")
    stages = [build_stage(model, index, folder, 0, cpu) for index in range(3)]
    stages[2].tied.scale = stages[0].tied.scale
    parameters = {p for stage in stages for p in stage.parameters()}
    optimizer = torch.optim.SGD(list(parameters), lr=RATE, momentum=0.9)
    data = make_data("--data", "random", model, make_loss("cross_entropy", model.prediction), 0, BATCH)
    losses = []
    for step in range(STEPS):
        total = 0.0
        for first in (0, 4):
            batch = data.load(step, range(first, first + 4))
            with torch.autocast("cpu", half, enabled=bf16):
                tensors: tuple[torch.Tensor, ...] = ()
                for stage in stages:
                    tensors = stage(*tensors, *(batch.inputs[name] for name in stage.inputs))
                loss = functional.cross_entropy(tensors[0].float(), batch.targets) / 2
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


class WeightTraffic(TorchDispatchMode):
    """Counts the bytes that operators other than products read and write of tensors of one shape."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape, self.moved = shape, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.__name__.split(".")[0] in ("_to_copy", "add_", "add"):
            tensors = [*args, result]
            self.moved += sum(t.nbytes for t in tensors if isinstance(t, torch.Tensor) and t.shape == self.shape)
        return result


def test_one_more_micro_batch_moves_18_bytes_of_a_gradient():
    """The cost model has 6 of them in the backward pass, 12 in the addition, and rounds weights once a step."""
    device, precision = torch.device("cpu"), Precision("bf16")
    layer = nn.Linear(48, 64, bias=False)
    traffic = WeightTraffic(layer.weight.shape)
    forward, backward = [], []
    with precision.step(device):
        for _ in range(3):
            with precision.forward(device), traffic:
                loss = layer(torch.ones(8, 48)).float().sum()
            forward.append(traffic.moved / layer.weight.numel())
            with traffic:
                loss.backward()
            backward.append(traffic.moved / layer.weight.numel() - forward[-1])
            traffic.moved = 0
    assert forward == [6, 0, 0]  # reads 4 and writes 2
    assert backward == [6, 18, 18]  # reads 2 and writes 4, then reads 4 + 4 and writes 4


@pytest.mark.parametrize("package", [awkward([[3, 1], [4], [2, 2]], 2, "momentum")])
def test_losses_of_fp16_are_scaled(train, tmp_path: Path, package: Package):
    result = train(replace(package, precision="fp16"), "--steps", str(STEPS), "--lr", str(RATE))
    model = load_model(tmp_path / "plan")
    rounded = in_one_process(model, tmp_path / "plan", True, torch.float16)
    assert result["losses"] == pytest.approx(rounded, rel=4e-3)


def test_a_scale_halves_where_gradients_are_not_finite():
    scale = LossScale(8.0)
    gradient = torch.tensor([4.0, 16.0])
    assert scale.undo([gradient])
    assert gradient.tolist() == [0.5, 2.0]
    assert not scale.undo([torch.tensor([float("inf")])])
    scale.adapt(finite=False)
    assert scale.factor == 4.0
    for _ in range(GROWTH_INTERVAL):
        scale.adapt(finite=True)
    assert scale.factor == 8.0


@pytest.mark.parametrize(
    "package", [awkward([[4], [4], [4]], 2, "momentum"), awkward([[3, 1], [4], [2, 2]], 2, "momentum")]
)
def test_losses_are_those_of_autocast(train, tmp_path: Path, package: Package):
    package = replace(package, precision="bf16")
    result = train(package, "--steps", str(STEPS), "--lr", str(RATE), "--save", str(tmp_path / "weights"))
    model = load_model(tmp_path / "plan")
    exact, rounded = (in_one_process(model, tmp_path / "plan", bf16) for bf16 in (False, True))
    assert result["losses"] == pytest.approx(rounded, rel=4e-3)
    assert result["losses"] != pytest.approx(exact, rel=1e-5), "nothing was rounded"
    weights = load_file(tmp_path / "weights/model.safetensors")
    assert {values.dtype for values in weights.values()} == {torch.float32}
    rounded_weight = weights["fc.weight"].to(torch.bfloat16).float()
    assert not torch.equal(weights["fc.weight"], rounded_weight), "parameters are kept in fp32"


def test_the_check_of_a_bf16_plan_is_in_double_precision(train):
    package = replace(awkward([[3, 1], [4], [2, 2]], 2, "adam"), precision="bf16")
    result = train(package, "--steps", "3", "--check")
    assert result["checkPassed"] and result["stateDifference"] < 1e-6
    assert "--check computes in double precision, the plan in bf16" in result["out"]


class Products(nn.Module):
    """Four products with weights of their own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weights = nn.ParameterList(torch.randn(256, 256) / 16 for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = functional.relu(functional.linear(x, weight))
        return x

    @property
    def halves(self) -> int:
        return sum(weight.numel() * 2 for weight in self.weights)


@pytest.mark.parametrize("in_flight", [1, 3])
def test_the_passes_of_a_step_share_the_weights_that_autocast_has_rounded(in_flight: int):
    """Half a copy for all micro-batches in flight is what plans count. It is gone at the end of the step."""
    model, cpu = Products(), torch.device("cpu")
    with LiveMemory() as memory:
        outputs = []
        with Precision("bf16").step(cpu):
            for _ in range(in_flight):
                with Precision("bf16").forward(cpu):
                    outputs.append(model(torch.ones(1, 256)))
            assert memory.now == pytest.approx(model.halves, abs=0.05 * model.halves)
        outputs.clear()
        assert memory.now <= 0.05 * model.halves


def test_gradients_through_shared_weights_are_those_of_each_pass():
    def gradients(shares: bool) -> list[torch.Tensor]:
        model, cpu = Products(), torch.device("cpu")
        with Precision("bf16" if shares else "fp32").step(cpu):
            losses = []
            for micro_batch in range(3):
                with Precision("bf16").forward(cpu):
                    losses.append(model(torch.full((2, 256), 1.0 + micro_batch)).float().sum())
            for loss in losses:
                loss.backward()
        return [weight.grad for weight in model.weights if weight.grad is not None]

    shared, alone = gradients(True), gradients(False)
    assert len(shared) == 4 and all(each.any() for each in shared)
    assert all(torch.equal(a, b) for a, b in zip(shared, alone, strict=True))


@pytest.mark.parametrize("in_flight", [1, 3])
def test_segments_that_are_computed_again_keep_no_rounded_weights(in_flight: int):
    """One copy for a pass is what plans count."""
    model = Products()
    with LiveMemory() as memory:
        outputs = []
        for _ in range(in_flight):
            x = torch.ones(1, 256, requires_grad=True)
            with Precision("bf16").forward(torch.device("cpu")):
                outputs.append(checkpoint(model, x, use_reentrant=False))
        kept, peak = memory.now, memory.peak
    assert len(outputs) == in_flight
    assert kept == pytest.approx(0, abs=0.05 * model.halves)
    assert peak <= model.halves * 1.05
