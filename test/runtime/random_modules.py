"""Random modules for training: products, attention, convolutions, tables and norms in any order."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor, nn

Example = tuple[nn.Module, dict[str, Tensor]]
ACTIVATIONS: tuple[Callable[[], nn.Module], ...] = (nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU)
LENGTH, SIDE, WORDS = 6, 8, 40


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Gated(nn.Module):
    def __init__(self, width: int, inner: int, activation: nn.Module) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(width, inner), nn.Linear(width, inner), nn.Linear(inner, width)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.gate(x)) * self.up(x))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        split = self.qkv(x).unflatten(-1, (3, self.heads, x.shape[-1] // self.heads))
        q, k, v = split.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).flatten(2))


class Mean(nn.Module):
    """Over the axes between samples and features."""

    def __init__(self, *axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(self.axes)


class RandomModule:
    """The module of a seed. Some widths are odd, so that devices cannot divide them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.kind = ("vectors", "words", "images")[seed % 3]

    def build(self) -> Example:
        draw = self.draw
        width = draw.choice((24, 32, 48, 30) if self.kind == "images" else (96, 128, 192, 150))
        parts: list[nn.Module] = []
        if self.kind == "words":
            example = {"input": torch.zeros(2, LENGTH, dtype=torch.int64)}
            parts.append(nn.Embedding(WORDS, width))
        elif self.kind == "images":
            example = {"input": torch.zeros(2, 3, SIDE, SIDE)}
            parts.append(nn.Conv2d(3, width, 3, padding=1))
        else:
            example = {"input": torch.zeros(2, 20)}
            parts.append(nn.Linear(20, width))
        for _ in range(draw.randint(2, 5)):
            block, width = self._block(width)
            parts.append(block)
        parts += {"words": [Mean(1)], "images": [Mean(2, 3)], "vectors": []}[self.kind]
        return nn.Sequential(*parts, nn.Linear(width, draw.choice((5, 8)))), example

    def _block(self, width: int) -> tuple[nn.Module, int]:
        draw = self.draw
        activation = draw.choice(ACTIVATIONS)()
        if self.kind == "images":
            if draw.random() < 0.5:
                inner = nn.Sequential(nn.BatchNorm2d(width), activation, nn.Conv2d(width, width, 3, padding=1))
                return Residual(inner), width
            wider = draw.choice((24, 33, 64))
            return nn.Sequential(nn.Conv2d(width, wider, draw.choice((1, 3)), padding="same"), activation), wider
        choices = ["mlp", "gated", "plain", "widen"] + ["attention"] * (self.kind == "words")
        choice = draw.choice(choices)
        inner = draw.choice((256, 301, 384))
        if choice == "widen":
            wider = draw.choice((126, 160, 255))
            return nn.Sequential(nn.Linear(width, wider), activation), wider
        if choice == "plain":
            return nn.Sequential(nn.Linear(width, width), activation, nn.Dropout(0.2)), width
        part: nn.Module = Gated(width, inner, activation)
        if choice == "mlp":
            part = nn.Sequential(nn.Linear(width, inner), activation, nn.Linear(inner, width))
        if choice == "attention":
            part = Attention(width, draw.choice([heads for heads in (1, 2, 3, 4) if width % heads == 0]))
        return Residual(nn.Sequential(nn.LayerNorm(width), part)), width
