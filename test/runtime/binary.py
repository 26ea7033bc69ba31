"""The program that the tests of the runtime compile and run plans with."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

BINARY = os.environ.get("HETERPLAN_BINARY", "")
needs_binary = pytest.mark.skipif(not BINARY, reason="HETERPLAN_BINARY names no heterplan")


def heterplan(*arguments: object) -> str:
    """The output of the program; its ranks compute with one thread each, by this Python."""
    run = subprocess.run(
        [BINARY, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "HETERPLAN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr + run.stdout
    return run.stdout
