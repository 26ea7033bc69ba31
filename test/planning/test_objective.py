"""Which objective a request has when it names none."""

from __future__ import annotations

import pytest
from conftest import pool


@pytest.mark.parametrize(("floor", "objective"), [("0", "throughput"), ("1", "cost")])
def test_a_floor_of_nothing_is_none(job, floor: str, objective: str) -> None:
    status, plan = job("tower", pool(), [("--min-throughput", floor)]).run()
    assert status == 0
    assert plan["objective"] == objective
