"""Groups of ranks, as rank files state them."""

from __future__ import annotations

import pytest

SPARSE = (0, 1, 2, 5, 9, 13)


@pytest.mark.parametrize(
    "fields",
    [
        {"group": [0, 1, 2, 5, 9, 13]},
        {"ranges": [{"count": 3, "stride": 1}, {"first": 5, "count": 3, "stride": 4}]},
        {"ranges": [{"first": 0, "count": 1, "stride": 7}, {"first": 1, "count": 2, "stride": 1},
                    {"first": 5, "count": 2, "stride": 4}, {"first": 13, "count": 1, "stride": 1}]},
    ],
)  # fmt: skip
def test_lists_and_ranges(fields):
    from heterplan_runtime.fields import Fields
    from heterplan_runtime.rank_group import read_group

    group = read_group(Fields(fields, "x"), 14)
    assert tuple(group) == SPARSE and len(group) == len(SPARSE)
    assert [rank for rank in range(15) if rank in group] == list(SPARSE)


def test_of_no_ranks():
    from heterplan_runtime.fields import Fields
    from heterplan_runtime.rank_group import read_group

    assert not read_group(Fields({}, "x"), 14)
