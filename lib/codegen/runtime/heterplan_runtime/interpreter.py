"""Executes the instructions of one rank, in order, on one stage of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .communication import Communicator
from .data import Batch, DataSource
from .errors import RuntimeFault
from .losses import Loss
from .program import Instruction, RankProgram, SampleRange, TensorSpec
from .recorder import Recorder
from .tables import LookedUp, Tables


@dataclass
class MicroBatch:
    """What a rank holds of a micro-batch between its instructions."""

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
    name: str, parameters: list[nn.Parameter], rate: float
) -> torch.optim.Optimizer | None:
    """None where there are no parameters."""
    if not parameters:
        return None
    if name == "adam":
        return torch.optim.Adam(parameters, lr=rate)
    return torch.optim.SGD(parameters, lr=rate, momentum=0.9 if name == "momentum" else 0.0)


class Interpreter:
    def __init__(
        self,
        program: RankProgram,
        stage: nn.Module,
        communicator: Communicator,
        data: DataSource,
        loss: Loss,
        optimizer: torch.optim.Optimizer | None,
        recorder: Recorder,
        shared: dict[str, tuple[int, ...]],
        tables: Tables | None = None,
    ) -> None:
        self._program = program
        self._stage: Any = stage
        self._communicator = communicator
        self._data = data
        self._loss = loss
        self._optimizer = optimizer
        self._recorder = recorder
        self._tables = tables
        self._next_lookups = _next_lookups(program)
        self._shared = {name: stages for name, stages in shared.items() if program.stage in stages}
        self._step = 0
        self._losses: list[Tensor] = []
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
            "step": self._update,
        }

    def prepare(self, step: int) -> None:
        """Makes or reads the samples of `step`, so that no pass waits for them: an input pipeline
        works ahead of the training."""
        self._step = step
        for index, instruction in enumerate(self._program.instructions):
            if instruction.op == "load":
                with self._located(index, instruction):
                    batch = self._read_batch(instruction.micro_batch)
                self._prepared[instruction.micro_batch] = batch

    def run_step(self, step: int) -> float:
        """One iteration, after prepare(); returns this rank's part of the loss of the global
        batch."""
        self._step = step
        self._losses = []
        self._micro_batches = {}
        for index, instruction in enumerate(self._program.instructions):
            with self._located(index, instruction), self._recorder.instruction(index, instruction):
                self._handlers[instruction.op](instruction)
        self._communicator.drain()
        return sum(float(loss) for loss in self._losses)

    def close(self) -> None:
        """Ends the thread that fetches rows."""
        if self._tables is not None:
            self._tables.close()

    def _located(self, index: int, instruction: Instruction) -> _Located:
        return _Located(self._program, self._step, index, instruction)

    def _state(self, instruction: Instruction) -> MicroBatch:
        return self._micro_batches.setdefault(instruction.micro_batch, MicroBatch())

    def _load(self, instruction: Instruction) -> None:
        self._loaded(instruction.micro_batch)

    def _loaded(self, micro_batch: int) -> Batch:
        state = self._micro_batches.setdefault(micro_batch, MicroBatch())
        if state.batch is None:
            state.batch = self._load_batch(micro_batch)
        return state.batch

    def _read_batch(self, micro_batch: int) -> Batch:
        program = self._program
        first = micro_batch * program.micro_batch_samples + program.samples.begin
        return self._data.load(self._step, range(first, first + program.samples.count))

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
        self._tables.push_gradients(state.rows)
        state.rows = None

    def _receive(self, instruction: Instruction) -> None:
        specs, part = self._program.receives, instruction.samples
        state = self._state(instruction)
        state.received = state.received or [[] for _ in specs]
        tensors = self._communicator.receive(
            specs, part.count, instruction.peer, instruction.micro_batch
        )
        for parts, tensor in zip(state.received, tensors, strict=True):
            parts.append((part.begin, tensor))

    def _forward(self, instruction: Instruction) -> None:
        state = self._state(instruction)
        state.leaves = [
            self._assemble(spec, parts)
            for spec, parts in zip(self._program.receives, state.received, strict=True)
        ]
        state.received = []
        if state.rows is not None:
            self._stage.lookup = state.rows.take
        inputs = self._inputs(self._loaded(instruction.micro_batch)) if self._stage.inputs else []
        state.outputs = tuple(self._stage(*state.leaves, *inputs))
        if self._program.is_last:
            return
        for spec, output in zip(self._program.sends, state.outputs, strict=True):
            spec.check(output, self._program.samples.count)
        state.output_gradients = [None] * len(state.outputs)

    def _inputs(self, batch: Batch) -> list[Tensor]:
        return [batch.inputs[name] for name in self._stage.inputs]

    def _assemble(self, spec: TensorSpec, parts: list[tuple[int, Tensor]]) -> Tensor:
        """The parts in sample order; of a tensor that has no samples, the first one."""
        tensors = [tensor for _, tensor in sorted(parts, key=lambda part: part[0])]
        axis = spec.batch_axis
        whole = tensors[0] if axis is None or len(tensors) == 1 else torch.cat(tensors, axis)
        spec.check(whole, self._program.samples.count)
        return whole.requires_grad_(spec.differentiable)

    def _send(self, instruction: Instruction) -> None:
        outputs, own = self._state(instruction).outputs, self._program.samples
        parts = [
            spec.slice(output, own, instruction.samples)
            for spec, output in zip(self._program.sends, outputs, strict=True)
        ]
        self._communicator.send(parts, instruction.peer, instruction.micro_batch)

    def _receive_gradient(self, instruction: Instruction) -> None:
        state = self._state(instruction)
        part, own = instruction.samples, self._program.samples
        moved = _differentiable(self._program.sends)
        gradients = self._communicator.receive(
            [spec for _, spec in moved], part.count, instruction.peer, instruction.micro_batch,
            gradient=True,
        )  # fmt: skip
        for (index, spec), gradient in zip(moved, gradients, strict=True):
            whole = state.output_gradients[index]
            if whole is None:
                whole = torch.zeros_like(state.outputs[index], requires_grad=False)
                state.output_gradients[index] = whole
            spec.slice(whole, own, part).add_(gradient)
        self._communicator.settle(instruction.peer, instruction.micro_batch)

    def _backward(self, instruction: Instruction) -> None:
        state = self._state(instruction)
        if self._program.is_last:
            self._backward_from_loss(state)
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

    def _backward_from_loss(self, state: MicroBatch) -> None:
        if state.batch is None:
            raise RuntimeFault("the last stage has not loaded the targets")
        part = self._program.samples.count / self._program.global_batch
        loss = self._loss.function(state.outputs, state.batch.targets) * part
        self._losses.append(loss.detach())
        if loss.requires_grad:
            torch.autograd.backward(loss)

    def _send_gradient(self, instruction: Instruction) -> None:
        state = self._state(instruction)
        own, part = self._program.samples, instruction.samples
        gradients = [
            self._gradient_slice(spec, state.input_gradients[index], own, part)
            for index, spec in _differentiable(self._program.receives)
        ]
        self._communicator.send(
            gradients, instruction.peer, instruction.micro_batch, gradient=True
        )
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

    def _gradients(self) -> dict[str, Tensor]:
        """Gradients by parameter name; zeros where a parameter took no part."""
        gradients = {}
        for name, parameter in self._stage.named_parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradients[name] = parameter.grad
        return gradients

    def _all_reduce(self, instruction: Instruction) -> None:
        if len(instruction.group) > 1:
            self._communicator.sum_in_place(list(self._gradients().values()), instruction.group)

    def _update(self, instruction: Instruction) -> None:
        if self._shared:
            self._sum_shared()
        if self._optimizer is not None:
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        if self._tables is not None:
            self._tables.step()

    def _sum_shared(self) -> None:
        """A parameter that several stages use: each stage has its part of the gradient, the same
        on all its replicas, of which the first speaks for it."""
        gradients = self._gradients()
        for name, stages in self._shared.items():
            group = self._communicator.stages_group(stages)
            speaks = self._communicator.stage_group(self._program.stage)[0] == self._program.rank
            gradient = gradients[name]
            total = self._communicator.sum(
                gradient if speaks else torch.zeros_like(gradient), group
            )
            gradient.copy_(total)


def _differentiable(specs: Sequence[TensorSpec]) -> list[tuple[int, TensorSpec]]:
    """The tensors whose gradients travel back, with their indices."""
    return [(index, spec) for index, spec in enumerate(specs) if spec.differentiable]


def _next_lookups(program: RankProgram) -> dict[int, int | None]:
    """By micro-batch: the one whose rows are looked up after its own."""
    order = [i.micro_batch for i in program.instructions if i.op == "lookup"]
    return dict(zip(order, [*order[1:], None], strict=False))


class _Located:
    """Says which instruction failed."""

    def __init__(self, program: RankProgram, step: int, index: int, what: Instruction) -> None:
        self._program, self._step, self._index, self._what = program, step, index, what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception):
            place = f"stage {self._program.stage}, replica {self._program.replica}"
            reason = str(error) if isinstance(error, RuntimeFault) else f"{kind.__name__}: {error}"
            raise RuntimeFault(
                f"{place}, step {self._step + 1}: instruction {self._index} {self._what} failed: "
                f"{reason}"
            ) from error
