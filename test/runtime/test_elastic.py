"""`run --max-restarts --elastic` goes on after ranks were killed, without a person."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from binary import BINARY, heterplan, needs_binary
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.fallbacks import Fallbacks
from heterplan_runtime.main import parse

DATA = Path(__file__).resolve().parents[1] / "data"
MODEL, FOUR = DATA / "small/cnn.onnx", DATA / "hand/four.yaml"
KILLS = int(os.environ.get("HETERPLAN_KILLS", "2"))  # 10 for more of them
STEPS = 20 + 4 * KILLS
# Each start of the ranks kills one of them at a random moment, until enough have been.
KILLING = """
import os, pathlib, random, signal, threading, time, torch
folder = pathlib.Path({folder!r})
start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
draw = random.Random({seed} * 1000 + start)
chosen, delay = draw.randrange(int(os.environ["WORLD_SIZE"])), draw.uniform(0.0, 0.6)
if start < {kills} and int(os.environ["RANK"]) == chosen:
    def end():
        (folder / f"killed-{{start}}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Timer(delay, end).start()
def data(step, samples):
    time.sleep(0.02)
    draws = [torch.Generator().manual_seed(int(sample)) for sample in samples]
    images = torch.stack([torch.randn(3, 16, 16, generator=each) for each in draws])
    return {{"input": images}}, torch.tensor([int(sample) % 10 for sample in samples])
"""

pytestmark = [needs_binary, pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    heterplan("compile", MODEL, "--cluster", FOUR, "--schedule", "data-parallel", "--batch", 64, "-o", tmp_path / "plan")
    return tmp_path / "plan"


def run(plan: Path, kills: int, *options: str) -> tuple[list[float], str]:
    """The losses of all steps, the last of each, and what was said."""
    folder = plan.parent
    (folder / "killing.py").write_text(KILLING.format(folder=str(folder), seed=7, kills=kills))
    log = folder / f"log-{kills}.jsonl"
    done = subprocess.run(
        [BINARY, "run", str(plan), "--steps", str(STEPS), "--data", "killing:data", "--no-save", "--log-file", str(log),
         "--data-workers", "0", *options],
        cwd=folder, env={**os.environ, "HETERPLAN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}, text=True,
        capture_output=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    losses = {}
    for line in log.read_text().splitlines():
        if "loss" in (facts := json.loads(line)):
            losses[facts["step"]] = facts["loss"]
    assert len(losses) == STEPS
    return [losses[step] for step in sorted(losses)], done.stderr


RESTARTS = ("--max-restarts", str(KILLS), "--elastic", "--checkpoint-every", "2")


def test_the_same_plan_has_the_losses_of_an_undisturbed_run(plan: Path):
    wanted, _ = run(plan, 0)
    found, said = run(plan, KILLS, *RESTARTS)
    killed = list(plan.parent.glob("killed-*"))
    # Another rank may end first, since its connection broke; each kill is followed by one restart.
    assert killed and said.count("heterplan: restart ") == len(killed), said
    assert "was ended by SIGKILL" in said, said
    assert "internal error" not in said, said
    assert found == pytest.approx(wanted, rel=1e-6)


def test_a_fallback_plan_goes_on(plan: Path):
    heterplan("replan", plan, "--model", MODEL, "--cluster", FOUR, "--fallbacks", 1)
    losses, said = run(plan, KILLS, *RESTARTS)
    assert "going on with the plan" in said and "fallbacks/host-1" in said
    assert all(math.isfinite(loss) for loss in losses)
    assert sum(losses[-5:]) < sum(losses[:5])


def test_fallbacks_of_another_plan_are_refused(tmp_path: Path):
    (tmp_path / "fallbacks").mkdir()
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "fallbacks/index.json").write_text('{"plan": "0", "fallbacks": []}')
    with pytest.raises(RuntimeFault, match="its plans are for another plan; run 'heterplan replan --fallbacks'"):
        Fallbacks(parse([str(tmp_path), "--elastic"]), [])


def test_elastic_needs_restarts(plan: Path):
    done = subprocess.run(
        [BINARY, "run", str(plan), "--elastic"], capture_output=True, text=True, timeout=100,
        env={**os.environ, "HETERPLAN_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 1 and "give --max-restarts N, too" in done.stderr
