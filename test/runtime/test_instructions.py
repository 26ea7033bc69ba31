"""The table of instructions that Python reads is that of lib/ir/Instructions.def."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from heterplan_runtime.instructions import INSTRUCTIONS
from heterplan_runtime.part import PartExecution

SOURCE = Path(__file__).resolve().parents[2]


def test_the_module_is_the_one_that_the_table_gives():
    run = subprocess.run(
        [sys.executable, SOURCE / "scripts/instructions.py", "--check"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


def test_a_part_executes_each_instruction():
    import inspect

    source = inspect.getsource(PartExecution.__init__)
    for name in INSTRUCTIONS:
        assert f'"{name}": self.' in source or f'"{name}": trained.' in source
