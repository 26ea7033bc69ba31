"""Ranks of a pipeline let go of gradients that they sent, however many micro-batches an iteration has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from heterplan_runtime.communication import Communicator
from heterplan_runtime.roster import Roster, RosterEntry


class Work:
    ended = False

    def wait(self, *_: object) -> None:
        self.ended = True


def communicator(stages: int, parts: int = 1, overlaps: bool = False) -> Any:
    """The communicator of a pipeline stage that has sent the gradients of three micro-batches to
    rank 0 over boundary 0."""
    made: Any = object.__new__(Communicator)
    made.device, made.rank, made._timeout, made._stages = torch.device("cpu"), 1, None, stages
    entries = [RosterEntry(rank, tuple(range(parts)), None, (), replicas=(rank,)) for rank in range(stages)]
    made.roster = Roster(entries, 1)
    made.backend, made._overlaps_transfers = "gloo", overlaps
    made._pending = {(0, 0, micro_batch, True): [(Work(), torch.ones(1))] for micro_batch in range(3)}
    return made


def receive(made: Any, micro_batch: int, is_gradient: bool = False) -> list[int]:
    """The micro-batches whose gradients are kept when the activations of another have come."""
    made._settle_gradients(
        SimpleNamespace(peer=0, boundary=0, micro_batch=micro_batch, is_gradient=is_gradient)
    )
    return [key[2] for key in made._pending]


def test_what_arrived_is_let_go():
    made = communicator(stages=2)
    works = {key[2]: pending[0][0] for key, pending in made._pending.items()}
    assert receive(made, 1) == [0, 1, 2]
    assert receive(made, 2) == [1, 2]
    assert works[0].ended
    assert receive(made, 3) == [2]


def test_deeper_pipelines_have_more_under_way():
    assert receive(communicator(stages=3), 2) == [0, 1, 2]
    assert receive(communicator(stages=3), 3) == [1, 2]


def test_with_overlapped_transfers_there_are_still_more():
    made = communicator(stages=2, overlaps=True)
    assert receive(made, 2) == [0, 1, 2]
    assert receive(made, 3) == [1, 2]


def test_nothing_else_tells():
    assert receive(communicator(stages=2), 2, is_gradient=True) == [0, 1, 2]
    assert receive(communicator(stages=2, parts=2), 2) == [0, 1, 2]


def test_one_shard_of_a_replica_answers_for_all():
    made = communicator(stages=2)
    shards = [RosterEntry(rank, (0,), None, (), replicas=(0,), shard=rank // 2) for rank in (0, 2)]
    made.roster = Roster([shards[0], RosterEntry(1, (1,), None, (), replicas=(0,)), shards[1]], 1)
    made._pending |= {(2, 0, micro_batch, True): [(Work(), torch.ones(1))] for micro_batch in range(3)}
    assert receive(made, 2) == [1, 2, 1, 2]
