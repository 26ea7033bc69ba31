#!/usr/bin/env python3
"""Holds the recipes of CONTRIBUTING.md to the sources.

    check_recipes.py ROOT         each recipe names every file that knows its example, and no other
    check_recipes.py --self-test  prove on made-up trees that a missing and a superfluous file are found

A recipe is a section below "## Recipes" with the identifiers of an example ("Example: `A`, `b`.") and
files in backticks at the start of its items. Without an example the files need only be there. Some
recipes have limits: how many files they name, and a folder that they may not name.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from source_checks import main, tree  # noqa: E402

LIMITS = {"A stage property": (15, "lib/search/exact/")}  # title -> most files, a folder to leave alone
FOLDERS, ENDINGS = ("lib", "tools"), (".cpp", ".h", ".def", ".py", ".proto")


def recipes(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Title -> (example identifiers, files)."""
    found = {}
    section = text.split("\n## Recipes\n", 1)[1].split("\n## ", 1)[0]
    for part in section.split("\n### ")[1:]:
        title, body = part.split("\n", 1)
        examples = re.search(r"Example:\s+(`[^.]*`)\.", body)
        items = re.findall(r"^- .*(?:\n  .*)*", body, re.M)
        files = [path for item in items for path in re.findall(r"`([^`]+)`", re.split(r":\s", item)[0])]
        found[title] = (re.findall(r"`([^`]+)`", examples[1]) if examples else [], files)
    return found


def knows(path: Path, examples: list[str]) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace")
    return any(re.search(rf"\b{re.escape(example)}\b", text) for example in examples)


def beyond_limits(title: str, files: list[str]) -> list[str]:
    most, untouched = LIMITS.get(title, (len(files), ""))
    problems = [f"'{title}' names {len(files)} files; at most {most}"] if len(files) > most else []
    return problems + [f"'{title}' names {path}" for path in files if untouched and path.startswith(untouched)]


def check(root: Path) -> list[str]:
    problems = []
    for title, (examples, files) in recipes((root / "CONTRIBUTING.md").read_text(encoding="utf-8")).items():
        if not files:
            problems.append(f"'{title}' has no files")
        named = {path for path in files if not path.endswith("/")}
        for path in files:
            if not (root / path).exists():
                problems.append(f"'{title}' names {path}, which is not there")
        problems += beyond_limits(title, files)
        if not examples:
            continue
        known = {
            path.relative_to(root).as_posix()
            for folder in FOLDERS
            for path in (root / folder).rglob("*")
            if path.suffix in ENDINGS and knows(path, examples)
        }
        folders = tuple(path for path in files if path.endswith("/"))
        problems += [f"'{title}' does not name {path}" for path in sorted(known - named) if not path.startswith(folders)]
        problems += [f"'{title}' names {path}, which does not know {' or '.join(examples)}"
                     for path in sorted(named - known) if (root / path).exists()]
    return problems


def self_test() -> list[str]:
    recipe = "# C\n\n## Recipes\n\n### A thing\n\nExample: `Thing`.\n\n- `lib/a.def`,\n  `lib/b.cpp`: code\n  of `lib/d.cpp`\n\n## End\n"
    failures = []
    for files, expected in (
        ({"lib/a.def": "X(Thing)", "lib/b.cpp": "class Thing"}, None),
        ({"lib/a.def": "X(Thing)", "lib/b.cpp": "class Thing", "lib/c.cpp": "a Thing()"}, "does not name lib/c.cpp"),
        ({"lib/a.def": "X(Thing)", "lib/b.cpp": "class Other"}, "names lib/b.cpp, which does not know"),
        ({"lib/a.def": "X(Thing)"}, "names lib/b.cpp, which is not there"),
    ):
        with tree({"CONTRIBUTING.md": recipe, **files}) as root:
            problems = check(root)
        if (not problems) != (expected is None) or (expected and not any(expected in p for p in problems)):
            failures.append(f"{sorted(files)}: expected {expected}, got {problems}")
    for title, (most, untouched) in LIMITS.items():
        many = [f"lib/{i}.cpp" for i in range(most)]
        if beyond_limits(title, many) or not beyond_limits(title, [*many, "lib/more.cpp"]):
            failures.append(f"'{title}': {most} files are not its limit")
        if not beyond_limits(title, [untouched + "A.cpp"]):
            failures.append(f"'{title}' may name {untouched}")
    return failures


if __name__ == "__main__":
    main(__doc__, check, self_test, "recipes: clean")
