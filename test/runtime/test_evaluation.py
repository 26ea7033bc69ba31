"""Tests of evaluation on other samples, and of losses that count something else than samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.evaluation import accuracy, make_metric
from heterplan_runtime.losses import IGNORED, make_loss
from heterplan_runtime.program import TensorSpec
from packages import Package, awkward, linear
from ranks import run_ranks

MINE = """
import torch
IGNORED = -100


def weighted(outputs, targets):  # a sample counts as often as its number says
    logits, weights = outputs, 1.0 + targets.abs().sum(1)
    return ((logits - targets).square().mean(1) * weights).sum(), weights.sum()


def nothing(outputs, targets):
    return outputs.sum(), 0.0


def positive(outputs, targets):
    return (outputs[:, 0] > 0).double().mean()


def share(outputs, targets):
    return (outputs > 0).double().sum(), outputs.numel()
"""


def with_functions(package: Package, folder: Path) -> Package:
    (folder / "own_functions.py").write_text(MINE)
    head = f"import sys\nsys.path.insert(0, {str(folder)!r})\nimport torch\n"
    package.model = package.model.replace("import torch\n", head, 1)
    return package


@pytest.mark.parametrize("sharding", ["none", "gradients"])
def test_losses_with_denominators_are_exact_in_uneven_shares(train, tmp_path: Path, sharding: str):
    package = with_functions(linear([3, 1], micro_batches=3, optimizer="adam").shortened(1), tmp_path)
    options = ("--steps", "4", "--check", "--gradient-clip", "0.5", "--loss", "own_functions:weighted")
    assert train(package.sharded(sharding), *options)["checkPassed"]


def test_tokens_that_do_not_count_leave_the_mean_of_the_others():
    spec = TensorSpec("y", torch.float32, ((1, 0), (0, 3), (0, 6)))
    loss = make_loss("token_cross_entropy", spec).function
    outputs, classes = torch.randn(4, 3, 6), torch.randint(0, 6, (4, 3))
    classes[0, 1:] = classes[2] = IGNORED
    found = loss((outputs,), classes)
    wanted = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), classes.flatten())
    assert found.denominator == 7 and found.total / 7 == pytest.approx(wanted)
    parts = [loss((outputs[i : i + 1],), classes[i : i + 1]) for i in range(4)]
    assert sum(part.total for part in parts) / 7 == pytest.approx(wanted)
    hits = accuracy((torch.nn.functional.one_hot(classes.clamp(min=0), 6),), classes)
    assert (hits.total, hits.denominator) == (7, 7)


def test_a_batch_in_which_nothing_counts_is_an_error(fail, tmp_path: Path):
    folder = with_functions(linear([2, 1], micro_batches=1), tmp_path).write(tmp_path / "plan")
    outcomes = fail(folder, 2, "--loss", "own_functions:nothing", stop_on_failure=False)
    assert 0 not in [outcome.status for outcome in outcomes]
    assert "the denominator of the loss is 0" in outcomes[0].err


def test_evaluations_do_not_depend_on_the_split_and_train_nothing(tmp_path: Path):
    """Batch normalisation uses its running statistics; the losses of the steps stay as they were."""
    found = []
    for number, package in enumerate((
        awkward([[1, 3], [4], [2, 2]], 2), awkward([[4], [3, 1], [4]], 2), awkward([[1, 3], [4], [2, 2]], 2),
    )):  # fmt: skip
        plan = with_functions(package, tmp_path).write(tmp_path / f"plan{number}")
        result = tmp_path / f"result{number}.json"
        options = ["--evaluate-every", "2", "--evaluation-data", "fixed", "--evaluation-steps", "2"]
        options += ["--metric", "accuracy", "--metric", "own_functions:positive", "--metric", "own_functions:share"]
        options = options if number < 2 else []
        outcomes = run_ranks(
            package.world_size, tmp_path / "logs",
            [str(plan), "--steps", "5", "--lr", "0.05", "--json", str(result), *options],
        )  # fmt: skip
        assert {outcome.status for outcome in outcomes} == {0}, outcomes
        found.append(json.loads(result.read_text()))
    first, second, plain = found
    assert first["losses"] == plain["losses"] and "evaluations" not in plain
    assert [each["step"] for each in first["evaluations"]] == [2, 4, 5]
    for one, other in zip(first["evaluations"], second["evaluations"], strict=True):
        assert one == pytest.approx(other, rel=1e-4)
        assert 0 <= one["accuracy"] <= 1 and one["accuracy"] * 16 == pytest.approx(round(one["accuracy"] * 16))
    assert first["evaluations"][0]["loss"] != pytest.approx(first["evaluations"][2]["loss"], rel=1e-6)
    assert set(one) == {"step", "loss", "accuracy", "own_functions:positive", "own_functions:share"}


def test_unknown_metrics_are_refused():
    with pytest.raises(RuntimeFault, match="--metric f1: expected accuracy or module:function"):
        make_metric("f1")
