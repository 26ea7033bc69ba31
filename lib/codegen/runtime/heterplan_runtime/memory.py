"""The most memory that a rank needs for its stage."""

from __future__ import annotations

import torch

from .device_classes import class_of


class PeakMemory:
    """The peak memory of a rank. On a GPU it is the peak of the allocator; on a CPU it is the
    growth of the process's resident memory since this object was made, without the pages of files.
    PyTorch's own first-step allocations happen before, because they belong to no stage."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._class = device, class_of(device)
        self._resident = 0  # before the last restart
        _first_step()
        self._begin = self._class.used_memory(device)

    def restart(self) -> None:
        """Forgets peaks so far, such as those of making the stage."""
        self._resident = self.resident_bytes()
        self._class.restart_peak(self._device)

    def bytes(self) -> int:
        return max(0, self._class.peak_memory(self._device) - self._begin)

    def resident_bytes(self) -> int:
        """The most that the process took at any time, with all that PyTorch loads: what a limit of
        memory has to leave it, and what plans predict where it is stated what a process takes."""
        return max(self._resident, self._class.resident_peak(self._device))


def _first_step() -> None:
    """Runs a first training step of a tiny model."""
    parameter = torch.nn.Parameter(torch.ones(1))
    torch.nn.functional.mse_loss(parameter * 2, torch.zeros(1)).backward()
    torch.optim.SGD([parameter], lr=0.1).step()
