"""Random modules on two devices that share every layer, against the module in one process."""

from __future__ import annotations

import sys
from pathlib import Path

import generated
import pytest
import torch
from binary import needs_binary
from random_modules import RandomModule
from test_tensor_parallel import PAIR, calls, compile_plan, train

sys.path.insert(0, str(generated.SOURCE / "python"))

import heterplan  # noqa: E402

pytestmark = needs_binary


USUAL = (0, 2, 4)  # one of each kind, whose layers are worth dividing
SWEEP = [pytest.param(seed, marks=pytest.mark.sweep) for seed in range(155) if seed not in USUAL]


@pytest.mark.parametrize("seed", [*USUAL, *SWEEP])
def test_two_devices_train_as_one(seed: int, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    module, example = RandomModule(seed).build()
    model = tmp_path / "model.onnx"
    heterplan.export(module, example, model)
    plan = compile_plan(model, tmp_path, PAIR)
    if not calls(plan):
        pytest.skip("no layer is divided")
    found = train(plan, PAIR, tmp_path, "--check", "--steps", 3, "--lr", 0.05)
    assert found["checkPassed"]
    assert found["losses"] == pytest.approx(found["referenceLosses"], rel=1e-9)
    assert found["stateDifference"] < 1e-9
