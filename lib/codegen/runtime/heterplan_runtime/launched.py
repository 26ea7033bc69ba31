"""The environment that a launcher (torchrun, Slurm) gives a rank, and whether it fits the plan."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import RuntimeFault

if TYPE_CHECKING:
    from .program import PlannedDevice

REQUIRED = ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
NUMBERS = ("RANK", "WORLD_SIZE", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
HOW = "start the ranks with torchrun or DIR/launch.sh, or unset RANK to start all ranks on this machine"


def check_environment() -> None:
    """Raises RuntimeFault if a variable is missing or is not a number; RANK is set."""
    missing = [name for name in REQUIRED if not os.environ.get(name)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise RuntimeFault(f"RANK is set, but {', '.join(missing)} {verb} not; {HOW}")
    for name in NUMBERS:
        text = os.environ.get(name, "0")
        if not (text.isascii() and text.isdigit()):
            raise RuntimeFault(f"{name} is '{text}'; expected a number")


def environment_rank() -> int:
    check_environment()
    return int(os.environ["RANK"])


def host_ranks() -> range:
    """The ranks that the launcher started on this host: those of torchrun are consecutive. Only this
    rank if the launcher does not tell how many there are."""
    rank = environment_rank()
    if "LOCAL_WORLD_SIZE" not in os.environ:
        return range(rank, rank + 1)
    first = max(0, rank - int(os.environ.get("LOCAL_RANK", "0")))
    return range(first, min(first + int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])))


def check_launch(directory: Path) -> None:
    """Raises RuntimeFault if the launcher started another number of ranks than the plan has, or divides
    them among the hosts so that ranks run on other device types than planned."""
    from .program import read_planned_device, read_world_size

    rank, launched = environment_rank(), int(os.environ["WORLD_SIZE"])
    planned = read_world_size(directory)
    if launched != planned or rank >= launched:
        raise RuntimeFault(
            f"launched as rank {rank} of {launched}; the plan is for {planned} ranks: the values of "
            f"--nproc-per-node of all hosts must add up to {planned}"
        )
    local = host_ranks()
    if rank == local.start and "LOCAL_WORLD_SIZE" in os.environ and len(local) < launched:
        check_host([read_planned_device(directory, each) for each in range(launched)], local)


def check_host(devices: Sequence[PlannedDevice], local: range) -> None:
    """Raises RuntimeFault if one host runs the ranks `local`, the plan has several device types, and these
    are not the ranks of one planned node. `devices`: the planned device of each rank."""
    if len({device.type for device in devices}) == 1:
        return
    nodes = {devices[rank].node for rank in local}
    of_nodes = [rank for rank, device in enumerate(devices) if device.node in nodes]
    if len(nodes) == 1 and of_nodes == list(local):
        return
    counts = Counter(device.node for device in devices)
    expected = ", ".join(f"{count} of '{node}'" for node, count in counts.items())
    raise RuntimeFault(
        f"this host runs the ranks {local.start} to {local.stop - 1}, which are not those of one node of the "
        f"plan; start each node's ranks on a host of their own, in this order: {expected}"
    )
