"""Losses that are scaled so that gradients of fp16 do not vanish (Micikevicius et al., ICLR 2018)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from .gradients import are_finite, multiply

GROWTH_INTERVAL = 2000  # steps, as in torch.amp.GradScaler


@dataclass
class LossScale:
    """The factor of all losses, the same on all ranks: it halves where a gradient is not finite, and
    doubles after GROWTH_INTERVAL steps without one."""

    factor: float = 2.0**16
    _clean: int = 0

    def undo(self, gradients: Iterable[Tensor]) -> bool:
        """Divides the gradients by the factor. Returns whether all are finite."""
        own = list(gradients)
        multiply(own, 1 / self.factor)
        return are_finite(own)

    def adapt(self, finite: bool) -> None:
        """To a step in which the gradients of all ranks were finite, or not."""
        self._clean = self._clean + 1 if finite else 0
        if not finite:
            self.factor = max(self.factor / 2, 1.0)
        elif self._clean == GROWTH_INTERVAL:
            self.factor, self._clean = self.factor * 2, 0
