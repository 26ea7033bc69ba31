"""The progress that a terminal shows during a search, and a file or a pipe does not."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

from conftest import BINARY, SOURCE


def compiling(stderr: int, folder: Path) -> subprocess.Popen:
    model = SOURCE / "test/data/models/gpt2_small.onnx"
    command = [BINARY, "compile", model, "--cluster", "mixed-64", "--batch", "256", "--objective", "throughput"]
    command += ["-o", folder / "out"]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=stderr)


def read_all(terminal: int) -> str:
    shown = b""
    try:
        while chunk := os.read(terminal, 4096):
            shown += chunk
    except OSError:  # the end of a terminal that nobody writes to any more
        pass
    return shown.decode()


def test_a_terminal_sees_the_best_plan_so_far_in_samples_per_second(tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    process = compiling(end, tmp_path)
    os.close(end)
    text = read_all(terminal)
    os.close(terminal)
    assert process.wait() == 0, text
    assert re.search(r"planning.*[1-9][0-9.]* samples/s", text), text


def test_a_pipe_sees_no_progress(tmp_path: Path) -> None:
    with open(tmp_path / "stderr", "w+b") as file:
        assert compiling(file.fileno(), tmp_path).wait() == 0
        file.seek(0)
        assert b"planning" not in file.read()
