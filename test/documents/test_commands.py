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
from commands import Command, code_lines, commands_of  # noqa: E402

SOURCE = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HETERPLAN_BINARY", SOURCE / "build/bin/heterplan"))
DOCUMENTS = [
    SOURCE / name
    for name in ("README.md", "docs/guide.md", "docs/clusters.md", "docs/profiles.md",
                 "docs/runtime.md", "docs/launchers.md", "docs/replan.md", "docs/formats.md", "docs/generated-code.md", "docs/python.md", "docs/questions.md", "docs/published.md", "docs/tensor-parallelism.md",
                 "docs/experiments/prediction.md")
]  # fmt: skip
SECONDS = 600
OPTION = r"(?<![\w-])--[a-z][a-z-]*"

# Commands that a test cannot run, and why; each is looked for in the text of a command.
ELSEWHERE = {
    "make ": "is run by people and by CI",
    "cuda:": "needs a GPU",
    "scp ": "needs another machine",
    "torchrun ": "needs other machines",
    "bench/": "takes an hour on a quiet machine",
    "--memory cpu-core": "takes a minute or two",
    "--cores 1 --batches 1,2,4,5,8": "takes ten minutes",
}
# Commands that end with another status than 0, as the document says.
STATUS = {"--min-throughput 1e7": (2,), "--min-throughput 1e9": (2,), "profile --check": (0, 2)}  # noisy is an answer
# Other files with the names that documents use for those of the reader.
YOURS = {
    "model.onnx": "test/data/small/cnn.onnx",
    "llm.onnx": "test/data/models/gpt2_small.onnx",
    "cluster.yaml": "profiles/clusters/mixed-small.yaml",
    "x.layers.json": "test/data/hand/chain.layers.json",
    "p.profile.json": "test/data/hand/chain.profile.json",
    "c.yaml": "test/data/hand/pair.yaml",
    "four.yaml": "test/data/hand/four.yaml",
    "three.yaml": "test/data/hand/three.yaml",
    "machine.memory.profile.json": "test/data/hand/memory.profile.json",
}


def folder_for(document: Path, folder: Path) -> Path:
    for name in ("test", "profiles", "scripts"):
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


def briefly(command: str) -> str:
    """The same command, which measures links for a shorter time."""
    return re.sub(r"--time-budget \S+", "--time-budget 5s", command)


def run(command: str, folder: Path, place: Path) -> subprocess.CompletedProcess[str]:
    """Runs it at `place` with the tools of `folder`."""
    environment = {
        **os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HETERPLAN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1",
        "HETERPLAN_BINARY": str(BINARY), "PYTHONPATH": str(SOURCE / "python"),
    }  # fmt: skip
    return subprocess.run(
        ["bash", "-c", briefly(command)], cwd=place, env=environment, timeout=SECONDS, text=True,
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


# Options of other programs that documents name.
OTHERS = {"--nproc-per-node", "--gres", "--constraint", "--models", "--run-seconds", "--nnodes", "--name", "--install", "--prefix", "--component"}


def spans(document: Path) -> list[str]:
    """The texts between backticks in lines of prose and of tables."""
    lines = document.read_text(encoding="utf-8").splitlines()
    code = {number for number, _ in code_lines(lines)}
    return [
        span
        for number, line in enumerate(lines, 1)
        if number not in code
        for span in re.findall(r"`([^`]+)`", line)
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_options_in_sentences_are_there(document: Path) -> None:
    reference = (SOURCE / "docs/cli.md").read_text(encoding="utf-8")  # what --help says, by a golden test
    options = {}
    for section in reference.split("\n## heterplan ")[1:]:
        name, text = section.split("\n", 1)
        options[name] = set(re.findall(OPTION, text.split("\n## ")[0]))
    known = set().union(*options.values())
    for span in spans(document):
        words = span.split()
        if words[0] == "heterplan" and len(words) > 1 and words[1].islower():
            assert words[1] in options, span
            known_here = options[words[1]]
        elif (SOURCE / words[0]).is_file():
            known_here = set(re.findall(OPTION, (SOURCE / words[0]).read_text(encoding="utf-8")))
        else:
            known_here = known | OTHERS
        for option in re.findall(OPTION, span):
            assert option in known_here, f"{document.name}: `{span}`: there is no {option}"


def test_the_example_of_a_cluster_is_one_and_its_mistake_is_told_so(tmp_path: Path) -> None:
    document = (SOURCE / "docs/clusters.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(name: .*?)```", document, re.S)[1]
    model = SOURCE / "test/data/small/cnn.onnx"
    command = "heterplan compile {} --cluster mixed.yaml --batch 8 --schedule data-parallel -o out"
    folder = tmp_path / "folder"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/heterplan").symlink_to(BINARY)
    (folder / "mixed.yaml").write_text(example)
    assert run(command.format(model), folder, folder).returncode == 0
    (folder / "mixed.yaml").write_text(example.replace("16GB", "16GX", 1))
    done = run(command.format(model), folder, folder)
    assert done.returncode == 1
    for name in ("guide", "clusters"):
        shown = re.search(r"^ *(mixed\.yaml:.*)$", (SOURCE / f"docs/{name}.md").read_text(encoding="utf-8"), re.M)[1]
        assert shown in done.stdout, name


def test_what_is_not_run_is_in_a_document() -> None:
    texts = [command.text for document in DOCUMENTS for command in commands_of(document)]
    for part in (*ELSEWHERE, *STATUS):
        assert any(part in text for text in texts), f"{part!r} is in no document"
    assert len(texts) > 40
