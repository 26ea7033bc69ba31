"""Quantisation, and products of quantised tensors. Whole numbers are multiplied as float64, which
is exact here and, unlike integers, runs on every device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "conv_integer",
    "dequantize_linear",
    "dynamic_quantize_linear",
    "matmul_integer",
    "qlinear_conv",
    "qlinear_matmul",
    "quantize_linear",
]


def _along(values: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """Scales or zero points in a shape that broadcasts against `x`."""
    if values.dim() == 0 or values.numel() == 1:
        return values.reshape(())
    if block_size:
        return values.repeat_interleave(block_size, dim=axis).narrow(axis, 0, x.shape[axis])
    shape = [1] * x.dim()
    shape[axis] = -1
    return values.reshape(shape)


def _saturated(x: Tensor, dtype: torch.dtype) -> Tensor:
    info = torch.iinfo(dtype)
    return x.clamp(info.min, info.max).to(dtype)


def quantize_linear(
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    dtype: torch.dtype = torch.uint8,
) -> Tensor:
    scaled = x / _along(y_scale, x, axis, block_size).to(x.dtype)
    y = torch.round(scaled.to(torch.float32))
    if y_zero_point is not None:
        y = y + _along(y_zero_point, x, axis, block_size)
    return _saturated(y, dtype)


def dequantize_linear(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    y = x.to(torch.float32)
    if x_zero_point is not None:
        y = y - _along(x_zero_point, x, axis, block_size).to(torch.float32)
    return (y * _along(x_scale, x, axis, block_size).to(torch.float32)).to(dtype)


def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """y, its scale and its zero point."""
    least, most = x.min().clamp(max=0.0), x.max().clamp(min=0.0)
    scale = (most - least) / 255
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero_point = torch.round((-least / scale).clamp(0, 255))
    y = _saturated(torch.round(x / scale) + zero_point, torch.uint8)
    return y, scale, zero_point.to(torch.uint8)


def _centred(x: Tensor, zero_point: Tensor | None, axis: int) -> Tensor:
    """`x` less its zero point, which may differ along `axis`."""
    result = x.to(torch.float64)
    if zero_point is None:
        return result
    point = zero_point.to(torch.float64)
    if point.dim() == 1 and point.numel() > 1:
        shape = [1] * x.dim()
        shape[axis] = -1
        point = point.reshape(shape)
    elif point.numel() == 1:
        point = point.reshape(())
    return result - point


def matmul_integer(
    a: Tensor,
    b: Tensor,
    a_zero_point: Tensor | None = None,
    b_zero_point: Tensor | None = None,
) -> Tensor:
    product = _centred(a, a_zero_point, -2) @ _centred(b, b_zero_point, -1)
    return product.to(torch.int32)


def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    product = _centred(a, a_zero_point, -2) @ _centred(b, b_zero_point, -1)
    scale = _factor(a_scale, a, -2) * _factor(b_scale, b, -1) / y_scale.to(torch.float64)
    y = torch.round(product * scale) + y_zero_point.to(torch.float64)
    return _saturated(y, y_zero_point.dtype)


def _factor(scale: Tensor, x: Tensor, axis: int) -> Tensor:
    """A scale that may differ along `axis`."""
    scale = scale.to(torch.float64)
    if scale.dim() == 1 and scale.numel() > 1:
        shape = [1] * x.dim()
        shape[axis] = -1
        return scale.reshape(shape)
    return scale.reshape(()) if scale.numel() == 1 else scale


def _convolution(
    x: Tensor,
    w: Tensor,
    pads: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    function = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
    return function(
        F.pad(x, tuple(pads)),
        w,
        stride=tuple(stride),
        dilation=tuple(dilation),
        groups=groups,
    )


def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    *,
    pads: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """`pads` as F.pad takes them."""
    weight = _centred(w, w_zero_point, 0)
    y = _convolution(_centred(x, x_zero_point, 1), weight, pads, stride, dilation, groups)
    return y.to(torch.int32)


def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    b: Tensor | None = None,
    *,
    pads: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """`pads` as F.pad takes them."""
    weight = _centred(w, w_zero_point, 0)
    y = _convolution(_centred(x, x_zero_point, 1), weight, pads, stride, dilation, groups)
    channels = (1, -1) + (1,) * (x.dim() - 2)
    if b is not None:
        y = y + b.to(torch.float64).reshape(channels)
    scale = (x_scale.to(torch.float64) * w_scale.to(torch.float64)).reshape(-1)
    scale = scale.reshape(channels) / y_scale.to(torch.float64)
    y = torch.round(y * scale) + y_zero_point.to(torch.float64)
    return _saturated(y, y_zero_point.dtype)
