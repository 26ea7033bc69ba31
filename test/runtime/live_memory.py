"""Counts the bytes of tensors that are alive, so that tests can compare peaks of memory without a
clock or the process's resident memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Within it, each tensor that an operation makes is counted until its storage is let go; those
    that were there before are not."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self,
        function: Callable[..., Any],
        types: Any,
        arguments: tuple[Any, ...] = (),
        keywords: dict[str, Any] | None = None,
    ) -> Any:
        self._note((arguments, keywords), counted=False)
        result = function(*arguments, **(keywords or {}))
        self._note(result, counted=True)
        return result

    def _note(self, tensors: Any, counted: bool) -> None:
        for tensor in tree_leaves(tensors):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self._count(storage, storage.nbytes() if counted else 0)

    def _count(self, storage: torch.UntypedStorage, size: int) -> None:
        key = storage._cdata
        if key in self._known:
            return
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size
