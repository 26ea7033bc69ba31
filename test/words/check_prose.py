#!/usr/bin/env python3
"""Holds documentation, docstrings, help texts and messages to the rules of plain technical English.

    check_prose.py ROOT         check documents, docstrings, help texts and messages below ROOT
    check_prose.py --self-test  prove that each rule finds its example
    check_prose.py ROOT --list  count the problems of every file, those in prose-not-yet.txt too

The rules: no sentence starts with a word of STARTS, and no text of a program in C++ does; lines of Markdown end at 100 columns; sentences
of documents have at most 30 words, but for a few. Files in prose-not-yet.txt are not checked yet.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from source_checks import main, tree  # noqa: E402

STARTS = ("Of", "Likewise", "Those", "That", "What", "Nor", "Where")
COLUMNS = 100
MOST_WORDS = 30
MOST_LONG_SENTENCES = 3  # of a document

# Files that still have to be rewritten, one a line. The list only gets shorter.
LIST = Path(__file__).resolve().parent / "prose-not-yet.txt"
NOT_YET = tuple(LIST.read_text(encoding="utf-8").split()) if LIST.exists() else ()

COMMENT = re.compile(r"\s*///? ?(.*)")
START = re.compile(rf"(?:{'|'.join(STARTS)})\b")
# The first literal of a text: help, a message or a note. A part of a message begins with a space.
LITERAL = re.compile(rf'(?<!\\)"((?:{"|".join(STARTS)}) [^"\n]*)"', re.I)


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph; what stands between backticks is one word."""
    plain = re.sub(r"`[^`]*`", "Code", text)
    plain = re.sub(r"\]\([^)]*\)", "]", plain)
    plain = re.sub(r"\b(e\.g|i\.e|vs|cf|Fig|al)\.", r"\1", plain)
    return [part.strip() for part in re.split(r"(?<=[.!?:])\s+(?=[A-Z*\[])", plain) if part.strip()]


def begins_badly(sentence: str) -> bool:
    return START.match(sentence.lstrip("*_[(")) is not None and not sentence.rstrip().endswith("?")


def comment_blocks(lines: list[str]):
    """Number and text of each block of comment lines that has a `///`, and of the file's header."""
    block: list[str] = []
    first = 0
    for number, line in enumerate([*lines, ""], 1):
        match = COMMENT.fullmatch(line)
        if match:
            first = first or number
            block.append(line)
            continue
        if block and (first == 1 or block[0].lstrip().startswith("///")):
            yield first, " ".join(COMMENT.fullmatch(each)[1] for each in block)
        block, first = [], 0


def docstrings(text: str):
    for match in re.finditer(r'^\s*(?:[rf]?)"""(.*?)"""', text, re.M | re.S):
        yield text.count("\n", 0, match.start(1)) + 1, " ".join(match[1].split())


def paragraphs(lines: list[str]):
    """Number and text of each paragraph, list item and heading of a document; no code, no tables."""
    fenced = False
    block: list[str] = []
    first = 0
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("```"):
            fenced = not fenced
        code = fenced or line.startswith(("```", "    ", "|"))
        starts = re.match(r"\s*(?:[-*#]|\d+\.) ", line)
        if block and (code or starts or not line.strip()):
            yield first, " ".join(block)
            block, first = [], 0
        if not code and line.strip():
            first = first or number
            block.append(re.sub(r"^\s*(?:[-*#>]+|\d+\.)\s+", "", line).strip())


def is_long(line: str) -> bool:
    words = line.split()
    return len(line) > COLUMNS and len(words) > 1 and not line.startswith("|")


