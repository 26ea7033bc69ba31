"""The training of the user's module itself, in PyTorch, with which `--check --module` compares the plan. The
values, the forward pass and the set of trained parameters are the module's; the import has no part in it."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from .data import DataSource
from .errors import RuntimeFault
from .losses import Loss, Summed
from .model import Model, build_stage
from .program import RankProgram
from .reference_optimizer import ReferenceOptimizer
from .state_check import ExpectedState, StateEntry, optimizer_entries
from .update_rule import UpdateRule

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)


def load_module(text: str) -> nn.Module:
    """Returns what the function of `FILE.py:FUNCTION` returns."""
    path, _, name = text.rpartition(":")
    if not path or not Path(path).is_file():
        raise RuntimeFault(f"--module {text}: expected FILE.py:FUNCTION, the path of a file that is there")
    spec = importlib.util.spec_from_file_location("heterplan_user_module", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(loaded)
        module = getattr(loaded, name)()
    except Exception as error:
        raise RuntimeFault(f"--module {text}: {type(error).__name__}: {error}") from error
    if not isinstance(module, nn.Module):
        raise RuntimeFault(f"--module {text}: returns a {type(module).__name__}, not a torch module")
    return module


class _Doubled(TorchFunctionMode):
    """Computes in double precision where a module asks for single precision, as norms do for small types."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def wide(value: Any) -> Any:
            return torch.float64 if value in (torch.float16, torch.bfloat16, torch.float32) else value

        function = Tensor.double if func is Tensor.float else func
        return function(*map(wide, args), **{name: wide(each) for name, each in (kwargs or {}).items()})


