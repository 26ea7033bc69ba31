"""Messages between the ranks of a Program, on torch.distributed.

Gloo carries them between CPUs, NCCL where every rank has a GPU of its own; otherwise tensors on a
GPU are staged through the CPU. Activations and gradients travel in groups of their own: NCCL
matches the messages of two ranks by order, and in 1F1B the two directions interleave.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from .errors import RuntimeFault
from .program import RankProgram, TensorSpec

T = TypeVar("T")
Group = tuple[int, ...]

_BUCKET_BYTES = 64 << 20
_SMALL_BYTES = 1 << 20  # larger tensors travel alone, without being copied


@dataclass(frozen=True)
class RosterEntry:
    """What each rank tells the others before the first step."""

    rank: int
    stage: int
    place: tuple[str, int] | None  # host and GPU; None on a CPU
    groups: tuple[Group, ...]


def choose_device(kind: str, wanted: str) -> torch.device:
    """The device of this rank; a plan for GPUs falls back to the CPU where there is none."""
    if kind != "gpu" or wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    index = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


class Communicator:
    """Sends, receives and sums. Made by all ranks together, with the same timeout."""

    def __init__(self, program: RankProgram, device: torch.device, timeout: timedelta) -> None:
        self.rank, self.world_size = program.rank, program.world_size
        self.device = device
        self._timeout = timeout
        self._pending: dict[tuple[int, int], list[tuple[dist.Work | None, Tensor]]] = {}
        dist.init_process_group("gloo", timeout=timeout)
        if (dist.get_rank(), dist.get_world_size()) != (self.rank, self.world_size):
            raise RuntimeFault(
                f"launched as rank {dist.get_rank()} of {dist.get_world_size()}; "
                f"the plan is for {self.world_size} ranks"
            )
        self.roster = self._exchange(program)
        self.backend = self._common_backend()
        self._forward = dist.new_group(backend=self.backend)
        self._backward = dist.new_group(backend=self.backend)
        self._long_timeout = dist.new_group(backend="gloo", timeout=timedelta(days=7))
        self._groups: dict[Group, Any] = {}
        self._tables: dict[Group, tuple[Any, Any]] = {}
        self._add_groups(group for entry in self.roster for group in entry.groups)
        self._add_groups(self.stage_group(entry.stage) for entry in self.roster)
        if self.backend == "nccl":
            self._connect(program)

    def _exchange(self, program: RankProgram) -> list[RosterEntry]:
        place = (socket.gethostname(), self.device.index) if self.device.type == "cuda" else None
        groups = {instruction.group for instruction in program.instructions if instruction.group}
        own = RosterEntry(self.rank, program.stage, place, tuple(sorted(groups)))
        return self.gather(own)

    def _common_backend(self) -> str:
        places = [entry.place for entry in self.roster]
        own_gpu_each = None not in places and len(set(places)) == len(places)
        return "nccl" if own_gpu_each and dist.is_nccl_available() else "gloo"

    @property
    def staged(self) -> bool:
        """True when tensors on the GPU travel through the CPU."""
        return self.device.type == "cuda" and self.backend != "nccl"

    def _add_groups(self, groups: Iterable[Group]) -> None:
        """Every rank makes every group, in one order."""
        for group in sorted(set(groups) - self._groups.keys()):
            if len(group) > 1:
                self._groups[group] = dist.new_group(list(group), backend=self.backend)

    def share_across_stages(self, stages: Iterable[tuple[int, ...]]) -> None:
        """Makes the groups of parameters that several stages use; all ranks call it alike."""
        self._add_groups(self.stages_group(several) for several in stages)

    def share_tables(self, stages: Iterable[int]) -> None:
        """Makes the groups of stages with sparse tables; all ranks call it alike. Rows and their
        gradients are exchanged by two threads, hence over two groups."""
        for group in [self.stage_group(stage) for stage in stages]:
            if len(group) > 1:
                rows, gradients = (
                    dist.new_group(list(group), timeout=self._timeout, backend=self.backend)
                    for _ in range(2)
                )
                self._tables[group] = (rows, gradients)

    def exchange(
        self, group: Group, gradients: bool, parts: Sequence[Tensor], sizes: Sequence[int]
    ) -> list[Tensor]:
        """Part i, flat, goes to the i-th member; what each member has for this rank is returned,
        `sizes` elements of it."""
        home = self.device if self.backend == "nccl" else torch.device("cpu")
        message = torch.cat([part.to(home) for part in parts])
        received = message.new_empty(sum(sizes))
        dist.all_to_all_single(
            received, message, list(sizes), [len(part) for part in parts],
            group=self._tables[group][gradients],
        )  # fmt: skip
        return list(received.to(self.device).split(list(sizes)))

    def stage_group(self, stage: int) -> Group:
        return tuple(entry.rank for entry in self.roster if entry.stage == stage)

    def stages_group(self, stages: Iterable[int]) -> Group:
        return tuple(sorted(rank for stage in stages for rank in self.stage_group(stage)))

    def _connect(self, program: RankProgram) -> None:
        """NCCL connects a pair at its first message and both sides wait: do it in one order."""
        peers = {instruction.peer for instruction in program.instructions if instruction.peer >= 0}
        token = torch.zeros(1, device=self.device)
        for low, high in sorted((min(self.rank, p), max(self.rank, p)) for p in peers):
            for group, source in ((self._forward, low), (self._backward, high)):
                if self.rank == source:
                    dist.send(token, high if source == low else low, group=group)
                else:
                    dist.recv(token, source, group=group)

    # Messages between two ranks. Small tensors of a transfer travel together, as each message costs
    # some time of its own.

    def send(
        self, tensors: Sequence[Tensor], peer: int, micro_batch: int, gradient: bool = False
    ) -> None:
        """Starts to send; the tensors are kept until settle() or drain()."""
        home = self.device if self.backend == "nccl" else torch.device("cpu")
        group = self._backward if gradient else self._forward
        pending = self._pending.setdefault((peer, micro_batch), [])
        for number, bucket in enumerate(_buckets(tensors)):
            message = _packed([tensors[index].detach() for index in bucket]).to(home)
            tag = micro_batch * len(tensors) + number
            pending.append((dist.isend(message, peer, group=group, tag=tag), message))

    def receive(
        self,
        specs: Sequence[TensorSpec],
        samples: int,
        peer: int,
        micro_batch: int,
        gradient: bool = False,
    ) -> list[Tensor]:
        """Blocks until the tensors are here."""
        home = self.device if self.backend == "nccl" else torch.device("cpu")
        group = self._backward if gradient else self._forward
        shapes = [torch.empty(spec.shape(samples), dtype=spec.dtype, device="meta") for spec in specs]
        messages, works = [], []
        for number, bucket in enumerate(_buckets(shapes)):
            size = sum(shapes[index].numel() for index in bucket)
            message = torch.empty(size, dtype=shapes[bucket[0]].dtype, device=home)
            tag = micro_batch * len(specs) + number
            works.append(dist.irecv(message, peer, group=group, tag=tag))
            messages.append((bucket, message))
        for work in works:
            self._finish(work)
        found: dict[int, Tensor] = {}
        for bucket, message in messages:
            parts = message.to(self.device).split([shapes[index].numel() for index in bucket])
            for index, part in zip(bucket, parts, strict=True):
                found[index] = part.view(shapes[index].shape)
        return [found[index] for index in range(len(specs))]

    def _finish(self, work: dist.Work | None) -> None:
        """Gloo minds the timeout of a message only where it is given; NCCL has a watchdog."""
        if work is None:
            raise RuntimeFault(f"rank {self.rank} is not in the group of its messages")
        if self.backend == "gloo":
            work.wait(self._timeout)
        else:
            work.wait()

    def settle(self, peer: int, micro_batch: int) -> None:
        """The peer has answered for this micro-batch: what was sent for it can be let go."""
        for work, _ in self._pending.pop((peer, micro_batch), []):
            self._finish(work)

    def drain(self) -> None:
        for peer, micro_batch in list(self._pending):
            self.settle(peer, micro_batch)

    # Collectives.

    def sum(self, tensor: Tensor, group: Group) -> Tensor:
        """The sum over the group, on every member."""
        if len(group) < 2:
            return tensor
        total = tensor.clone()
        self._reduce(total, group)
        return total

    def _reduce(self, tensor: Tensor, group: Group) -> None:
        """Sums a contiguous tensor over the group, in place."""
        message = tensor.to("cpu") if self.staged else tensor
        dist.all_reduce(message, group=self._groups[group])
        if message is not tensor:
            tensor.copy_(message)

    def sum_in_place(self, tensors: list[Tensor], group: Group) -> None:
        """Sums each tensor over the group; small ones many in one message."""
        if len(group) < 2:
            return
        for bucket in _buckets(tensors):
            first = tensors[bucket[0]]
            if len(bucket) == 1 and first.is_contiguous():
                self._reduce(first, group)
                continue
            message = _packed([tensors[index] for index in bucket])
            self._reduce(message, group)
            parts = message.split([tensors[index].numel() for index in bucket])
            for index, part in zip(bucket, parts, strict=True):
                tensors[index].copy_(part.view_as(tensors[index]))

    def total(self, value: float) -> float:
        """The sum of one number over all ranks; also a barrier."""
        return self._combine(value, dist.ReduceOp.SUM)

    def largest(self, value: float) -> float:
        """The largest of the values of all ranks; also a barrier."""
        return self._combine(value, dist.ReduceOp.MAX)

    def _combine(self, value: float, how: Any) -> float:
        tensor = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(tensor, how)
        return float(tensor.item())

    def barrier(self) -> None:
        dist.barrier()

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, by rank."""
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def wait_for_rank0(self, value: T) -> T:
        """Waits, however long it takes, for the value of rank 0."""
        values = [value]
        dist.broadcast_object_list(values, 0, group=self._long_timeout)
        return values[0]

    def close(self) -> None:
        dist.destroy_process_group()


def _packed(tensors: Sequence[Tensor]) -> Tensor:
    """Their elements, flat; no copy of a single one that is contiguous."""
    if len(tensors) == 1:
        return tensors[0].contiguous().view(-1)
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _buckets(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Which tensors travel together: large ones each by itself, small ones of one type together, up
    to the bucket size. Depends on their sizes and types only."""
    small = [index for index, tensor in enumerate(tensors) if tensor.nbytes < _SMALL_BYTES]
    buckets = [[i] for i, tensor in enumerate(tensors) if tensor.nbytes >= _SMALL_BYTES]
    size, dtype = _BUCKET_BYTES, None
    for index in small:
        size += tensors[index].nbytes
        if tensors[index].dtype != dtype or size > _BUCKET_BYTES:
            buckets.append([])
            size, dtype = tensors[index].nbytes, tensors[index].dtype
        buckets[-1].append(index)
    return buckets
