"""The commands of a document, in its order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

STARTS = ("heterplan ", "python -m ", "python -c ", "sed ", "grep ", "torchrun ", "cd ", "bench/", "make ", "scp ", "scripts/")


@dataclass(frozen=True)
class Command:
    line: int
    text: str  # one line, without its comment
    printed: str | None = None  # what the document says that it prints


def code_lines(lines: list[str]) -> list[tuple[int, str]]:
    """Lines of code blocks, indented or fenced, with continuation lines joined."""
    found: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            text = line if fenced else line[4:]
            if found and found[-1][1].endswith("\\"):
                text = found.pop()[1][:-1] + text.strip()
                number -= 1
            found.append((number, text))
    return found


def commands_of(document: Path) -> list[Command]:
    """Every command; in a fenced block, one after `$ ` is followed by what it prints."""
    lines = document.read_text(encoding="utf-8").splitlines()
    found: list[Command] = []
    for number, text in code_lines(lines):
        if text.startswith("$ "):
            block = []
            for line in lines[number:]:
                if line.startswith(("$ ", "```")):
                    break
                block.append(line + "\n")
            found.append(Command(number, text[2:], "".join(block)))
        elif text.startswith(STARTS):
            found.append(Command(number, re.sub(r"\s+#\s.*", "", text).strip()))
    return found
