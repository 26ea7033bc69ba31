#!/usr/bin/env python3
"""Makes the wheel of heterplan: the program with the shared libraries that it needs, the hardware
catalogue, the runtime, and the Python package. Nothing but the C library is left to the machine it is
installed on, and the tag says which one is new enough.

    scripts/wheel.py BUILD_DIR [OUTPUT_DIR]     prints the path of the wheel

The same build gives the same bytes. Needs cmake, ldd and readelf; no package of Python's.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
# Of the C library, which every process has once.
GLIBC = re.compile(r"^(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|resolv|util))\.so\.\d+$")
SUMMARY = "Plans and compiles the training of neural networks on unequal devices"


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def install(build: Path, package: Path) -> Path:
    """Installs the program below the Python package; returns the executable."""
    program = package / "program"
    output_of("cmake", "--install", build, "--prefix", program, "--component", "program", "--strip")
    return program / "bin/heterplan"


def move_shared(package: Path, data: Path) -> None:
    """Moves the files of shells and man to share/ of the environment, as wheels do."""
    data.mkdir(parents=True)
    for name in ("man", "bash-completion", "zsh"):
        (package / "program/share" / name).rename(data / name)


def needed_libraries(executable: Path) -> dict[str, Path]:
    """Name -> file of each shared library that the loader takes for it, but the C library's."""
    found = {}
    for line in output_of("ldd", executable).splitlines():
        match = re.match(r"\s*(\S+) => (\S+)", line)
        if not match or GLIBC.match(match[1]):
            continue
        if match[2] == "not":
            sys.exit(f"wheel: {match[1]} is not found, which {executable} needs")
        found[match[1]] = Path(match[2]).resolve()
    return found


def bundle(libraries: dict[str, Path], folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, path in sorted(libraries.items()):
        if "(RUNPATH)" in output_of("readelf", "-d", path):  # then it would not see those beside it
            sys.exit(f"wheel: {path} has a search path of its own")
        shutil.copyfile(path, folder / name)


def platform_tag(files: list[Path]) -> str:
    """manylinux_2_N of the newest symbol version of the C library that the files ask for."""
    minors = [
        int(minor)
        for path in files
        for minor in re.findall(r"Name: GLIBC_2\.(\d+)", output_of("readelf", "--version-info", "-W", path))
    ]
    return f"manylinux_2_{max(minors)}_{platform.machine()}"


def copyrights(libraries: dict[str, Path], folder: Path) -> None:
    """Debian's copyright files of the libraries that are passed on, on a Debian system."""
    for name, path in sorted(libraries.items()):
        owner = subprocess.run(["dpkg-query", "-S", f"*/{path.name}"], text=True, capture_output=True)
        package = owner.stdout.split(":")[0]
        notice = Path("/usr/share/doc") / package / "copyright"
        if package and notice.is_file():
            shutil.copyfile(notice, folder / f"{package}.txt")


def version() -> str:
    text = (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"^project\(heterplan VERSION (\S+)", text, re.M)[1]


def write_metadata(folder: Path, tag: str, libraries: dict[str, Path]) -> None:
    folder.mkdir()
    torch = "; extra == 'torch'"
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: heterplan\nVersion: {version()}\nSummary: {SUMMARY}\n"
        "License: Apache-2.0\nRequires-Python: >=3.11\n"
        f"Provides-Extra: torch\nRequires-Dist: torch>=2.11{torch}\nRequires-Dist: onnx{torch}\n"
        "Description-Content-Type: text/markdown\n\n"
        + (SOURCE / "docs/python.md").read_text(encoding="utf-8"),
        encoding="utf-8",
    )
    (folder / "WHEEL").write_text(
        f"Wheel-Version: 1.0\nGenerator: heterplan {version()}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    )
    (folder / "entry_points.txt").write_text(
        "[console_scripts]\nheterplan = heterplan.__main__:main\n"
    )
    licenses = folder / "licenses"
    licenses.mkdir()
    shutil.copyfile(SOURCE / "LICENSE", licenses / "LICENSE")
    copyrights(libraries, licenses)


def pack(root: Path, metadata: str, wheel: Path) -> None:
    """Zips `root`, files in order and without times, with the digests that wheels have."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        def add(name: str, data: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)

        for path in files:
            name, data = path.relative_to(root).as_posix(), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data, 0o755 if "/program/bin/" in name else 0o644)
        name = f"{metadata}/RECORD"
        add(name, "".join([*record, f"{name},,\n"]).encode(), 0o644)


def make_wheel(build: Path, output: Path) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        package = root / "heterplan"
        shutil.copytree(SOURCE / "python/heterplan", package, ignore=shutil.ignore_patterns("__pycache__"))
        executable = install(build, package)
        libraries = needed_libraries(executable)
        bundle(libraries, package / "program/lib/heterplan")
        tag = f"py3-none-{platform_tag([executable, *libraries.values()])}"
        move_shared(package, root / f"heterplan-{version()}.data/data/share")
        metadata = f"heterplan-{version()}.dist-info"
        write_metadata(root / metadata, tag, libraries)
        output.mkdir(parents=True, exist_ok=True)
        wheel = output / f"heterplan-{version()}-{tag}.whl"
        for old in output.glob("heterplan-*.whl"):
            old.unlink()
        pack(root, metadata, wheel)
    return wheel


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    directory = Path(sys.argv[1])
    print(make_wheel(directory, Path(sys.argv[2]) if len(sys.argv) == 3 else directory / "wheel"))