@contextlib.contextmanager
def in_double_precision() -> Iterator[None]:
    """Has modules compute in double precision throughout; their parameters are in it already."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Doubled():
            yield
    finally:
        torch.set_default_dtype(before)


class ModuleReference:
    """Trains a copy of `module` in double precision with the data, loss and rule of the plan."""

    def __init__(
        self,
        module: nn.Module,
        program: RankProgram,
        model: Model,
        directory: Path,
        data: DataSource,
        loss: Loss,
        seed: int,
        rule: UpdateRule,
        device: torch.device,
        first_step: int,
    ) -> None:
        """`first_step`: whose gradients are compared."""
        self._program, self._model = program, model
        self._data, self._loss, self._device = data, loss, device
        self._rule, self._first_step = rule, first_step
        self._module = copy.deepcopy(module).to(device).double().train()
        for name, each in self._module.named_modules():
            if isinstance(each, DROPOUTS) and each.p > 0:
                raise RuntimeFault(
                    f"--module: '{name}' is a dropout, whose masks are others in the module than in the plan; "
                    "set its p to 0"
                )
        self._stages = _stages_of(model)
        self._parameters = {
            name: each for name, each in self._module.named_parameters() if each.requires_grad
        }
        self._buffers = {
            name: each for name, each in self._module.named_buffers() if each.is_floating_point()
        }
        self._check_names()
        self._take_values(directory, seed)
        self._optimizers = {
            name: ReferenceOptimizer(program.optimizer, each, rule.weight_decay)
            for name, each in self._parameters.items()
        }
        self._gradients: list[StateEntry] = []
        self._initial = [replace(entry, values=entry.values.clone()) for entry in self._values()]

    def _check_names(self) -> None:
        """Raises RuntimeFault if plan and module do not train the same parameters."""
        trained = {
            name
            for stage in self._model.stages
            for attribute in ("parameters_spec", "tables_spec")
            for name in getattr(stage, attribute, {})
        }
        names = {name for name, _ in self._module.named_parameters(remove_duplicate=False)}
        if unknown := sorted(trained - names):
            raise RuntimeFault(f"--module: the plan trains '{unknown[0]}', which is no parameter of the module")
        if frozen := sorted(name for name in trained if not self._module.get_parameter(name).requires_grad):
            raise RuntimeFault(f"--module: the plan trains '{frozen[0]}', which the module does not")
        aliases = self._aliases()
        for name in self._parameters:
            if len(trained & aliases[name]) > 1:
                raise RuntimeFault(
                    f"--module: {', '.join(sorted(trained & aliases[name]))} are one parameter of the module, "
                    "and the plan trains them apart"
                )
        self._absent = [name for name in self._parameters if not trained & aliases[name]]

    def _aliases(self) -> dict[str, set[str]]:
        """The names of each trained parameter, by the first."""
        by_identity: dict[int, set[str]] = {}
        for name, each in self._module.named_parameters(remove_duplicate=False):
            by_identity.setdefault(id(each), set()).add(name)
        return {name: by_identity[id(each)] for name, each in self._parameters.items()}

    def _take_values(self, directory: Path, seed: int) -> None:
        """The values that the plan begins with, where its file had none; else they must be the module's."""
        weights_known = any((directory / "weights").glob("stage-*"))
        tensors = dict(self._module.named_parameters(remove_duplicate=False))
        for index in range(len(self._model.stages)):
            stage = build_stage(self._model, index, directory, seed, self._device, whole_tables=True)
            for name, values in stage.named_parameters():
                with torch.no_grad():
                    own = tensors[name]
                    if own.shape != values.shape:
                        raise RuntimeFault(
                            f"--module: '{name}' is {list(own.shape)} in the module and {list(values.shape)} in "
                            "the plan"
                        )
                    if not weights_known:
                        own.copy_(values)
                    elif not torch.equal(own, values):
                        raise RuntimeFault(
                            f"--module: '{name}' has other values in the module than in the plan; let the "
                            "function return the module that was exported"
                        )

    def _entries(self, kind: str, name: str, values: Tensor) -> Iterable[StateEntry]:
        for alias in self._names[name]:
            for stage in self._stages.get(alias, ()):
                yield StateEntry(stage, kind, alias, 0, values.detach().reshape(-1))

    @property
    def _names(self) -> dict[str, set[str]]:
        return {**{name: {name} for name in self._buffers}, **self._aliases()}

    def _values(self) -> list[StateEntry]:
        both = {**self._parameters, **self._buffers}
        return [entry for name, each in both.items() for entry in self._entries("value", name, each)]

    def state(self, tolerance: float) -> ExpectedState:
        """Returns the result of the steps so far, and the gradients of the first compared step."""
        final = [*self._gradients, *self._values()]
        for name, optimizer in self._optimizers.items():
            for alias in self._names[name]:
                for stage in self._stages.get(alias, ()):
                    final += optimizer_entries(stage, alias, optimizer.moments, 0, slice(None))
        return ExpectedState(self._initial, final, tolerance)

    def run_step(self, step: int, batch: int) -> float:
        """`batch`: samples of this step."""
        self._program = replace(self._program, global_batch=batch)
        total, denominator = 0.0, 0.0
        for micro_batch in range(self._program.micro_batches):
            loss, counted = self._micro_batch(step, micro_batch)
            total, denominator = total + loss, denominator + counted
        gradients = {
            name: each.grad / denominator for name, each in self._parameters.items() if each.grad is not None
        }
        for name in self._absent:
            if name in gradients and bool(gradients[name].count_nonzero()):
                raise RuntimeFault(f"--module: the module trains '{name}', which the plan does not")
        if self._rule.clip and gradients:
            norm = float(torch.stack([each.norm() for each in gradients.values()]).norm())
            scale = min(1.0, self._rule.clip / norm) if norm else 1.0
            gradients = {name: each * scale for name, each in gradients.items()}
        for name, gradient in gradients.items():
            if step == self._first_step:
                self._gradients += self._entries("gradient", name, gradient)
            self._optimizers[name].update(gradient, self._rule.rate_at(step))
            self._parameters[name].grad = None
        return total / denominator

    def _micro_batch(self, step: int, micro_batch: int) -> tuple[float, float]:
        samples = self._program.sizes.size(micro_batch)
        first = self._program.sizes.first(micro_batch)
        batch = self._data.load(step, range(first, first + samples))
        inputs = {name: tensor.to(self._device) for name, tensor in batch.inputs.items()}
        try:
            with in_double_precision():
                returned = self._module(**inputs)
        except TypeError as error:
            raise RuntimeFault(f"--module: forward() does not take the inputs of the plan by name: {error}") from error
        outputs = tuple(each for each in _pytree.tree_leaves(returned) if isinstance(each, Tensor))
        targets = batch.targets
        if isinstance(targets, Tensor):
            targets = targets.to(self._device)
        loss = self._loss.function(outputs, targets)
        if not isinstance(loss, Summed):
            loss = Summed(loss * samples, samples)
        torch.autograd.backward(loss.total)
        return float(loss.total.detach()), loss.denominator


def _stages_of(model: Model) -> dict[str, tuple[int, ...]]:
    """By the name of a tensor: the stages that have it."""
    found: dict[str, tuple[int, ...]] = {}
    for index, stage in enumerate(model.stages):
        for attribute in ("parameters_spec", "tables_spec", "buffers_spec"):
            for name in getattr(stage, attribute, {}):
                found[name] = (*found.get(name, ()), index)
    return found
