"""Dropout draws the same masks however the samples are split."""

from __future__ import annotations

import pytest
import torch
from heterplan_runtime.dropout import Position, SampleDropout
from packages import dropout

X = torch.ones(12, 50)


def masks(seed: int = 0, step: int = 0, first: int = 0, name: str = "a", count: int = 12) -> torch.Tensor:
    drop = SampleDropout(seed, Position(step, first))
    return drop(name, X[:count], 0.4, True, 0, 1)


def test_masks_are_those_of_the_samples():
    whole = masks()
    assert torch.equal(whole, torch.cat([masks(count=5), masks(first=5, count=7)]))
    others = [masks(seed=1), masks(step=1), masks(name="b"), masks(first=1)]
    for other in others:
        assert 0.3 < float((other == whole).float().mean()) < 0.75
    assert len({tuple(sample.tolist()) for sample in whole}) == 12


def test_kept_elements_are_as_many_as_they_should_be_and_scaled():
    x = torch.ones(200, 1000)
    for ratio in (0.1, 0.5, 0.9):
        y = SampleDropout(3, Position())("n", x, ratio, True, 0, 1)
        assert float((y > 0).float().mean()) == pytest.approx(1 - ratio, abs=0.005)
        assert float(y.max()) == pytest.approx(1 / (1 - ratio))
        of_samples, of_places = (y > 0).float().mean(1), (y > 0).float().mean(0)
        assert float(of_samples.std()) == pytest.approx((ratio * (1 - ratio) / 1000) ** 0.5, rel=0.2)
        assert float(of_places.std()) == pytest.approx((ratio * (1 - ratio) / 200) ** 0.5, rel=0.2)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_samples_may_have_rows_on_any_axis(axis: int):
    x = torch.ones(3, 4, 5).repeat_interleave(2, 0).movedim(0, axis)  # three samples of two rows
    whole = SampleDropout(0, Position(0, 7))("n", x, 0.5, True, axis, 2)
    last = SampleDropout(0, Position(0, 9))("n", x.narrow(axis, 4, 2), 0.5, True, axis, 2)
    assert torch.equal(whole.narrow(axis, 4, 2), last)
    assert not torch.equal(whole.narrow(axis, 2, 2), last)


def test_nothing_is_dropped_in_inference_and_everything_at_one():
    drop = SampleDropout(0, Position())
    assert drop("n", X, 0.5, False, 0, 1) is X and drop("n", X, 0.0, True, 0, 1) is X
    assert not drop("n", X, 1.0, True, 0, 1).any()
    scalar = torch.tensor(2.0)
    assert drop("n", scalar, 0.5, True, None, 1).item() in (0.0, 4.0)


@pytest.mark.parametrize(
    "package",
    [
        dropout([[3, 1], [2, 2]], 2, "adam"),
        dropout([[1, 1, 1], [2, 1]], 3).shortened(2),
        dropout([[2, 2], [1, 3]], 2, "momentum").recomputed().sharded("gradients"),
    ],
)
def test_splits_equal_one_process(train, package):
    result = train(package, "--check", "--loss", "mse", "--steps", "4", "--lr", "0.05")
    assert result["checkPassed"]
