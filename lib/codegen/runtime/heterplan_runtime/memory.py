"""The most memory that a rank needs for its stage."""

from __future__ import annotations

import resource
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


class PeakMemory:
    """On a GPU what the allocator handed out; on a CPU how far the resident memory of the process
    has grown since this was made, without the pages of files. What PyTorch loads at a first step is
    loaded before, as it belongs to no stage."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        _first_step()
        self._begin = 0 if device.type == "cuda" else _status("VmRSS") - _status("RssFile")

    def restart(self) -> None:
        """Forgets peaks so far, such as those of making the stage."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            return
        try:
            _CLEAR.write_text("5", encoding="ascii")
        except OSError:
            pass  # then they count

    def bytes(self) -> int:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        return max(0, _status("VmHWM") - _status("RssFile") - self._begin)


def _first_step() -> None:
    """Of next to nothing."""
    parameter = torch.nn.Parameter(torch.ones(1))
    torch.nn.functional.mse_loss(parameter * 2, torch.zeros(1)).backward()
    torch.optim.SGD([parameter], lr=0.1).step()


def _status(name: str) -> int:
    """A line of /proc/self/status; elsewhere the peak, which is all that is known."""
    try:
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
