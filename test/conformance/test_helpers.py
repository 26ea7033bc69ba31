"""The functions that generated code calls have ONNX's defaults, and carry gradients."""

from __future__ import annotations

import inspect
import re
from typing import Any

import generated
import onnx
import pytest
import torch
from heterplan_runtime import operators as ops
from torch import Tensor

TABLE = (generated.SOURCE / "lib/codegen/Operators.def").read_text()
HELPER = re.compile(r'HETERPLAN_HELPER\(\s*"(\w+)",\s*"(\w+)",\s*\d+,\s*((?:"[^"]*"\s*)+)\)')
# Attributes that the file always has, or whose absence means that nothing is given.
WITHOUT_DEFAULT = (inspect.Parameter.empty, None, (), 0)


def settings() -> list[tuple[str, str, str]]:
    found = []
    for op, function, texts in HELPER.findall(TABLE):
        names = " ".join(re.findall(r'"([^"]*)"', texts)).split()
        found += [(op, function, name) for name in names if not re.match("#|activations$", name)]
    return found


def onnx_default(op: str, attribute: str) -> Any:
    schema = onnx.defs.get_schema(op, 23 if op != "TensorScatter" else 24)
    value = onnx.helper.get_attribute_value(schema.attributes[attribute].default_value)
    if isinstance(value, float):
        return pytest.approx(value)
    if isinstance(value, list):
        return tuple(value)
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize(("op", "function", "setting"), settings())
def test_helpers_have_the_defaults_of_onnx(op: str, function: str, setting: str) -> None:
    default = inspect.signature(getattr(ops, function)).parameters[setting].default
    schema = onnx.defs.get_schema(op, 23 if op != "TensorScatter" else 24)
    if schema.attributes[setting].default_value.type:
        assert default == onnx_default(op, setting)
    else:
        assert default in WITHOUT_DEFAULT


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def recurrent(gates: int) -> tuple[Tensor, ...]:
    return double(3, 2, 4), double(1, gates * 3, 4), double(1, gates * 3, 3), double(1, gates * 6)


def of_module(gates: int) -> tuple[Tensor, ...]:
    """An input, and the parameters of a module of one direction."""
    return double(3, 2, 4), double(gates * 3, 4), double(gates * 3, 3), double(gates * 3), double(gates * 3)


