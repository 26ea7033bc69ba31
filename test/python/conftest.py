"""The package as it lies in the sources, with the binary of the build; and the wheel of that build in an
environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HETERPLAN_BINARY", SOURCE / "build/bin/heterplan")).resolve()
BUILD = BINARY.parents[1]
os.environ["HETERPLAN_BINARY"] = str(BINARY)
sys.path[:0] = [str(SOURCE / "python"), str(Path(__file__).parent)]


TWO_CORES = """
name: two
device_types:
  core: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 1GFLOP/s, bandwidth: 1GB/s}
nodes:
  - {name: localhost, devices: {core: 2}, link: {bandwidth: 1GB/s, latency: 1us}}
"""


@pytest.fixture
def cores(tmp_path: Path) -> Path:
    """The file of a cluster with two cores of this machine."""
    (tmp_path / "two.yaml").write_text(TWO_CORES)
    return tmp_path / "two.yaml"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = BUILD / "CMakeCache.txt"
    if not cache.is_file():
        pytest.skip(f"{BUILD} is not a build folder")
    if "HETERPLAN_SANITIZE:BOOL=ON" in cache.read_text(encoding="utf-8"):
        pytest.skip("a build with sanitizers is not given on")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, SOURCE / "scripts/wheel.py", BUILD, folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheel; returns its folder of programs."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", "--no-compile", wheel], check=True)
    packages = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    (folder / packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run_clean(
    environment: Path, *command: str | Path, folder: Path, tools: bool = False
) -> subprocess.CompletedProcess[str]:
    """Without the variables that tests have, and without a compiler on the path; `tools`: with those of
    the system."""
    path = f"{environment}:/usr/bin:/bin" if tools else str(environment)
    clean = {"PATH": path, "OMP_NUM_THREADS": "1", "HOME": str(folder)}
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True)
