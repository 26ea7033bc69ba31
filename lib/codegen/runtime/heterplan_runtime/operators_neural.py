"""Attention, normalisations and losses that PyTorch has in another form."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "attention",
    "average_pool",
    "group_normalization",
    "layer_normalization",
    "local_response_normalization",
    "lp_normalization",
    "lp_pool",
    "mean_variance_normalization",
    "negative_log_likelihood_loss",
    "normalize_channels",
    "rms_normalization",
    "rotary_embedding",
    "softmax_cross_entropy_loss",
    "train_batch_normalization",
]


def _heads(x: Tensor, count: int) -> Tensor:
    """N x T x heads·size -> N x heads x T x size; without a count N·heads x T x size -> 1 x N·heads
    x T x size; other ranks stay."""
    if x.dim() != 3:
        return x
    return x.unflatten(-1, (count, -1)).transpose(1, 2) if count else x.unsqueeze(0)


def _bias(
    mask: Tensor | None, scores: Tensor, is_causal: int, past: int, lengths: Tensor | None
) -> Tensor | None:
    """The mask that is added to the scores: 0 for keys that a query may attend to, -inf for the
    others."""
    queries, keys = scores.shape[-2:]
    allowed = None
    bias = None
    if mask is not None:
        missing = keys - mask.shape[-1]
        if mask.dtype == torch.bool:
            allowed = F.pad(mask, (0, missing))
        else:
            bias = F.pad(mask, (0, missing), value=-math.inf)
    key = torch.arange(keys, device=scores.device)
    if is_causal:
        query = torch.arange(queries, device=scores.device).unsqueeze(1) + past
        if lengths is not None and not past:
            query = query + (lengths - queries).reshape(-1, 1, 1, 1)
        allowed = key <= query if allowed is None else allowed & (key <= query)
    if lengths is not None:
        present = key < lengths.reshape(-1, 1, 1, 1)
        allowed = present if allowed is None else allowed & present
    if allowed is not None:
        barrier = torch.zeros_like(allowed, dtype=scores.dtype).masked_fill(~allowed, -math.inf)
        bias = barrier if bias is None else bias + barrier
    return bias


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float = 0.0,
    softcap: float = 0.0,
    softmax_precision: torch.dtype | None = None,
    wants_scores: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Y, present key, present value, and the scores at the stage that the mode names."""
    flat, single = q.dim() == 3 and q_num_heads > 0, q.dim() == 3 and not q_num_heads
    if single and attn_mask is not None and attn_mask.dim() == 3:
        attn_mask = attn_mask.unsqueeze(0)
    q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        k, v = torch.cat([past_key, k], dim=2), torch.cat([past_value, v], dim=2)
    present_key, present_value = k, v
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    plain = not softcap and not wants_scores and softmax_precision is None and not past
    if plain and nonpad_kv_seqlen is None:
        same_length = attn_mask is None or attn_mask.shape[-1] == k.shape[2]
        if same_length and (attn_mask is None or attn_mask.is_floating_point()):
            if is_causal and attn_mask is not None:  # PyTorch takes one of both
                behind = torch.full((q.shape[2], k.shape[2]), -math.inf, device=q.device)
                attn_mask, is_causal = attn_mask + behind.to(attn_mask.dtype).triu(1), 0
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask, is_causal=bool(is_causal), scale=scale or None
            )
            y = y.transpose(1, 2).flatten(2) if flat else y.squeeze(0) if single else y
            return y, present_key, present_value, y
    root = math.sqrt(scale or 1 / math.sqrt(q.shape[-1]))
    scores = (q * root) @ (k * root).transpose(-1, -2)
    seen = scores
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
        seen = scores if qk_matmul_output_mode == 1 else seen
    bias = _bias(attn_mask, scores, is_causal, past, nonpad_kv_seqlen)
    if bias is not None:
        scores = scores + bias
    seen = scores if qk_matmul_output_mode == 2 else seen
    weights = F.softmax(scores.to(softmax_precision or scores.dtype), dim=-1)
    if bias is not None:  # a query that may look nowhere gives zero
        blind = (bias == -math.inf).all(dim=-1, keepdim=True)
        weights = weights.masked_fill(blind, 0.0)
    seen = weights if qk_matmul_output_mode == 3 else seen
    y = weights.to(q.dtype) @ v
    y = y.transpose(1, 2).flatten(2) if flat else y.squeeze(0) if single else y
    return y, present_key, present_value, seen.to(q.dtype)


def rotary_embedding(
    x: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    flat = x.dim() == 3
    heads = _heads(x, num_heads)  # N x heads x T x size
    size = rotary_embedding_dim or heads.shape[-1]
    turned, rest = heads[..., :size], heads[..., size:]
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids], sin_cache[position_ids]
    cos, sin = cos_cache.unsqueeze(1), sin_cache.unsqueeze(1)
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
    else:
        a, b = turned.chunk(2, dim=-1)
    parts = [cos * a - sin * b, sin * a + cos * b]
    turned = torch.stack(parts, dim=-1).flatten(-2) if interleaved else torch.cat(parts, dim=-1)
    y = torch.cat([turned, rest], dim=-1)
    return y.transpose(1, 2).flatten(2) if flat else y


