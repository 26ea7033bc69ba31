"""ONNX's operator tests reach the states that operator-tests.txt lists, neither less nor more."""

from __future__ import annotations

from pathlib import Path

import operator_tests
import pytest

# At least these shares, in per cent: imported, with costs, match where PyTorch has the types.
FLOORS = {"libonnx": (98, 97, 96), "opsets 18-23": (98, 98, 95)}


def states(lines: list[str]) -> dict[str, str]:
    """Test -> state; the reasons are for people."""
    return {name: state for name, state, *_ in (line.split(": ", 2) for line in lines)}


@pytest.mark.skipif(not operator_tests.DEBIAN.is_dir(), reason="libonnx-testdata is not installed")
def test_operator_tests_reach_the_listed_states(tmp_path: Path) -> None:
    cases = operator_tests.all_cases(tmp_path)
    verdicts = operator_tests.judge(cases, tmp_path)
    for suite, share in operator_tests.shares_by_suite(cases, verdicts).items():
        print(f"{suite}: {share}")
        reached = (share.imported, share.costed, share.supported_match)
        assert share.crashed == 0 and all(a >= b for a, b in zip(reached, FLOORS[suite])), share
    listed = operator_tests.ALLOWED.read_text().splitlines()
    assert listed == sorted(listed)
    found = operator_tests.exceptions(verdicts)
    before, now = states(listed), states(found)
    changed = [name for name in sorted(before | now) if before.get(name) != now.get(name)]
    assert not changed, "run scripts/operator-tests.sh --update and look at the difference:\n" + (
        "\n".join(
            f"{name}: {before.get(name, 'matches')} -> {verdicts[name] if name in verdicts else 'gone'}"
            f" ({verdicts[name].reason if name in verdicts else ''})"
            for name in changed
        )
    )
