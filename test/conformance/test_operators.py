"""ONNX's operator tests reach the states that operator-tests.txt lists, neither less nor more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import operator_tests
import pytest

# At least these shares, in per cent: imported, with costs, match where PyTorch has the types.
FLOORS = {"libonnx": (98, 96, 96), "opsets 18-23": (98, 97, 95)}


def states(lines: list[str]) -> dict[str, str]:
    """Test -> state; the reasons are for people."""
    return {name: state for name, state, *_ in (line.split(": ", 2) for line in lines)}


@dataclass(frozen=True)
class Judged:
    cases: list[operator_tests.Case]
    verdicts: dict[str, operator_tests.Verdict]
    folder: Path


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    if not operator_tests.DEBIAN.is_dir():
        pytest.skip("libonnx-testdata is not installed")
    folder = tmp_path_factory.mktemp("operators")
    cases = operator_tests.all_cases(folder)
    return Judged(cases, operator_tests.judge(cases, folder), folder)


def test_operator_tests_reach_the_listed_states(judged: Judged) -> None:
    cases, verdicts = judged.cases, judged.verdicts
    for suite, share in operator_tests.shares_by_suite(cases, verdicts).items():
        print(f"{suite}: {share}")
        reached = (share.imported, share.costed, share.supported_match)
        assert share.crashed == 0 and all(a >= b for a, b in zip(reached, FLOORS[suite])), share
    listed = operator_tests.ALLOWED.read_text().splitlines()
    assert listed == sorted(listed)
    found = operator_tests.exceptions(verdicts)
    before, now = states(listed), states(found)
    changed = [name for name in sorted(before | now) if before.get(name) != now.get(name)]
    differences = [
        f"{before.get(name, 'matches')} -> {verdicts[name].line(name) if name in verdicts else name}"
        for name in changed
    ]
    assert not changed, "run scripts/operator-tests.sh --update and look at the difference:\n" + (
        "\n".join(differences)
    )


def test_modules_run_on_another_device(judged: Judged) -> None:
    wrong = {}
    for index, case in enumerate(judged.cases):
        containers = any(not value.type.HasField("tensor_type") for value in case.model.graph.input)
        if judged.verdicts[case.name].state == "matches" and not containers:
            wrong[case.name] = operator_tests.strays(case, judged.folder / f"out-{index}")
    assert not {name: why for name, why in wrong.items() if why}
