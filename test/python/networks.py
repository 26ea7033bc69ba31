"""Modules as users write them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50(classes: int = 1000) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    inputs = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for index in range(count):
            layers.append(Bottleneck(inputs, width, 2 if index == 0 and width > 64 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class Tied(nn.Module):
    """Two inputs, two outputs, and one matrix at both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.middle = nn.Linear(16, 16)

    def forward(self, tokens: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.tanh(self.middle(self.table(tokens)))
        return hidden @ self.table.weight.T * scale[:, :, None], hidden.mean((1, 2))


def train(model: nn.Module, images: Tensor, labels: Tensor, steps: int) -> list[float]:
    """The loop of a user: the losses of plain SGD."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses
