"""Ctrl-C during compile ends the search with the best plan so far and its bound."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import BINARY, bundled, pool

PATIENCE = 600  # seconds; the searches below would take days


def catches_interrupts(pid: int) -> bool:
    """Whether the process has a handler for SIGINT: it sets one when it begins to search."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) & 1 << (signal.SIGINT - 1))
    return False


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("strategy", ["auto", "local-search", "genetic"])
@pytest.mark.parametrize("pareto", [False, True], ids=["plan", "front"])
def test_an_interrupted_search_returns_its_best_plan(strategy: str, pareto: bool, job) -> None:
    asked = job("bert_base", bundled("cloud-large"), [("--strategy", strategy)])
    asked.options.append(("--work-limit", str(10**15)))
    if pareto:
        asked.options.append(("--pareto", ""))
    compiling = subprocess.Popen(asked.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while compiling.poll() is None and not catches_interrupts(compiling.pid):
        pass
    compiling.send_signal(signal.SIGINT)
    _, complaints = compiling.communicate(timeout=PATIENCE)
    assert compiling.returncode == 0, complaints
    assert b"note: interrupted: the search had not ended" in complaints
    plan = json.loads((asked.folder / "out/plan.json").read_text())
    assert plan["lowerBound"] > 0
    assert pareto or plan["interrupted"]
    assert all(check["holds"] for check in plan["checks"])
    cluster = ["--cluster", str(asked.folder / "cluster.yaml")]
    model = ["--model", asked.command()[2]]
    subprocess.run([BINARY, "verify", asked.folder / "out", *model, *cluster], check=True)


def test_a_strategy_without_a_bound_of_its_own_has_a_quick_one_when_its_time_is_up(job):
    """Less tight than with time, and no plan is better."""
    found = {}
    for limit in ("1e-6", ""):
        options = [("--strategy", "greedy"), ("--time-limit", limit)][: 2 if limit else 1]
        _, found[limit] = job("tower", pool(), [("--batch", "64"), *options]).run()
    _, best = job("tower", pool(), [("--batch", "64")]).run()
    assert found["1e-6"]["throughput"] == found[""]["throughput"]
    assert found["1e-6"]["lowerBound"] > found[""]["lowerBound"] * (1 + 1e-6)
    assert found["1e-6"]["lowerBound"] >= best["throughput"]
