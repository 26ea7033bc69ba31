"""Training workloads that measure the memory of a rank beyond the tensors that plans count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Workload:
    name: str
    module: Callable[[], nn.Module]
    sample: tuple[int, ...]  # shape
    samples: int  # of a micro-batch


class Attention(nn.Module):
    """A block of a transformer, written as generated code is: operator by operator."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        count, tokens, width = x.shape
        parts = self.mixed(self.norm(x)).reshape(count, tokens, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = torch.softmax(query @ key.transpose(-2, -1) / 8, -1)
        x = x + self.out((scores @ value).transpose(1, 2).reshape(count, tokens, width))
        return x + self.down(torch.relu(self.up(self.behind(x))))


def _perceptron(width: int, layers: int) -> nn.Module:
    return nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU())))


def _convolutions(channels: int, layers: int) -> nn.Module:
    blocks: list[nn.Module] = []
    for index in range(layers):
        before = channels if index else 3
        blocks += [
            nn.Conv2d(before, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
        ]  # fmt: skip
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def _transformer(width: int, layers: int) -> nn.Module:
    return nn.Sequential(*(Attention(width, width // 32) for _ in range(layers)))


WORKLOADS = (
    Workload("nothing", lambda: _perceptron(8, 1), (8,), 4),
    Workload("small perceptron", lambda: _perceptron(128, 4), (128,), 512),
    Workload("perceptron", lambda: _perceptron(512, 6), (512,), 4096),
    Workload("weights", lambda: _perceptron(1536, 6), (1536,), 16),
    Workload("small convolutions", lambda: _convolutions(16, 4), (3, 32, 32), 32),
    Workload("convolutions", lambda: _convolutions(32, 6), (3, 32, 32), 192),
    Workload("small transformer", lambda: _transformer(64, 2), (16, 64), 64),
    Workload("transformer", lambda: _transformer(256, 4), (64, 256), 32),
)


def _leaves(module: nn.Module) -> Iterator[nn.Module]:
    return (each for each in module.modules() if not list(each.children()))


class Counter:
    """Counts bytes of tensors as plans do (docs/clusters.md)."""

    def __init__(self, module: nn.Module) -> None:
        self._weights = {each.untyped_storage().data_ptr() for each in module.parameters()}
        self._kept: dict[int, int] = {}  # by storage, of one pass
        self._most_kept = self._under_way = self._behind = 0
        leaves = list(_leaves(module))
        self._sizes = [sum(each.nbytes for each in leaf.parameters()) for leaf in leaves]
        for leaf in leaves:
            leaf.register_forward_hook(self._pass)

    @property
    def tensors(self) -> int:
        """Parameters, their gradients (of the largest layer its new ones, too), and what is kept for
        the backward pass."""
        return 2 * sum(self._sizes) + max(self._sizes) + self._most_kept

    @property
    def workspace(self) -> int:
        """Gradients that are under way in the layer where they are largest; behind the last one the
        loss as well."""
        return max(self._under_way, self._behind)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Around a forward pass and its loss."""
        with torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor):
            self._kept = {}
            yield
        self._most_kept = max(self._most_kept, sum(self._kept.values()))

    def _keep(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._weights:
            self._kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def _pass(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        del module
        here = sum(each.nbytes for each in (*inputs, output))
        self._under_way = max(self._under_way, here)
        self._behind = here + 2 * output.nbytes
