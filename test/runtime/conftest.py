from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from packages import RUNTIME, Package  # noqa: E402
from ranks import Outcome, run_ranks  # noqa: E402

sys.path.insert(0, str(RUNTIME))


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Writes a package, trains it on its ranks, and returns the JSON result of a clean run."""

    def run(package: Package, *options: str) -> dict[str, Any]:
        folder = package.write(tmp_path / "plan")
        result = tmp_path / "result.json"
        outcomes = run_ranks(
            package.world_size, tmp_path / "logs", [str(folder), "--json", str(result), *options]
        )
        for outcome in outcomes:
            assert outcome.status == 0, outcome.out + "".join(o.err for o in outcomes)
        return {**json.loads(result.read_text()), "out": outcomes[0].out}

    return run


@pytest.fixture
def fail(tmp_path: Path) -> Callable[..., list[Outcome]]:
    """Runs a package that may have been damaged after it was written; returns the outcomes."""

    def run(folder: Path, world: int, *options: str, **how: Any) -> list[Outcome]:
        return run_ranks(world, tmp_path / "logs", [str(folder), *options], **how)

    return run
