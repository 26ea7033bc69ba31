"""The official ONNX operator tests, as far as their operators can be written in PyTorch.

The files come with Debian's libonnx-testdata. An operator may be refused with a reason, but what is
generated must compute what ONNX says.
"""

from __future__ import annotations

import re
from pathlib import Path

import generated
import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

DATA = Path("/usr/share/libonnx-testdata/data")
OPERATORS = set(
    re.findall(
        r'HETERPLAN_\w+\("(\w+)"', (generated.SOURCE / "lib/codegen/Operators.def").read_text()
    )
)
# Settings that real models give as constants; the tests feed them.
SETTINGS = {
    "ConstantOfShape", "CumSum", "Dropout", "Expand", "Gather", "OneHot", "Pad", "ReduceSum",
    "Reshape", "Resize", "Slice", "Split", "Squeeze", "Tile", "TopK", "Trilu", "Unsqueeze",
    "Upsample",
}  # fmt: skip
# NumPy has no such type, or the result is random.
UNTESTABLE = re.compile(r"BFLOAT16|STRING|test_training_dropout")
LEAST_PASSED = 680


def array(path: Path) -> np.ndarray:
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return np.array(numpy_helper.to_array(tensor))


def fold_settings(model: onnx.ModelProto, folder: Path) -> None:
    """Turns the inputs that are settings into constants."""
    if len(model.graph.node) > 1 or model.graph.node[0].op_type not in SETTINGS:
        return
    first = 0 if model.graph.node[0].op_type == "ConstantOfShape" else 1
    for index, value in list(enumerate(model.graph.input))[first:]:
        path = folder / f"test_data_set_0/input_{index}.pb"
        if path.exists():
            model.graph.initializer.append(numpy_helper.from_array(array(path), value.name))


def cases(folder: Path) -> list[tuple[Path, Path]]:
    """(test, ONNX file) of each test that has operators of ours only."""
    result = []
    kinds = ("node", "simple", "pytorch-converted", "pytorch-operator")
    for path in sorted(path for kind in kinds for path in DATA.glob(f"{kind}/*/model.onnx")):
        model = onnx.load(path)
        known = all(node.op_type in OPERATORS | {"Constant"} for node in model.graph.node)
        if known and not UNTESTABLE.search(path.parent.name):
            fold_settings(model, path.parent)
            onnx.save(model, folder / f"{path.parent.name}.onnx")
            result.append((path.parent, folder / f"{path.parent.name}.onnx"))
    return result


def mismatch(test: Path, model_path: Path, directory: Path) -> str:
    """What is wrong with the generated code; "" for nothing."""
    names = [value.name for value in onnx.load(model_path).graph.input]
    try:
        module = generated.load(directory)
        data = test / "test_data_set_0"
        inputs = {
            name: torch.from_numpy(array(data / f"input_{index}.pb"))
            for index, name in enumerate(names)
            if (data / f"input_{index}.pb").exists()
        }
        with torch.no_grad():
            results = generated.forward(generated.stages(module, directory), inputs)
        for index, result in enumerate(results.values()):
            expected = array(data / f"output_{index}.pb")
            assert str(result.dtype) == f"torch.{expected.dtype}"
            np.testing.assert_allclose(result.numpy(), expected, rtol=1e-3, atol=1e-5)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return f"{test.name}: {type(error).__name__}: {error}"
    return ""


@pytest.mark.skipif(not DATA.is_dir(), reason="libonnx-testdata is not installed")
def test_official_operator_tests(tmp_path: Path) -> None:
    found = cases(tmp_path)
    directories = [tmp_path / test.name for test, _ in found]
    errors = generated.emit([(path, out, 1) for (_, path), out in zip(found, directories)])
    generatable = [
        (test, path, out)
        for (test, path), out, error in zip(found, directories, errors)
        if not error
    ]
    for error in filter(None, errors):
        assert "[HP" in error, error
    wrong = list(filter(None, (mismatch(*case) for case in generatable)))
    assert not wrong, "\n".join(wrong)
    assert len(generatable) >= LEAST_PASSED
