"""Orders of the layers: plans against those of every topological order, and against the same model branch by branch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import BINARY, SOURCE
from orders import CLUSTER, Branches, random_branches

sys.path.insert(0, str(SOURCE / "bench"))
import instances  # noqa: E402


def compiled(model: Path, cluster: Path, *options: object) -> dict[str, Any]:
    done = subprocess.run(
        [BINARY, "compile", model, "--cluster", cluster, "--threads", "1", "-o", model.parent / "out", "--force", "--json",
         *map(str, options)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def plan_of(model: Branches, folder: Path, order: str) -> dict[str, Any]:
    """A pipeline of two stages at least: else no cut matters."""
    (folder / "c.yaml").write_text(yaml.safe_dump(CLUSTER))
    names = list(model.work)
    return compiled(
        model.write(folder / "m.layers.json"), folder / "c.yaml", "--batch", 64, "--separate", f"{names[0]},{names[-1]}",
        "--layer-order", order,
    )  # fmt: skip


@pytest.mark.parametrize(
    "seed", [3, 4, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(10, 30))]
)
def test_plans_are_nearly_as_good_as_the_best_of_all_orders(seed: int, tmp_path: Path):
    model = random_branches(seed)
    orders = list(model.orders())
    assert len(orders) > 1
    if len(orders) > 60:
        pytest.skip("too many orders")
    found = [plan_of(model.ordered(order), tmp_path, "given")["throughput"] for order in orders]
    chosen = plan_of(model, tmp_path, "auto")
    assert max(found) * 0.95 <= chosen["throughput"] <= max(found) * (1 + 1e-9)
    assert chosen["throughput"] >= 0.99 * found[orders.index(list(model.work))], "the given order is looked at"


@pytest.mark.parametrize(
    ("branches", "depth"),
    [(4, 8), *(pytest.param(*each, marks=pytest.mark.sweep) for each in ((8, 8), (16, 4)))],
)
def test_levels_are_planned_as_branches(branches: int, depth: int, tmp_path: Path):
    found = {}
    for work in instances.orders(tmp_path):
        if f"towers-{branches}x{depth}" in work.name:
            plan = compiled(work.model, Path(work.cluster), "--batch", work.batch, *work.options)
            found["by level" in work.name] = plan
            assert plan["gap"] <= 0.01
    assert found[True]["layerOrder"] == "narrow"
    assert found[True]["throughput"] == pytest.approx(found[False]["throughput"], rel=0.005)


def test_chains_have_the_order_of_their_file(tmp_path: Path):
    names = [f"l{i}" for i in range(6)]
    chain = Branches(dict.fromkeys(names, 2.0), [(a, [b], 1e6) for a, b in zip(names, names[1:])])
    plans = [plan_of(chain, tmp_path, order) for order in ("auto", "given", "narrow")]
    assert plans[0] == plans[1] == plans[2]
    assert "layerOrder" not in plans[0]


def test_other_words_are_refused(tmp_path: Path):
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(CLUSTER))
    model = random_branches(3).write(tmp_path / "m.layers.json")
    done = subprocess.run(
        [BINARY, "compile", model, "--cluster", tmp_path / "c.yaml", "--layer-order", "best", "-o", tmp_path / "out"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "give one of auto, given, narrow" in done.stderr
