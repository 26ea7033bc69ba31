#!/usr/bin/env python3
"""The cost of a stage, and of the boundary between two stages, is worked out once for all searches and
once by the checker.

    check_stage_formula.py ROOT         check the sources below ROOT
    check_stage_formula.py --self-test  prove that a second place is found

The costs of a stage's collectives are parts of the formula of a stage that no other code needs, and the
time of a transfer path is the formula of a boundary: code that asks for them restates the formula.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from source_checks import main, tree  # noqa: E402

HOME = {"lib/cost/Collectives.h", "lib/cost/Collectives.cpp"}


@dataclass(frozen=True)
class Formula:
    name: str
    parts: re.Pattern[str]
    places: dict[str, str]  # file: whom it serves
    instead: str
    example: str


FORMULAS = (
    Formula(
        "the cost of a stage",
        re.compile(r"\b(allReduceCost|reduceScatterCost|shardCollectiveCost|lookupCost|lookupGradientCost)\("),
        {
            "lib/cost/StageCost.cpp": "searches",
            "lib/search/verify/Reevaluation.cpp": "the checker",
            "lib/search/verify/bound/DeviceChoices.cpp": "the checker",
            "lib/cost/ShardGroups.cpp": "layers that several devices share",
            "lib/cost/HeterPs.cpp": "the fit of the steady-state model",
        },
        "stageCost()",
        "auto cost = allReduceCost(cluster, group);\n",
    ),
    Formula(
        "the cost of a boundary",
        re.compile(r"\breversed\(\)|\btransferTime\(|[pP]ath(Of|Between)?(\([^()]*\))?\s*\.time\("),
        {"lib/cost/BoundaryCost.h": "searches", "lib/search/verify/TransferReevaluation.cpp": "the checker"},
        "boundaryCost()",
        "auto time = path.time(before, behind, perSample, fixed);\n",
    ),
)


def check(root: Path) -> list[str]:
    problems = []
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((root / "lib").rglob("*"))
        if path.suffix in (".h", ".cpp")
    }
    for formula in FORMULAS:
        found = {name for name, text in texts.items() if formula.parts.search(text)} - HOME
        places = formula.places
        problems += [f"{name}: error: only {', '.join(places)} work out {formula.name}; call {formula.instead}"
                     for name in sorted(found - places.keys())]
        problems += [f"{name}: error: it no longer works out {formula.name} for {places[name]}"
                     for name in sorted(places.keys() - found)]
    return problems


def self_test() -> list[str]:
    failures = []
    expected_texts = {place: formula.example for formula in FORMULAS for place in formula.places}
    for formula in FORMULAS:
        for extra, expected in ((None, 0), ("lib/search/exact/Other.cpp", 1)):
            texts = {**expected_texts, **({extra: formula.example} if extra else {})}
            with tree(texts) as root:
                if len(problems := check(root)) != expected:
                    failures.append(f"{extra}: {problems}")
    with tree({}) as root:
        if len(check(root)) != len(expected_texts):
            failures.append("an empty tree must not pass")
    return failures


if __name__ == "__main__":
    main(__doc__, check, self_test, "stage and boundary formulas: once for searches, once for the checker")
