"""The precision that the plan says its ranks compute in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from .device_classes import class_of


@dataclass(frozen=True)
class Precision:
    """Parameters, gradients, their sums and the optimizer's state are fp32 whatever it is; so is what
    stages send, of which the plan states the types."""

    name: str  # "fp32" | "tf32" | "bf16" | "fp16"; "fp64": of --check

    @property
    def activations(self) -> torch.dtype | None:
        """Type of what most operators give; None: that of the model."""
        return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.name)

    @property
    def scales_losses(self) -> bool:
        """Whether small gradients vanish in the type of the activations."""
        return self.name == "fp16"

    def on(self, device: torch.device) -> Precision:
        """A GPU without units for bf16 computes in fp16 instead."""
        if self.name == "bf16" and class_of(device).computes_bf16_in_fp16(device):
            return Precision("fp16")
        return self

    def apply(self) -> None:
        """To the whole process."""
        torch.backends.cuda.matmul.allow_tf32 = self.name == "tf32"
        torch.backends.cudnn.allow_tf32 = self.name == "tf32"

    def forward(self, device: torch.device) -> AbstractContextManager[object]:
        """Around a forward pass and its loss."""
        if self.activations is None:
            return nullcontext()
        return torch.autocast(device.type, self.activations)

    def step(self, device: torch.device) -> AbstractContextManager[object]:
        """Around the forward passes of a step: they share the weights that autocast has rounded."""
        if self.activations is None:
            return nullcontext()
        return torch.autocast(device.type, enabled=False)  # outside of it, each pass rounds anew
