from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from packages import RUNTIME, Package  # noqa: E402
from ranks import Outcome, run_ranks  # noqa: E402

sys.path.insert(0, str(RUNTIME))

# Shells start programs in the background with SIGINT ignored, and all that a test starts would ignore it, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", default="1/1", help="I/N: the I-th of N parts of about the same work")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the tests of this shard. Tests of one file stay together, as they share fixtures."""
    number, count = (int(text) for text in config.getoption("--shard").split("/"))
    work: dict[Path, float] = {}
    for item in items:
        work[item.path] = work.get(item.path, 0.0) + _work(item)
    loads, shard_of = [0.0] * count, {}
    for path in sorted(work, key=lambda path: (-work[path], path)):
        shard_of[path] = loads.index(min(loads))
        loads[shard_of[path]] += work[path]
    items[:] = [item for item in items if shard_of[item.path] == number - 1]


def _work(item: Any) -> float:
    """A test that starts ranks or the program takes a second, another one next to nothing."""
    starts = {"train", "fail"} & set(item.fixturenames) or {"heterplan", "run_ranks"} & set(vars(item.module))
    return 1.0 if starts else 0.05


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
