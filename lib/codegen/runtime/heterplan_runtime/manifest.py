"""Whether a directory is what `heterplan compile` wrote: `manifest.sha256` binds the plan to its
instructions, code and weights, so that files of two plans are never run together."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from .errors import RuntimeFault

NAME = "manifest.sha256"
BACKGROUND = "background"  # folder of the package of a background job, which has its own
# What a run reads; reports may be moved or edited.
READ = re.compile(r"plan\.json|model\.py|whole_model\.py|launch\.(sh|sbatch)|(ranks|weights|heterplan_runtime)/.*")
# What it would take for part of the plan.
TAKEN = ("ranks/[0-9]*.json", "weights/stage-[0-9]*.safetensors", "weights/stage-[0-9]*.json")
LINE = re.compile(r"([0-9a-f]{64})  (.+)")
PIECE = 1 << 20


def _digest(path: Path) -> str | None:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()


def _read(path: Path) -> dict[str, str]:
    digests: dict[str, str] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise RuntimeFault(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        match = LINE.fullmatch(line)
        if match is None:
            raise RuntimeFault(f"{path}:{number}: expected a SHA-256, two spaces and a path")
        digests[match[2]] = match[1]
    return digests


def changes(directory: Path) -> list[str]:
    """Files that differ from the manifest; raises RuntimeFault without a readable manifest."""
    digests = _read(directory / NAME)
    read = {path: digest for path, digest in digests.items() if READ.fullmatch(path)}
    result = []
    for path, digest in read.items():
        found = _digest(directory / path)
        if found != digest:
            result.append(f"{path} is {'missing' if found is None else 'changed'}")
    for pattern in TAKEN:
        for file in sorted(directory.glob(pattern)):
            path = file.relative_to(directory).as_posix()
            if path not in read:
                result.append(f"{path} was not written with this plan")
    return result


def check_directory(directory: Path, allow_edits: bool) -> list[str]:
    """Refuses a directory whose files do not belong together; with `allow_edits` returns how."""
    if not (directory / NAME).exists():
        return ["there is no manifest.sha256: whether its files belong together is not checked"]
    found = changes(directory)
    if found and not allow_edits:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise RuntimeFault(
            f"{directory}: {found[0]}{more}: its files do not belong together; compile it again, "
            "or give --allow-edits to run it as it is"
        )
    return found
