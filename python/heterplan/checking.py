"""The independent check: the user's module, trained by PyTorch alone, beside the ranks of its plan."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree

from .errors import CheckFailed, HeterplanError
from .example import example_of
from .inputs import taking
from .modules import WholeModel, _part, read_tensors
from .program import option_words

if TYPE_CHECKING:
    from .inputs import Inputs
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


_MOST_ELEMENTS = 64_000_000  # of a module that confirm() looks at: it holds both sides in double precision
_TOLERANCE = 1e-3  # of the norm of a tensor: exporters write constants in single precision


def confirm(plan: Plan, module: nn.Module, inputs: Inputs) -> str:
    """Computes the outputs of `module` and of its plan, and their gradients, for one batch. Returns what differs; "" if
    nothing does, or if it cannot be told: the module is large, has no values or draws random numbers."""
    example, named, has_values = example_of(module, inputs)
    if not has_values or sum(each.numel() for each in example.parameters()) > _MOST_ELEMENTS:
        return ""
    example.eval().double()
    generator = torch.Generator().manual_seed(0)
    named = {name: _drawn(tensor, generator) for name, tensor in named.items()}
    with _part("module_reference").in_double_precision():
        wanted, again = (_outputs(taking(example.forward, named)(**named)) for _ in range(2))
    if any(not torch.equal(a, b) for a, b in zip(wanted, again, strict=True)):
        return ""  # random, or no numbers
    whole = _whole(plan)
    if "attention_mask" in whole.inputs and "attention_mask" not in named:
        named["attention_mask"] = torch.ones_like(named["input_ids"])
    if not set(whole.inputs) <= named.keys():
        return ""
    found = _outputs(whole(**{name: named[name] for name in whole.inputs}))
    for index, (a, b) in enumerate(zip(found, wanted, strict=False)):
        if a.shape != b.shape or _gap(a, b) > _TOLERANCE:
            return f"output {index} is another one than that of the module"
    if len(found) != len(wanted):
        return ""  # outputs of earlier stages that no loss reads
    return _other_gradient(_gradients(whole, found), _gradients(example, wanted), example)


def _drawn(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Integers are taken as they are, since their range is not known."""
    if not tensor.is_floating_point():
        return tensor
    varies = tensor.numel() > 0 and bool((tensor != tensor.reshape(-1)[0]).any())
    return tensor.double() if varies else torch.randn(tensor.shape, generator=generator, dtype=torch.float64)


def _whole(plan: Plan) -> Any:
    model = _part("model")
    description = model.load_whole_model(plan.directory, double=True)
    device = torch.device("cpu")
    stages = [
        model.build_stage(description, index, plan.directory, 0, device, whole_tables=True).eval()
        for index in range(len(description.stages))
    ]
    return WholeModel(description, stages)


def _outputs(returned: Any) -> list[torch.Tensor]:
    leaves = [each for each in _pytree.tree_leaves(returned) if isinstance(each, torch.Tensor)]
    return [each for each in leaves if each.is_floating_point()]


def _gap(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Relative to the norm; 0 if `wanted` has elements that are no numbers."""
    norm = float(wanted.detach().double().norm())
    gap = float((found.detach().double() - wanted.detach().double()).norm())
    return 0.0 if not norm < float("inf") else gap / max(norm, 1e-12)


def _gradients(module: nn.Module, outputs: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """By the names of the trained parameters that a gradient reaches. Elements of the outputs weigh differently."""
    weighed = [
        (each.reshape(-1) * torch.linspace(1, 3, each.numel(), dtype=torch.float64).cos()).sum()
        for each in outputs
        if each.requires_grad
    ]
    trained = {name: each for name, each in module.named_parameters() if each.requires_grad}
    if not weighed or not trained:
        return {}
    found = torch.autograd.grad(torch.stack(weighed).sum(), list(trained.values()), allow_unused=True)
    return {name: each for name, each in zip(trained, found, strict=True) if each is not None}


def _other_gradient(
    found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor], example: nn.Module
) -> str:
    aliases: dict[int, str] = {}
    first = {
        name: aliases.setdefault(id(each), name)
        for name, each in example.named_parameters(remove_duplicate=False)
    }
    own = {re.sub(r"^stages\.\d+\.", "", name): each for name, each in found.items()}
    named = {first.get(name, name): each for name, each in own.items()}
    least = 1e-6 * max((float(each.norm()) for each in (*wanted.values(), *named.values())), default=0.0)
    for name in sorted(wanted.keys() | named.keys()):
        zero = torch.zeros(1, dtype=torch.float64)
        a, b = named.get(name, zero), wanted.get(name, zero)
        if max(float(a.norm()), float(b.norm())) <= least:
            continue
        if name not in named:
            return f"'{name}' is not trained"
        if name not in wanted:
            return f"'{name}' is trained, which the module does not do"
        if a.shape != b.shape or _gap(a, b) > 10 * _TOLERANCE:
            return f"the gradient of '{name}' is another one than in the module"
    return ""


def _reference(plan: Plan, module: nn.Module, options: Any) -> Any:
    model = _part("model").load_whole_model(plan.directory, double=True)
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
            expected.difference(entry(stage, "value", name, 0, values.reshape(-1)))
            for stage in range(len(plan.stages))
        ]
        if min(found) > 1:
            raise CheckFailed(f"'{name}' has not moved in the plan as in the module", 2)
