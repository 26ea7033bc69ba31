"""Random values. They follow PyTorch's generator, not ONNX's seed: a stage that runs many times
must not draw the same numbers each time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["bernoulli", "dropout", "multinomial"]


def bernoulli(p: Tensor, *, dtype: torch.dtype) -> Tensor:
    return torch.bernoulli(p.to(torch.float32)).to(dtype)


def multinomial(logits: Tensor, *, sample_size: int = 1, dtype: torch.dtype) -> Tensor:
    """`logits`: unnormalised log-probabilities, N x classes."""
    weights = F.softmax(logits, dim=-1)
    return torch.multinomial(weights, sample_size, replacement=True).to(dtype)


def dropout(x: Tensor, ratio: Tensor | float, training: bool) -> tuple[Tensor, Tensor]:
    """The result, and which elements are kept."""
    ratio = float(ratio)
    if not training or ratio == 0:
        return x, torch.ones_like(x, dtype=torch.bool)
    mask = torch.rand_like(x, dtype=torch.float32) >= ratio
    return torch.where(mask, x / (1 - ratio), torch.zeros_like(x)), mask
