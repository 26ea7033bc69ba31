"""Plans of which each replica normalises by its own samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from heterplan_runtime.local_batchnorm import LocalStatistics
from packages import Package, awkward
from safetensors.torch import load_file
from torch import nn

UNEVEN = replace(awkward([[3, 1], [4], [2, 2]], 2, "momentum"), batch_norm="local")


@pytest.mark.parametrize(
    "package",
    [
        UNEVEN,
        UNEVEN.recomputed(),
        UNEVEN.sharded("gradients"),
        replace(awkward([[1, 1], [2], [2]], 3, "adam"), batch_norm="local").shortened(1),
    ],
    ids=["uneven", "recomputed", "sharded", "a replica without samples"],
)
def test_one_process_that_normalises_replica_by_replica_does_the_same(train, package: Package):
    result = train(package, "--steps", "4", "--check", "--lr", "0.05")
    assert result["checkPassed"] and result["stateDifference"] < 1e-6


def test_losses_are_not_those_of_whole_micro_batches(train, tmp_path: Path):
    local = train(UNEVEN, "--steps", "3")
    (tmp_path / "plan").rename(tmp_path / "local")
    whole = train(replace(UNEVEN, batch_norm="synchronised"), "--steps", "3")
    assert local["losses"] != pytest.approx(whole["losses"], rel=1e-4)


def test_it_does_not_matter_how_often_statistics_are_brought_together(train, tmp_path: Path):
    options = ["--steps", "4", "--save", str(tmp_path / "weights")]
    train(UNEVEN, *options)
    rarely = load_file(tmp_path / "weights/model.safetensors")
    (tmp_path / "plan").rename(tmp_path / "rarely")
    train(UNEVEN, *options, "--evaluate-every", "1", "--checkpoint-every", "2")
    often = load_file(tmp_path / "weights/model.safetensors")
    assert any(name.endswith("running_var") for name in often)
    for name, values in often.items():
        assert torch.allclose(values, rarely[name], rtol=1e-5, atol=1e-6), name


def test_replicas_count_by_their_samples():
    stages = [nn.BatchNorm1d(2), nn.BatchNorm1d(2)]
    moved: list[list[torch.Tensor]] = []
    for stage in stages:
        stage.buffers_spec = dict(stage.named_buffers())
    statistics = [LocalStatistics(stage, moved.append) for stage in stages]
    for each, stage, mean in zip(statistics, stages, (4.0, 8.0), strict=True):
        each.begin()
        stage.running_mean.fill_(mean)
        each.begin()  # before the next step
    for each, weight in zip(statistics, (0.75, 0.25), strict=True):
        each.bring_together(weight)
    assert [each[0].tolist() for each in moved] == [[3.0, 3.0], [2.0, 2.0]]


def test_a_check_with_moving_shares_is_refused(fail, tmp_path: Path):
    folder = UNEVEN.write(tmp_path / "plan")
    outcomes = fail(folder, UNEVEN.world_size, "--check", "--balance", "even")
    assert outcomes[0].status == 1
    assert "not supported where shares move (--balance, --epoch-samples)" in outcomes[0].err
