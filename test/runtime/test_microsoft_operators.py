"""Operators of com.microsoft against attention written out, one query and one head at a time."""

from __future__ import annotations

import math

import pytest
import torch
from heterplan_runtime import operators as ops
from torch import Tensor

BATCH, LENGTH, HEADS, GROUPS, SIZE = 2, 5, 4, 2, 6


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def attend(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, bias: Tensor | float = 0.0) -> Tensor:
    """q, k, v: N x heads x T x size; `allowed` and `bias` broadcast to N x heads x T x T."""
    shape = (*q.shape[:3], k.shape[2])
    allowed, bias = allowed.expand(shape), torch.as_tensor(bias).expand(shape)
    result = torch.zeros(*q.shape[:3], v.shape[-1])
    for n in range(q.shape[0]):
        for head in range(q.shape[1]):
            of = head * k.shape[1] // q.shape[1]
            for t in range(q.shape[2]):
                seen = allowed[n, head, t]
                scores = k[n, of, seen] @ q[n, head, t] / math.sqrt(q.shape[-1])
                weights = torch.softmax(scores + bias[n, head, t, seen], 0)
                result[n, head, t] = weights @ v[n, of, seen]
    return result.transpose(1, 2).flatten(2)


def heads(x: Tensor, count: int) -> Tensor:
    return x.reshape(*x.shape[:2], count, -1).transpose(1, 2)


def causal(queries: int, keys: int) -> Tensor:
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mask", ("none", "lengths", "tokens", "causal"))
def test_attention(mask: str) -> None:
    x, w = torch.randn(BATCH, LENGTH, 8), torch.randn(8, 3 * HEADS * SIZE)
    b = torch.randn(3 * HEADS * SIZE)
    q, k, v = (heads(part, HEADS) for part in (x @ w + b).chunk(3, -1))
    lengths = torch.tensor([5, 3], dtype=torch.int32)
    tokens = torch.arange(LENGTH) < lengths[:, None]
    allowed = torch.ones(1, 1, 1, LENGTH, dtype=torch.bool)
    index = {"lengths": lengths, "tokens": tokens.int()}.get(mask)
    if index is not None:
        allowed = tokens[:, None, None]
    if mask == "causal":
        allowed = causal(LENGTH, LENGTH)
    y, present = ops.microsoft_attention(
        x, w, b, index, num_heads=HEADS, unidirectional=int(mask == "causal")
    )
    close(y, attend(q, k, v, allowed))
    close(present, torch.stack([k, v]))


def test_attention_with_past_and_bias() -> None:
    x, w = torch.randn(BATCH, LENGTH, 8), torch.randn(8, 3 * HEADS * SIZE)
    past, bias = torch.randn(2, BATCH, HEADS, 3, SIZE), torch.randn(1, HEADS, LENGTH, LENGTH + 3)
    q, k, v = (heads(part, HEADS) for part in (x @ w).chunk(3, -1))
    k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
    y, _ = ops.microsoft_attention(
        x, w, None, None, past, bias, num_heads=HEADS, unidirectional=1
    )
    close(y, attend(q, k, v, causal(LENGTH, LENGTH + 3), bias))


@pytest.mark.parametrize("packed", ("no", "keys", "all"))
def test_multi_head_attention(packed: str) -> None:
    parts = [torch.randn(BATCH, LENGTH, HEADS * SIZE) for _ in range(3)]
    bias = torch.randn(3 * HEADS * SIZE)
    q, k, v = (heads(x + b, HEADS) for x, b in zip(parts, bias.chunk(3)))
    split = [part.unflatten(-1, (HEADS, SIZE)) for part in parts]
    given: dict[str, list[Tensor | None]] = {
        "no": list(parts),
        "keys": [parts[0], torch.stack(split[1:], 3), None],
        "all": [torch.stack(split, 3), None, None],
    }
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0]], dtype=torch.int32)
    y, key, value = ops.microsoft_multi_head_attention(
        *given[packed], bias, mask, num_heads=HEADS
    )
    close(y, attend(q, k, v, mask.bool()[:, None, None]))
    close(key, k)
    close(value, v)


def rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """x: N x heads x T x size; complex numbers turned by their angles."""
    half = x.shape[-1] // 2
    pairs = x.unflatten(-1, (half, 2)) if interleaved else torch.stack(x.split(half, -1), -1)
    turned = torch.view_as_complex(pairs.contiguous()) * torch.complex(cos, sin)
    result = torch.view_as_real(turned)
    return result.flatten(-2) if interleaved else result.transpose(-1, -2).flatten(-2)


@pytest.mark.parametrize("interleaved", (False, True))
def test_rotary_embedding(interleaved: bool) -> None:
    angles = torch.randn(9, SIZE // 2)
    x = torch.randn(BATCH, LENGTH, HEADS * SIZE)
    expected = rotated(heads(x, HEADS), angles[2:7].cos(), angles[2:7].sin(), interleaved)
    for positions in (torch.tensor([2]), torch.arange(2, 7).expand(BATCH, -1)):
        y = ops.microsoft_rotary_embedding(
            x, positions, angles.cos(), angles.sin(), interleaved=int(interleaved)
        )
        close(y, expected.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("packed", (False, True))
@pytest.mark.parametrize("window", (-1, 2))
@pytest.mark.parametrize("past", (0, 3))
def test_group_query_attention(past: int, window: int, packed: bool) -> None:
    angles = torch.randn(9, SIZE // 2)
    query = torch.randn(BATCH, LENGTH, HEADS * SIZE)
    key, value = torch.randn(2, BATCH, LENGTH, GROUPS * SIZE).unbind()
    old = torch.randn(2, BATCH, GROUPS, past, SIZE) if past else (None, None)
    total = past + LENGTH
    given = (torch.cat([query, key, value], -1), None, None) if packed else (query, key, value)
    y, keys, values = ops.microsoft_group_query_attention(
        *given, old[0], old[1], torch.full((BATCH,), total - 1, dtype=torch.int32),
        torch.tensor(total), angles.cos(), angles.sin(), num_heads=HEADS, kv_num_heads=GROUPS,
        do_rotary=1, local_window_size=window,
    )  # fmt: skip
    cos, sin = angles[past:total].cos(), angles[past:total].sin()
    q, k = (rotated(heads(x, n), cos, sin, False) for x, n in ((query, HEADS), (key, GROUPS)))
    v = heads(value, GROUPS)
    if past:
        k, v = torch.cat([old[0], k], 2), torch.cat([old[1], v], 2)
    allowed = causal(LENGTH, total)
    if window > 0:
        allowed = allowed & ~torch.ones_like(allowed).tril(past - window)
    close(y, attend(q, k, v, allowed))
    close(keys, k)
    close(values, v)


def test_padding_of_group_query_attention_is_not_seen() -> None:
    q = torch.randn(BATCH, LENGTH, HEADS * SIZE)
    k, v = torch.randn(2, BATCH, LENGTH, GROUPS * SIZE).unbind()
    last = torch.tensor([4, 2], dtype=torch.int32)
    y, _, _ = ops.microsoft_group_query_attention(
        q, k, v, None, None, last, torch.tensor(LENGTH), num_heads=HEADS, kv_num_heads=GROUPS
    )
    expected = attend(heads(q, HEADS), heads(k, GROUPS), heads(v, GROUPS), causal(LENGTH, LENGTH))
    close(y[0], expected[0])
    close(y[1, :3], expected[1, :3])
    assert y.isfinite().all()


def test_fused_matmul() -> None:
    a, b = torch.randn(3, 5, 4), torch.randn(3, 6, 5)
    y = ops.fused_matmul(a, b, alpha=0.5, transA=1, transB=1)
    close(y, 0.5 * torch.einsum("nka,nbk->nab", a, b))
