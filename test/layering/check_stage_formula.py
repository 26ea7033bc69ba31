#!/usr/bin/env python3
"""What a stage takes is worked out once for all searches and once by the checker.

    check_stage_formula.py ROOT         check the sources below ROOT
    check_stage_formula.py --self-test  prove that a second place is found

The parts of the formula that no other code needs are the costs of a stage's collectives: who asks for
them restates it.
"""

import re
import sys
import tempfile
from pathlib import Path

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
        with tempfile.TemporaryDirectory() as folder:
            for name in [*PLACES, *([extra] if extra else [])]:
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_text("auto cost = allReduceCost(cluster, group);\n")
            if len(problems := check(Path(folder))) != expected:
                failures.append(f"{extra}: {problems}")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "lib").mkdir()
        if len(check(Path(folder))) != len(PLACES):
            failures.append("an empty tree must not pass")
    return failures


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems = self_test() if sys.argv[1] == "--self-test" else check(Path(sys.argv[1]))
    print("\n".join(problems) or "stage formula: once for searches, once for the checker")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
