#!/usr/bin/env python3
"""Wraps the paragraphs of Markdown files at 100 columns, in place: scripts/wrap-markdown.py FILE...

Code, tables and headings stay as they are, and so do paragraphs whose lines are short enough.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

COLUMNS = 100
MARK = re.compile(r"(\s*)((?:[-*]|\d+\.)\s+)?")
STARTS_AN_ITEM = re.compile(r"(?:[-*+#>=|]|\d+\.)")


def filled(block: list[str]) -> list[str]:
    """The lines of a paragraph or list item, none longer than COLUMNS unless a word is."""
    if all(len(line) <= COLUMNS for line in block):
        return block
    start = MARK.match(block[0])
    assert start is not None
    indent, mark = start[1], start[2] or ""
    words = " ".join(line.strip() for line in block)[len(mark) :].split()
    lines, line, hang = [], indent + mark, indent + " " * len(mark)
    for number, word in enumerate(words):
        begins = STARTS_AN_ITEM.match(word)  # it would be another thing at the start of a line
        if number and len(line) + 1 + len(word) > COLUMNS and not begins:
            lines.append(line)
            line = hang + word
        else:
            line = line + " " + word if number else line + word
    return [*lines, line]


def wrapped(text: str) -> str:
    result: list[str] = []
    block: list[str] = []
    fenced = False
    for line in [*text.split("\n"), ""]:
        fenced ^= line.startswith("```")
        verbatim = fenced or line.startswith(("```", "|", "#")) or (line.startswith("    ") and not block)
        item = re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if block and (verbatim or item or not line.strip()):
            result += filled(block)
            block = []
        if verbatim or not line.strip():
            result.append(line)
        else:
            block.append(line)
    return "\n".join(result[:-1])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(wrapped(path.read_text(encoding="utf-8")), encoding="utf-8")
