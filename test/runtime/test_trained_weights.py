"""The weights that a training leaves behind are those that it has come to."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from heterplan_runtime.fits import check_device_memory, check_host_memory, rank_bytes
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.tensorfile import TensorWriter, read_tensors
from hypothesis import given, settings
from hypothesis import strategies as st
from packages import awkward, linear
from safetensors import safe_open
from safetensors.torch import load_file


def test_next_loss_is_that_of_the_saved_weights(fail, tmp_path: Path) -> None:
    """Evaluates the saved weights by hand, stage by stage, on the samples of the next step."""
    package = awkward([[1, 3], [4], [2, 2]], 1, "adam")
    folder = package.write(tmp_path / "plan")
    result = tmp_path / "result.json"
    arguments = ("--lr", "0.05", "--data", "fixed")
    for outcome in fail(folder, 5, "--steps", "4", "--json", str(result), *arguments):
        assert outcome.status == 0, outcome.err
    for outcome in fail(folder, 5, "--steps", "3", "--save", str(tmp_path / "mine"), *arguments):
        assert outcome.status == 0, outcome.err
    weights = load_file(tmp_path / "mine/model.safetensors")
    assert "bn1.running_mean" in weights and weights["tied.scale"].shape == (4,)
    wanted = json.loads(result.read_text())["losses"][3]
    assert loss_by_hand(folder, weights) == pytest.approx(wanted, rel=1e-5)
    with safe_open(tmp_path / "mine/model.safetensors", "pt") as file:
        assert file.metadata()["steps"] == "3"


def loss_by_hand(folder: Path, weights: dict[str, torch.Tensor]) -> float:
    from heterplan_runtime.data_option import make_data
    from heterplan_runtime.losses import make_loss
    from heterplan_runtime.model import load_model

    spec = importlib.util.spec_from_file_location("by_hand", folder / "model.py")
    assert spec and spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = load_model(folder)
    loss = make_loss("cross_entropy", model.prediction)
    data = make_data("--data", "fixed", model, loss, 0, 8)
    batch = data.load(0, range(4))
    tensors: tuple[torch.Tensor, ...] = ()
    for stage_class in module.STAGES:
        stage = stage_class()
        stage.load_state_dict({name: weights[name] for name in stage.state_dict()})
        tensors = stage.train()(*tensors, *(batch.inputs[name] for name in stage.inputs))
    return float(torch.nn.functional.cross_entropy(tensors[0], batch.targets))


def test_nothing_is_written_when_not_wanted(fail, tmp_path: Path) -> None:
    folder = linear([4], 1).write(tmp_path / "plan")
    (outcome,) = fail(folder, 1, "--loss", "mse", "--no-save")
    assert outcome.status == 0 and not (folder / "trained").exists()


def test_folder_that_cannot_be_written_is_told_before_the_training(fail, tmp_path: Path) -> None:
    folder = linear([4], 1).write(tmp_path / "plan")
    (tmp_path / "file").write_text("")
    (outcome,) = fail(folder, 1, "--loss", "mse", "--save", str(tmp_path / "file/below"))
    assert outcome.status == 1
    assert "weights cannot be written" in outcome.err and "step 1" not in outcome.out


TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(TYPES), st.lists(st.integers(0, 4), max_size=3))))
def test_writing_then_reading_is_the_identity(tmp_path_factory, tensors) -> None:
    path = tmp_path_factory.mktemp("tensors") / "file"
    values = {
        f"t/{i} ": (torch.randn(shape) * 3).to(dtype) for i, (dtype, shape) in enumerate(tensors)
    }
    writer = TensorWriter(
        path, {name: (each.dtype, tuple(each.shape)) for name, each in values.items()}, {"a": "b"}
    )
    for each in values.values():
        for piece in each.reshape(-1).split(3):
            writer.write(piece)
    writer.close()
    for found in (read_tensors(path), load_file(path)):
        assert found.keys() == values.keys()
        assert all(torch.equal(found[name], each) for name, each in values.items())


def test_a_rank_of_several_stages_is_one_process() -> None:
    program = SimpleNamespace(parts=[SimpleNamespace(stage=0), SimpleNamespace(stage=2)])
    plan = SimpleNamespace(stage_bytes=(300.0, 1.0, 500.0), stage_overheads=(100.0, 0.0, 100.0))
    assert rank_bytes(program, plan) == 700.0  # type: ignore[arg-type]


def test_memory_that_is_not_there_is_told(fail, tmp_path: Path) -> None:
    check_host_memory([3.0, 4.0], 7.0)
    check_host_memory([3.0, 4.0], None)
    with pytest.raises(RuntimeFault, match="needs 6.00 GiB of memory on this machine .2 ranks"):
        check_host_memory([2 << 30, 4 << 30], 5 << 30)
    with pytest.raises(RuntimeFault, match="on the device of rank 3, of which 1.0 MiB"):
        check_device_memory(3, 2 << 20, 1 << 20)
    folder = linear([4], 1).write(tmp_path / "plan")
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps({**plan, "stages": [{"memoryBytes": 1e15}]}))
    (outcome,) = fail(folder, 1, "--loss", "mse")
    assert outcome.status == 1 and "the plan needs 931322.57 GiB" in outcome.err
    (outcome,) = fail(folder, 1, "--loss", "mse", "--ignore-memory")
    assert outcome.status == 0, outcome.err
