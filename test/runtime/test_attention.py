"""Scaled dot-product attention as exporters write it: the importer makes one operator of it, and the
generated code computes the outputs and gradients of the formula, written down here. Similar
graphs stay as they are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import generated
import numpy as np
import pytest
import torch
from onnx import numpy_helper
from test_generated_models import Builder
from torch import Tensor

SAMPLES, TOKENS, HEADS, SIZE = 3, 5, 2, 4
WIDTH = HEADS * SIZE
FUSED = ("F.scaled_dot_product_attention(", "ops.attention(")
LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Form:
    """How an exporter writes it, or something close to it."""

    merged: bool = False  # samples and heads on one axis
    scale: str = "after"  # where the scores are scaled: "after", "before", "both" operands, "none"
    causal: str = ""  # a constant condition ("where", "reversed"), or what is "added"
    hidden: float = -math.inf  # for the keys that a query does not see
    padding: str = ""  # a mask by sample that is "added", or a condition ("where")
    guard: bool = False  # weights that are no number become 0
    spoil: str = ""  # what makes it something else
    factor: float = field(default=1 / math.sqrt(SIZE))


FORMS = {
    "plain": Form(),
    "merged": Form(merged=True),
    "unscaled": Form(scale="none", factor=1.0),
    "other scale": Form(factor=0.3),
    "roots": Form(scale="both", guard=True),
    "before": Form(scale="before"),
    "causal": Form(causal="where"),
    "causal, reversed": Form(causal="reversed", hidden=LOWEST),
    "causal, finite": Form(causal="where", hidden=-1e4),
    "causal, added": Form(causal="added", scale="both", guard=True),
    "causal, merged": Form(causal="where", merged=True, scale="before"),
    "padding": Form(padding="added"),
    "padding, where": Form(padding="where"),
    "padding, lowest": Form(padding="where", hidden=LOWEST),
    "padding, causal": Form(padding="added", causal="where"),
}
OTHERS = {
    "weights are an output": Form(spoil="output"),
    "weights are dropped": Form(spoil="dropout"),
    "a mask that is trained": Form(spoil="trained"),
    "softmax over the queries": Form(spoil="axis"),
    "a mask that is scaled": Form(spoil="scaled mask", padding="added"),
    "a number that is added": Form(spoil="offset"),
    "a mask without keys": Form(spoil="rows"),
    "a finite number for all keys": Form(padding="where", hidden=-1e4),
}


def constant(b: Builder, values: object, dtype: type = np.float32) -> str:
    """A Constant node: an initializer may be taken for a parameter."""
    return b.node("Constant", value=numpy_helper.from_array(np.array(values, dtype)))


def split_heads(b: Builder, x: str, name: str, form: Form, keys: bool) -> str:
    y = b.node("MatMul", x, b.weight(f"{name}.weight", WIDTH, WIDTH))
    y = b.node("Reshape", y, constant(b, [-1, TOKENS, HEADS, SIZE], np.int64))
    if form.merged:
        y = b.node("Transpose", y, perm=[0, 2, 1, 3])
        y = b.node("Reshape", y, constant(b, [-1, TOKENS, SIZE], np.int64))
        return b.node("Transpose", y, perm=[0, 2, 1]) if keys else y
    return b.node("Transpose", y, perm=[0, 2, 3, 1] if keys else [0, 2, 1, 3])


def scaled(b: Builder, x: str, factor: float) -> str:
    return b.node("Mul", x, constant(b, factor))


def masked(b: Builder, scores: str, form: Form) -> str:
    hidden = constant(b, form.hidden)
    triangle = np.tril(np.ones((TOKENS, TOKENS), bool))
    if form.causal == "where":
        scores = b.node("Where", constant(b, triangle, bool), scores, hidden)
    elif form.causal == "reversed":
        scores = b.node("Where", constant(b, ~triangle, bool), hidden, scores)
    elif form.causal == "added":
        barrier = np.where(triangle, 0, form.hidden)
        scores = b.node("Add", scores, constant(b, barrier))
    if not form.padding:
        return scores
    seen = b.input("seen_keys", [1, 1, TOKENS])
    if form.padding == "added":
        return b.node("Add", seen, scores)
    return b.node("Where", b.node("Greater", seen, constant(b, -1)), scores, hidden)


def write(form: Form, path: Path) -> Path:
    b = Builder()
    x = b.input("x", [TOKENS, WIDTH])
    q, k, v = (split_heads(b, x, name, form, name == "k") for name in ("q", "k", "v"))
    if form.scale == "before":
        q = scaled(b, q, form.factor)
    elif form.scale == "both":
        q, k = (scaled(b, operand, math.sqrt(form.factor)) for operand in (q, k))
    scores = b.node("MatMul", q, k)
    if form.spoil == "scaled mask":
        scores = masked(b, scores, form)
    if form.scale == "after":
        scores = scaled(b, scores, form.factor)
    if form.spoil != "scaled mask":
        scores = masked(b, scores, form)
    if form.spoil == "trained":
        scores = b.node("Add", scores, b.weight("bias", TOKENS, TOKENS))
    if form.spoil == "offset":
        scores = b.node("Add", scores, constant(b, 0.5))
    if form.spoil == "rows":
        scores = b.node("Add", scores, b.input("rows", [1, TOKENS, 1]))
    weights = b.node("Softmax", scores, axis=2 if form.spoil == "axis" else -1)
    outputs = [weights] if form.spoil == "output" else []
    if form.guard:
        zero = constant(b, 0)
        weights = b.node("Where", b.node("IsNaN", weights), zero, weights)
    if form.spoil == "dropout":
        ratio = constant(b, 0.5)
        weights = b.node("Dropout", weights, ratio, constant(b, True, bool))
    y = b.node("MatMul", weights, v)
    if form.merged:
        y = b.node("Reshape", y, constant(b, [-1, HEADS, TOKENS, SIZE], np.int64))
    y = b.node("Reshape", b.node("Transpose", y, perm=[0, 2, 1, 3]), constant(b, [-1, TOKENS, WIDTH], np.int64))
    return b.save(path, b.node("MatMul", y, b.weight("out.weight", WIDTH, WIDTH)), *outputs)


def formula(form: Form, x: Tensor, seen_keys: Tensor, weights: dict[str, Tensor]) -> Tensor:
    q, k, v = (
        (x @ weights[f"{name}.weight"]).unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for name in ("q", "k", "v")
    )
    scores = q @ k.transpose(-1, -2) * form.factor
    if form.causal:
        scores = scores.masked_fill(torch.ones(TOKENS, TOKENS).triu(1).bool(), form.hidden)
    if form.padding == "added":
        scores = scores + seen_keys
    elif form.padding:
        scores = scores.masked_fill(seen_keys <= -1, form.hidden)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ weights["out.weight"]


def data() -> dict[str, Tensor]:
    torch.manual_seed(0)
    seen = torch.zeros(SAMPLES, 1, 1, TOKENS)
    seen[1, ..., 3:] = -20.0
    seen[2, ..., 1] = -20.0
    return {"x": torch.randn(SAMPLES, TOKENS, WIDTH), "seen_keys": seen}


@pytest.mark.parametrize("name", FORMS)
def test_fused_attention_computes_the_formula(name: str, tmp_path: Path) -> None:
    form, inputs = FORMS[name], data()
    stages, source = generated.emitted(write(form, tmp_path / "m.onnx"), tmp_path / "out")
    assert any(call in source for call in FUSED) and "softmax(" not in source, source
    (result,) = generated.forward(stages, inputs).values()
    result.square().sum().backward()
    found = generated.gradients(stages)
    weights = {n: p.detach().double().requires_grad_() for n, p in stages[0].named_parameters()}
    wanted = formula(form, inputs["x"].double(), inputs["seen_keys"].double(), weights)
    wanted.square().sum().backward()
    torch.testing.assert_close(result.double(), wanted, rtol=1e-5, atol=1e-6)
    assert found.keys() == weights.keys()
    for parameter, gradient in found.items():
        torch.testing.assert_close(gradient.double(), weights[parameter].grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["padding", "padding, where", "padding, lowest", "causal"])
def test_masks_have_the_precision_of_the_queries(name: str, tmp_path: Path, monkeypatch) -> None:
    """The default type is fp32 then, which is that of numbers in the code. PyTorch has other code for sizes that fill
    vectors."""
    for constant_name, value in {"TOKENS": 32, "SIZE": 32, "WIDTH": HEADS * 32}.items():
        monkeypatch.setitem(globals(), constant_name, value)
    form, inputs = FORMS[name], data()
    (stage,), _ = generated.emitted(write(form, tmp_path / "m.onnx"), tmp_path / "out")
    inputs = {key: each.double() for key, each in inputs.items()}
    (result,) = generated.forward([stage.double()], inputs).values()
    weights = {key: parameter.detach() for key, parameter in stage.named_parameters()}
    wanted = formula(form, inputs["x"], inputs["seen_keys"], weights)
    torch.testing.assert_close(result, wanted, rtol=1e-9, atol=1e-9)


def test_another_formula_is_found_out(tmp_path: Path) -> None:
    inputs = data()
    stages, _ = generated.emitted(write(FORMS["causal"], tmp_path / "m.onnx"), tmp_path / "out")
    (result,) = generated.forward(stages, inputs).values()
    weights = {name: parameter.detach() for name, parameter in stages[0].named_parameters()}
    for changed in (Form(), Form(causal="where", factor=0.3)):
        other = formula(changed, inputs["x"], inputs["seen_keys"], weights)
        assert not torch.allclose(result, other, rtol=1e-2)


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_looks_like_attention_stays(name: str, tmp_path: Path) -> None:
    _, source = generated.emitted(write(OTHERS[name], tmp_path / "m.onnx"), tmp_path / "out")
    assert not any(call in source for call in FUSED) and "softmax(" in source, source


def test_scores_of_fused_attention_are_not_kept(tmp_path: Path) -> None:
    """Autograd keeps nothing that is as large as the scores."""
    tokens = 64
    kept: list[int] = []
    q, k, v = (torch.randn(1, 1, tokens, SIZE, requires_grad=True) for _ in range(3))
    from heterplan_runtime import operators as ops

    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        ops.attention(q, k, v, is_causal=1, wants_scores=False)
    assert kept and max(kept) < tokens * tokens
