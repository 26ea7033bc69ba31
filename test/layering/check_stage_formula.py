#!/usr/bin/env python3
"""Holds the formula of a stage to two places: one for all searches and one of the checker.

    check_stage_formula.py ROOT         check the sources below ROOT
    check_stage_formula.py --self-test  prove that a second place is found

The parts of the formula that no other code needs are the costs of a stage's collectives: who asks for
them restates it.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from source_checks import main, tree  # noqa: E402

PARTS = re.compile(r"\b(allReduceCost|reduceScatterCost|lookupCost|lookupGradientCost)\(")
HOME = {"lib/cost/Collectives.h", "lib/cost/Collectives.cpp"}
PLACES = {"lib/cost/StageCost.cpp": "searches", "lib/search/verify/Reevaluation.cpp": "the checker"}


def check(root: Path) -> list[str]:
    found = {
        path.relative_to(root).as_posix()
        for path in (root / "lib").rglob("*")
        if path.suffix in (".h", ".cpp") and PARTS.search(path.read_text(encoding="utf-8"))
    }
    problems = [f"{name}: error: only {', '.join(PLACES)} work out what a stage takes; call stageCost()"
                for name in sorted(found - HOME - PLACES.keys())]
    return problems + [f"{name}: error: it no longer works out what a stage takes for {PLACES[name]}"
                       for name in sorted(PLACES.keys() - found)]


def self_test() -> list[str]:
    failures = []
    for extra, expected in ((None, 0), ("lib/search/exact/Other.cpp", 1)):
        names = [*PLACES, *([extra] if extra else [])]
        with tree(dict.fromkeys(names, "auto cost = allReduceCost(cluster, group);\n")) as root:
            if len(problems := check(root)) != expected:
                failures.append(f"{extra}: {problems}")
    with tree({}) as root:
        if len(check(root)) != len(PLACES):
            failures.append("an empty tree must not pass")
    return failures


if __name__ == "__main__":
    main(__doc__, check, self_test, "stage formula: once for searches, once for the checker")
