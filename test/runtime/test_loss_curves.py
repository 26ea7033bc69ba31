"""The modules that are generated train like those that were exported: same data, same optimizer,
initial weights from the ONNX file, and the losses of twenty steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import generated
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

pytest.importorskip("transformers")

import zoo  # noqa: E402

STEPS = 20
SAMPLES = 6
Forward = Callable[[dict[str, Tensor]], Tensor]


def losses(parts: list[nn.Module], forward: Forward, example: zoo.Example) -> list[float]:
    """The losses of the steps; the labels are drawn, one for each row of the last axis."""
    for part in parts:
        part.train()
    parameters = itertools.chain(*(part.parameters() for part in parts))
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    result = []
    for step in range(STEPS):
        logits = forward(example.sample(SAMPLES, seed=step % 4)).flatten(0, -2)
        labels = torch.randint(0, logits.shape[-1], logits.shape[:-1])
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def size(parts: list[nn.Module]) -> int:
    """The number of trained parameters."""
    parameters = itertools.chain(*(part.parameters() for part in parts))
    return sum(parameter.numel() for parameter in parameters if parameter.grad is not None)


# A tied weight is not cut through, so that its model is one stage.
CASES = [
    *[(name, 1) for name in ("bert", "gpt2", "resnet", "dlrm")],
    *[(name, 2) for name in ("bert-untied", "gpt2-untied", "resnet", "dlrm")],
]


@pytest.mark.parametrize(("name", "stages"), CASES)
def test_generated_modules_train_like_the_original(name: str, stages: int, tmp_path: Path) -> None:
    example = zoo.TRAINED[name]
    path = tmp_path / f"{name}.onnx"
    # Constants are not folded: that would fold batch normalisation into the convolutions, and copy
    # a tied weight to transpose it.
    mode = torch.onnx.TrainingMode.TRAINING
    module = zoo.export(example, path, "torchscript", training=mode, do_constant_folding=False)
    assert generated.emit([(path, tmp_path / "out", stages)]) == [""]
    parts = generated.stages(generated.load(tmp_path / "out"), tmp_path / "out")
    assert len(parts) == stages

    def forward(inputs: dict[str, Tensor]) -> Tensor:
        return generated.forward(parts, inputs)["logits"]

    expected = losses([module], lambda inputs: module(*inputs.values())[0], example)
    assert abs(expected[-1] - expected[0]) > 0.01 * expected[0]
    assert losses(parts, forward, example) == pytest.approx(expected, rel=1e-3)
    assert size(parts) == size([module])
