"""The commands of docs/tutorial.md, with the wheel alone, print what the document shows: numbers may differ,
and `...` stands for any lines."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from conftest import SOURCE, run_clean

sys.path.insert(0, str(SOURCE / "test/documents"))
from commands import commands_of  # noqa: E402

TUTORIAL = SOURCE / "docs/tutorial.md"
NUMBER = r"[\d.,]+"


def pattern(shown: str) -> str:
    lines = []
    for line in shown.strip("\n").splitlines():
        text = re.escape(line).replace(r"\ ", " ")
        lines.append(r"(?:.*\n)*?" if line == "..." else re.sub(r"\d+(?:\\\.\d+)?", lambda _: NUMBER, text) + r"\n")
    return re.sub(" +", " +", "".join(lines))


def test_commands_print_what_is_shown(environment: Path, tmp_path: Path) -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    (tmp_path / "net.py").write_text(re.search(r"^```python\n(.*?)^```", text, re.M | re.S)[1])
    commands = [command for command in commands_of(TUTORIAL) if command.printed is not None]
    assert 5 <= len(commands) < 10
    losses: list[float] = []
    for command in commands:
        done = run_clean(environment, "/bin/sh", "-c", command.text, folder=tmp_path, tools=True)
        where = f"line {command.line}: {command.text}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, where
        assert re.fullmatch(pattern(command.printed), done.stdout), where
        losses += map(float, re.findall(r"^step \d+  loss (\S+)", done.stdout, re.M))
    assert losses[-1] < 0.7 * losses[0]
