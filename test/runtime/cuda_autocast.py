"""Autocast as on a GPU, for tensors without one: it runs one list of operations in 16 bits and
another one in fp32 (PyTorch, "Autocast Op Reference")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

HALF = {
    torch.Tensor.matmul, torch.Tensor.__matmul__, torch.matmul, torch.mm, torch.bmm, torch.addmm, torch.einsum,
    torch.conv1d, torch.conv2d, torch.conv3d, functional.linear, functional.conv1d, functional.conv2d,
    functional.conv3d, functional.conv_transpose2d,
}  # fmt: skip
SINGLE = {
    torch.softmax, torch.exp, torch.log, torch.pow, torch.rsqrt, torch.reciprocal, torch.sum, torch.prod,
    torch.cumsum, torch.Tensor.exp, torch.Tensor.pow, torch.Tensor.__pow__, torch.Tensor.__rpow__, torch.Tensor.sum,
    torch.Tensor.rsqrt, torch.Tensor.reciprocal, functional.softmax, functional.log_softmax,
    functional.layer_norm, functional.group_norm, functional.cross_entropy, functional.mse_loss,
}  # fmt: skip


class CudaAutocast(TorchFunctionMode):
    """Within it operations run in the types of autocast to bf16 on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self._weights: dict[int, torch.Tensor] = {}  # rounded once

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype not in (torch.float32, torch.bfloat16):
            return value
        if not (value.is_leaf and value.requires_grad) or value.dtype == dtype:
            return value.to(dtype)
        return self._weights.setdefault(id(value), value.to(dtype))

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        arguments: tuple[Any, ...] = (),
        keywords: dict[str, Any] | None = None,
    ) -> Any:
        dtype = torch.bfloat16 if function in HALF else torch.float32 if function in SINGLE else None
        if dtype is None:
            return function(*arguments, **(keywords or {}))
        return function(
            *(self._cast(value, dtype) for value in arguments),
            **{name: self._cast(value, dtype) for name, value in (keywords or {}).items()},
        )
