"""Plans of modules with LSTM, GRU and RNN: the kernel takes the module's own parameters, and no step reorders gates."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import heterplan
from heterplan.exporting import export_by
from heterplan.newer_exporter import export_newer
from heterplan.older_exporter import export_older


class Recurrent(nn.Module):
    """Each kind once: two layers in both directions, without biases, the last states alone, and a plain one."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(10, 4, bidirectional=True, batch_first=True)
        self.bare = nn.LSTM(8, 5, bias=False, batch_first=True)
        self.relu = nn.RNN(5, 4, nonlinearity="relu", batch_first=True)
        self.last = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.lstm, self.gru, self.bare, self.relu):
            x = layer(x)[0]
        _, (hidden, memory) = self.last(x)
        return torch.cat([hidden[-1], memory[-1]], dim=1)


@pytest.mark.parametrize("exporter", [export_newer, export_older])
def test_no_step_reorders_the_gates(
    exporter: Callable[..., None], tmp_path: Path, cores: Path
) -> None:
    torch.manual_seed(0)
    module, x = Recurrent(), torch.randn(4, 7, 6)
    export_by((exporter,), module, x[:2], tmp_path / "model.onnx")
    plan = heterplan.compile(
        tmp_path / "model.onnx", cores, batch=4, schedule="data-parallel", max_devices={"core": 1},
        output=tmp_path / "plan",
    )  # fmt: skip
    code = (tmp_path / "plan/model.py").read_text().partition("class Stage0")[2]
    assert code.count("ops.module_lstm(") == 4 and code.count("ops.module_gru(") == 1
    assert code.count("ops.module_rnn(") == (exporter is export_older)  # the newer one writes out each step
    assert not re.search(r"torch\.cat\(\[?p\(|p\([^)]*\)\[", code)
    whole = plan.module()
    found, wanted = whole(x=x), module(x)
    torch.testing.assert_close(found, wanted)
    found.square().sum().backward()
    wanted.square().sum().backward()
    gradients = {name.removeprefix("stages.0."): each.grad for name, each in whole.named_parameters()}
    assert gradients.keys() == {name for name, _ in module.named_parameters()}
    for name, each in module.named_parameters():
        torch.testing.assert_close(gradients[name], each.grad, msg=name)