def check_document(name: str, lines: list[str]) -> list[str]:
    problems, long_sentences, fenced = [], [], False
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            fenced = not fenced
        if not fenced and not line.startswith("    ") and is_long(line):
            problems.append(f"{name}:{number}: error: {len(line)} columns; at most {COLUMNS}")
    for number, text in paragraphs(lines):
        for sentence in sentences(text):
            if begins_badly(sentence):
                problems.append(f"{name}:{number}: error: begin '{sentence[:40]}' with its subject")
            if len(sentence.split()) > MOST_WORDS:
                long_sentences.append(f"{name}:{number}: {len(sentence.split())} words: '{sentence[:60]}'")
    if len(long_sentences) > MOST_LONG_SENTENCES:
        problems.append(f"{name}:1: error: {len(long_sentences)} sentences above {MOST_WORDS} words; "
                        f"at most {MOST_LONG_SENTENCES}:\n    " + "\n    ".join(long_sentences))  # fmt: skip
    return problems


def check_literals(name: str, text: str) -> list[str]:
    """Help texts and messages of C++. A literal behind another one, or in `a ? "b" : "c"`, may go on
    with a text."""
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: error: begin '{match[1][:40]}' with its subject"
        for match in LITERAL.finditer(text)
        if len(match[1].split()) > 1 and not text[: match.start()].rstrip().endswith(('"', "?", ":"))
    ]


def check_code(name: str, lines: list[str]) -> list[str]:
    blocks = docstrings("\n".join(lines)) if name.endswith(".py") else comment_blocks(lines)
    return [
        f"{name}:{number}: error: begin '{sentence[:40]}' with its subject"
        for number, text in blocks
        for sentence in sentences(text)
        if begins_badly(sentence)
    ]


def check(root: Path, skipped: tuple[str, ...] = NOT_YET) -> list[str]:
    problems = []
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        known = name.split("/")[0] in ("lib", "tools", "docs", "python", "test", "bench", "scripts") or name in (
            "README.md", "CHANGELOG.md", "CONTRIBUTING.md")  # fmt: skip
        if not known or not path.is_file() or name in skipped or "corpus" in name:
            continue
        if path.suffix not in (".md", ".h", ".cpp", ".def", ".py"):
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        problems += (check_document if path.suffix == ".md" else check_code)(name, lines)
        if path.suffix in (".h", ".cpp", ".def") and name.startswith(("lib/", "tools/")):
            problems += check_literals(name, "\n".join(lines))
    return problems


EXAMPLES = {
    "docs/a.md": ["Of all plans the best is kept.", "word " * 21 + "\n" + "word " * 21],
    "tools/a.h": ["/// Likewise, in one way.\nint f();", "// What a plan is.\n#pragma once"],
    "tools/b.py": ['"""Those that fit."""'],
    "tools/c.cpp": ['addText(command, "--slot", "of a trace: " "its length");', '<< "what is left is too large"'],
    "docs/b.md": ["a " * 60],
}


def self_test() -> list[str]:
    failures = []
    for name, examples in EXAMPLES.items():
        for example in examples[:1] if name == "docs/a.md" else examples:
            with tree({name: example + "\n"}) as root:
                if not check(root, skipped=()):
                    failures.append(f"'{example[:40]}' is not found")
    with tree({"tools/a.cpp": 'a << "the file" << " of a model" "of two";\n'}) as root:
        if check(root, skipped=()):
            failures.append("a part of a message is taken for its beginning")
    with tree({"docs/a.md": ("word " * 15 + "\n") * 3 + "\n"}) as root:
        if check(root, skipped=()):
            failures.append("one long sentence is too many")
    many = "\n\n".join(("Word " + "word " * 17 + "\n" + "word " * 17 + ".").strip() for _ in range(4))
    with tree({"docs/a.md": many + "\n"}) as root:
        if not check(root, skipped=()):
            failures.append("four long sentences are not found")
    return failures


if __name__ == "__main__":
    if "--list" in sys.argv:
        found = check(Path(sys.argv[1]), skipped=())
        for name in sorted({problem.split(":")[0] for problem in found}):
            print(f"{sum(problem.startswith(name + ':') for problem in found):5} {name}")
        sys.exit(0)
    main(__doc__, check, self_test, "prose: clean")
