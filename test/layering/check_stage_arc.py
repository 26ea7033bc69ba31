#!/usr/bin/env python3
"""One struct in lib/search holds the times of a candidate stage, and a group of devices counts devices only.

    check_stage_arc.py ROOT         check the sources below ROOT
    check_stage_arc.py --self-test  prove that a second struct and a wrong count are found

A struct that declares both passes of a stage and its synchronisation as numbers is a copy of StageTimes. A
DeviceGroup has no size(): deviceCount() counts its devices and replicas() the copies of a stage on them.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from source_checks import main, tree  # noqa: E402

HOME = "lib/search/network/StageArc.h"
GROUP = "lib/cost/DeviceGroup.h"
# The checker works everything out by itself, and the running sums of a recursion are no stage.
APART = "lib/search/verify/"
STRUCT = re.compile(r"\b(?:struct|class) (\w+)[^;{(]*\{")
FIELDS = re.compile(r"(?:^|[;{}])\s*(?:double|float|Seconds|Number)\s([^;()]*);")
PASSES, SYNC = {"forward", "backward", "time"}, {"sync", "synchronization"}
# Packed copies for one loop, by the file that has the loop: what they are for.
LOOPS = {
    ("lib/search/exact/ArcPaths.h", "Arc"): "arcs in the order in which a solve reads them",
    ("lib/search/exact/BlockStages.h", "Stage"): "stages in the order in which a solve reads them",
    ("lib/search/exact/PathMixtures.h", "Addition"): "what a vectorised loop adds",
}


def structs_of(text: str) -> list[tuple[str, str]]:
    """Each struct with its own body, without those of the structs inside."""
    result = []
    for start in STRUCT.finditer(text):
        depth, end, own = 1, start.end(), []
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            inside = STRUCT.match(text, end) if depth == 1 else None
            if inside:
                end, depth = inside.end(), 2
                while depth > 1 and end < len(text):
                    depth += {"{": 1, "}": -1}.get(text[end], 0)
                    end += 1
                continue
            own.append(text[end])
            end += 1
        result.append((start[1], "".join(own)))
    return result


def fields_of(body: str) -> set[str]:
    return {re.split(r"[\s={]", part.strip())[0] for names in FIELDS.findall(body) for part in names.split(",")}


def holds_times(body: str) -> bool:
    fields = fields_of(body)
    return "forward" in fields and bool(fields & (PASSES - {"forward"})) and bool(fields & SYNC)


def check(root: Path) -> list[str]:
    problems = []
    found = set()
    for path in sorted((root / "lib/search").rglob("*.[hc]*")):
        name = path.relative_to(root).as_posix()
        if name.startswith(APART):
            continue
        for struct, body in structs_of(re.sub(r"//.*", "", path.read_text(encoding="utf-8"))):
            if holds_times(body):
                found.add((name, struct))
    problems += [f"{name}: error: {struct} holds the times of a stage; use StageTimes of {HOME}"
                 for name, struct in sorted(found - {(HOME, "StageTimes")} - LOOPS.keys())]
    if (HOME, "StageTimes") not in found:
        problems.append(f"{HOME}: error: StageTimes no longer holds the times of a stage")
    problems += [f"{name}: error: {struct} is gone; take it from the list of {Path(__file__).name}"
                 for name, struct in sorted(LOOPS.keys() - found)]
    group = root / GROUP
    text = group.read_text(encoding="utf-8") if group.exists() else ""
    if re.search(r"\bint size\(\)", text) or "deviceCount()" not in text or "replicas(" not in text:
        problems.append(f"{GROUP}: error: a group has deviceCount() and replicas(), and no size()")
    return problems


def self_test() -> list[str]:
    times = "struct {} {{\n  double forward = 0, backward = 0, sync = 0;\n}};\n"
    sound = {
        HOME: times.format("StageTimes"),
        GROUP: "struct DeviceGroup {\n  int deviceCount() const;\n  int replicas(int degree) const;\n};\n",
        **{name: times.format(struct) for name, struct in LOOPS},
    }
    cases = (
        ({}, 0),
        ({"lib/search/exact/Other.h": times.format("Choice")}, 1),
        ({"lib/search/exact/Other.cpp": "  struct Bucket {\n    double time, sync, forward;\n  };\n"}, 1),
        ({"lib/search/exact/Other.h": "struct Sum {\n  double forward = 0, time = 0;\n};\n"}, 0),
        ({"lib/search/verify/Other.h": times.format("Reevaluated")}, 0),
        ({"lib/search/exact/Other.h": "class Outer {\n  struct Inner {\n    double forward, time, sync;\n  };\n};\n"}, 1),
        ({HOME: "struct StageTimes {\n  double forward;\n};\n"}, 1),
        ({GROUP: sound[GROUP] + "int size() const;\n"}, 1),
    )
    failures = []
    for change, expected in cases:
        with tree({**sound, **change}) as root:
            if len(problems := check(root)) != expected:
                failures.append(f"{change}: {problems}")
    return failures


if __name__ == "__main__":
    main(__doc__, check, self_test, "one struct holds the times of a stage, and groups count devices")
