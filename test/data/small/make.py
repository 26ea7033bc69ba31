#!/usr/bin/env python3
"""Exports the small models that the end-to-end tests compile and train.

    python test/data/small/make.py [DIRECTORY]

The files are committed; run this only to change a model. The batch dimension is symbolic, weights
are inline and stay below 200 KB. Batch normalisation is exported with its five inputs, as it stands
in files that were exported for inference without folding.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + x)


class Cnn(nn.Module):
    """Two residual blocks on 16x16 images; a skip tensor is alive across each block."""

    def __init__(self, channels: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(channels)
        self.pool = nn.MaxPool2d(2)
        self.block1 = Residual(channels)
        self.block2 = Residual(channels)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.bn(self.stem(x))))
        x = self.block2(self.block1(x))
        return self.fc(torch.flatten(self.mean(x), 1))


class Mixed(nn.Module):
    """Branches of unequal depth, as in Inception."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.deep1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.deep2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.wide = nn.Conv2d(channels, channels, 5, padding=2)
        self.point = nn.Conv2d(channels, channels, 1)
        self.mix = nn.Conv2d(3 * channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        deep = self.deep2(torch.relu(self.deep1(x)))
        parts = [torch.relu(part) for part in (deep, self.wide(x), self.point(x))]
        return torch.relu(self.mix(torch.cat(parts, 1)))


class Branches(nn.Module):
    """Two blocks of three branches on 16x16 images: many weights for what flows between them."""

    def __init__(self, channels: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=4, padding=1)
        self.mixed1 = Mixed(channels)
        self.mixed2 = Mixed(channels)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.mixed2(self.mixed1(torch.relu(self.stem(x))))
        return self.fc(torch.flatten(self.mean(x), 1))


class Towers(nn.Module):
    """Four branches of three layers on vectors, which the forward pass computes level by level."""

    def __init__(self, width: int = 24, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Linear(32, width)
        self.levels = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, 4 if level == 2 else width) for _ in range(4))
            for level in range(3)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(4))
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        branches = [torch.relu(self.stem(x))] * 4
        for level, layers in enumerate(self.levels):
            branches = [torch.relu(layer(branch)) for layer, branch in zip(layers, branches)]
            if level == 0:
                branches = [self.drop(norm(branch)) for norm, branch in zip(self.norms, branches)]
        return self.fc(torch.cat(branches, 1))


class EncoderBlock(nn.Module):
    def __init__(self, tokens: int, width: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.width, self.heads = tokens, width, heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(-1, self.tokens, self.heads, self.width // self.heads).transpose(1, 2)

    def attention(self, x: Tensor) -> Tensor:
        q, k, v = (self.split(part) for part in self.qkv(x).split(self.width, dim=-1))
        scores = q @ k.transpose(-2, -1) / (self.width // self.heads) ** 0.5
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(-1, self.tokens, self.width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Token classes from ids: embedding, two encoder blocks, mean over the tokens, classes."""

    def __init__(self, vocabulary: int = 64, tokens: int = 8, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.randn(1, tokens, width) * 0.02)
        self.block1 = EncoderBlock(tokens, width, 4)
        self.block2 = EncoderBlock(tokens, width, 4)
        self.norm = nn.LayerNorm(width)
        self.classes = nn.Linear(width, 5)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) + self.position
        x = self.block2(self.block1(x))
        return self.classes(self.norm(x).mean(dim=1))


def mlp() -> nn.Module:
    widths = (32, 64, 48, 32, 10)
    layers: list[nn.Module] = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def randomise_norms(model: nn.Module) -> None:
    """Makes the vectors of each normalisation unlike: the exporter merges initializers of equal
    values, which would tie the parameters of different layers."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
            with torch.no_grad():
                module.weight.add_(0.1 * torch.randn_like(module.weight))
                module.bias.add_(0.1 * torch.randn_like(module.bias))
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.8, 1.2)


def export(model: nn.Module, sample: Tensor, name: str, path: Path, opset: int) -> None:
    """Writes `model` with a symbolic batch; PRESERVE keeps batch normalisation unfused."""
    randomise_norms(model)
    torch.onnx.export(
        model.eval(),
        (sample,),
        str(path),
        dynamo=False,
        input_names=[name],
        output_names=["output"],
        dynamic_axes={name: {0: "batch"}, "output": {0: "batch"}},
        opset_version=opset,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
    )


def main() -> None:
    warnings.filterwarnings("ignore")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.manual_seed(0)
    export(Cnn(), torch.randn(2, 3, 16, 16), "input", folder / "cnn.onnx", 13)
    export(mlp(), torch.randn(2, 32), "input", folder / "mlp.onnx", 14)
    export(
        Transformer(), torch.zeros(2, 8, dtype=torch.int64), "ids", folder / "transformer.onnx", 17
    )
    export(Branches(), torch.randn(2, 3, 16, 16), "input", folder / "branches.onnx", 13)
    export(Towers(), torch.randn(2, 32), "input", folder / "towers.onnx", 14)


if __name__ == "__main__":
    main()
