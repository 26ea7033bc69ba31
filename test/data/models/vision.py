#!/usr/bin/env python3
"""Writes wide_resnet101.onnx and vit_b_16.onnx beside this file, without their weights.

    vision.py

The shapes are those of torchvision's wide_resnet101_2 (Zagoruyko and Komodakis, BMVC 2016) and of ViT-B/16 (Dosovitskiy et al.,
ICLR 2021) as transformers has it. Exported by torch.onnx.export with a symbolic batch; initializers above 1 KB are
external data whose file is removed again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

BLOCKS = (3, 4, 23, 3)


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1; the middle one is twice as wide as in ResNet-101."""

    def __init__(self, channels: int, planes: int, stride: int) -> None:
        super().__init__()
        width = 2 * planes
        self.body = nn.Sequential(
            *normalised(channels, width, 1, 1), nn.ReLU(),
            *normalised(width, width, 3, stride), nn.ReLU(),
            *normalised(width, 4 * planes, 1, 1),
        )  # fmt: skip
        self.shortcut = nn.Sequential()
        if stride > 1 or channels != 4 * planes:
            self.shortcut = nn.Sequential(*normalised(channels, 4 * planes, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def normalised(channels: int, width: int, kernel: int, stride: int) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(width)


def wide_resnet101() -> nn.Module:
    layers: list[nn.Module] = [*normalised(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for step, count in enumerate(BLOCKS):
        for block in range(count):
            layers.append(Bottleneck(channels, 64 << step, 2 if step > 0 and block == 0 else 1))
            channels = 4 * (64 << step)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def vit_b_16() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vit = ViTForImageClassification(ViTConfig(num_labels=1000, attn_implementation="eager"))

        def forward(self, image: Tensor) -> Tensor:
            return self.vit(image).logits

    return Classifier()


def write(name: str, model: nn.Module) -> None:
    image = torch.zeros(2, 3, 224, 224)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            model.train(), (image,), path, dynamo=False, opset_version=17, input_names=["image"], output_names=["logits"],
            dynamic_axes={"image": {0: "N"}, "logits": {0: "N"}}, training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
        )  # fmt: skip
        graph = onnx.load(path)
        for tensor in graph.graph.initializer:  # their values do not matter: a planner needs shapes
            if tensor.HasField("raw_data") and len(tensor.raw_data) > 1024:
                tensor.ClearField("raw_data")
                tensor.data_location = onnx.TensorProto.EXTERNAL
                tensor.external_data.add(key="location", value="weights.bin")
    (Path(__file__).parent / f"{name}.onnx").write_bytes(graph.SerializeToString())


if __name__ == "__main__":
    torch.manual_seed(0)
    write("wide_resnet101", wide_resnet101())
    write("vit_b_16", vit_b_16())
