"""Which device of its host a rank computes on: the one that the plan names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from .device_classes import CPU, class_named, local_rank
from .program import PlannedDevice, RankProgram, read_rank_program


def local_programs(directory: Path, program: RankProgram) -> list[RankProgram]:
    """The programs of the ranks that torchrun starts on this host. If the number of local ranks is
    unknown, only the program of this rank."""
    count = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    first = program.rank - local_rank()
    ranks = range(first, min(first + count, program.world_size))
    if program.rank not in ranks:
        return [program]
    return [program if rank == program.rank else read_rank_program(directory, rank) for rank in ranks]


def of_type(kind: str, names: Sequence[str]) -> list[int]:
    """Which devices are, by their names, of the type `kind` of a cluster file: the word of it that has a
    digit, such as v100 of v100-sxm2-16gb, is in their names."""
    words = [word for word in kind.lower().replace("_", "-").split("-") if any(map(str.isdigit, word))]
    return [index for index, name in enumerate(names) if words and words[0] in name.lower()]


def choose_index(
    planned: PlannedDevice, own: int, peers: Sequence[PlannedDevice], names: Sequence[str]
) -> tuple[int, str]:
    """The index among the devices that this process sees, and a note where it is not the planned one.
    `own`: of this rank among `peers`, the planned devices of the ranks of this host that are of its
    class; `names`: of the devices."""
    matching = of_type(planned.type, names)
    note = "" if matching else f"planned for '{planned.type}', runs on '{names[0]}'"
    candidates = matching or list(range(len(names)))
    if len(names) == 1 == len(peers):
        return 0, note
    alike = [peer for peer in peers if not matching or peer.type == planned.type]
    one_node = len({peer.node for peer in alike}) == 1 and len(set(alike)) == len(alike)
    if one_node and max(peer.index for peer in alike) < len(candidates):
        return candidates[planned.index], note
    place = sum(not matching or peer.type == planned.type for peer in peers[:own])
    index = candidates[place % len(candidates)]
    shares = ", which ranks share" if len(alike) > len(candidates) else ""
    return index, (
        f"planned for device {planned.index} of type '{planned.type}' of {planned.node or 'a node'}, runs "
        f"on device {index} ('{names[index]}') of this host{shares}"
    )


def choose_device(
    kind: str, wanted: str, rank: int, local: Sequence[RankProgram]
) -> tuple[torch.device, str]:
    """The device of rank `rank`, made current, and a note where it is not the planned one. A plan for
    GPUs falls back to the CPU where there is none. `local`: see local_programs()."""
    device_class = CPU if wanted == CPU.name else class_named(kind)
    names = device_class.names()
    if device_class is CPU or not names:
        note = "" if class_named(kind) is CPU else "planned for a GPU, runs on the CPU"
        return CPU.device(0), note
    alike = [program for program in local if class_named(program.device_kind) is device_class]
    own = next(i for i, program in enumerate(alike) if program.rank == rank)
    index, note = choose_index(alike[own].device, own, [each.device for each in alike], names)
    return device_class.device(index), note
