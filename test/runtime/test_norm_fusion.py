"""Root mean square normalisations as exporters write them: the importer makes one operator of each,
and the generated code computes the outputs and gradients of the formula, written down here. Similar
graphs stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import generated
import pytest
import torch
from heterplan_runtime import operators as ops
from test_attention import constant
from test_generated_models import Builder
from torch import Tensor

SAMPLES, TOKENS, WIDTH = 3, 5, 8
FUSED = "ops.rms_normalization("


@dataclass(frozen=True)
class Form:
    """How an exporter writes it, or something close to it."""

    square: str = "pow"  # or "product"
    inverse: str = "reciprocal"  # or "quotient", "divided", "pow"
    epsilon: float = 0.3
    axes: int = 1  # of the mean, the last ones
    centred: bool = False  # by the mean, as a layer normalisation
    power: float = 2.0
    shifted: bool = False  # scaled by 1 + weight


FORMS = {
    "plain": Form(),
    "product": Form(square="product"),
    "quotient": Form(inverse="quotient"),
    "divided": Form(inverse="divided"),
    "power": Form(inverse="pow"),
    "two axes": Form(axes=2),
    "little": Form(epsilon=1e-6),
    "shifted": Form(shifted=True),
}
OTHERS = {"another power": Form(power=4.0), "centred": Form(centred=True)}


def inverse_root(b: Builder, form: Form, total: str) -> str:
    if form.inverse == "pow":
        return b.node("Pow", total, constant(b, -0.5))
    root = b.node("Sqrt", total)
    if form.inverse == "reciprocal":
        return b.node("Reciprocal", root)
    return b.node("Div", constant(b, 1), root) if form.inverse == "divided" else root


def write(form: Form, path: Path) -> Path:
    b = Builder()
    x = b.node("MatMul", b.input("x", [TOKENS, WIDTH]), b.weight("in.weight", WIDTH, WIDTH))
    axes = list(range(-form.axes, 0))
    used = b.node("Sub", x, b.node("ReduceMean", x, axes=axes, keepdims=1)) if form.centred else x
    if form.square == "pow":
        square = b.node("Pow", used, constant(b, form.power))
    else:
        square = b.node("Mul", used, used)
    total = b.node("Add", b.node("ReduceMean", square, axes=axes, keepdims=1), constant(b, form.epsilon))
    scaled = b.node("Div" if form.inverse == "quotient" else "Mul", used, inverse_root(b, form, total))
    scale = b.weight("scale", *(TOKENS, WIDTH)[2 - form.axes :])
    if form.shifted:
        scale = b.node("Add", scale, constant(b, 1))
    y = b.node("Mul", scale, scaled)
    y = b.node("Add", y, x)  # the residual stream goes on
    return b.save(path, b.node("MatMul", y, b.weight("out.weight", WIDTH, WIDTH)))


def formula(form: Form, x: Tensor, weights: dict[str, Tensor]) -> Tensor:
    x = x @ weights["in.weight"]
    axes = tuple(range(-form.axes, 0))
    mean = x.square().mean(axes, keepdim=True)
    y = x * (mean + form.epsilon).rsqrt() * (weights["scale"] + form.shifted)
    return (y + x) @ weights["out.weight"]


def data() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {"x": torch.randn(SAMPLES, TOKENS, WIDTH)}


@pytest.mark.parametrize("name", FORMS)
def test_a_fused_normalisation_computes_the_formula(name: str, tmp_path: Path) -> None:
    form, inputs = FORMS[name], data()
    stages, source = generated.emitted(write(form, tmp_path / "m.onnx"), tmp_path / "out")
    assert FUSED in source and "sqrt(" not in source, source
    for stage in stages:
        stage.double()
    doubles = {each: values.double() for each, values in inputs.items()}
    (result,) = generated.forward(stages, doubles).values()
    result.square().sum().backward()
    found = generated.gradients(stages)
    weights = {n: p.detach().clone().requires_grad_() for n, p in stages[0].named_parameters()}
    wanted = formula(form, doubles["x"], weights)
    wanted.square().sum().backward()
    # The epsilon of the file is a number in single precision.
    torch.testing.assert_close(result, wanted, rtol=1e-6, atol=1e-6)
    assert found.keys() == weights.keys() and len(found) == 3
    for parameter, gradient in found.items():
        torch.testing.assert_close(gradient, weights[parameter].grad, rtol=1e-6, atol=1e-6)


def test_another_epsilon_is_found_out(tmp_path: Path) -> None:
    inputs = data()
    stages, _ = generated.emitted(write(FORMS["plain"], tmp_path / "m.onnx"), tmp_path / "out")
    (result,) = generated.forward(stages, inputs).values()
    weights = {name: parameter.detach() for name, parameter in stages[0].named_parameters()}
    other = formula(FORMS["little"], inputs["x"], weights)
    assert not torch.allclose(result, other, rtol=1e-2)


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_looks_like_a_normalisation_stays(name: str, tmp_path: Path) -> None:
    _, source = generated.emitted(write(OTHERS[name], tmp_path / "m.onnx"), tmp_path / "out")
    assert FUSED not in source, source


@pytest.mark.parametrize("axis, shape", [(-1, (1,)), (-1, (WIDTH,)), (-2, (WIDTH,)), (1, (TOKENS, 1))])
def test_a_scale_is_broadcast_over_the_normalised_axes(axis: int, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, scale = torch.randn(SAMPLES, TOKENS, WIDTH).double(), torch.randn(shape).double()
    axes = tuple(range(axis % 3, 3))
    wanted = x * (x.square().mean(axes, keepdim=True) + 1e-5).rsqrt() * scale
    torch.testing.assert_close(ops.rms_normalization(x, scale, axis=axis), wanted)
