#!/usr/bin/env python3
"""Writes the table of instructions for the Python runtime from lib/ir/Instructions.def.

  scripts/instructions.py           write lib/codegen/runtime/heterplan_runtime/instructions.py
  scripts/instructions.py --check   exit with 1 if that file is not what would be written
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
TABLE = SOURCE / "lib/ir/Instructions.def"
MODULE = SOURCE / "lib/codegen/runtime/heterplan_runtime/instructions.py"
LINE = re.compile(r'^HETERPLAN_INSTRUCTION\((\w+), "(\w+)", (\w+), (\w+), "([^"]*)"\)$')

HEAD = '''"""The instructions of a Program, each with its class and phase (InstructionClass and Phase in
lib/ir/Program.h). Written by scripts/instructions.py from lib/ir/Instructions.def; do not edit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InstructionInfo:
    kind: str  # compute, send, receive, collective
    phase: str  # forward, backward, iteration: of no micro-batch


INSTRUCTIONS = {
'''


def generated() -> str:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [match for match in map(LINE.match, lines) if match]
    if len(rows) != sum(line.startswith("HETERPLAN_INSTRUCTION(") for line in lines) or not rows:
        sys.exit(f"{TABLE}: a line of the table is not understood")
    return HEAD + "".join(
        f'    "{name}": InstructionInfo("{kind.lower()}", "{phase.lower()}"),  # {text}\n'
        for _, name, kind, phase, text in (row.groups() for row in rows)
    ) + "}\n"  # fmt: skip


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    text = generated()
    if not sys.argv[1:]:
        MODULE.write_text(text, encoding="utf-8")
        return 0
    if MODULE.is_file() and MODULE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{MODULE} is not that of {TABLE}; run scripts/instructions.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
