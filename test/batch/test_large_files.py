"""Weights are never in memory: not at import, be they in the file or beside it, nor when they are
copied into weights/. The files here are sparse; they take no room on the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import load_file

SOURCE = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HETERPLAN_BINARY", SOURCE / "build/bin/heterplan"))
PEAK = 64 << 20  # bytes; the program itself takes about 15 MiB
SIDE = 2560
SIZE = SIDE * SIDE * 4  # of one weight


def peak(*command: str | Path) -> int:
    """Bytes of memory that the command had at most; it must succeed."""
    measure = (
        "import resource, subprocess, sys; "
        "status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024); sys.exit(status)"
    )
    run = subprocess.run([sys.executable, "-c", measure, *command], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


def chain(count: int) -> onnx.ModelProto:
    """Products with w0, w1, ..., whose values are missing."""
    nodes = [
        helper.make_node("MatMul", [f"t{i}" if i else "x", f"w{i}"], [f"t{i + 1}"], name=f"m{i}")
        for i in range(count)
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", SIDE])
    y = helper.make_tensor_value_info(f"t{count}", TensorProto.FLOAT, ["N", SIDE])
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weight(index: int) -> TensorProto:
    return TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=[SIDE, SIDE])


def beside(tensor: TensorProto, **fields: object) -> TensorProto:
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in fields.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def varint(number: int) -> bytes:
    low = bytes([number & 0x7F | (0x80 if number > 0x7F else 0)])
    return low + varint(number >> 7) if number > 0x7F else low


def inside(path: Path, count: int) -> None:
    """A file whose weights lie in it: their bytes are holes."""
    model = chain(count)
    graph = model.graph.SerializeToString()
    model.ClearField("graph")
    raw = varint(9 << 3 | 2) + varint(SIZE)
    heads = [weight(i).SerializeToString() + raw for i in range(count)]
    heads = [varint(5 << 3 | 2) + varint(len(head) + SIZE) + head for head in heads]
    total = len(graph) + sum(len(head) + SIZE for head in heads)
    with path.open("wb") as file:
        file.write(model.SerializeToString() + varint(7 << 3 | 2) + varint(total) + graph)
        for head in heads:
            file.write(head)
            file.seek(SIZE, os.SEEK_CUR)
        file.truncate()


def test_weights_in_the_file(tmp_path: Path) -> None:
    inside(tmp_path / "model.onnx", 24)
    assert (tmp_path / "model.onnx").stat().st_size > 24 * SIZE
    assert peak(BINARY, "import", tmp_path / "model.onnx") < PEAK


def test_weights_beside_the_file_beyond_two_gigabytes(tmp_path: Path) -> None:
    model = chain(400)
    for i in range(400):
        fields = {"location": "model.bin", "offset": i * SIZE, "length": SIZE}
        model.graph.initializer.append(beside(weight(i), **fields))
    onnx.save(model, tmp_path / "model.onnx")
    os.truncate(os.open(tmp_path / "model.bin", os.O_CREAT | os.O_WRONLY), 400 * SIZE)
    assert peak(BINARY, "import", tmp_path / "model.onnx") < PEAK


@pytest.mark.parametrize("stages", [1, 3])
def test_weights_are_copied_by_stage(stages: int, tmp_path: Path) -> None:
    """From several files, with and without offset and length, and from the model itself."""
    tool = BINARY.with_name("emit-model")
    if not tool.is_file():
        pytest.skip(f"{tool} is not built")
    rng = np.random.default_rng(3)
    values = [rng.standard_normal((SIDE, SIDE), np.float32) for _ in range(3)]
    model = chain(3)
    model.graph.initializer.append(beside(weight(0), location="first.bin"))
    (tmp_path / "deep").mkdir()
    model.graph.initializer.append(beside(weight(1), location="deep/second.bin", offset=12))
    model.graph.initializer.append(weight(2))
    model.graph.initializer[2].raw_data = values[2].tobytes()
    (tmp_path / "first.bin").write_bytes(values[0].tobytes() + b"more")
    (tmp_path / "deep/second.bin").write_bytes(b"a dozen byte" + values[1].tobytes())
    onnx.save(model, tmp_path / "model.onnx")
    out = tmp_path / "out"
    assert peak(tool, tmp_path / "model.onnx", out, str(stages)) < PEAK
    files = sorted((out / "weights").iterdir())
    assert len(files) == stages
    stored = {name: array for file in files for name, array in load_file(file).items()}
    assert sorted(stored) == ["w0", "w1", "w2"]
    for i in range(3):
        assert np.array_equal(stored[f"w{i}"], values[i])
