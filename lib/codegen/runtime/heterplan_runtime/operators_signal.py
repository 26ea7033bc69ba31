"""Fourier transforms, windows and the mel scale."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .operators_support import Number

__all__ = ["blackman_window", "dft", "hamming_window", "hann_window", "mel_weight_matrix", "stft"]


def _as_complex(x: Tensor) -> Tensor:
    """The last axis holds real and imaginary part, or the real part alone. In float64: ONNX expects
    more digits than a transform in float32 keeps."""
    x = x.to(torch.float64)
    return x.squeeze(-1) if x.shape[-1] == 1 else torch.view_as_complex(x.contiguous())


def dft(
    x: Tensor,
    dft_length: Number | None = None,
    axis: Number = -2,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    dim = int(axis) % x.dim()
    signal = _as_complex(x)
    if inverse and onesided:
        count = 2 * (x.shape[dim] - 1) if dft_length is None else int(dft_length)
        return torch.fft.irfft(signal, n=count, dim=dim).unsqueeze(-1).to(x.dtype)
    count = x.shape[dim] if dft_length is None else int(dft_length)
    transform = torch.fft.ifft if inverse else torch.fft.fft
    result = transform(signal, n=count, dim=dim)
    if onesided:
        result = result.narrow(dim, 0, count // 2 + 1)
    return torch.view_as_real(result).to(x.dtype)


def stft(
    signal: Tensor,
    frame_step: Number,
    window: Tensor | None = None,
    frame_length: Number | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """N x L (x 1 or 2) -> N x frames x bins x 2."""
    if signal.dim() == 2:
        signal = signal.unsqueeze(-1)
    if frame_length is not None:
        length = int(frame_length)
    else:
        length = signal.shape[1] if window is None else window.shape[0]
    frames = _as_complex(signal).unfold(1, length, int(frame_step))
    if window is not None:
        frames = frames * window
    result = torch.fft.fft(frames, dim=-1)
    if onesided:
        result = result[..., : length // 2 + 1]
    return torch.view_as_real(result).to(signal.dtype)


def _cosines(
    size: Number, periodic: int, dtype: torch.dtype, factors: tuple[float, ...]
) -> Tensor:
    """The sum of (-1)^k · factor_k · cos(2πk·i/N)."""
    count = int(size)
    device = size.device if isinstance(size, Tensor) else None
    steps = torch.arange(count, device=device, dtype=torch.float64)
    angle = steps * 2 * math.pi / (count if periodic else count - 1)
    terms = [(-1) ** k * factor * torch.cos(k * angle) for k, factor in enumerate(factors)]
    return torch.stack(terms).sum(0).to(dtype)


def hann_window(size: Number, *, periodic: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    return _cosines(size, periodic, dtype, (0.5, 0.5))


def hamming_window(
    size: Number, *, periodic: int = 1, dtype: torch.dtype = torch.float32
) -> Tensor:
    return _cosines(size, periodic, dtype, (25 / 46, 21 / 46))


def blackman_window(
    size: Number, *, periodic: int = 1, dtype: torch.dtype = torch.float32
) -> Tensor:
    return _cosines(size, periodic, dtype, (0.42, 0.5, 0.08))


def mel_weight_matrix(
    num_mel_bins: Number,
    dft_length: Number,
    sample_rate: Number,
    lower_edge_hertz: Number,
    upper_edge_hertz: Number,
    *,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Triangles between the edges, evenly spaced on the mel scale: spectrum bins x mel bins."""
    bins, length, rate = int(num_mel_bins), int(dft_length), int(sample_rate)
    low, high = (
        2595 * math.log10(1 + float(edge) / 700) for edge in (lower_edge_hertz, upper_edge_hertz)
    )
    mels = [low + i * (high - low) / (bins + 2) for i in range(bins + 2)]
    edges = [int((length + 1) * 700 * (10 ** (mel / 2595) - 1) // rate) for mel in mels]
    result = torch.zeros(length // 2 + 1, bins, dtype=torch.float64)
    for i in range(bins):
        left, centre, right = edges[i : i + 3]
        if left == centre:
            result[centre, i] = 1
        for j in range(left, centre + 1 if left < centre else left):
            result[j, i] = (j - left) / (centre - left)
        for j in range(centre, right):
            result[j, i] = (right - j) / (right - centre)
    return result.to(dtype)
