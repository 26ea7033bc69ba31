"""The same training in one process: what --check compares the distributed run with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .data import DataSource
from .losses import Loss
from .model import Model, build_stage
from .part import dense_parameters, make_optimizer
from .program import RankProgram
from .tables import RowOptimizer


class Reference:
    """All stages in a chain; each micro-batch passes whole, so no message and no sum is needed."""

    def __init__(
        self,
        program: RankProgram,
        model: Model,
        directory: Path,
        data: DataSource,
        loss: Loss,
        seed: int,
        rate: float,
        device: torch.device,
    ) -> None:
        self._program, self._model = program, model
        self._data, self._loss, self._device = data, loss, device
        count = range(len(model.stages))
        self._stages = [
            build_stage(model, index, directory, seed, device, whole_tables=True) for index in count
        ]
        self._tables = [
            (table, RowOptimizer(program.optimizer, table.data, rate))
            for stage in self._stages
            for table in sparse_tables(stage)
        ]
        optimizers = [
            make_optimizer(program.optimizer, dense_parameters(stage), rate)
            for stage in self._stages
        ]
        self._optimizers = [optimizer for optimizer in optimizers if optimizer is not None]

    def run_step(self, step: int) -> float:
        total = 0.0
        for micro_batch in range(self._program.micro_batches):
            total += self._micro_batch(step, micro_batch)
        for name, stages in self._model.shared_parameters().items():
            _sum_gradients(name, [self._stages[index] for index in stages])
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        for table, rows in self._tables:
            gradient = table.grad.coalesce()  # type: ignore[union-attr]
            rows.step(gradient.indices()[0], gradient.values())
            table.grad = None
        return total

    def _micro_batch(self, step: int, micro_batch: int) -> float:
        samples = self._program.micro_batch_samples
        first = micro_batch * samples
        batch = self._data.load(step, range(first, first + samples))
        inputs = {name: tensor.to(self._device) for name, tensor in batch.inputs.items()}
        tensors: tuple[Tensor, ...] = ()
        for stage in self._stages:
            described: Any = stage
            tensors = tuple(stage(*tensors, *(inputs[name] for name in described.inputs)))
        targets = batch.targets
        if isinstance(targets, Tensor):
            targets = targets.to(self._device)
        loss = self._loss.function(tensors, targets) / self._program.micro_batches
        torch.autograd.backward(loss)
        return float(loss.detach())


def sparse_tables(stage: Any) -> list[nn.Parameter]:
    """The tables of a stage, whose lookups henceforth have sparse gradients."""
    tables = {name: stage.tensor(name) for name in getattr(stage, "tables_spec", {})}

    def lookup(name: str, indices: Tensor) -> Tensor:
        rows = torch.where(indices < 0, indices + len(tables[name]), indices)
        return torch.nn.functional.embedding(rows, tables[name], sparse=True)

    if tables:
        stage.lookup = lookup
    return list(tables.values())


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
