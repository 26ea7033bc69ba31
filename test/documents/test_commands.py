"""Every command of the documents does what they say: it is run, in order, in a folder of its own;
what a document shows below `$ command` is what it prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from commands import Command, commands_of  # noqa: E402

SOURCE = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HETERPLAN_BINARY", SOURCE / "build/bin/heterplan"))
DOCUMENTS = [
    SOURCE / name
    for name in ("README.md", "docs/guide.md", "docs/clusters.md", "docs/profiles.md",
                 "docs/runtime.md", "docs/formats.md", "docs/generated-code.md")
]  # fmt: skip
SECONDS = 600

# Commands that a test cannot run, and why; each is looked for in the text of a command.
ELSEWHERE = {
    "make ": "is run by people and by CI",
    "cuda:": "needs a GPU",
    "scp ": "needs another machine",
    "torchrun ": "needs other machines",
    "bench/": "takes an hour on a quiet machine",
    "--cores 1 --batches 1,2,4,5,8": "takes ten minutes",
}
# Commands that end with another status than 0, as the document says.
STATUS = {"--min-throughput 1e7": (2,), "profile --check": (0, 2)}  # noisy is an answer
# Other files with the names that documents use for those of the reader.
YOURS = {
    "model.onnx": "test/data/small/cnn.onnx",
    "x.layers.json": "test/data/hand/chain.layers.json",
    "p.profile.json": "test/data/hand/chain.profile.json",
    "c.yaml": "test/data/hand/pair.yaml",
}


def folder_for(document: Path, folder: Path) -> Path:
    for name in ("test", "profiles"):
        shutil.copytree(SOURCE / name, folder / name, ignore=shutil.ignore_patterns("fuzz", "*.pyc"))
    for name, source in YOURS.items():
        if (SOURCE / source).exists():
            shutil.copy(SOURCE / source, folder / name)
    tools = folder / "bin"
    tools.mkdir()
    (tools / "heterplan").symlink_to(BINARY)
    (tools / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')  # a link leaves its venv
    (tools / "python").chmod(0o755)
    if not shutil.which("dot"):
        (tools / "dot").write_text("#!/bin/sh\ncat\n")
        (tools / "dot").chmod(0o755)
    return folder


def run(command: str, folder: Path, place: Path) -> subprocess.CompletedProcess[str]:
    """Runs it at `place` with the tools of `folder`."""
    environment = {
        **os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HETERPLAN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    return subprocess.run(
        ["bash", "-c", command], cwd=place, env=environment, timeout=SECONDS, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def statuses_of(command: Command) -> tuple[int, ...]:
    if command.printed and (match := re.search(r"^\(status (\d)\)$", command.printed, re.M)):
        return (int(match[1]),)
    return next((status for part, status in STATUS.items() if part in command.text), (0,))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands(document: Path, tmp_path: Path) -> None:
    folder = folder_for(document, tmp_path)
    place = folder
    if any(command.text == "cd DIR" for command in commands_of(document)):
        done = run("heterplan compile model.onnx --cluster local-cpu --batch 64 -o DIR", folder, place)
        assert done.returncode == 0, done.stdout
    for command in commands_of(document):
        if any(part in command.text for part in ELSEWHERE):
            continue
        if command.text.startswith("cd "):
            place = (place / command.text[3:].strip()).resolve()
            assert place.is_dir(), f"{document.name}:{command.line}: {command.text}"
            continue
        done = run(command.text, folder, place)
        where = f"{document.name}:{command.line}: {command.text}\n{done.stdout}"
        assert done.returncode in statuses_of(command), where
        if command.printed is not None:
            ending = f"(status {done.returncode})\n" if done.returncode else ""
            shown = re.sub(r"\n+$", "\n", command.printed)
            assert shown == re.sub(r"\n+$", "\n", done.stdout + ending), where


def test_what_is_not_run_is_in_a_document() -> None:
    texts = [command.text for document in DOCUMENTS for command in commands_of(document)]
    for part in (*ELSEWHERE, *STATUS):
        assert any(part in text for text in texts), f"{part!r} is in no document"
    assert len(texts) > 40