LENGTHS = torch.tensor([3, 2])
DIFFERENTIABLE = {
    "lstm": lambda: (lambda *v: ops.lstm(*v)[0], recurrent(4)),
    "lstm of other lengths": lambda: (lambda *v: ops.lstm(*v, LENGTHS)[0], recurrent(4)),
    "gru": lambda: (lambda *v: ops.gru(*v)[0], recurrent(3)),
    "rnn": lambda: (lambda *v: ops.rnn(*v, direction="reverse")[0], recurrent(1)),
    "module_lstm": lambda: (lambda x, *w: ops.module_lstm(x, w)[0], of_module(4)),
    "module_gru": lambda: (lambda x, *w: ops.module_gru(x, w)[0], of_module(3)),
    "module_rnn": lambda: (lambda x, *w: ops.module_rnn(x, w, direction="reverse")[0], of_module(1)),
    "resize": lambda: (
        lambda x: ops.resize(x, None, [1.0, 1.0, 0.6, 1.7], mode="cubic", antialias=1),
        (double(1, 2, 5, 4),),
    ),
    "roi_align": lambda: (
        lambda x: ops.roi_align(
            x, torch.tensor([[0.5, 0.5, 3.0, 3.0]]).double(), torch.tensor([0]), output_width=2
        ),
        (double(1, 2, 5, 5),),
    ),
    "attention": lambda: (
        lambda q, k, v: ops.attention(q, k, v, is_causal=1, softcap=2.0)[0],
        (double(1, 4, 3, 2), double(1, 2, 3, 2), double(1, 2, 3, 2)),
    ),
    "softmax_cross_entropy_loss": lambda: (
        lambda x: ops.softmax_cross_entropy_loss(x, torch.tensor([1, 0, 2]), ignore_index=0)[0],
        (double(3, 4),),
    ),
    "normalize_channels": lambda: (
        lambda x, s, b, m, v: ops.normalize_channels(x, s, b, m, v.square()),
        (double(2, 3, 4), double(3), double(3), double(3), double(3)),
    ),
    "stft": lambda: (lambda x: ops.stft(x, 2, frame_length=4), (double(1, 8, 1),)),
    "deform_conv": lambda: (
        lambda x, w: ops.deform_conv(x, w, torch.full((1, 8, 2, 2), 0.25).double()),
        (double(1, 2, 3, 3), double(1, 2, 2, 2)),
    ),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_helpers_carry_gradients(name: str) -> None:
    torch.manual_seed(0)
    function, inputs = DIFFERENTIABLE[name]()
    assert torch.autograd.gradcheck(function, inputs)


def test_kernels_and_loops_compute_the_same() -> None:
    torch.manual_seed(0)
    for function, gates in ((ops.lstm, 4), (ops.gru, 3), (ops.rnn, 1)):
        x, w, r, b = (value.detach() for value in recurrent(gates))
        both = [torch.cat([value, -value]) for value in (w, r, b)]
        options: dict[str, Any] = {"direction": "bidirectional"}
        if function is ops.gru:
            options["linear_before_reset"] = 1
        kernel = function(x, *both, **options)
        loop = function(x, *both, torch.tensor([3, 3]), **options)
        for found, expected in zip(kernel, loop):
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("name", "order"), [("lstm", (0, 3, 1, 2)), ("gru", (1, 0, 2)), ("rnn", (0,))])
def test_parameters_of_a_module_compute_what_reordered_ones_do(
    name: str, order: tuple[int, ...], direction: str, layout: int
) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"direction": direction, "layout": layout}
    x, states, weights = double(3, 2, 4), [], []
    directions = 2 if direction == "bidirectional" else 1
    for _ in range(2 if name == "lstm" else 1):
        states.append(double(2, directions, 3) if layout else double(directions, 2, 3))
    if layout:
        x = x.transpose(0, 1)
    for _ in range(directions):
        weights += of_module(len(order))[1:]

    def packed(start: int) -> Tensor:  # in ONNX's order
        gates = [weight.chunk(len(order)) for weight in weights[start::4]]
        return torch.stack([torch.cat([each[index] for index in order]) for each in gates])

    found = getattr(ops, f"module_{name}")(x, weights, *states, **options)
    if name == "gru":
        options["linear_before_reset"] = 1
    both = torch.cat([packed(2), packed(3)], dim=1)
    expected = getattr(ops, name)(x, packed(0), packed(1), both, None, *states, **options)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other)


def test_random_values_follow_the_seed_of_pytorch() -> None:
    probabilities = torch.full((1000,), 0.25)
    torch.manual_seed(0)
    first = ops.bernoulli(probabilities, dtype=torch.float32)
    assert 0.2 < float(first.mean()) < 0.3
    assert not torch.equal(first, ops.bernoulli(probabilities, dtype=torch.float32))
    torch.manual_seed(0)
    assert torch.equal(first, ops.bernoulli(probabilities, dtype=torch.float32))
    drawn = ops.multinomial(torch.tensor([[0.0, 5.0]]), sample_size=100, dtype=torch.int32)
    assert float(drawn.float().mean()) > 0.9


def test_dropout_scales_what_it_keeps() -> None:
    torch.manual_seed(0)
    x = torch.ones(1000)
    y, mask = ops.dropout(x, 0.25, True)
    assert 0.7 < float(mask.float().mean()) < 0.8
    torch.testing.assert_close(y, mask / 0.75)
    assert ops.dropout(x, 0.25, False)[1].all()
