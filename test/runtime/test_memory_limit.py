"""A model whose training does not fit under an enforced limit of memory does with recomputed segments
and sharded state, and not with one of them alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from packages import large
from ranks import Outcome, run_ranks

# Of each of four ranks with two samples: parameters 48 MiB, and as much for gradients and each of two
# moments; activations 24 layers of 6 MiB. Either feature takes away about a hundred MiB.
LIMIT = 170 << 20


def run(folder: Path, recompute: bool, sharding: str) -> list[Outcome]:
    package = large([2, 2, 2, 2], 1, recompute, sharding).write(folder / "plan")
    options = ["--loss", "mse", "--steps", "2", "--threads", "1"]
    return run_ranks(4, folder / "logs", [str(package), *options], memory=LIMIT)


def test_it_fits_with_both(tmp_path: Path):
    outcomes = run(tmp_path, True, "gradients")
    assert [outcome.status for outcome in outcomes] == [0] * 4, outcomes


@pytest.mark.parametrize(
    ("recompute", "sharding"), [(False, "none"), (False, "gradients"), (True, "none")]
)
def test_it_does_not_fit_otherwise(tmp_path: Path, recompute: bool, sharding: str):
    outcomes = run(tmp_path, recompute, sharding)
    failed = [outcome for outcome in outcomes if outcome.status == 1]
    assert failed and all("allocate" in outcome.err for outcome in failed[:1]), outcomes
