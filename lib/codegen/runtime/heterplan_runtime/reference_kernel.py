"""How fast a core is just now.

Its clock changes, and so does who shares it: a hyperthread beside it, other guests of the host. A
piece of work that never changes tells: what is measured beside it can be compared with what was
measured at another time.
"""

from __future__ import annotations

import time

import torch

ADDITIONS = 10_000


def reference_kernel(device: torch.device) -> float:
    """Seconds of the interpreter for additions, about a third of a millisecond; 0 for a GPU, of which
    it tells nothing."""
    if device.type == "cuda":
        return 0.0
    begin, total = time.perf_counter(), 0
    for number in range(ADDITIONS):
        total += number
    return time.perf_counter() - begin
