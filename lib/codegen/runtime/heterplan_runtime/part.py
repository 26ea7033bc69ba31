"""The passes of one part of a rank: its stage of the model, and what it holds of each micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .communication import Communicator
from .data import Batch, DataSource
from .errors import RuntimeFault
from .losses import Loss
from .optimizer_state import begin_at, steps_of
from .sharded_state import ShardedState
from .state_check import StateEntry, optimizer_entries, stage_values, table_entries
from .program import Instruction, Part, RankProgram, SampleRange, TensorSpec
from .tables import LookedUp, Tables


STAND_IN = SampleRange(0, 1)


@dataclass
class Presence:
    """Whether a part has samples of the micro-batch in hand. Where it has none it computes the first
    sample of the micro-batch instead, so that it takes part in what the replicas do together; nothing
    of that counts. (Rows of tables that this sample reads are read by the replica that has it, too.)"""

    absent: bool = False

    def counted(self, tensor: Tensor) -> Tensor:
        return torch.zeros_like(tensor) if self.absent else tensor


@dataclass
class MicroBatch:
    """What a part holds of a micro-batch between its instructions."""

    batch: Batch | None = None
    received: list[list[tuple[int, Tensor]]] = field(default_factory=list)  # by tensor: begin, part
    leaves: list[Tensor] = field(default_factory=list)  # received tensors, whole
    rows: LookedUp | None = None  # of the tables
    outputs: tuple[Tensor, ...] = ()
    output_gradients: list[Tensor | None] = field(default_factory=list)
    input_gradients: list[Tensor] = field(default_factory=list)
    returned: int = 0  # samples whose input gradients are sent


def dense_parameters(stage: nn.Module) -> list[nn.Parameter]:
    """All but the sparse tables."""
    tables = getattr(stage, "tables_spec", {})
    return [value for key, value in stage.named_parameters() if key not in tables]


def make_optimizer(
    name: str, parameters: list[nn.Parameter], rate: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer | None:
    """None where there are no parameters."""
    if not parameters:
        return None
    if name == "adam":
        return torch.optim.AdamW(parameters, lr=rate, weight_decay=weight_decay)
    momentum = 0.9 if name == "momentum" else 0.0
    return torch.optim.SGD(parameters, lr=rate, momentum=momentum, weight_decay=weight_decay)


class PartExecution:
    """Executes the instructions of one part, each when it is told to."""

    def __init__(
        self,
        program: RankProgram,
        part: Part,
        stage: nn.Module,
        communicator: Communicator,
        data: DataSource,
        loss: Loss,
        optimizer: torch.optim.Optimizer | None,
        tables: Tables | None = None,
        state: ShardedState | None = None,
        presence: Presence | None = None,
    ) -> None:
        """`state`: where the replicas of the stage divide that of the optimizer. `presence`: that its
        batch normalisation looks at, too."""
        self._program = program
        self.part = part
        self._is_last = program.is_last(part)
        self._stage: Any = stage
        self._parameters = dict(stage.named_parameters())
        self._communicator = communicator
        self._data = data
        self._loss = loss
        self._optimizer = optimizer
        self._tables = tables
        self._sharded = state
        self._samples = program.samples_of(part)
        self._presence = presence or Presence()
        if not all(own.count for own in self._samples.values()):
            for parameter in self._parameters.values():
                parameter.register_hook(self._presence.counted)
        self._next_lookups = _next_lookups(program.instructions_of(part))
        self._step = 0
        self._losses: list[Tensor] = []
        self._end_sum: Callable[[], None] | None = None  # of gradients, where it is under way
        self._prepared: dict[int, Batch] = {}
        self._micro_batches: dict[int, MicroBatch] = {}
        self._handlers: dict[str, Callable[[Instruction], None]] = {
            "load": self._load,
            "lookup": self._look_up,
            "receive": self._receive,
            "forward": self._forward,
            "send": self._send,
            "receiveGradient": self._receive_gradient,
            "backward": self._backward,
            "lookupGradient": self._push_row_gradients,
            "sendGradient": self._send_gradient,
            "allReduce": self._all_reduce,
            "gradientReduceScatter": self._reduce_scatter,
            "reduceScatter": self._reduce_scatter,
            "step": self._update,
            "allGather": self._all_gather,
        }

    def prepare(self, step: int, instruction: Instruction) -> None:
        """Makes or reads the samples of a load instruction ahead of the step."""
        self._step = step
        micro_batch = instruction.micro_batch
        own = self._computed(micro_batch)
        first = self._program.sizes.first(micro_batch) + own.begin
        self._prepared[micro_batch] = self._data.load(step, range(first, first + own.count))

    def begin(self) -> None:
        """Of an iteration."""
        self._losses = []
        self._micro_batches = {}

    def execute(self, instruction: Instruction) -> None:
        self._presence.absent = not self._own(instruction.micro_batch).count
        self._handlers[instruction.op](instruction)

    @property
    def loss(self) -> float:
        """This part's part of the loss of the global batch so far."""
        return sum(float(loss) for loss in self._losses)

    def close(self) -> None:
        """Ends the thread that fetches rows."""
        if self._tables is not None:
            self._tables.close()

    def _own(self, micro_batch: int) -> SampleRange:
        """The samples of a micro-batch that the part has."""
        return self._samples.get(micro_batch, self.part.samples)

    def _computed(self, micro_batch: int) -> SampleRange:
        """Those that it computes."""
        own = self._own(micro_batch)
        return own if own.count else STAND_IN

    def _state(self, instruction: Instruction) -> MicroBatch:
        return self._micro_batches.setdefault(instruction.micro_batch, MicroBatch())

    def _load(self, instruction: Instruction) -> None:
        self._loaded(instruction.micro_batch)

    def _loaded(self, micro_batch: int) -> Batch:
        state = self._micro_batches.setdefault(micro_batch, MicroBatch())
        if state.batch is None:
            state.batch = self._load_batch(micro_batch)
        return state.batch

    def _load_batch(self, micro_batch: int) -> Batch:
        batch = self._prepared.pop(micro_batch)
        device = self._communicator.device
        inputs = {name: tensor.to(device) for name, tensor in batch.inputs.items()}
        targets = batch.targets.to(device) if isinstance(batch.targets, Tensor) else batch.targets
        return Batch(inputs, targets)

    def _look_up(self, instruction: Instruction) -> None:
        """Fetches rows, and begins to fetch those of the next micro-batch of this step."""
        assert self._tables is not None
        self._start_lookup(instruction.micro_batch)
        following = self._next_lookups[instruction.micro_batch]
        if following is not None:
            self._start_lookup(following)
        self._state(instruction).rows = self._tables.finish(instruction.micro_batch)

    def _start_lookup(self, micro_batch: int) -> None:
        assert self._tables is not None
        self._tables.start(
            micro_batch, lambda: self._stage.indices(*self._inputs(self._loaded(micro_batch)))
        )

    def _push_row_gradients(self, instruction: Instruction) -> None:
        state = self._state(instruction)
        assert self._tables is not None and state.rows is not None
        for leaf in state.rows.leaves if self._presence.absent else ():
            leaf.grad = None
        self._tables.push_gradients(state.rows)
        state.rows = None

    def _receive(self, instruction: Instruction) -> None:
        specs = self.part.receives
        state = self._state(instruction)
        state.received = state.received or [[] for _ in specs]
        tensors = self._communicator.receive(specs, instruction)
        for parts, tensor in zip(state.received, tensors, strict=True):
            parts.append((instruction.samples.begin, tensor))

    def _forward(self, instruction: Instruction) -> None:
        state = self._state(instruction)
        samples = self._computed(instruction.micro_batch).count
        if self._presence.absent:
            state.received = [[(0, self._stand_in(spec))] for spec in self.part.receives]
        state.leaves = [
            self._assemble(spec, parts, samples)
            for spec, parts in zip(self.part.receives, state.received, strict=True)
        ]
        state.received = []
        if state.rows is not None:
            self._stage.lookup = state.rows.take
        inputs = self._inputs(self._loaded(instruction.micro_batch)) if self._stage.inputs else []
        state.outputs = tuple(self._stage(*state.leaves, *inputs))
        if self._is_last:
            return
        for spec, output in zip(self.part.sends, state.outputs, strict=True):
            spec.check(output, samples)
        state.output_gradients = [None] * len(state.outputs)
        if self._presence.absent:
            for index, _ in _differentiable(self.part.sends):
                state.output_gradients[index] = torch.zeros_like(state.outputs[index])

    def _inputs(self, batch: Batch) -> list[Tensor]:
        return [batch.inputs[name] for name in self._stage.inputs]

    def _stand_in(self, spec: TensorSpec) -> Tensor:
        shape = spec.shape(STAND_IN.count)
        return torch.zeros(shape, dtype=spec.dtype, device=self._communicator.device)

    def _assemble(self, spec: TensorSpec, parts: list[tuple[int, Tensor]], samples: int) -> Tensor:
        """The parts in sample order; of a tensor that has no samples, the first one."""
        tensors = [tensor for _, tensor in sorted(parts, key=lambda part: part[0])]
        axis = spec.batch_axis
        whole = tensors[0] if axis is None or len(tensors) == 1 else torch.cat(tensors, axis)
        spec.check(whole, samples)
        return whole.requires_grad_(spec.differentiable)

    def _send(self, instruction: Instruction) -> None:
        outputs, own = self._state(instruction).outputs, self._own(instruction.micro_batch)
        parts = [
            spec.slice(output, own, instruction.samples)
            for spec, output in zip(self.part.sends, outputs, strict=True)
        ]
        self._communicator.send(parts, instruction)

    def _receive_gradient(self, instruction: Instruction) -> None:
        state = self._state(instruction)
        part, own = instruction.samples, self._own(instruction.micro_batch)
        moved = _differentiable(self.part.sends)
        gradients = self._communicator.receive([spec for _, spec in moved], instruction)
        for (index, spec), gradient in zip(moved, gradients, strict=True):
            whole = state.output_gradients[index]
            if whole is None:
                whole = torch.zeros_like(state.outputs[index], requires_grad=False)
                state.output_gradients[index] = whole
            spec.slice(whole, own, part).add_(gradient)
        self._communicator.settle(instruction)

    def _backward(self, instruction: Instruction) -> None:
        state = self._state(instruction)
        if self._is_last:
            self._backward_from_loss(state, self._own(instruction.micro_batch).count)
        else:
            pairs = [
                (output, gradient)
                for output, gradient in zip(state.outputs, state.output_gradients, strict=True)
                if gradient is not None and output.requires_grad
            ]
            if pairs:
                torch.autograd.backward([p[0] for p in pairs], [p[1] for p in pairs])
        state.input_gradients = [
            torch.zeros_like(leaf, requires_grad=False) if leaf.grad is None else leaf.grad
            for leaf in state.leaves
        ]
        state.outputs, state.output_gradients, state.leaves, state.batch = (), [], [], None

    def _backward_from_loss(self, state: MicroBatch, samples: int) -> None:
        if state.batch is None:
            raise RuntimeFault("the last stage has not loaded the targets")
        part = samples / self._program.global_batch
        loss = self._loss.function(state.outputs, state.batch.targets) * part
        if samples:
            self._losses.append(loss.detach())
        if loss.requires_grad:
            torch.autograd.backward(loss)

    def _send_gradient(self, instruction: Instruction) -> None:
        state = self._state(instruction)
        own, part = self._own(instruction.micro_batch), instruction.samples
        gradients = [
            self._gradient_slice(spec, state.input_gradients[index], own, part)
            for index, spec in _differentiable(self.part.receives)
        ]
        self._communicator.send(gradients, instruction)
        state.returned += part.count
        if state.returned >= own.count:
            del self._micro_batches[instruction.micro_batch]

    def _gradient_slice(
        self, spec: TensorSpec, whole: Tensor, own: SampleRange, part: SampleRange
    ) -> Tensor:
        """The gradient of a tensor that has no samples goes to the first peer, once: the peers are
        replicas, whose gradients are summed."""
        if spec.batch_axis is None and part.begin != own.begin:
            return torch.zeros_like(whole)
        return spec.slice(whole, own, part)

    def gradient(self, name: str) -> Tensor:
        """Of a parameter; zeros where it took no part."""
        return _gradient(self._parameters[name])

    @property
    def has_whole_gradients(self) -> bool:
        """Whether the gradient of a parameter that several stages use is, before they sum it, the sum
        over the replicas already, rather than the part of this one."""
        return self._sharded is None

    def _all_reduce(self, instruction: Instruction) -> None:
        """Begins it: passes of other parts may follow."""
        gradients = [_gradient(parameter) for parameter in self._parameters.values()]
        self._end_sum = self._communicator.begin_sum(gradients, instruction.group)

    def end_sum(self) -> None:
        """The gradients are summed from here on."""
        if self._end_sum is not None:
            self._end_sum()
            self._end_sum = None

    def _reduce_scatter(self, instruction: Instruction) -> None:
        assert self._sharded is not None
        self._sharded.reduce_scatter()

    def _all_gather(self, instruction: Instruction) -> None:
        assert self._sharded is not None
        self._sharded.all_gather()

    def _update(self, instruction: Instruction) -> None:
        if self._sharded is not None:
            self._sharded.take_shared()
        if self._optimizer is not None:
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        if self._tables is not None:
            self._tables.step()

    def state_entries(self) -> list[StateEntry]:
        """Of the training so far: parameters, buffers, and what this rank keeps for the optimizer."""
        stage = self.part.stage
        entries = stage_values(stage, self._stage)
        for name, tensor, begin, part in self._updated() if self._optimizer else ():
            state = self._optimizer.state[tensor]
            entries += optimizer_entries(stage, name, state, begin, part)
        if self._tables is not None:
            entries += table_entries(stage, self._tables)
        return entries

    def set_rate(self, rate: float) -> None:
        """The learning rate from now on."""
        for group in self._optimizer.param_groups if self._optimizer is not None else ():
            group["lr"] = rate
        if self._tables is not None:
            self._tables.set_rate(rate)

    def gradients(self) -> Iterator[tuple[str, Tensor, bool]]:
        """That the next update takes: the parameter ("": parts of several), and whether the replicas of the
        stage have each a part rather than all of it."""
        whole = self._parameters
        if self._sharded is not None:
            whole = self._sharded.shared_parameters()
            yield from (("", each.grad, True) for each in self._sharded.slices if each.grad is not None)
        yield from (
            (name, parameter.grad, False)
            for name, parameter in whole.items()
            if parameter.grad is not None
        )
        if self._tables is not None:
            yield from (("", gradient, True) for gradient in self._tables.gradients())

    def is_divided(self, name: str, kind: str) -> bool:
        """Whether the replicas of the stage have each a part of this state, rather than all of it."""
        tables = (table.name for table in self.part.tables)
        return name in tables or (self._sharded is not None and kind != "value")

    def updates(self) -> dict[str, int]:
        """How often each parameter was updated, where the optimizer keeps anything of it."""
        counts: dict[str, int] = {}
        if self._optimizer is not None:
            counts = steps_of(self._optimizer, [each[:2] for each in self._updated()])
        return counts | (self._tables.updates() if self._tables is not None else {})

    def begin_at(self, updates: Mapping[str, int]) -> None:
        """Makes the state of the optimizer as it is after so many updates, to be filled."""
        if self._optimizer is not None:
            updated = [each[:2] for each in self._updated()]
            begin_at(self._optimizer, self._program.optimizer, updated, updates)
        if self._tables is not None:
            self._tables.begin_at(updates)

    def _updated(self) -> Iterator[tuple[str, Tensor, int, slice]]:
        """What the optimizer updates: parameter, tensor, and elements of the one from `begin` on that
        are `part` of the other."""
        if self._sharded is None:
            for name, parameter in self._parameters.items():
                yield name, parameter, 0, slice(None)
            return
        for owned in self._sharded.owned():
            end = owned.offset + owned.end - owned.begin
            yield owned.name, owned.slice, owned.begin, slice(owned.offset, end)


def _gradient(parameter: nn.Parameter) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _differentiable(specs: Sequence[TensorSpec]) -> list[tuple[int, TensorSpec]]:
    """The tensors whose gradients travel back, with their indices."""
    return [(index, spec) for index, spec in enumerate(specs) if spec.differentiable]


def _next_lookups(instructions: Sequence[Instruction]) -> dict[int, int | None]:
    """By micro-batch: the one whose rows are looked up after its own."""
    order = [i.micro_batch for i in instructions if i.op == "lookup"]
    return dict(zip(order, [*order[1:], None], strict=False))