def layer_normalization(
    x: Tensor,
    scale: Tensor | None = None,
    b: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    """Y, the means and the inverse deviations."""
    axes = tuple(range(axis % x.dim(), x.dim()))
    precise = x.to(torch.promote_types(x.dtype, torch.float32))
    variance, mean = torch.var_mean(precise, dim=axes, correction=0, keepdim=True)
    inverse = (variance + epsilon).rsqrt()
    y = ((precise - mean) * inverse).to(x.dtype)
    y = y if scale is None else y * scale
    return (y if b is None else y + b), mean, inverse


def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5
) -> Tensor:
    """`scale` may be broadcast. A GPU has one kernel if data and scale have one type."""
    x = x.to(torch.promote_types(x.dtype, scale.dtype))
    normalized = x.shape[axis % x.dim() :]
    return F.rms_norm(x, normalized, scale.expand(normalized), epsilon)


def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Tensor:
    """Scale and bias have one value a group (opset 18) or a channel (opset 21)."""
    if scale.shape[0] != x.shape[1]:
        each = x.shape[1] // num_groups
        scale, bias = scale.repeat_interleave(each), bias.repeat_interleave(each)
    return F.group_norm(x, num_groups, scale, bias, epsilon)


def local_response_normalization(
    x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Tensor:
    """The window of an even size reaches one channel further up than down."""
    below = (size - 1) // 2
    padded = F.pad(x.square().flatten(2), (0, 0, below, size - 1 - below))
    sums = padded.unfold(1, size, 1).sum(-1).reshape(x.shape)
    return x / (bias + alpha / size * sums) ** beta


def normalize_channels(
    x: Tensor, scale: Tensor, b: Tensor, mean: Tensor, var: Tensor, *, epsilon: float = 1e-5
) -> Tensor:
    """By statistics that were computed: gradients flow into them. All but `x` have a value a channel."""
    gain = scale / (var + epsilon).sqrt()
    shape = (-1, *[1] * (x.dim() - 2))
    return x * gain.view(shape) + (b - mean * gain).view(shape)


def train_batch_normalization(
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> tuple[Tensor, Tensor, Tensor]:
    """Y by the statistics of the batch, and the running statistics after it."""
    axes = [0, *range(2, x.dim())]
    precise = x.to(torch.promote_types(x.dtype, torch.float32))
    variance, average = torch.var_mean(precise, dim=axes, correction=0)
    y = F.batch_norm(x, None, None, scale.to(x.dtype), b.to(x.dtype), True, 0.0, epsilon)
    with torch.no_grad():
        new_mean = mean * momentum + average.to(mean.dtype) * (1 - momentum)
        new_var = var * momentum + variance.to(var.dtype) * (1 - momentum)
    return y, new_mean, new_var


def mean_variance_normalization(x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    mean = x.mean(dim=tuple(axes), keepdim=True)
    centred = x - mean
    deviation = centred.square().mean(dim=tuple(axes), keepdim=True).sqrt()
    return centred / (deviation + 1e-9)


def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    norm = torch.linalg.vector_norm(x, ord=p, dim=axis, keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


def _window_sums(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    for axis, (length, step, spread) in enumerate(zip(kernel, stride, dilation)):
        windows = x.unfold(2 + axis, (length - 1) * spread + 1, step)
        x = windows[..., ::spread].sum(-1)
    return x


def average_pool(
    x: Tensor,
    *,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Sequence[int],
    counted: Sequence[int],
) -> Tensor:
    """`pads` as F.pad takes them; those of them that are `counted` are cells of zero."""
    ones = F.pad(torch.ones_like(x[:1, :1]), tuple(counted), value=1.0)
    ones = F.pad(ones, tuple(a - b for a, b in zip(pads, counted)))
    sums = _window_sums(F.pad(x, tuple(pads)), kernel, stride, dilation)
    return sums / _window_sums(ones, kernel, stride, dilation)


def lp_pool(
    x: Tensor,
    *,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Sequence[int],
    p: int = 2,
) -> Tensor:
    """`pads` as F.pad takes them."""
    return _window_sums(F.pad(x.abs() ** p, tuple(pads)), kernel, stride, dilation) ** (1 / p)


def _loss_values(
    log_prob: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int | None,
    reduction: str,
) -> Tensor:
    """The negative log-likelihood of each element, weighted, and reduced."""
    kept = torch.ones_like(target, dtype=torch.bool)
    if ignore_index is not None:
        kept = target != ignore_index
    index = torch.where(kept, target, torch.zeros_like(target)).to(torch.int64)
    chosen = -log_prob.gather(1, index.unsqueeze(1)).squeeze(1)
    weights = torch.ones_like(chosen) if weight is None else weight[index]
    weights = torch.where(kept, weights, torch.zeros_like(weights))
    losses = torch.where(kept, chosen, torch.zeros_like(chosen)) * weights
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / weights.sum()


def negative_log_likelihood_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    return _loss_values(x, target, weight, ignore_index, reduction)


def softmax_cross_entropy_loss(
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """The loss and the log-probabilities."""
    log_prob = F.log_softmax(scores, dim=1)
    return _loss_values(log_prob, labels, weights, ignore_index, reduction), log_prob
