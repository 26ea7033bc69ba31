#!/usr/bin/env python3
"""Checks that no two types of lib/ and tools/ have one name in one namespace: C++ lets linkers mix up their members.

    check_names.py ROOT         check the sources below ROOT; exit 1 and list what is wrong
    check_names.py --self-test  prove on made-up trees that it can fail

Types inside of others and in unnamed namespaces are left out: those of different files are different types.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from source_checks import main, tree  # noqa: E402

OPENING = re.compile(r"namespace\s*([\w:]*)\s*\{$")
CLOSING = re.compile(r"\} // namespace")
TYPE = re.compile(r"(?:template <.*> )?(?:struct|class|union|enum|enum class) (\w+)(?: final)?(?: : [^;]*)?(?: \{|$)")


def types_of(text):
    """(line, name with its namespaces) of every type that other files can see."""
    namespaces = []
    for number, line in enumerate(text.splitlines(), 1):
        if opening := OPENING.match(line):
            namespaces.append(opening[1])
        elif CLOSING.match(line):
            namespaces.pop()
        elif (found := TYPE.match(line)) and "" not in namespaces:
            yield number, "::".join([*namespaces, found[1]])


def check(root):
    """All complaints below `root`, as printable lines."""
    places, problems = defaultdict(list), []
    for top in ("lib", "tools"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu"):
                for number, name in types_of(path.read_text(encoding="utf-8", errors="replace")):
                    places[name].append(f"{path.relative_to(root).as_posix()}:{number}")
    for name, (first, *others) in places.items():
        problems += [f"{other}: error: {name} is also the type at {first}" for other in others]
    return problems if places else [f"{root}: error: no types found below lib/ and tools/"]


ONE = "namespace heterplan {\nstruct One {\n};\n} // namespace heterplan\n"
HIDDEN = "namespace heterplan {\nnamespace {\nstruct One {\n};\n} // namespace\n} // namespace heterplan\n"
# text of lib/a/A.h, text of lib/b/B.cpp, part of the expected complaint (None: it is fine)
CASES = [
    (ONE, ONE, "lib/b/B.cpp:2: error: heterplan::One is also the type at lib/a/A.h:2"),
    (ONE, ONE.replace("struct One", "class One final : public Base"), "heterplan::One is also"),
    (ONE, ONE.replace("One", "Two"), None),
    (ONE, ONE.replace("struct One {\n}", "struct One"), None),  # named before it is defined
    (ONE, ONE.replace("heterplan {", "heterplan::jobs {"), None),
    (ONE, HIDDEN, None),
    ("", "", "no types found"),
]


def self_test():
    failures = []
    for first, second, expected in CASES:
        with tree({"lib/a/A.h": first, "lib/b/B.cpp": second}) as root:
            problems = check(root)
        fine = not problems if expected is None else any(expected in p for p in problems)
        if not fine:
            failures.append(f"{first!r} beside {second!r}: expected {expected}, got {problems}")
    return failures


if __name__ == "__main__":
    main(__doc__, check, self_test, "names: clean")
