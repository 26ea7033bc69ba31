"""A directory is run only if its files belong together."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from binary import heterplan, needs_binary

from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.main import parse
from heterplan_runtime.manifest import changes, check_directory

MODELS = Path(__file__).resolve().parents[1] / "data/small"
LAUNCHER_OPTIONS = ("--hosts", "--node-rank", "--port", "--dry-run", "--oversubscribe")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of a plan with their manifest, as `heterplan compile` writes it."""
    files = {
        "plan.json": "{}", "model.py": "", "report.html": "", "ranks/0000.json": "{}",
        "ranks/0001.json": "{}", "weights/stage-0000.safetensors": "x",
    }  # fmt: skip
    lines = []
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        lines.append(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n")
    (tmp_path / "manifest.sha256").write_text("".join(lines))
    return tmp_path


def test_what_was_written_is_run(folder: Path) -> None:
    (folder / "report.html").write_text("my notes")
    (folder / "weights/mine.safetensors").write_text("mine")
    assert check_directory(folder, allow_edits=False) == []


@pytest.mark.parametrize(
    "name, text, complaint",
    [
        ("ranks/0001.json", "{ }", "ranks/0001.json is changed"),
        ("model.py", "#", "model.py is changed"),
        ("ranks/0002.json", "{}", "ranks/0002.json was not written with this plan"),
        ("weights/stage-0001.safetensors", "", "stage-0001.safetensors was not written"),
        ("plan.json", None, "plan.json is missing"),
    ],
)
def test_other_files_are_refused(folder: Path, name: str, text: str | None, complaint: str) -> None:
    (folder / name).unlink(missing_ok=True)
    if text is not None:
        (folder / name).write_text(text)
    with pytest.raises(RuntimeFault, match=complaint):
        check_directory(folder, allow_edits=False)
    assert complaint in check_directory(folder, allow_edits=True)[0]


def test_a_broken_manifest_is_refused(folder: Path) -> None:
    (folder / "manifest.sha256").write_text("nonsense\n")
    with pytest.raises(RuntimeFault, match="manifest.sha256:1: expected a SHA-256"):
        changes(folder)


def test_without_a_manifest_it_says_so(folder: Path) -> None:
    (folder / "manifest.sha256").unlink()
    assert "no manifest" in check_directory(folder, allow_edits=False)[0]


@needs_binary
def test_the_launcher_refuses_ranks_of_another_plan(tmp_path: Path) -> None:
    cluster = "profiles/clusters/local-cpu.yaml"
    source = Path(__file__).resolve().parents[2]
    for name, batch in (("a", 8), ("b", 16)):
        heterplan(
            "compile", MODELS / "cnn.onnx", "--cluster", source / cluster, "--batch", batch,
            "-o", tmp_path / name,
        )  # fmt: skip
    shutil.copytree(tmp_path / "b/ranks", tmp_path / "a/ranks", dirs_exist_ok=True)

    def launch(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [tmp_path / "a/launch.sh", "--steps", "1", *options], capture_output=True, text=True,
            env={"HETERPLAN_PYTHON": sys.executable, "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    refused = launch()
    assert refused.returncode == 1
    assert "ranks/0000.json is changed" in refused.stderr
    (tmp_path / "a/manifest.sha256").unlink()
    refused = launch()
    assert refused.returncode == 1
    assert "it has no manifest.sha256" in refused.stderr


@needs_binary
def test_the_help_of_run_has_all_options_of_the_runtime(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    words = capsys.readouterr().out.replace("[", " ").replace("]", " ").split()
    options = {word.strip(",") for word in words if word.startswith("--") and word.strip(",") != "--help"}
    shown = heterplan("run", "--help")
    missing = [option for option in {*options, *LAUNCHER_OPTIONS} if option + " " not in shown]
    assert not missing
