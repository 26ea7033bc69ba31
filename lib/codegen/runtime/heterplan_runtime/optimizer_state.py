"""The state of an optimizer for the tensors that it updates, in a form that can be saved and
restored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

# By optimizer: PyTorch's names of what it keeps of each element.
MOMENTS = {"sgd": (), "momentum": ("momentum_buffer",), "adam": ("exp_avg", "exp_avg_sq")}

Updated = Iterable[tuple[str, Tensor]]  # parameters by name, and the tensors that hold elements of them


def steps_of(optimizer: torch.optim.Optimizer, updated: Updated) -> dict[str, int]:
    """The updates of each parameter that the optimizer keeps anything of."""
    steps = {}
    for name, tensor in updated:
        state = optimizer.state.get(tensor, {})
        if any(isinstance(value, Tensor) for value in state.values()):
            steps[name] = int(state.get("step", 1))
    return steps


@torch.no_grad()
def fill_missing_momentum(optimizer: torch.optim.Optimizer) -> None:
    """Velocities of zero for parameters with a first gradient, if others have velocities: fused kernels take
    all or none."""
    for group in optimizer.param_groups:
        if not group.get("fused") or not group.get("momentum"):
            continue
        updated = [tensor for tensor in group["params"] if tensor.grad is not None]
        missing = [tensor for tensor in updated if "momentum_buffer" not in optimizer.state.get(tensor, {})]
        for tensor in missing if len(missing) < len(updated) else ():
            optimizer.state[tensor]["momentum_buffer"] = torch.zeros_like(tensor)


@torch.no_grad()
def begin_at(
    optimizer: torch.optim.Optimizer, kind: str, updated: Updated, steps: Mapping[str, int]
) -> None:
    """Makes the state as it is after so many updates of each parameter, of zeros that are to be filled;
    none for a tensor that holds parameters without updates."""
    done: dict[Tensor, int] = {}
    for name, tensor in updated:
        done[tensor] = max(done.get(tensor, 0), steps.get(name, 0))
    for tensor, count in done.items():
        if not count or not MOMENTS[kind]:
            continue
        state = {moment: torch.zeros_like(tensor) for moment in MOMENTS[kind]}
        if kind == "adam":
            is_fused = any(group.get("fused") for group in optimizer.param_groups)
            state["step"] = torch.tensor(float(count), device=tensor.device if is_fused else "cpu")
        optimizer.state[tensor] = state
