"""The passes of one part of a rank: its stage of the model, fed and answered by messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from .communication import Communicator
from .data import Batch, DataSource
from .dropout import Position
from .errors import RuntimeFault
from .loss_scale import LossScale
from .losses import Loss, Summed
from .micro_batch import STAND_IN, MicroBatch, Presence
from .precision import Precision
from .program import Instruction, Part, RankProgram, SampleRange, TensorSpec
from .trained_state import TrainedState


_RECEIVES = ("receive", "receiveGradient")

# Told the outputs of the model, the targets and the number of samples of a micro-batch.
Measure = Callable[[Any, Any, int], None]


class PartExecution:
    """Executes the instructions of one part, one for each call."""

    def __init__(
        self,
        program: RankProgram,
        part: Part,
        stage: nn.Module,
        communicator: Communicator,
        loss: Loss,
        trained: TrainedState,
        presence: Presence,
        position: Position,
        precision: Precision,
        channels_last: bool = False,
        scale: LossScale | None = None,
        runs: Callable[..., Any] | None = None,
    ) -> None:
        """`trained`: what the stage trains. `presence` is what its batch normalisation looks at, `position`
        what its dropout does. `runs`: its forward pass as other code runs it (--torch-compile)."""
        self.trained = trained
        self._is_last = program.is_last(part)
        self._stage: Any = stage
        self._runs: Callable[..., Any] = stage if runs is None else runs
        self._tables = trained.tables
        self._communicator = communicator
        self._loss = loss
        self._presence, self._position = presence, position
        self._precision = precision
        self._channels_last, self._scale = channels_last, scale
        self._counts_presence = False
        self.adopt(program, part)
        self._next_lookups = _next_lookups(program.instructions_of(part))
        self._step = 0
        self._losses: list[Tensor] = []
        self._denominators: list[float] = []
        self._measure: Measure | None = None  # while the model is evaluated
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
            "allReduce": trained.all_reduce,
            "gradientReduceScatter": trained.reduce_scatter,
            "reduceScatter": trained.reduce_scatter,
            "step": trained.update,
            "allGather": trained.all_gather,
        }

    def adopt(self, program: RankProgram, part: Part) -> None:
        """From now on `part` of `program`, which has other samples (and messages) than before."""
        self._program, self.part = program, part
        self._samples = program.samples_of(part)
        self._returns = Counter(
            i.micro_batch for i in program.instructions_of(part) if i.op == "sendGradient"
        )
        passes = [i.micro_batch for i in program.instructions_of(part) if i.op == "backward"]
        self._last_backward = passes[-1] if passes else None
        self._following = _following_receives(program, part)
        if self._counts_presence or all(own.count for own in self._samples.values()):
            return
        self._counts_presence = True
        for parameter in self._stage.parameters():
            parameter.register_hook(self._presence.counted)

    @property
    def sample_count(self) -> int:
        """Samples of an iteration."""
        return sum(own.count for own in self._samples.values())

    def samples(self, micro_batch: int) -> range:
        """Samples of the micro-batch that the part computes, counted within the global batch."""
        own = self._computed(micro_batch)
        first = min(self._program.sizes.first(micro_batch) + own.begin, self._program.global_batch - 1)
        return range(first, first + own.count)

    def prepare(self, step: int, instruction: Instruction, data: DataSource) -> None:
        """Takes the samples of a load instruction ahead of the step."""
        micro_batch = instruction.micro_batch
        self._prepared[micro_batch] = data.load(step, self.samples(micro_batch))

    def begin_evaluation(self, step: int, measure: Measure) -> None:
        """Passes the outputs of forward passes to `measure` from now on and trains nothing."""
        self.begin(step)
        self._stage.eval()
        self._measure = measure

    def bring_together(self) -> None:
        """Merges the state that replicas keep apart during training, before it is read. The call is
        collective."""
        self.trained.bring_together(self.sample_count / self._program.global_batch)

    def end_evaluation(self) -> None:
        self._stage.train()
        self._measure = None
        self._micro_batches = {}

    def begin(self, step: int) -> None:
        """Begins an iteration."""
        self.trained.begin()
        self._step = step
        self._losses, self._denominators = [], []
        self._micro_batches = {}

    def begin_training(self, step: int) -> None:
        """Begins an iteration that trains. If transfers overlap, the receives of each direction are posted
        one micro-batch ahead."""
        self.begin(step)
        for op in _RECEIVES:
            self._post_behind(op, None)

    def passes_of_step(self) -> AbstractContextManager[object]:
        """Around the passes of a step. Segments that are computed again keep no rounded weights, and what is
        gathered is there for one pass."""
        if self.part.recompute or self.part.gathers_parameters:
            return nullcontext()
        return self._precision.step(self._communicator.device)

    def _post_behind(self, op: str, micro_batch: int | None) -> None:
        """Posts the receives of the micro-batch behind `micro_batch`; None: of the first."""
        if self._measure is not None:
            return
        for instruction in self._following.get((op, micro_batch), ()):
            moved = self._moved(instruction)
            self._communicator.post([spec for _, spec in moved], instruction)

    def _moved(self, instruction: Instruction) -> list[tuple[int, TensorSpec]]:
        """The tensors that a receive brings, with their indices."""
        if instruction.is_gradient:
            return _differentiable(self.part.sends, instruction)
        return _crossing(self.part.receives, instruction)

    def execute(self, instruction: Instruction) -> None:
        self._presence.absent = not self._own(instruction.micro_batch).count
        idle = self._presence.absent and not self._presence.together
        if not idle or instruction.op not in ("forward", "backward"):
            self._handlers[instruction.op](instruction)

    @property
    def loss(self) -> float:
        """This part's part of the loss of the global batch so far. The first of the shards of a replica
        states that of the replica."""
        return 0.0 if self.part.shard else sum(float(loss) for loss in self._losses)

    @property
    def denominator(self) -> float | None:
        """The denominator of the losses so far, as of `loss`; None if they are means over samples."""
        counted = 0.0 if self.part.shard else sum(self._denominators)
        return counted if self._denominators else None

    def close(self) -> None:
        """Ends the thread that fetches rows."""
        if self._tables is not None:
            self._tables.close()

    def _own(self, micro_batch: int) -> SampleRange:
        """The samples of a micro-batch that the part has."""
        return self._samples.get(micro_batch, self.part.samples)

    def _computed(self, micro_batch: int) -> SampleRange:
        """The samples that the part computes."""
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
        return self._prepared.pop(micro_batch).to(self._communicator.device)

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
        crossing = self._moved(instruction)
        self._post_behind(instruction.op, instruction.micro_batch)
        tensors = self._communicator.receive([spec for _, spec in crossing], instruction)
        for (index, _), tensor in zip(crossing, tensors, strict=True):
            state.received[index].append((instruction.samples.begin, tensor))

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
        self._position.step = self._step
        self._position.first_sample = self.samples(instruction.micro_batch).start
        inputs = self._inputs(self._loaded(instruction.micro_batch)) if self._stage.inputs else []
        gathering = self.trained.forward(keeps=not self.part.recompute)
        with self._precision.forward(self._communicator.device), gathering:
            state.outputs = tuple(self._runs(*map(self._laid_out, (*state.leaves, *inputs))))
        if not self._is_last:
            self._prepare_sends(state, samples)
        elif self._measure is not None:
            own = self._own(instruction.micro_batch).count
            if own and not self.part.shard:
                self._measure(state.outputs, self._targets(state), own)

    def _laid_out(self, tensor: Tensor) -> Tensor:
        """Images in the memory format of the plan, which convolutions and what follows them keep."""
        if not self._channels_last or tensor.dim() != 4 or not tensor.is_floating_point():
            return tensor
        return tensor.contiguous(memory_format=torch.channels_last)

    def _prepare_sends(self, state: MicroBatch, samples: int) -> None:
        """Outputs travel in the types that the plan states."""
        specs = self.part.sends
        state.outputs = tuple(
            spec.restored(output).contiguous()
            for spec, output in zip(specs, state.outputs, strict=True)
        )
        for spec, output in zip(specs, state.outputs, strict=True):
            spec.check(output, samples)
        state.output_gradients = [None] * len(state.outputs)
        if self._presence.absent:
            for index, spec in enumerate(self.part.sends):
                if spec.differentiable:
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
            spec.slice(outputs[index], own, instruction.samples)
            for index, spec in _crossing(self.part.sends, instruction)
        ]
        self._communicator.send(parts, instruction)

    def _receive_gradient(self, instruction: Instruction) -> None:
        state = self._state(instruction)
        part, own = instruction.samples, self._own(instruction.micro_batch)
        moved = self._moved(instruction)
        self._post_behind(instruction.op, instruction.micro_batch)
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
        if instruction.micro_batch == self._last_backward:
            self.trained.begin_last_backward()
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
        if not self._returns[instruction.micro_batch]:  # other shards send them
            state.input_gradients = []

    def _backward_from_loss(self, state: MicroBatch, samples: int) -> None:
        with self._precision.forward(self._communicator.device):
            loss = self._weighed(self._loss.function(state.outputs, self._targets(state)), samples)
        if samples:
            self._losses.append(loss.detach())
        if not loss.requires_grad:
            raise RuntimeFault(
                f"--loss {self._loss.name}: the loss has no gradient, so that nothing would be trained; compute it "
                "from an output of the model that has one, without detach() or operations on integers"
            )
        torch.autograd.backward(loss if self._scale is None else loss * self._scale.factor)

    def _targets(self, state: MicroBatch) -> Any:
        if state.batch is None:
            raise RuntimeFault("the last stage has not loaded the targets")
        return state.batch.targets

    def _weighed(self, loss: Tensor | Summed, samples: int) -> Tensor:
        """As if the denominator of the global batch were its samples; none of it counts where there are
        no samples."""
        if not isinstance(loss, Summed):
            return loss * (samples / self._program.global_batch)
        if samples:
            self._denominators.append(loss.denominator)
        return loss.total * (bool(samples) / self._program.global_batch)

    def _send_gradient(self, instruction: Instruction) -> None:
        state = self._state(instruction)
        own, part = self._own(instruction.micro_batch), instruction.samples
        gradients = [
            self._gradient_slice(spec, state.input_gradients[index], own, part)
            for index, spec in _differentiable(self.part.receives, instruction)
        ]
        self._communicator.send(gradients, instruction)
        state.returned += 1
        if state.returned == self._returns[instruction.micro_batch]:
            del self._micro_batches[instruction.micro_batch]

    def _gradient_slice(
        self, spec: TensorSpec, whole: Tensor, own: SampleRange, part: SampleRange
    ) -> Tensor:
        """The gradient of a tensor that has no samples goes to the first peer, once: the peers are
        replicas, whose gradients are summed."""
        if spec.batch_axis is None and part.begin != own.begin:
            return torch.zeros_like(whole)
        return spec.slice(whole, own, part)


def _crossing(
    specs: Sequence[TensorSpec], instruction: Instruction
) -> list[tuple[int, TensorSpec]]:
    """The tensors of a transfer, with their indices."""
    boundaries = (None, instruction.boundary)
    return [(index, spec) for index, spec in enumerate(specs) if spec.boundary in boundaries]


def _differentiable(
    specs: Sequence[TensorSpec], instruction: Instruction
) -> list[tuple[int, TensorSpec]]:
    """The boundary tensors whose gradients are sent back."""
    return [entry for entry in _crossing(specs, instruction) if entry[1].differentiable]


def _following_receives(
    program: RankProgram, part: Part
) -> dict[tuple[str, int | None], list[Instruction]]:
    """By kind and micro-batch: the receives of the micro-batch behind it, and behind None those of the first.
    Empty unless transfers overlap."""
    found: dict[tuple[str, int | None], list[Instruction]] = {}
    for op in _RECEIVES if program.overlaps_transfers else ():
        receives: dict[int, list[Instruction]] = {}
        for instruction in program.instructions_of(part):
            if instruction.op == op:
                receives.setdefault(instruction.micro_batch, []).append(instruction)
        for before, own in zip([None, *receives], receives.values(), strict=False):
            found[op, before] = own
    return found


def _next_lookups(instructions: Sequence[Instruction]) -> dict[int, int | None]:
    """By micro-batch: the one whose rows are looked up after its own."""
    order = [i.micro_batch for i in instructions if i.op == "lookup"]
    return dict(zip(order, [*order[1:], None], strict=False))
