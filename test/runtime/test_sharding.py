"""Sharding rules against enumeration: whatever strategies are chosen, the shards together compute the
outputs and the gradients of the whole model, in double precision."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import generated
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto
from sharded import check_shards, emit, inputs_of, run_shards, run_stage, whole_stage
from test_generated_models import Builder, attention, convolutions, tied

SMALL = generated.SOURCE / "test/data/small"
RULES = generated.SOURCE / "lib/ir/sharding/ShardingRules.def"

pytestmark = pytest.mark.skipif(not generated.EMIT_MODEL.is_file(), reason="emit-model is not built")


def known(b: Builder, *shape: int) -> str:
    """A tensor with a gradient: samples, and a parameter."""
    name = f"x{len(b.inputs)}"
    x = b.input(name, list(shape))
    return b.node("Add", x, b.weight(f"{name}.offset", *shape))


def flag(b: Builder, *shape: int) -> str:
    return b.node("Greater", known(b, *shape), b.constant(f"zero{len(b.nodes)}", 0.0, "float32"))


Case = Callable[[Builder], str]


def unary(op: str, **attributes: object) -> Case:
    return lambda b: b.node(op, known(b, 4, 8), **attributes)


def positive(op: str) -> Case:
    return lambda b: b.node(op, b.node("Exp", known(b, 4, 8)))


def binary(op: str) -> Case:
    return lambda b: b.node(op, known(b, 4, 8), b.node("Exp", known(b, 1, 8)))


def compared(op: str) -> Case:
    return lambda b: b.node(op, known(b, 4, 8), known(b, 4, 8))


def logical(op: str) -> Case:
    return lambda b: b.node(op, flag(b, 4, 8), flag(b, 4, 1))


def masked(b: Builder, *shape: int) -> str:
    """A mask that is added to the scores of attention."""
    return b.input("mask", list(shape))


def split(b: Builder) -> str:
    return b.node("Split", known(b, 4, 12), b.constant("sizes", [8, 4]), outputs=2, axis=2)


def gather(b: Builder) -> str:
    ids = b.input("ids", [6], TensorProto.INT64)
    return b.node("Gather", b.weight("table", 10, 8), ids)


def batch_normalization(b: Builder) -> str:
    channels = (b.weight(name, 8) for name in ("bn.scale", "bn.bias", "bn.mean"))
    scale, bias, mean = channels
    variance = b.constant("bn.variance", [1.0, 2, 3, 4, 5, 6, 7, 8], "float32")
    return b.node("BatchNormalization", known(b, 8, 5), scale, bias, mean, variance)


def layer_normalization(b: Builder) -> str:
    return b.node("LayerNormalization", known(b, 4, 8), b.weight("w", 8), b.weight("b", 8), axis=-1)


def convolution(group: int) -> Case:
    def build(b: Builder) -> str:
        weight = b.weight("kernel", 8, 8 // group, 3, 3)
        return b.node("Conv", known(b, 8, 5, 5), weight, b.weight("bias", 8), group=group)

    return build


def reduction(op: str, keepdims: int) -> Case:
    if op == "ReduceSum":
        return lambda b: b.node(op, known(b, 4, 8), b.constant("axes", [1]), keepdims=keepdims)
    return lambda b: b.node(op, known(b, 4, 8), axes=[1], keepdims=keepdims)


def reshape(wanted: list[int], *shape: int) -> Case:
    return lambda b: b.node("Reshape", known(b, *shape), b.constant("shape", wanted))


def is_nan(b: Builder) -> str:
    x = known(b, 4, 8)
    return b.node("Where", b.node("IsNaN", x), b.constant("zero", 0.0, "float32"), x)


def rms_normalization(b: Builder) -> str:
    return b.node("RMSNormalization", known(b, 4, 8), b.weight("w", 8), axis=-1)


def dropout(b: Builder) -> str:
    ratio = b.constant("ratio", 0.4, "float32")
    return b.node("Dropout", known(b, 4, 8), ratio, b.constant("training", True, "bool"))


def heads_dropout(b: Builder) -> str:
    """Samples and heads on one axis."""
    x = b.node("Reshape", known(b, 4, 6), b.constant("shape", [-1, 6]))
    return b.node("Dropout", x, b.constant("ratio", 0.4, "float32"), b.constant("training", True, "bool"))


def slicing(b: Builder) -> str:
    ends = [b.constant(name, [value]) for name, value in (("starts", 1), ("ends", 3), ("axes", 1))]
    return b.node("Slice", known(b, 4, 8), *ends)


def sliced_heads(begin: int, end: int) -> Case:
    """A part of an axis of 12, as of queries, keys and values."""

    def build(b: Builder) -> str:
        bounds = [b.constant(name, [value]) for name, value in (("starts", begin), ("ends", end), ("axes", -1))]
        return b.node("Slice", known(b, 4, 12), *bounds)

    return build


CASES: dict[str, list[Case]] = {
    "MatMul": [
        lambda b: b.node("MatMul", known(b, 4, 8), b.weight("w", 8, 12)),
        lambda b: b.node("MatMul", known(b, 2, 4, 8), known(b, 2, 8, 4)),
        lambda b: b.node("MatMul", known(b, 2, 4, 8), known(b, 1, 8, 4)),
        lambda b: b.node("MatMul", known(b, 4, 8), b.weight("v", 8)),
    ],
    "Gemm": [
        lambda b: b.node("Gemm", known(b, 8), b.weight("w", 8, 12), b.weight("b", 12)),
        lambda b: b.node("Gemm", known(b, 8), b.weight("w", 12, 8), b.weight("b", 1), transB=1, alpha=0.5),
        lambda b: b.node("Gemm", b.weight("a", 8, 4), b.weight("w", 8, 12), transA=1),
    ],
    "Einsum": [lambda b: b.node("Einsum", known(b, 4, 8), b.weight("w", 8, 6), equation="bij,jk->bki")],
    "Conv": [convolution(1), convolution(8), convolution(2)],
    "Gather": [gather, lambda b: b.node("Gather", known(b, 4, 8), b.constant("i", [2, 0]), axis=1)],
    "Dropout": [dropout, heads_dropout],
    "Softmax": [unary("Softmax", axis=-1), unary("Softmax", axis=1)],
    "LogSoftmax": [unary("LogSoftmax", axis=2)],
    "Attention": [
        lambda b: b.node("Attention", *(known(b, 4, 6, 8) for _ in range(3))),
        lambda b: b.node("Attention", *(known(b, 4, 6, 8) for _ in range(3)), is_causal=1),
        lambda b: b.node("Attention", *(known(b, 4, 6, 8) for _ in range(3)), masked(b, 4, 6, 6)),
        lambda b: b.node("Attention", *(known(b, 4, 6, 8) for _ in range(3)), masked(b, 1, 1, 6)),
    ],
    "LayerNormalization": [layer_normalization],
    "RMSNormalization": [rms_normalization],
    "BatchNormalization": [batch_normalization],
    "ReduceSum": [reduction("ReduceSum", 0), reduction("ReduceSum", 1)],
    "ReduceMean": [reduction("ReduceMean", 0), reduction("ReduceMean", 1)],
    "ReduceMax": [reduction("ReduceMax", 0)],
    "MaxPool": [lambda b: b.node("MaxPool", known(b, 8, 6, 6), kernel_shape=[2, 2])],
    "AveragePool": [lambda b: b.node("AveragePool", known(b, 8, 6, 6), kernel_shape=[3, 3])],
    "GlobalAveragePool": [lambda b: b.node("GlobalAveragePool", known(b, 8, 6, 6))],
    "Trilu": [lambda b: b.node("Trilu", known(b, 4, 6, 6), upper=0)],
    "Transpose": [lambda b: b.node("Transpose", known(b, 4, 8), perm=[0, 2, 1])],
    "Expand": [
        lambda b: b.node("Expand", known(b, 1, 8), b.constant("shape", [1, 4, 1])),
        lambda b: b.node("Expand", known(b, 4, 8), b.constant("shape", [2, 1, 1, 1])),
    ],
    "Slice": [slicing, sliced_heads(0, 4), sliced_heads(4, 8), sliced_heads(8, 2**40), sliced_heads(2, 4)],
    "Reshape": [
        reshape([0, 4, 4, 8], 4, 32),
        reshape([0, 4, 32], 4, 4, 8),
        reshape([0, 3, 4, 2], 24),
        reshape([-1, 4, 8], 4, 4, 8),
        reshape([0, 8, 12], 4, 24),
    ],
    "Flatten": [lambda b: b.node("Flatten", known(b, 4, 8), axis=1)],
    "Squeeze": [lambda b: b.node("Squeeze", known(b, 1, 8), b.constant("axes", [1]))],
    "Unsqueeze": [lambda b: b.node("Unsqueeze", known(b, 4, 8), b.constant("axes", [1]))],
    "Split": [split, lambda b: b.node("Split", known(b, 4, 12), outputs=3, axis=2, )],
    "Concat": [
        lambda b: b.node("Concat", known(b, 4, 8), known(b, 4, 4), axis=2),
        lambda b: b.node("Concat", known(b, 4, 8), known(b, 4, 8), axis=2),
    ],
    "Where": [lambda b: b.node("Where", flag(b, 1, 8), known(b, 4, 8), known(b, 4, 1))],
    "Clip": [lambda b: b.node("Clip", known(b, 4, 8), b.constant("low", -0.5, "float32"))],
    "Cast": [unary("Cast", to=TensorProto.DOUBLE)],
    "IsNaN": [is_nan],
    "CastLike": [lambda b: b.node("CastLike", known(b, 4, 8), known(b, 4, 1))],
    "PRelu": [lambda b: b.node("PRelu", known(b, 4, 8), b.weight("slope", 8))],
    "Mod": [lambda b: b.node("Mod", known(b, 4, 8), b.node("Exp", known(b, 4, 8)), fmod=1)],
    "Pow": [lambda b: b.node("Pow", b.node("Exp", known(b, 4, 8)), known(b, 4, 8))],
    "Sum": [lambda b: b.node("Sum", known(b, 4, 8), known(b, 4, 1), known(b, 1, 8))],
    "Mean": [lambda b: b.node("Mean", known(b, 4, 8), known(b, 4, 1))],
    "Gelu": [unary("Gelu")],
    "Swish": [unary("Swish")],
}
for op in ("Add", "Sub", "Mul", "Div", "Min", "Max"):
    CASES[op] = [binary(op), compared(op)]
CASES["Mul"].append(lambda b: b.node("Mul", known(b, 4, 8), b.constant("half", 0.5, "float32")))
for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
    CASES[op] = [compared(op)]
for op in ("And", "Or"):
    CASES[op] = [logical(op)]
CASES["Not"] = [lambda b: b.node("Not", flag(b, 4, 8))]
for op in ("Log", "Sqrt", "Reciprocal"):
    CASES[op] = [positive(op)]
for op in ("Neg", "Identity", "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Mish", "HardSwish", "HardSigmoid",
           "Sigmoid", "Tanh", "Softplus", "Softsign", "Erf", "Exp", "Abs", "Sin", "Cos"):  # fmt: skip
    CASES[op] = [unary(op)]

OPSETS = {"Attention": 23, "RMSNormalization": 23, "Gelu": 20, "Swish": 24, "Mish": 18}


def save(b: Builder, path: Path, output: str, op: str) -> None:
    """The model, in the first operator set that has `op`."""
    kind = TensorProto.BOOL if op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or",
                                      "Not") else TensorProto.FLOAT  # fmt: skip
    results = [onnx.helper.make_tensor_value_info(output, kind, None)]
    graph = onnx.helper.make_graph(b.nodes, "case", b.inputs, results, b.weights)
    opset = onnx.helper.make_opsetid("", OPSETS.get(op, 17))
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


def test_every_rule_has_a_case() -> None:
    ruled = re.findall(r'^HETERPLAN_SHARDING_RULE\("(\w+)"', RULES.read_text(), re.M)
    assert sorted(ruled) == sorted(CASES)


@pytest.mark.parametrize("op", sorted(CASES))
def test_strategies_compute_what_the_operator_does(tmp_path: Path, op: str) -> None:
    strategies = 0
    for number, build in enumerate(CASES[op]):
        b = Builder()
        output = build(b)
        model, folder = tmp_path / f"{number}.onnx", tmp_path / str(number)
        save(b, model, output, op)
        assert generated.emit([(model, folder / "whole", 1)]) == [""]
        assert not (error := emit("--strategies", 2, model, folder)), error
        train = op == "Dropout"
        module, whole = whole_stage(folder / "whole", train)
        inputs = inputs_of(module)
        wanted = run_stage(whole, inputs)
        for strategy in sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit()):
            results = run_shards(folder / str(strategy), whole, inputs, 2, train)
            check_shards(folder / str(strategy), wanted, results, f"{op} {number}, strategy {strategy}")
            strategies += 1
    assert strategies > len(CASES[op]), "no strategy divides the operator"


def llama(path: Path, heads: int = 4, groups: int = 2, head: int = 4, tokens: int = 6) -> Path:
    """Two blocks with root mean square norms, rotary positions, grouped queries and a gated MLP."""
    b = Builder()
    width = heads * head
    x = b.node("Gather", b.weight("tokens.weight", 12, width), b.input("ids", [tokens], TensorProto.INT64))
    turns = np.outer(np.arange(tokens), 100.0 ** -(np.arange(head) % (head // 2) * 2 / head))
    angles = [b.constant("cos", np.cos(turns), "float32"), b.constant("sin", np.sin(turns), "float32")]
    for block in range(2):
        def rms(y: str, name: str) -> str:
            square = b.node("ReduceMean", b.node("Mul", y, y), axes=[-1])
            root = b.node("Sqrt", b.node("Add", square, b.constant(f"eps.{name}", 1e-5, "float32")))
            return b.node("Mul", b.node("Div", y, root), b.weight(name, width))

        def projected(y: str, name: str, count: int) -> str:
            flat = b.node("MatMul", y, b.weight(name, width, count * head))
            parts = b.node("Reshape", flat, b.constant(f"{name}.heads", [0, tokens, count, head]))
            return b.node("Transpose", parts, perm=[0, 2, 1, 3])

        def rotated(y: str, name: str) -> str:
            def half(begin: int, end: int, part: str) -> str:
                bounds = [b.constant(f"{name}.{part}{i}", [v]) for i, v in enumerate((begin, end, 3))]
                return b.node("Slice", y, *bounds)

            turned = b.node("Concat", b.node("Neg", half(head // 2, head, "high")), half(0, head // 2, "low"), axis=-1)
            return b.node("Add", b.node("Mul", y, angles[0]), b.node("Mul", turned, angles[1]))

        def repeated(y: str, name: str) -> str:
            one = b.node("Unsqueeze", y, b.constant(f"{name}.axis", [2]))
            sizes = b.constant(f"{name}.repeats", [1, 1, heads // groups, 1, 1])
            wide = b.node("Expand", one, sizes)
            return b.node("Reshape", wide, b.constant(f"{name}.wide", [0, heads, tokens, head]))

        y = rms(x, f"{block}.norm1")
        q = rotated(projected(y, f"{block}.q", heads), f"{block}.rq")
        k = repeated(rotated(projected(y, f"{block}.k", groups), f"{block}.rk"), f"{block}.ek")
        v = repeated(projected(y, f"{block}.v", groups), f"{block}.ev")
        scores = b.node("MatMul", q, b.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = b.node("Div", scores, b.constant(f"{block}.scale", 2.0, "float32"))
        y = b.node("MatMul", b.node("Softmax", scores, axis=-1), v)
        y = b.node("Transpose", y, perm=[0, 2, 1, 3])
        y = b.node("Reshape", y, b.constant(f"{block}.flat", [0, tokens, heads * head]))
        x = b.node("Add", x, b.node("MatMul", y, b.weight(f"{block}.o", heads * head, width)))
        y = rms(x, f"{block}.norm2")
        gate = b.node("MatMul", y, b.weight(f"{block}.gate", width, 4 * width))
        gate = b.node("Mul", gate, b.node("Sigmoid", gate))
        y = b.node("Mul", gate, b.node("MatMul", y, b.weight(f"{block}.up", width, 4 * width)))
        x = b.node("Add", x, b.node("MatMul", y, b.weight(f"{block}.down", 4 * width, width)))
    return b.save(path, x)


MODELS: dict[str, Callable[[Path], Path]] = {
    "mlp": lambda path: SMALL / "mlp.onnx",
    "cnn": lambda path: SMALL / "cnn.onnx",
    "transformer": lambda path: SMALL / "transformer.onnx",
    "attention": attention,
    "convolutions": convolutions,
    "tied": tied,
    "llama": llama,
}


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("degree", [2, 4])
def test_any_assignment_computes_what_the_model_does(tmp_path: Path, name: str, degree: int) -> None:
    model = MODELS[name](tmp_path / f"{name}.onnx")
    assert generated.emit([(model, tmp_path / "whole", 1)]) == [""]
    module, whole = whole_stage(tmp_path / "whole")
    inputs = inputs_of(module)
    wanted = run_stage(whole, inputs)
    for choice in ("slow", *range(8)):
        folder = tmp_path / f"shards{choice}"
        assert not (error := emit("--shards", degree, model, folder, choice)), error
        results = run_shards(folder, whole, inputs, degree)
        check_shards(folder, wanted, results, f"{name} in {degree}, choice {choice}")


def collectives_of(folder: Path) -> dict[str, int]:
    """How often the generated code of a shard calls each method of Shards."""
    calls = re.findall(r"self\.shards\.(\w+)\(", (folder / "model.py").read_text())
    return {name: calls.count(name) for name in set(calls)}


@pytest.mark.parametrize("degree", [2, 4])
@pytest.mark.parametrize("name", ["gpt2_small", "bert_base", "vit_b_16"])
def test_blocks_take_two_all_reduces_in_each_pass(tmp_path: Path, name: str, degree: int) -> None:
    """The pattern of Megatron (Shoeybi et al., 2019): `all_reduce` is one of the forward pass, and `copy`
    one of the backward pass."""
    model = generated.SOURCE / f"test/data/models/{name}.onnx"
    assert not (error := emit("--shards", degree, model, tmp_path, "whole")), error
    calls = collectives_of(tmp_path)
    calls.pop("dropout", 0)
    blocks = {"all_reduce": 24, "copy": 24}
    others = {
        # The bias of each projection is added by parts; words have divided columns.
        "bert_base": {"summand": 12, "gather": 1},
        "gpt2_small": {"all_reduce": 25, "slice": 1},  # 50257 words cannot be divided: their scores are summed
        "vit_b_16": {"gather": 1},  # of the patches, whose channels are divided
    }
    assert calls == {**blocks, **others.get(name, {})}


@pytest.mark.parametrize("groups", [4, 2])
def test_grouped_queries_take_two_all_reduces(tmp_path: Path, groups: int) -> None:
    model = llama(tmp_path / "llama.onnx", heads=8, groups=groups, head=64, tokens=256)
    assert not (error := emit("--shards", 2, model, tmp_path / "shards", "whole")), error
    calls = collectives_of(tmp_path / "shards")
    assert calls == {"all_reduce": 4, "copy": 4}


@pytest.mark.parametrize("name", ["gpt2_small", "bert_base"])
def test_norms_between_products_are_sharded_along_the_sequence(tmp_path: Path, name: str) -> None:
    """The pattern of Korthikanti et al. (2023): a reduce-scatter and an all-gather where there was an
    all-reduce. `copy` is of the weights of norms, whose gradients are summed."""
    model = generated.SOURCE / f"test/data/models/{name}.onnx"
    assert not (error := emit("--shards", 4, model, tmp_path)), error
    calls = collectives_of(tmp_path)
    assert (calls["reduce_scatter"], calls["gather_sum"], calls["copy"]) == (24, 24, 48)
    assert calls.get("all_reduce", 0) == (1 if name == "gpt2_small" else 0)  # of the scores of words


def test_a_sequence_that_cannot_be_divided_is_whole(tmp_path: Path) -> None:
    """A ViT has 197 tokens."""
    assert not (error := emit("--shards", 4, generated.SOURCE / "test/data/models/vit_b_16.onnx", tmp_path)), error
    calls = collectives_of(tmp_path)
    assert calls["all_reduce"] == 24 and "reduce_scatter" not in calls
