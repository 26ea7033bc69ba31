"""Messages between the ranks of a Program, on torch.distributed.

Gloo carries them between CPUs, NCCL where every rank has a GPU of its own, all of one vendor;
otherwise tensors on a GPU are staged through the CPU. Activations and gradients travel in groups of
their own: NCCL matches the messages of two ranks by order, and in 1F1B the two directions interleave.
If a rank has parts of several stages, each stage boundary has a group of its own, too. Tensors that
stay on a rank are handed over as they are.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from .device_classes import CPU, class_of
from .errors import RuntimeFault
from .meeting import join
from .program import Instruction, RankProgram, TensorSpec
from .roster import Group, Roster, RosterEntry

T = TypeVar("T")
Message = tuple[int, int, int, bool]  # peer, boundary, micro-batch, whether a gradient

# Named anew in PyTorch 2.13.
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

_BUCKET_BYTES = 64 << 20
_SMALL_BYTES = 1 << 20  # larger tensors travel alone, without being copied


@dataclass(frozen=True)
class Receipt:
    """Tensors that are being received, `shapes` without data, and the messages that hold them."""

    shapes: list[Tensor]
    messages: list[tuple[list[int], Tensor]]  # indices of tensors
    works: list[dist.Work | None]


class Communicator:
    """Sends, receives and sums. Made by all ranks together, with the same timeout."""

    def __init__(
        self, program: RankProgram, device: torch.device, timeout: timedelta, store: dist.Store | None = None
    ) -> None:
        """`store`: of meet(); without it the ranks meet here."""
        self.rank, self.world_size = program.rank, program.world_size
        self.shard = program.shard
        self.device = device
        self._timeout = timeout
        self.waited = 0.0  # seconds so far that sums and gathers within passes took
        self._stages = program.stages
        self._boundaries = max(1, len(program.links))
        self._overlaps_transfers = program.overlaps_transfers
        self._pending: dict[Message, list[tuple[dist.Work | None, Tensor]]] = {}
        self._posted: dict[Message, Receipt] = {}
        self._kept: dict[Message, list[Tensor]] = {}  # from this rank to itself
        join(timeout, store)
        if (dist.get_rank(), dist.get_world_size()) != (self.rank, self.world_size):
            raise RuntimeFault(
                f"launched as rank {dist.get_rank()} of {dist.get_world_size()}; "
                f"the plan is for {self.world_size} ranks"
            )
        self.roster = Roster(self._exchange(program), self.rank)
        self.backend = self._common_backend()
        self._routes = [self._make_route() for _ in range(self._route_count())]
        self._long_timeout = dist.new_group(backend=CPU.backend, timeout=timedelta(days=7))
        self._groups: dict[Group, Any] = {}
        self._tables: dict[int, tuple[Any, Any]] = {}  # by stage
        self._beside: dict[int, Any] = {}  # by stage
        self._add_groups(self.roster.groups())
        self._add_groups_beside_passes()
        if self._direct:
            self._connect(program)

    def _exchange(self, program: RankProgram) -> list[RosterEntry]:
        index = class_of(self.device).place(self.device)
        place = None if index is None else (socket.gethostname(), index)
        groups = {instruction.group for instruction in program.instructions if instruction.group}
        listed = tuple(sorted(tuple(group) for group in groups))
        stages = tuple(part.stage for part in program.parts)
        beside = tuple(part.stage for part in program.parts if program.sums_beside_passes(part))
        build = "rocm" if torch.version.hip else "cuda"
        replicas = tuple(part.replica for part in program.parts)
        own = RosterEntry(self.rank, stages, place, listed, beside, build, replicas, self.shard)
        return self.gather(own)

    def _common_backend(self) -> str:
        places = [entry.place for entry in self.roster.entries]
        own_device_each = None not in places and len(set(places)) == len(places)
        one_build = len({entry.build for entry in self.roster.entries}) == 1
        backend = class_of(self.device).backend
        direct = own_device_each and one_build and dist.is_backend_available(backend)
        return backend if direct else CPU.backend

    def _route_count(self) -> int:
        """One for all stage boundaries, or one for each: gloo tells messages apart by their tags, and
        between ranks of one part each there is one boundary."""
        return 1 if self.roster.is_pipeline or not self._direct else self._boundaries

    def _make_route(self) -> tuple[Any, Any]:
        """Groups for activations and for gradients."""
        activations, gradients = (
            dist.new_group(timeout=self._timeout, backend=self.backend) for _ in range(2)
        )
        return activations, gradients

    def _route(self, boundary: int, gradient: bool) -> Any:
        return self._routes[boundary % len(self._routes)][gradient]

    @property
    def has_direct_messages(self) -> bool:
        """Whether tensors travel from device to device."""
        return self._direct

    @property
    def _direct(self) -> bool:
        return self.backend != CPU.backend

    @property
    def staged(self) -> bool:
        """True when tensors on the GPU travel through the CPU."""
        return class_of(self.device).place(self.device) is not None and not self._direct

    def _add_groups(self, groups: Iterable[Group]) -> None:
        """Every rank makes every group, in one order."""
        for group in sorted(set(groups) - self._groups.keys()):
            if len(group) > 1:
                self._groups[group] = dist.new_group(
                    list(group), timeout=self._timeout, backend=self.backend
                )

    def share_across_stages(self, stages: Iterable[tuple[int, ...]]) -> None:
        """Makes the groups of parameters that several stages use; all ranks call it alike."""
        listed = list(stages)
        for shard in self.roster.shards:
            self._add_groups(self.roster.stages_group(several, shard) for several in listed)
        self._add_groups(self.roster.all_shards_of(several) for several in listed)

    def share_tables(self, stages: Iterable[int]) -> None:
        """Makes the groups of stages with sparse tables; all ranks call it alike. Rows and their
        gradients are exchanged by two threads, hence over two groups."""
        for stage in stages:
            group = self.roster.stage_group(stage)
            if len(group) > 1:
                rows, gradients = (
                    dist.new_group(list(group), timeout=self._timeout, backend=self.backend)
                    for _ in range(2)
                )
                self._tables[stage] = (rows, gradients)

    def exchange(
        self, stage: int, gradients: bool, parts: Sequence[Tensor], sizes: Sequence[int]
    ) -> list[Tensor]:
        """Part i, flat, goes to the i-th member; what each member has for this rank is returned,
        `sizes` elements of it."""
        home = self.device if self._direct else torch.device("cpu")
        message = torch.cat([part.to(home) for part in parts])
        received = message.new_empty(sum(sizes))
        dist.all_to_all_single(
            received, message, list(sizes), [len(part) for part in parts],
            group=self._tables[stage][gradients],
        )  # fmt: skip
        return list(received.to(self.device).split(list(sizes)))

    def _add_groups_beside_passes(self) -> None:
        """Makes the groups of stages that sum gradients beside their backward passes, which have sums of
        their own."""
        for stage in sorted({stage for entry in self.roster.entries for stage in entry.beside}):
            for shard in self.roster.shards:
                group = list(self.roster.stage_group(stage, shard))
                if not group:  # replicas of the stage have fewer shards
                    continue
                made = dist.new_group(group, timeout=self._timeout, backend=self.backend)
                if shard == self.shard:
                    self._beside[stage] = made

    def start_reduce_scatter(self, stage: int, flat: Tensor) -> Callable[[], Tensor]:
        """Begins to sum a tensor over the ranks of a stage. The function that it returns waits for
        the slice of this rank: of equal ones in the order of the ranks."""
        message = flat.to("cpu") if self.staged else flat
        own = message.new_empty(len(message) // len(self.roster.stage_group(stage)))
        work = _reduce_scatter(own, message, group=self._beside[stage], async_op=True)

        def wait() -> Tensor:
            begin = time.perf_counter()
            self._finish(work)
            self.waited += time.perf_counter() - begin
            assert len(message) >= len(own)  # kept until here
            return own.to(self.device)

        return wait

    def all_gather(self, stage: int, whole: Tensor, own: Tensor) -> None:
        """Fills `whole` with the slices of the ranks of a stage."""
        slices = torch.empty_like(whole, device="cpu") if self.staged else whole
        begin = time.perf_counter()
        _all_gather(slices, own.to(slices.device), group=self._beside[stage])
        self.waited += time.perf_counter() - begin
        if slices is not whole:
            whole.copy_(slices)

    def _connect(self, program: RankProgram) -> None:
        """NCCL connects a pair at its first message and both sides wait: do it in one order."""
        pairs = {
            (instruction.boundary, *sorted((self.rank, instruction.peer)))
            for instruction in program.instructions
            if instruction.is_transfer and instruction.peer != self.rank
        }
        token = torch.zeros(1, device=self.device)
        for boundary, low, high in sorted(pairs):
            for gradient, source in ((False, low), (True, high)):
                group = self._route(boundary, gradient)
                if self.rank == source:
                    dist.send(token, high if source == low else low, group=group)
                else:
                    dist.recv(token, source, group=group)

    # Messages between two ranks. Small tensors of a transfer travel together, as each message costs
    # some time of its own.

    def send(self, tensors: Sequence[Tensor], instruction: Instruction) -> None:
        """Starts to send; the tensors are kept until settle() or drain()."""
        key = _message(instruction)
        if instruction.peer == self.rank:
            self._kept[key] = [tensor.detach() for tensor in tensors]
            return
        home = self.device if self._direct else torch.device("cpu")
        group = self._route(instruction.boundary, instruction.is_gradient)
        pending = self._pending.setdefault(key, [])
        for number, bucket in enumerate(_buckets(tensors)):
            message = _packed([tensors[index].detach() for index in bucket]).to(home)
            tag = self._tag(instruction, len(tensors), number)
            work = dist.isend(message, instruction.peer, group=group, tag=tag)
            pending.append((work, message))

    def post(self, specs: Sequence[TensorSpec], instruction: Instruction) -> None:
        """Begins to receive what receive() will wait for, so that it may travel meanwhile."""
        key = _message(instruction)
        if instruction.peer != self.rank and key not in self._posted:
            self._posted[key] = self._begin_receipt(specs, instruction)

    def receive(self, specs: Sequence[TensorSpec], instruction: Instruction) -> list[Tensor]:
        """Blocks until the tensors are here."""
        if instruction.peer == self.rank:
            return self._kept.pop(_message(instruction))
        receipt = self._posted.pop(_message(instruction), None)
        if receipt is None:
            receipt = self._begin_receipt(specs, instruction)
        for work in receipt.works:
            self._finish(work)
        self._settle_gradients(instruction)
        found: dict[int, Tensor] = {}
        for bucket, message in receipt.messages:
            parts = message.to(self.device).split([receipt.shapes[index].numel() for index in bucket])
            for index, part in zip(bucket, parts, strict=True):
                found[index] = part.view(receipt.shapes[index].shape)
        return [found[index] for index in range(len(specs))]

    def _begin_receipt(self, specs: Sequence[TensorSpec], instruction: Instruction) -> Receipt:
        home = self.device if self._direct else torch.device("cpu")
        group = self._route(instruction.boundary, instruction.is_gradient)
        samples = instruction.samples.count
        shapes = [torch.empty(spec.shape(samples), dtype=spec.dtype, device="meta") for spec in specs]
        messages, works = [], []
        for number, bucket in enumerate(_buckets(shapes)):
            size = sum(shapes[index].numel() for index in bucket)
            message = torch.empty(size, dtype=shapes[bucket[0]].dtype, device=home)
            tag = self._tag(instruction, len(specs), number)
            works.append(dist.irecv(message, instruction.peer, group=group, tag=tag))
            messages.append((bucket, message))
        return Receipt(shapes, messages, works)

    def _tag(self, instruction: Instruction, tensors: int, number: int) -> int:
        """The tag of the number-th message of a transfer; no two messages in flight have the same
        tag."""
        return (instruction.micro_batch * tensors + number) * self._boundaries + instruction.boundary

    def _finish(self, work: dist.Work | None) -> None:
        """Gloo minds the timeout of a message only where it is given; NCCL has a watchdog."""
        if work is None:
            raise RuntimeFault(f"rank {self.rank} is not in the group of its messages")
        if not self._direct:
            work.wait(self._timeout)
        else:
            work.wait()

    def settle(self, answer: Instruction) -> None:
        """Gradients came: the peer has what was sent to it for them, which can be let go."""
        peer, boundary, micro_batch, _ = _message(answer)
        self._let_go_of_replica((peer, boundary, micro_batch, False))

    def _settle_gradients(self, received: Instruction) -> None:
        """In a pipeline a stage b of S has S - b micro-batches in flight, or 2 (S - b) - 1 if transfers
        overlap: it sends the activations of another when it has the gradients of the one so many before."""
        if self.roster.is_pipeline and not received.is_gradient:
            left = self._stages - received.boundary
            before = received.micro_batch - (2 * left - 1 if self._overlaps_transfers else left)
            self._let_go_of_replica((received.peer, received.boundary, before, True))

    def _let_go_of_replica(self, key: Message) -> None:
        """One shard of a replica answers for all: where degrees are unequal, others got the same message."""
        peer, boundary, micro_batch, gradient = key
        for shard in self.roster.shards_with(peer):
            self._let_go((shard, boundary, micro_batch, gradient))

    def _let_go(self, key: Message) -> None:
        for work, _ in self._pending.pop(key, []):
            self._finish(work)

    def drain(self) -> None:
        for key in list(self._pending):
            self._let_go(key)

    # Collectives.

    def sum(self, tensor: Tensor, group: Group) -> Tensor:
        """The sum over the group, on every member."""
        if len(group) < 2:
            return tensor
        total = tensor.clone()
        begin = time.perf_counter()
        self._reduce(total, group)
        self.waited += time.perf_counter() - begin
        return total

    def _reduce(self, tensor: Tensor, group: Group) -> None:
        """Sums a contiguous tensor over the group, in place."""
        message = tensor.to("cpu") if self.staged else tensor
        dist.all_reduce(message, group=self._groups[group])
        if message is not tensor:
            tensor.copy_(message)

    def collect(self, tensor: Tensor, group: Group) -> list[Tensor]:
        """Returns the tensors of the members of a group, which have one shape."""
        message = (tensor.to("cpu") if self.staged else tensor).contiguous().view(-1)
        if message.dtype == torch.bool:
            message = message.view(torch.uint8)
        found = message.new_empty(len(group) * len(message))
        begin = time.perf_counter()
        _all_gather(found, message, group=self._groups[group])
        self.waited += time.perf_counter() - begin
        parts = found.view(tensor.dtype).to(self.device).split(tensor.numel())
        return [part.view(tensor.shape) for part in parts]

    def sum_own(self, flat: Tensor, group: Group) -> Tensor:
        """Returns this rank's slice of the sum of a flat tensor: of equal ones in the order of the
        group. The library of CPUs reduces all to scatter a part: there each rank adds the slices for it."""
        message = flat.to("cpu") if self.staged else flat
        begin = time.perf_counter()
        if self.backend == CPU.backend:
            slices = torch.empty_like(message)
            dist.all_to_all_single(slices, message, group=self._groups[group])
            own = slices.view(len(group), -1).sum(0)
        else:
            own = message.new_empty(len(message) // len(group))
            _reduce_scatter(own, message, group=self._groups[group])
        self.waited += time.perf_counter() - begin
        return own.to(self.device)

    def sum_in_place(self, tensors: list[Tensor], group: Group) -> None:
        """Sums each tensor over the group; small ones many in one message."""
        self.begin_sum(tensors, group)()

    def begin_sum(self, tensors: list[Tensor], group: Group) -> Callable[[], None]:
        """Starts an all-reduce in the background and returns a function that waits for it. The
        tensors are not to be used until then."""
        if len(group) < 2:
            return lambda: None
        return self._begin_sum(tensors, self._groups[group])

    def begin_sum_beside_passes(self, tensors: list[Tensor], stage: int) -> Callable[[], None]:
        """The same over the ranks of a stage whose backward pass goes on."""
        return self._begin_sum(tensors, self._beside[stage])

    def _begin_sum(self, tensors: list[Tensor], group: Any) -> Callable[[], None]:
        begun = []
        for bucket in _buckets(tensors):
            parts = [tensors[index] for index in bucket]
            message = _packed(parts)
            travels = message.to("cpu") if self.staged else message
            work = dist.all_reduce(travels, group=group, async_op=True)
            begun.append((parts, travels, work))
        return lambda: self._end_sum(begun)

    def _end_sum(self, begun: list[tuple[list[Tensor], Tensor, Any]]) -> None:
        for tensors, message, work in begun:
            self._finish(work)
            for tensor, part in zip(tensors, message.split([t.numel() for t in tensors]), strict=True):
                if tensor.data_ptr() != part.data_ptr():
                    tensor.copy_(part.view_as(tensor))

    def total(self, value: float) -> float:
        """The sum of one number over all ranks; also a barrier."""
        return self._combine(value, dist.ReduceOp.SUM)

    def largest(self, value: float) -> float:
        """The largest of the values of all ranks; also a barrier."""
        return self._combine(value, dist.ReduceOp.MAX)

    def totals_of(self, values: Sequence[float]) -> list[float]:
        """The sums over all ranks, each of several values."""
        return self._combined(values, dist.ReduceOp.SUM)

    def largest_of(self, values: Sequence[float]) -> list[float]:
        """The element-wise maximum of `values` over all ranks."""
        return self._combined(values, dist.ReduceOp.MAX)

    def _combine(self, value: float, how: Any) -> float:
        return self._combined([value], how)[0]

    def _combined(self, values: Sequence[float], how: Any) -> list[float]:
        tensor = torch.tensor(list(values), dtype=torch.float64)
        dist.all_reduce(tensor, how)
        return [float(value) for value in tensor.tolist()]

    def barrier(self) -> None:
        dist.barrier()

    def bring(self, tensor: Tensor, source: int) -> Tensor | None:
        """To rank 0, the tensor that rank `source` gives; on other ranks `tensor` has its shape and
        type, and nothing is returned."""
        if self.rank == 0 == source:
            return tensor
        if self.rank == source:
            dist.send(tensor.detach().to("cpu").contiguous(), 0)
            return None
        if self.rank:
            return None
        found = torch.empty_like(tensor, device="cpu")
        dist.recv(found, source)
        return found

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


def _message(instruction: Instruction) -> Message:
    return (
        instruction.peer, instruction.boundary, instruction.micro_batch, instruction.is_gradient
    )  # fmt: skip


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
