"""The independent check: the user's module, trained by PyTorch alone, beside the ranks of its plan."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .errors import CheckFailed, HeterplanError
from .modules import _part, read_tensors
from .program import option_words

if TYPE_CHECKING:
    from .plans import Plan


def check_module(plan: Plan, module: nn.Module, steps: int, options: dict[str, object]) -> dict[str, Any]:
    """See Plan.check()."""
    with tempfile.TemporaryDirectory(prefix="heterplan-check-") as folder:
        result = plan.run(steps, check=True, save=folder, **options)
        weights = read_tensors(Path(folder) / "model.safetensors")
    words = [str(plan.directory), "--steps", str(steps), *option_words(options)]
    fault = _part("errors").RuntimeFault
    try:
        reference = _reference(plan, module, _part("main").parse(words))
        losses = [reference.run_step(step, plan.global_batch) for step in range(steps)]
        expected = reference.state(_part("state_check").STATE_TOLERANCE)
    except fault as error:
        raise HeterplanError(str(error)) from error
    _compare_losses(result["losses"], losses)
    _compare_weights(weights, expected, plan)
    return result


def _reference(plan: Plan, module: nn.Module, options: Any) -> Any:
    model = _part("model").load_model(plan.directory, double=True)
    program = _part("program").read_rank_program(plan.directory, 0)
    loss = _part("losses").make_loss(options.loss, model.prediction)
    data = _part("data_option").make_data(
        "--data", options.data, model, loss, options.seed, program.global_batch, options.epoch_samples
    )
    update = _part("update_rule")
    rule = update.UpdateRule(
        program.optimizer, options.lr, update.parse_schedule(options.lr_schedule, options.steps),
        options.weight_decay, options.gradient_clip,
    )  # fmt: skip
    return _part("module_reference").ModuleReference(
        module, program, model, plan.directory, data, loss, options.seed, rule, torch.device("cpu"), 0
    )


def _compare_losses(found: list[float], wanted: list[float]) -> None:
    worst = _part("reference").largest_difference(found, wanted)
    if not worst <= 1e-6:
        raise CheckFailed(
            f"the losses of the plan, {found}, differ from those of the module, {wanted}, by {worst:.1e} "
            "(relative; accepted 1e-06)",
            2,
        )


def _compare_weights(weights: dict[str, torch.Tensor], expected: Any, plan: Plan) -> None:
    """Each stage that holds a tensor has it under its own number; the weights are of one of them."""
    entry = _part("state_check").StateEntry
    for name, values in weights.items():
        found = [
            expected.difference(entry(stage, "value", name, 0, values.double().reshape(-1)))
            for stage in range(len(plan.stages))
        ]
        if min(found) > 1:
            raise CheckFailed(f"'{name}' has not moved in the plan as in the module", 2)
