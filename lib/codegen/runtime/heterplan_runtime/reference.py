"""The same training in one process: what --check compares the distributed run with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .data import DataSource
from .dropout import Position, drop_by_sample
from .local_batchnorm import ReplicasInOne
from .losses import Loss, Summed
from .model import Model, build_stage
from .program import RankProgram, SampleRange
from .reference_optimizer import ReferenceOptimizer, ReferenceRows
from .state_check import ExpectedState, StateEntry, optimizer_entries, stage_values
from .update_rule import UpdateRule


class Reference:
    """All stages in their order; each micro-batch passes whole, so no message and no sum is needed."""

    def __init__(
        self,
        program: RankProgram,
        model: Model,
        directory: Path,
        data: DataSource,
        loss: Loss,
        seed: int,
        rule: UpdateRule,
        device: torch.device,
        first_step: int,
        programs: Sequence[RankProgram] = (),
    ) -> None:
        """`first_step`: whose gradients are compared. `programs`: of all ranks, where each replica
        normalises by its own samples."""
        self._program, self._model = program, model
        self._data, self._loss, self._device = data, loss, device
        self._rule, self._first_step = rule, first_step
        self._position = Position()
        self._gradients: list[StateEntry] = []
        count = range(len(model.stages))
        self._stages = [
            build_stage(model, index, directory, seed, device, whole_tables=True) for index in count
        ]
        for stage in self._stages:
            drop_by_sample(stage, seed, self._position)
        self._samples = samples_by_replica(programs)
        self._normalisers = self._divide_batch_norm() if programs else {}
        self._tables = [
            (index, name, table, ReferenceRows(program.optimizer, table.data))
            for index, stage in enumerate(self._stages)
            for name, table in sparse_tables(stage).items()
        ]
        self._optimizers = [
            [
                (name, parameter, ReferenceOptimizer(program.optimizer, parameter, rule.weight_decay))
                for name, parameter in stage.named_parameters()
                if name not in getattr(stage, "tables_spec", {})
            ]
            for stage in self._stages
        ]
        self._initial = [replace(entry, values=entry.values.clone()) for entry in self._values()]

    def _divide_batch_norm(self) -> dict[int, ReplicasInOne]:
        """By stage."""
        found = {i: ReplicasInOne() for i, stage in enumerate(self._stages) if hasattr(stage, "batch_norm")}
        for index, normaliser in found.items():
            setattr(self._stages[index], "batch_norm", normaliser)
        return found

    def _divide(self, micro_batch: int) -> None:
        """Tells batch normalisation who has which samples of it."""
        for index, normaliser in self._normalisers.items():
            own = self._samples[index]
            normaliser.counts = [each[micro_batch].count for each in own]
            sums = [sum(samples.count for samples in each.values()) for each in own]
            normaliser.weights = [each / self._program.global_batch for each in sums]

    def _values(self) -> list[StateEntry]:
        return [entry for i, stage in enumerate(self._stages) for entry in stage_values(i, stage)]

    def state(self, tolerance: float) -> ExpectedState:
        """The expected state after the steps so far, and the gradients of the first step that is
        compared."""
        final = [*self._gradients, *self._values()]
        for index, optimizers in enumerate(self._optimizers):
            for name, _, optimizer in optimizers:
                final += optimizer_entries(index, name, optimizer.moments, 0, slice(None))
        for index, name, _, rows in self._tables:
            for number, moment in enumerate(rows.moments):
                entry = StateEntry(index, f"moment {number + 1}", name, 0, moment.reshape(-1))
                final.append(entry)
        return ExpectedState(self._initial, final, tolerance)

    def run_step(self, step: int, batch: int) -> float:
        """`batch`: samples of this step."""
        self._program = replace(self._program, global_batch=batch)
        total, denominator = 0.0, 0.0
        for micro_batch in range(self._program.micro_batches):
            loss, counted = self._micro_batch(step, micro_batch)
            total, denominator = total + loss, denominator + counted
        for name, stages in self._model.shared_parameters().items():
            _sum_gradients(name, [self._stages[index] for index in stages])
        self._update(step, denominator)
        return total / denominator

    def _update(self, step: int, denominator: float) -> None:
        rate, scale = self._rule.rate_at(step), self._clip(denominator) / denominator
        for index, optimizers in enumerate(self._optimizers):
            for name, parameter, optimizer in optimizers:
                if parameter.grad is not None:
                    gradient = parameter.grad * scale
                    self._keep(step, index, name, gradient)
                    optimizer.update(gradient, rate)
                    parameter.grad = None
        for index, name, table, rows in self._tables:
            sparse = table.grad.coalesce() * scale  # type: ignore[union-attr]
            self._keep(step, index, name, sparse)
            rows.update(sparse.indices()[0], sparse.values(), rate)
            table.grad = None

    def _keep(self, step: int, stage: int, name: str, gradient: Tensor) -> None:
        if step == self._first_step:
            values = gradient.to_dense().reshape(-1)
            self._gradients.append(StateEntry(stage, "gradient", name, 0, values))

    def _clip(self, denominator: float) -> float:
        """The factor that limits the norm of all gradients, each counted once."""
        if not self._rule.clip:
            return 1.0
        own = {name: p.grad for optimizers in self._optimizers for name, p, _ in optimizers}
        gradients = [gradient for gradient in own.values() if gradient is not None]
        for _, _, table, _ in self._tables:
            gradients.append(table.grad.coalesce().values())  # type: ignore[union-attr]
        norm = torch.stack([gradient.double().norm() for gradient in gradients]).norm() / denominator
        return min(1.0, self._rule.clip / float(norm)) if norm else 1.0

    def _micro_batch(self, step: int, micro_batch: int) -> tuple[float, float]:
        """The sum of its losses and what to divide it by: its samples, or what the loss counts."""
        samples = self._program.sizes.size(micro_batch)
        first = self._program.sizes.first(micro_batch)
        self._divide(micro_batch)
        batch = self._data.load(step, range(first, first + samples))
        inputs = {name: tensor.to(self._device) for name, tensor in batch.inputs.items()}
        self._position.step, self._position.first_sample = step, first
        tensors: tuple[Tensor, ...] = ()
        carried: dict[str, Tensor] = {}
        for stage in self._stages:
            described: Any = stage
            received = (carried[name] for name in described.receives)
            tensors = tuple(stage(*received, *(inputs[name] for name in described.inputs)))
            carried.update(zip(described.sends, tensors, strict=True))
        targets = batch.targets
        if isinstance(targets, Tensor):
            targets = targets.to(self._device)
        loss = self._loss.function(tensors, targets)
        if not isinstance(loss, Summed):
            loss = Summed(loss * samples, samples)
        torch.autograd.backward(loss.total)
        return float(loss.total.detach()), loss.denominator


def samples_by_replica(programs: Iterable[RankProgram]) -> dict[int, list[dict[int, SampleRange]]]:
    """By stage, and by micro-batch."""
    found: dict[int, dict[int, dict[int, SampleRange]]] = {}
    for program in programs:
        for part in program.parts:
            found.setdefault(part.stage, {})[part.replica] = program.samples_of(part)
    return {stage: [own[index] for index in sorted(own)] for stage, own in found.items()}


def sparse_tables(stage: Any) -> dict[str, nn.Parameter]:
    """The tables of a stage, whose lookups henceforth have sparse gradients."""
    tables = {name: stage.tensor(name) for name in getattr(stage, "tables_spec", {})}

    def lookup(name: str, indices: Tensor) -> Tensor:
        rows = torch.where(indices < 0, indices + len(tables[name]), indices)
        return torch.nn.functional.embedding(rows, tables[name], sparse=True)

    if tables:
        stage.lookup = lookup
    return tables


def _sum_gradients(name: str, stages: Iterable[nn.Module]) -> None:
    """Copies of one parameter get the gradient of all their uses."""
    copies = [dict(stage.named_parameters())[name] for stage in stages]
    gradients = [copy.grad for copy in copies if copy.grad is not None]
    if gradients:
        total = torch.stack(gradients).sum(0)
        for copy in copies:
            copy.grad = total.clone()


def largest_difference(losses: list[float], reference: list[float]) -> float:
    """Largest relative difference of two series of losses; infinite where one is not a number."""
    worst = 0.0
    for found, wanted in zip(losses, reference, strict=True):
        difference = abs(found - wanted) / max(abs(wanted), 1e-12)
        worst = max(worst, difference if difference == difference else float("inf"))
    return worst
