"""Operators of the domain com.microsoft, which ONNX Runtime's tools write in place of many."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .operators_neural import rotary_embedding

__all__ = [
    "fused_matmul",
    "microsoft_attention",
    "microsoft_group_query_attention",
    "microsoft_multi_head_attention",
    "microsoft_rotary_embedding",
]


def fused_matmul(
    a: Tensor, b: Tensor, *, alpha: float = 1.0, transA: int = 0, transB: int = 0  # noqa: N803
) -> Tensor:
    a = a.transpose(-1, -2) if transA and a.dim() > 1 else a
    b = b.transpose(-1, -2) if transB and b.dim() > 1 else b
    return a @ b if alpha == 1 else alpha * (a @ b)


def _split(x: Tensor, heads: int) -> Tensor:
    """N x T x heads·size -> N x heads x T x size."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _join(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _padding(mask: Tensor | None, keys: int, value: float, like: Tensor) -> Tensor | None:
    """`value` at the keys that are padding: `mask` holds lengths (N), or 0 and 1 (N x keys, or
    N x queries x keys)."""
    if mask is None:
        return None
    if mask.dim() == 1:
        allowed = torch.arange(keys, device=mask.device) < mask[:, None]
    else:
        allowed = mask != 0
    allowed = allowed[:, None, None] if allowed.dim() == 2 else allowed[:, None]
    return torch.zeros_like(allowed, dtype=like.dtype).masked_fill(~allowed, value)


def _causal(q: Tensor, k: Tensor, window: int = -1) -> Tensor:
    """-inf at the keys behind each query, the last of which is the last key; and at those that are
    `window` or more before it."""
    queries, keys = q.shape[2], k.shape[2]
    key = torch.arange(keys, device=q.device)
    query = torch.arange(keys - queries, keys, device=q.device)[:, None]
    allowed = key <= query
    if window > 0:
        allowed = allowed & (key > query - window)
    return torch.zeros_like(allowed, dtype=q.dtype).masked_fill(~allowed, -math.inf)


def _add(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def _attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, softcap: float = 0.0
) -> Tensor:
    if not softcap:
        return F.scaled_dot_product_attention(q, k, v, bias, scale=scale or None)
    scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    scores = softcap * torch.tanh(scores / softcap)
    return F.softmax(scores if bias is None else scores + bias, dim=-1) @ v


def microsoft_attention(
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask_index: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    qkv_hidden_sizes: tuple[int, ...] = (),
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Tensor, Tensor]:
    """Projections of x to query, key and value, and attention; the result, and keys and values."""
    projected = x @ weights if bias is None else x @ weights + bias
    sizes = list(qkv_hidden_sizes) or [projected.shape[-1] // 3] * 3
    q, k, v = (_split(part, num_heads) for part in projected.split(sizes, dim=-1))
    if past is not None:
        k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
    barrier = _padding(mask_index, k.shape[2], mask_filter_value, q)
    barrier = _add(barrier, attention_bias)
    if unidirectional:
        barrier = _add(barrier, _causal(q, k))
    present = torch.stack([k, v]) if k.shape == v.shape else k
    return _join(_attend(q, k, v, barrier, scale)), present


def microsoft_multi_head_attention(
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    cache_indirection: Tensor | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and the keys and values with those of the past before them."""
    if key is None:  # N x T x heads x 3 x size
        q, k, v = (part.flatten(2) for part in query.unbind(3))
    elif value is None:  # N x T x heads x 2 x size
        q, (k, v) = query, (part.flatten(2) for part in key.unbind(3))
    else:
        q, k, v = query, key, value
    if bias is not None:
        of_q, of_k, of_v = bias.split([q.shape[-1], q.shape[-1], len(bias) - 2 * q.shape[-1]])
        q = q + of_q
        k = k + of_k if k.dim() == 3 else k
        v = v + of_v if v.dim() == 3 else v
    q, k, v = (_split(part, num_heads) if part.dim() == 3 else part for part in (q, k, v))
    if past_key is not None and past_value is not None:
        k, v = torch.cat([past_key, k], dim=2), torch.cat([past_value, v], dim=2)
    barrier = _add(_padding(key_padding_mask, k.shape[2], mask_filter_value, q), attention_bias)
    if unidirectional:
        barrier = _add(barrier, _causal(q, k))
    return _join(_attend(q, k, v, barrier, scale)), k, v


def microsoft_rotary_embedding(
    x: Tensor,
    position_ids: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    if position_ids.numel() == 1:  # of the first token
        length = x.shape[-2]
        steps = torch.arange(length, device=x.device)
        position_ids = (position_ids.reshape(1, 1) + steps).expand(x.shape[0], length)
    heads = num_heads or x.shape[-1] // (2 * cos_cache.shape[-1])
    return rotary_embedding(
        x,
        cos_cache,
        sin_cache,
        position_ids,
        interleaved=interleaved,
        num_heads=heads,
        rotary_embedding_dim=rotary_embedding_dim,
    )


def microsoft_group_query_attention(
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    total_sequence_length: Tensor,
    cos_cache: Tensor | None = None,
    sin_cache: Tensor | None = None,
    position_ids: Tensor | None = None,
    attention_bias: Tensor | None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    do_rotary: int = 0,
    local_window_size: int = -1,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    softcap: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Causal attention in which groups of queries share keys; `seqlens_k` holds the last position
    that is no padding. The past, if any, is as long as it is full."""
    if key is None or value is None:
        size = query.shape[-1] // (num_heads + 2 * kv_num_heads)
        widths = [num_heads * size, kv_num_heads * size, kv_num_heads * size]
        query, key, value = query.split(widths, dim=-1)
    q, k, v = _split(query, num_heads), _split(key, kv_num_heads), _split(value, kv_num_heads)
    past = past_key.shape[2] if past_key is not None else 0
    if do_rotary and cos_cache is not None and sin_cache is not None:
        if position_ids is None:
            steps = torch.arange(past, past + q.shape[2], device=q.device)
            position_ids = steps.expand(q.shape[0], -1)
        q, k = (
            rotary_embedding(x, cos_cache, sin_cache, position_ids, interleaved=rotary_interleaved)
            for x in (q, k)
        )
    if past_key is not None and past_value is not None:
        k, v = torch.cat([past_key, k], dim=2), torch.cat([past_value, v], dim=2)
    lengths = seqlens_k.reshape(-1) + 1
    # Finite: a query that is padding itself sees nothing else.
    barrier = _padding(lengths, k.shape[2], torch.finfo(q.dtype).min, q)
    barrier = _add(_add(barrier, attention_bias), _causal(q, k, local_window_size))
    groups = num_heads // kv_num_heads
    wide = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    return _join(_attend(q, *wide, barrier, scale, softcap)), k, v
