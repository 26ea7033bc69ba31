"""How the fidelity benchmark compares steps on cores of different speeds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import speed  # noqa: E402


def test_of_each_step_the_slowest_rank_counts() -> None:
    assert speed.slowest([[1.0, 3.0, 5.0], [2.0, 2.0, 8.0]]) == [2.0, 5.0]


def test_the_exponent_is_that_of_all_plans() -> None:
    sticks = [1.0, 1.5, 2.0, 1.2]
    plans = [[(stick, seconds * stick**0.7) for stick in sticks] for seconds in (3.0, 80.0)]
    assert speed.exponent(plans) == pytest.approx(0.7)
    assert speed.exponent([[(1.0, 2.0), (1.0, 3.0)]]) == 0


def test_visits_count_as_long_as_they_take(tmp_path: Path) -> None:
    sessions = [
        {"forwardSeconds": 1.0, "backwardSeconds": 2.0, "referenceKernelSeconds": 1.0},
        {"forwardSeconds": 0.5, "backwardSeconds": 0.5, "referenceKernelSeconds": 16.0},
    ]
    file = tmp_path / "p.json"
    entries = [{"batch": 4 + index, "sessions": [session]} for index, session in enumerate(sessions)]
    file.write_text(json.dumps({"entries": entries}))
    assert speed.of_profile(file, [4, 5, 6]) == pytest.approx(2.0)  # (1·1·1·16)^(1/4)
    assert speed.of_profile(file, [5]) == pytest.approx(16)
