#!/usr/bin/env python3
"""The models of bench/fidelity-workloads.yaml and bench/shard_steps.py that are made rather than kept: exported to ONNX with
random weights, which take as long as trained ones.

    bench/fidelity_models.py NAME FILE
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn


class Classes(nn.Module):
    """Just the scores of a model of `transformers`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x, return_dict=True).logits


class Lstm(nn.Module):
    """The next of 1000 words, by two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 128)
        self.cells = nn.LSTM(128, 256, num_layers=2, batch_first=True)
        self.scores = nn.Linear(256, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(self.cells(self.words(x))[0])


class UNet(nn.Module):
    """Three levels; skip tensors are alive across all that is below."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        sizes = [channels, 2 * channels, 4 * channels]
        self.down = nn.ModuleList(
            self._pair(before, after) for before, after in zip([3, *sizes], sizes)
        )
        self.raise_ = nn.ModuleList(
            nn.ConvTranspose2d(2 * size, size, 2, stride=2) for size in reversed(sizes[:-1])
        )
        self.up = nn.ModuleList(self._pair(2 * size, size) for size in reversed(sizes[:-1]))
        self.out = nn.Conv2d(channels, 1, 1)

    @staticmethod
    def _pair(before: int, after: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for index, level in enumerate(self.down):
            x = level(nn.functional.max_pool2d(x, 2) if index else x)
            skips.append(x)
        for raised, level, skip in zip(self.raise_, self.up, reversed(skips[:-1])):
            x = level(torch.cat([raised(x), skip], 1))
        return self.out(x)


def _resnet18() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic",
        num_labels=1000,
    )  # fmt: skip
    return Classes(ResNetForImageClassification(config))


def _vit_small() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, image_size=128,
        num_labels=1000, attn_implementation="eager",
    )  # fmt: skip
    return Classes(ViTForImageClassification(config))


def _llama_small() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=8000, hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=8,
        max_position_embeddings=128, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    return Classes(LlamaForCausalLM(config))


def _gpt_small() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=8000, n_positions=128, n_embd=384, n_layer=4, n_head=8, use_cache=False,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager",
    )  # fmt: skip
    return Classes(GPT2LMHeadModel(config))


def _mlp() -> nn.Module:
    sizes = [1024, *[2048] * 6]
    layers = [part for before, after in zip(sizes, sizes[1:]) for part in (nn.Linear(before, after), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 1000))


def _image(size: int) -> Tensor:
    return torch.randn(2, 3, size, size)


def _words(bound: int, count: int) -> Tensor:
    return torch.randint(0, bound, (2, count))


BUILDERS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "resnet18": (_resnet18, lambda: _image(128)),
    "vit_small": (_vit_small, lambda: _image(128)),
    "lstm": (Lstm, lambda: _words(1000, 32)),
    "unet": (UNet, lambda: _image(64)),
    "llama_small": (_llama_small, lambda: _words(8000, 64)),
    "gpt_small": (_gpt_small, lambda: _words(8000, 64)),
    "mlp": (_mlp, lambda: torch.randn(2, 1024)),
}


def export(name: str, path: Path) -> None:
    """Writes the model called `name`."""
    torch.manual_seed(0)
    build, sample = BUILDERS[name]
    # Exported as for inference, which keeps batch normalisation; plans train it.
    model = build().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (sample(),), path, dynamo=True, optimize=False, external_data=False,
            dynamic_shapes=({0: torch.export.Dim("N", min=1, max=4096)},), input_names=["x"],
            output_names=["y"], verbose=False,
        )  # fmt: skip


if __name__ == "__main__":
    export(sys.argv[1], Path(sys.argv[2]))
