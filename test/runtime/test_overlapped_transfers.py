"""Messages between stages that travel while both stages compute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from heterplan_runtime.part import _following_receives
from heterplan_runtime.program import read_rank_program
from packages import Package, awkward, dropout, gathered, tables

UNEVEN = awkward([[3, 1], [4], [2, 2]], 4, "adam")


@pytest.mark.parametrize(
    "package",
    [
        dropout([[2], [2]], 5, "momentum"),
        awkward([[2], [2], [2]], 7, "adam"),
        UNEVEN.recomputed(),
        replace(awkward([[1, 1], [2], [2]], 6, "adam"), batch_norm="local").shortened(1),
        UNEVEN.sharded("gradients").overlapped(),
        gathered([[1, 1], [2]], 3),
    ],
    ids=["two ranks", "three ranks", "uneven", "without samples", "sharded", "gathered"],
)
def test_one_process_does_the_same(train, package: Package) -> None:
    result = train(package.with_overlapped_transfers(), "--steps", "3", "--check", "--lr", "0.05")
    assert result["checkPassed"] and result["stateDifference"] < 1e-6


def test_evaluation_posts_nothing(train) -> None:
    """It has no backward passes, whose gradients would be waited for."""
    package = awkward([[2], [2], [2]], 4).with_overlapped_transfers()
    options = ("--evaluate-every", "1", "--evaluation-steps", "1", "--check")
    assert train(package, "--steps", "2", *options)["checkPassed"]


def test_sparse_tables_are_exchanged_beside_the_messages(train) -> None:
    package = tables([[1, 3], [2, 2]], [7, 6], [4, 3], 4, "adam").with_overlapped_transfers()
    assert train(package, "--steps", "3", "--check", "--loss", "cross_entropy", "--data", "random")["checkPassed"]


def test_receives_are_posted_one_micro_batch_ahead(tmp_path: Path) -> None:
    package = awkward([[1, 1], [2], [2]], 3)
    folders = package.write(tmp_path / "waiting"), package.with_overlapped_transfers().write(tmp_path / "ahead")
    waiting, ahead = (read_rank_program(folder, 2) for folder in folders)
    assert _following_receives(waiting, waiting.parts[0]) == {}
    posts = _following_receives(ahead, ahead.parts[0])
    for op, peers in (("receive", [0, 1]), ("receiveGradient", [3])):
        assert [key[1] for key in posts if key[0] == op] == [None, 0, 1]
        for behind, micro_batch in ((None, 0), (0, 1), (1, 2)):
            own = posts[op, behind]
            assert [(i.peer, i.micro_batch, i.op) for i in own] == [(peer, micro_batch, op) for peer in peers]
