"""The state that a part of a rank trains: parameters, their gradients and the state of the
optimizer, some of which the plan may divide among the replicas of the stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from .communication import Communicator
from .device_classes import DeviceClass, class_of
from .local_batchnorm import LocalStatistics
from .optimizer_state import begin_at, fill_missing_momentum, steps_of
from .overlap import OverlappedSum, gradient_of
from .program import Instruction, Part
from .sharded_parameters import ShardedParameters
from .sharded_state import ShardedState
from .shards import Slicing
from .state_check import (
    StateEntry, optimizer_entries, stage_values, table_entries, table_gradients,
)  # fmt: skip
from .tables import Tables


def dense_parameters(stage: nn.Module) -> list[nn.Parameter]:
    """All but the sparse tables."""
    tables = getattr(stage, "tables_spec", {})
    return [value for key, value in stage.named_parameters() if key not in tables]


def make_optimizer(
    name: str,
    parameters: list[nn.Parameter],
    rate: float,
    weight_decay: float = 0.0,
    kernels: str = "fused",
) -> torch.optim.Optimizer | None:
    """None where there are no parameters."""
    if not parameters:
        return None
    chosen = _implementation(kernels, class_of(parameters[0].device))
    if name == "adam":
        return torch.optim.AdamW(parameters, lr=rate, weight_decay=weight_decay, **chosen)
    momentum = 0.9 if name == "momentum" else 0.0
    return torch.optim.SGD(
        parameters, lr=rate, momentum=momentum, weight_decay=weight_decay, **chosen
    )


def _implementation(kernels: str, of: DeviceClass) -> dict[str, bool]:
    """PyTorch's implementation of an optimizer: `kernels` as plans state it. A GPU has one kernel for many
    tensors; PyTorch's default, "foreach", has several, which move the parameters up to 2.6 times as often."""
    is_fused = kernels == "fused" and of.runs_behind
    return {"fused": is_fused, "foreach": False}


