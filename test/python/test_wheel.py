"""The wheel in an environment of its own: no compiler, nothing of the source tree. PyTorch and onnx are lent
by the tests' environment, as they are a large download."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from pathlib import Path

from conftest import SOURCE, run_clean

ALLOWED = re.compile(r"^(linux-vdso|ld-linux.*|lib(c|m|mvec|dl|rt|pthread))\.so")
TRAINING = """
import sys
sys.modules["onnxscript"] = None  # as where it is not installed
import torch
import heterplan, networks
torch.manual_seed(0)
module = networks.resnet50()
images, labels = torch.randn(4, 3, 64, 64), torch.randint(1000, (4,))
plan = heterplan.compile(module, "local-cpu", inputs=images[:2], batch=4)
model = plan.module()
found = networks.train(model, images, labels, 2)
expected = networks.train(module.train(), images, labels, 2)
assert all(abs(a - b) < 1e-3 * b for a, b in zip(found, expected)), (found, expected)
print(heterplan.__file__, len(plan.stages), found)
"""


def test_wheel_says_what_it_is(wheel: Path) -> None:
    assert re.fullmatch(r"heterplan-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
    assert "heterplan/py.typed" in names and not [name for name in names if name.endswith(".pyc")]
    schemas = {name.rsplit("/", 1)[1] for name in names if name.endswith(".schema.json")}
    assert schemas == {path.name for path in (SOURCE / "docs/schemas").iterdir()}
    assert [name for name in names if name.endswith("/heterplan.proto")]
    record = next(name for name in names if name.endswith(".dist-info/RECORD"))
    with zipfile.ZipFile(wheel) as archive:
        rows = archive.read(record).decode().splitlines()
    assert [row.split(",")[0] for row in rows] == names


def test_program_needs_the_c_library_only(environment: Path, tmp_path: Path) -> None:
    (package,) = environment.parent.glob("lib/*/site-packages/heterplan")
    done = run_clean(environment, "/usr/bin/ldd", package / "program/bin/heterplan", folder=tmp_path)
    elsewhere = [
        line for line in done.stdout.splitlines()
        if str(package / "program") not in str(Path(line.split()[2]).resolve() if "=>" in line else "")
        and not ALLOWED.match(Path(line.split()[0]).name)
    ]  # fmt: skip
    assert done.stdout and elsewhere == []


def test_command_does_not_start_itself(environment: Path) -> None:
    """Where $HETERPLAN_BINARY names it instead of the program, it would for ever."""
    command = environment / "heterplan"
    variables = {"PATH": str(environment), "HETERPLAN_BINARY": str(command)}
    done = subprocess.run([command, "--version"], env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("heterplan "), done.stderr


def test_command_finds_what_belongs_to_it(environment: Path, tmp_path: Path) -> None:
    model = SOURCE / "test/data/small/cnn.onnx"
    heterplan = environment / "heterplan"
    assert run_clean(environment, heterplan, "--version", folder=tmp_path).stdout.startswith("heterplan ")
    command = ("compile", model, "--cluster", "local-cpu", "--batch", "8", "-o", "out")
    done = run_clean(environment, heterplan, *command, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/heterplan_runtime/main.py").is_file()
    shared = environment.parent / "share"
    assert "complete -o" in (shared / "bash-completion/completions/heterplan").read_text()
    assert (shared / "man/man1/heterplan.1").read_text().startswith(".TH HETERPLAN")
    assert (shared / "zsh/site-functions/_heterplan").is_file()
    assert run_clean(environment, heterplan, "compil", folder=tmp_path).returncode == 1


def test_resnet50_trains_in_the_users_loop(environment: Path, tmp_path: Path) -> None:
    networks = (SOURCE / "test/python/networks.py").read_text(encoding="utf-8")
    (tmp_path / "networks.py").write_text(networks)
    (tmp_path / "train.py").write_text(TRAINING)
    done = run_clean(environment, environment / "python", "train.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(environment.parent) in done.stdout and os.fspath(SOURCE) not in done.stdout
