"""Names come from the model, code comes from us: whatever a model calls its tensors, nodes and
types, model.py is Python and computes the same."""

from __future__ import annotations

import ast
import os
import random
from pathlib import Path

import generated
import onnx
import pytest
import torch

MODELS = sorted((generated.SOURCE / "test/data/small").glob("*.onnx"))
# More, for trials by hand: HETERPLAN_NAME_MUTATIONS=10000 test/run-pytest.sh test/runtime -k names
MUTATIONS = int(os.environ.get("HETERPLAN_NAME_MUTATIONS", "60"))
AWKWARD = [
    "", " ", "a b", "x\ny", "\r\n", "\x0c", "\t", "\\", '"', '"""', "'''", '\\"', "#", "(", "([{",
    "]})", "{x}", "%s", "a,b", "a;b", "lambda", "None", "self", "p", "n", "F", "torch", "_", "__",
    "def f():", "\u2028", "\u00e9", "\U0001f600", "..", ".", "a.", ".a", "a.b", "a", "0", "1e5",
    "\x00", "\x7f", "/", "/model/(wrapper)/" + "block/" * 40 + "MatMul", "z" * 101, "y" * 100_000,
]  # fmt: skip


def graphs_of(model: onnx.ModelProto) -> list[str]:
    """The names of all its tensors."""
    graph = model.graph
    names = {name for node in graph.node for name in [*node.input, *node.output]}
    names |= {value.name for value in [*graph.input, *graph.output, *graph.initializer]}
    return sorted(names - {""})


def renamed(model: onnx.ModelProto, names: dict[str, str]) -> onnx.ModelProto:
    """A copy of `model` whose tensors have other names."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    del graph.value_info[:]
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in [*graph.input, *graph.output, *graph.initializer]:
        value.name = names.get(value.name, value.name)
    return result


def awkward(draw: random.Random) -> str:
    return "".join(draw.choice(AWKWARD) for _ in range(draw.choice((1, 1, 2, 3))))


def rename(model: onnx.ModelProto, draw: random.Random) -> onnx.ModelProto:
    """Half of the names, in such a way that none is there twice."""
    names: dict[str, str] = {}
    taken = set(graphs_of(model))
    for name in graphs_of(model):
        new = awkward(draw)
        if draw.random() < 0.5 and new and new not in taken:
            names[name] = new
            taken.add(new)
    result = renamed(model, names)
    for node in result.graph.node:
        if draw.random() < 0.5:
            node.name = awkward(draw)
    result.graph.name = awkward(draw)
    return result


def retype(model: onnx.ModelProto, draw: random.Random) -> None:
    """Some value of some number: types, axes, dimensions, attributes."""
    graph = model.graph
    for _ in range(draw.choice((1, 2, 5))):
        node = draw.choice(graph.node)
        what = draw.randrange(4)
        if what == 0:
            draw.choice(graph.initializer).data_type = draw.randrange(1, 24)
        elif what == 1:
            node.op_type = draw.choice(graph.node).op_type
        elif what == 2 and node.attribute:
            draw.choice(node.attribute).i = draw.choice((-1, 0, 1, 2, 1 << 40))
        elif what == 3:
            value = draw.choice(graph.input).type.tensor_type
            value.elem_type = draw.randrange(1, 17)


def weights_of(folder: Path, samples: int = 2) -> dict[str, torch.Tensor]:
    module = generated.load(folder)
    torch.manual_seed(0)
    inputs = {}
    for name, (kind, dims) in module.INPUTS.items():
        sizes = [per_sample * samples + fixed for per_sample, fixed in dims]
        dtype = getattr(torch, kind)
        floating = dtype.is_floating_point
        inputs[name] = torch.rand(sizes, dtype=dtype) if floating else torch.ones(sizes, dtype=dtype)
    with torch.no_grad():
        return generated.forward(generated.stages(module, folder), inputs)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_awkward_names_change_nothing(path: Path, tmp_path: Path) -> None:
    draw = random.Random(path.stem)
    model = onnx.load(path)
    jobs = [(path, tmp_path / "plain", 1)]
    for trial in range(6):
        onnx.save(rename(model, draw), tmp_path / f"{trial}.onnx")
        jobs += [(tmp_path / f"{trial}.onnx", tmp_path / str(trial), 1 + trial % 3)]
    assert not any(generated.emit(jobs)), generated.emit(jobs)
    expected = [*weights_of(tmp_path / "plain").values()]
    for _, folder, _ in jobs[1:]:
        torch.testing.assert_close([*weights_of(folder).values()], expected)


def test_names_of_ten_megabytes(tmp_path: Path) -> None:
    model = onnx.load(MODELS[-1])
    names = {name: f"{index}" + "ä" * 5_000_000 for index, name in enumerate(graphs_of(model)[:3])}
    onnx.save(renamed(model, names), tmp_path / "model.onnx")
    jobs = [(tmp_path / "model.onnx", tmp_path / "out", 2)]
    assert generated.emit(jobs) == [""]
    ast.parse((tmp_path / "out/model.py").read_text())


def test_whatever_is_written_is_python(tmp_path: Path) -> None:
    """Names and types are drawn at random; most models are refused, and none crashes."""
    draw = random.Random(0)
    jobs = []
    for trial in range(MUTATIONS):
        path = draw.choice(MODELS)
        model = rename(onnx.load(path), draw)
        if trial % 2:
            retype(model, draw)
        (tmp_path / f"{trial}.onnx").write_bytes(model.SerializeToString())
        jobs.append((tmp_path / f"{trial}.onnx", tmp_path / str(trial), 1 + trial % 3))
    for (_, folder, _), emitted in zip(jobs, generated.emit_all(jobs), strict=True):
        assert emitted.state != "crashed", (folder, emitted.error)
        if emitted.state == "generated":
            ast.parse((folder / "model.py").read_text())