class TrainedState:
    """Executes the instructions of a part that sum gradients and update parameters."""

    def __init__(
        self,
        part: Part,
        stage: nn.Module,
        communicator: Communicator,
        kind: str,
        optimizer: torch.optim.Optimizer | None,
        tables: Tables | None = None,
        sharded: ShardedState | None = None,
        statistics: LocalStatistics | None = None,
        slicings: Mapping[str, Slicing] | None = None,
        overlapped: OverlappedSum | None = None,
    ) -> None:
        """`kind`: the optimizer's name in plans. `sharded`: where the replicas of the stage divide its
        state; `statistics`: where each has running statistics of its own. `slicings`: of the tensors of
        which each shard has a part, where several devices share every layer. `overlapped`: where sums
        begin within the last backward pass."""
        self._part, self._stage, self._communicator = part, stage, communicator
        self._parameters = dict(stage.named_parameters())
        self._kind, self._optimizer = kind, optimizer
        self.tables = tables
        self._sharded, self._statistics = sharded, statistics
        self._slicings = dict(slicings or {})
        self._overlapped = overlapped
        self._end_sum: Callable[[], None] | None = None  # of gradients, where it is under way
        self.skips_update = False  # the next one: the gradients are not finite

    def begin(self) -> None:
        """Begins an iteration."""
        if self._statistics is not None:
            self._statistics.begin()

    def bring_together(self, weight: float) -> None:
        """Averages the buffers that each replica has updated with its own samples; `weight` is the
        part of the samples that this replica has. The call is collective."""
        if self._statistics is not None:
            self._statistics.bring_together(weight)

    def forward(self, keeps: bool) -> AbstractContextManager[None]:
        """Surrounds a forward pass. `keeps`: nothing of it is recomputed."""
        gathers = isinstance(self._sharded, ShardedParameters)
        return self._sharded.forward(keeps) if gathers else nullcontext()

    def gradient(self, name: str) -> Tensor:
        """The gradient of a parameter; zeros if the step did not use it."""
        return gradient_of(self._parameters[name])

    @property
    def trained_names(self) -> set[str]:
        """The names of the parameters: all that the optimizer updates, tables too."""
        tables = getattr(self._stage, "tables_spec", {})
        return {*self._parameters, *tables, *self._divided}

    @property
    def _divided(self) -> frozenset[str]:
        return frozenset() if self._sharded is None else self._sharded.divided

    @property
    def has_whole_gradients(self) -> bool:
        """Whether the gradient of a parameter that several stages use is, before they sum it, the sum
        over the replicas already, rather than the part of this one."""
        return self._sharded is None

    def begin_last_backward(self) -> None:
        """The next backward pass is the last one of the iteration."""
        if self._overlapped is not None:
            self._overlapped.begin_last_backward()

    def all_reduce(self, instruction: Instruction) -> None:
        """Begins it, or what a backward pass has not begun: passes of other parts may follow."""
        if self._overlapped is not None:
            self._end_sum = self._overlapped.finish()
            return
        gradients = [gradient_of(parameter) for parameter in self._parameters.values()]
        self._end_sum = self._communicator.begin_sum(gradients, tuple(instruction.group))

    def end_sum(self) -> None:
        """The gradients are summed from here on."""
        if self._end_sum is not None:
            self._end_sum()
            self._end_sum = None

    def reduce_scatter(self, instruction: Instruction) -> None:
        assert self._sharded is not None
        self._sharded.reduce_scatter()

    def all_gather(self, instruction: Instruction) -> None:
        assert self._sharded is not None
        self._sharded.all_gather()

    def update(self, instruction: Instruction) -> None:
        if self._sharded is not None:
            self._sharded.take_shared()
        if self._optimizer is not None:
            if not self.skips_update:
                fill_missing_momentum(self._optimizer)
                self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        if self.tables is not None:
            self.tables.forget() if self.skips_update else self.tables.step()

    def state_entries(self) -> list[StateEntry]:
        """The training state so far: parameters, buffers, and the optimizer state of this rank."""
        return self._placed(self._state_entries())

    def _placed(self, entries: Iterable[StateEntry]) -> list[StateEntry]:
        """The entries, with their places in the whole tensors. Constants are left out, since the code of
        a shard may store others than that of the whole model."""
        if not self._slicings:
            return list(entries)
        constants = getattr(self._stage, "constants_spec", {})
        return [
            replace(entry, slicing=self._slicings.get(entry.name), shard=self._part.shard)
            for entry in entries
            if entry.name not in constants
        ]

    def speaks_for(self, name: str) -> bool:
        """Whether the gradient of a parameter counts on this shard: a slice does, and what all shards
        have on the first."""
        return not self._part.shard or name in self._slicings

    def _state_entries(self) -> list[StateEntry]:
        stage = self._part.stage
        entries = stage_values(stage, self._stage)
        for owned in self._sharded.divided_parts() if self._sharded is not None else ():
            values = owned.slice.detach()[owned.offset :][: owned.end - owned.begin]
            entries.append(StateEntry(stage, "value", owned.name, owned.begin, values))
        for name, tensor, begin, part in self._updated() if self._optimizer else ():
            state = self._optimizer.state[tensor]
            entries += optimizer_entries(stage, name, state, begin, part)
        if self.tables is not None:
            entries += table_entries(stage, self.tables)
        return entries

    def gradient_entries(self) -> list[StateEntry]:
        """Copies of the gradients that the next update takes."""
        stage = self._part.stage
        found = [(name, tensor.grad, begin, part) for name, tensor, begin, part in self._updated()]
        if self._sharded is not None:  # whole until the update
            shared = self._sharded.shared_parameters().items()
            found += [(name, parameter.grad, 0, slice(None)) for name, parameter in shared]
        entries = [
            StateEntry(stage, "gradient", name, begin, gradient.reshape(-1)[part].clone())
            for name, gradient, begin, part in found
            if gradient is not None
        ]
        if self.tables is not None:
            entries += table_gradients(stage, self.tables)
        return self._placed(entries)

    def set_rate(self, rate: float) -> None:
        """The learning rate from now on."""
        for group in self._optimizer.param_groups if self._optimizer is not None else ():
            group["lr"] = rate
        if self.tables is not None:
            self.tables.set_rate(rate)

    def gradients(self) -> Iterator[tuple[str, Tensor, bool]]:
        """Gradients of the next update: the name of the parameter ("" for parts of several), the
        tensor, and whether each replica of the stage has only a part of it."""
        whole = self._parameters
        if self._sharded is not None:
            whole = self._sharded.shared_parameters()
            yield from ((name, gradient, True) for name, gradient in self._slice_gradients())
        yield from (
            (name, parameter.grad, False)
            for name, parameter in whole.items()
            if parameter.grad is not None
        )
        if self.tables is not None:
            yield from (("", gradient, True) for gradient in self.tables.gradients())

    def _slice_gradients(self) -> Iterator[tuple[str, Tensor]]:
        """Gradients of the slices of the state; of each parameter by itself only where some of them are
        divided among shards."""
        assert self._sharded is not None
        if not self._slicings:
            yield from (("", each.grad) for each in self._sharded.slices if each.grad is not None)
            return
        for owned in self._sharded.owned():
            if owned.slice.grad is not None:
                yield owned.name, owned.slice.grad[owned.offset :][: owned.end - owned.begin]

    def is_divided(self, name: str, kind: str) -> bool:
        """Whether the replicas of the stage have each a part of this state, rather than all of it."""
        tables = (table.name for table in self._part.tables)
        divided = self._sharded is not None and (kind != "value" or name in self._divided)
        return divided or name in tables

    def updates(self) -> dict[str, int]:
        """How often each parameter was updated, where the optimizer keeps anything of it."""
        counts: dict[str, int] = {}
        if self._optimizer is not None:
            counts = steps_of(self._optimizer, [each[:2] for each in self._updated()])
        return counts | (self.tables.updates() if self.tables is not None else {})

    def begin_at(self, updates: Mapping[str, int]) -> None:
        """Makes the state of the optimizer as it is after so many updates, to be filled."""
        if self._optimizer is not None:
            updated = [each[:2] for each in self._updated()]
            begin_at(self._optimizer, self._kind, updated, updates)
        if self.tables is not None:
            self.tables.begin_at(updates)

    def _updated(self) -> Iterator[tuple[str, Tensor, int, slice]]:
        """Tensors that the optimizer updates: the parameter, the tensor, the offset of the part in
        the parameter, and the elements of the tensor that hold it."""
        if self._sharded is None:
            for name, parameter in self._parameters.items():
                yield name, parameter, 0, slice(None)
            return
        for owned in self._sharded.owned():
            end = owned.offset + owned.end - owned.begin
            yield owned.name, owned.slice, owned.begin, slice(owned.offset, end)
