"""Ranks that are killed, told to end, or come to a loss that is no number: nothing is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from heterplan_runtime.checkpoint import Checkpoint, complete_ones
from packages import linear
from pieces import PARALLEL, PIPELINE, STEPS, Job

# Faults are put into model.py, which every rank imports.
FAULT = """
import os, signal, time
import heterplan_runtime.{module} as module
calls, original = 0, module.{function}
def failing(*arguments, **named):
    global calls
    calls += 1
    if os.environ["RANK"] == "{rank}" and calls == {call}:
        open("{mark}", "w").write(str(time.time()))
        os.kill(os.getpid(), signal.{signal})
    return original(*arguments, **named)
module.{function} = failing
"""
MOMENTS = [
    ("data", "RandomData.load", 0, 5),
    ("part", "PartExecution._forward", 2, 6),
    ("part", "PartExecution._backward", 0, 7),
    ("trained_state", "TrainedState.update", 3, 3),
    ("communication", "Communicator.total", 1, 4),
    ("tensorfile", "TensorWriter.write", 2, 3),  # a checkpoint is half written
    ("tensorfile", "TensorWriter.close", 1, 2),
    ("checkpoints", "commit", 0, 2),
    ("checkpoint", "os.rename", 0, 2),
]


def fault(folder: Path, signal: str = "SIGKILL", **where: object) -> str:
    return FAULT.format(mark=folder / "mark", signal=signal, **where)


@pytest.mark.parametrize(("module", "function", "rank", "call"), MOMENTS)
def test_killed_rank(tmp_path: Path, module: str, function: str, rank: int, call: int) -> None:
    """All others end soon and the reason is told; nothing that is half written is taken up."""
    wanted = reference_losses(tmp_path)
    text = fault(tmp_path, module=module, function=function, rank=rank, call=call)
    job = Job(tmp_path)
    outcomes = job.outcomes(
        PIPELINE, STEPS, "--checkpoint-every", "1", text=text, stop_on_failure=False
    )
    gone = time.time() - float((tmp_path / "mark").read_text())
    assert gone < 10, "the others have waited"
    assert outcomes[rank].status is None
    assert all(outcome.status == 1 for outcome in outcomes if outcome is not outcomes[rank])
    told = "".join(outcome.err for outcome in outcomes)
    assert f"rank {rank} on " in told and "is lost" in told and "all ranks stop" in told
    assert "internal error" not in told and "Traceback" not in told
    tail = job.run(PIPELINE, STEPS)
    assert 0 < len(tail) <= STEPS and tail == wanted[-len(tail) :]
    assert not list(job.checkpoints.glob(".saving-*"))


def reference_losses(folder: Path) -> list[float]:
    """Losses of PIPELINE without a fault, computed once for all tests."""
    if not KNOWN:
        whole = Job(folder / "whole")
        whole.folder.mkdir()
        KNOWN.extend(whole.run(PIPELINE, STEPS))
    return KNOWN


KNOWN: list[float] = []


# HETERPLAN_KILLS=20 for more of them.
LATER = """
import os, signal, threading, time
import heterplan_runtime.training as module
original = module.Interpreter.run_step
def run_step(self, step):
    if os.environ["RANK"] == "{rank}" and step == 1:
        def end():
            open("{mark}", "w").write(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Timer({delay}, end).start()
    return original(self, step)
module.Interpreter.run_step = run_step
"""


@pytest.mark.parametrize("seed", range(int(os.environ.get("HETERPLAN_KILLS", "1"))))
def test_kill_at_a_random_moment(tmp_path: Path, seed: int) -> None:
    """The moment is random, what follows is not."""
    steps, draw = 40, random.Random(seed)
    whole = Job(tmp_path / "whole")
    whole.folder.mkdir()
    wanted = whole.run(PIPELINE, steps)
    rank = draw.randrange(4)
    text = LATER.format(rank=rank, delay=draw.uniform(0, 0.4), mark=tmp_path / "mark")
    job = Job(tmp_path)
    outcomes = job.outcomes(
        PIPELINE, steps, "--checkpoint-every", "3", text=text, stop_on_failure=False
    )
    if outcomes[rank].status is None:
        assert time.time() - float((tmp_path / "mark").read_text()) < 10
        assert f"rank {rank} on " in "".join(outcome.err for outcome in outcomes)
        assert all(o.status == 1 for o in outcomes if o is not outcomes[rank])
    tail = job.run(PIPELINE, steps)
    assert tail == wanted[len(wanted) - len(tail) :]


def test_sigterm_saves(tmp_path: Path) -> None:
    wanted = reference_losses(tmp_path)
    text = fault(
        tmp_path, module="part", function="PartExecution._forward", rank=1, call=5, signal="SIGTERM"
    )
    job = Job(tmp_path)
    outcomes = job.outcomes(PIPELINE, STEPS, text=text, stop_on_failure=False)
    assert [outcome.status for outcome in outcomes] == [1] * 4
    assert "ended by a signal after step 3; --resume goes on" in outcomes[0].err
    assert job.run(PIPELINE, STEPS) == wanted[3:]


SLOW_DATA = """
import time, torch
def samples(step, numbers):
    time.sleep(0.05)
    return {"x": torch.ones(len(numbers), 6) * step}, torch.zeros(len(numbers), 3)
"""


def test_sigterm_of_a_launcher_saves_with_workers_that_make_samples(tmp_path: Path) -> None:
    """torchrun signals the ranks and their workers."""
    (tmp_path / "own_samples.py").write_text(SLOW_DATA)
    plan = linear([2, 1], 1, "momentum").write(tmp_path / "plan")
    run = subprocess.Popen(
        [sys.executable, "-m", "heterplan_runtime", str(plan), "--loss", "mse", "--steps", "100000",
         "--data", "own_samples:samples", "--checkpoint-every", "100000", "--no-save"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(plan)}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert run.stdout is not None
    next(line for line in run.stdout if line.startswith("step 3 "))
    run.terminate()
    out, err = run.communicate(timeout=60)
    assert run.returncode == 1 and "saved " in out and "--resume goes on" in err, out + err
    (newest,) = complete_ones(plan / "checkpoints")
    assert Checkpoint(newest).facts.step >= 3


NOT_A_NUMBER = """
calls, original = 0, Chain.forward
def forward(self, x):
    global calls
    calls += 1
    (y,) = original(self, x)
    return (y * float("nan") if calls > 4 else y,)
Chain.forward = forward
"""


def test_loss_that_is_not_a_number(tmp_path: Path) -> None:
    job = Job(tmp_path)
    outcomes = job.outcomes(
        PARALLEL, 4, "--checkpoint-every", "1", text=NOT_A_NUMBER, stop_on_failure=False
    )
    assert [outcome.status for outcome in outcomes] == [1, 1]
    assert "step 3: the loss is nan; a smaller --lr may help" in outcomes[0].err
    assert [path.name for path in complete_ones(job.checkpoints)] == ["step-00000002", "step-00000001"]
    outcomes = job.outcomes(PARALLEL, 4, "--resume", "--allow-nan", text=NOT_A_NUMBER)
    assert [outcome.status for outcome in outcomes] == [0, 0]


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_restart_goes_on(tmp_path: Path) -> None:
    """By torchrun's own means, as a user starts it."""
    plan = PARALLEL.write(tmp_path / "plan")
    with (plan / "model.py").open("a") as model:
        once = fault(tmp_path, module="part", function="PartExecution._forward", rank=1, call=7)
        model.write(once.replace("calls ==", 'os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and calls =='))
    environment = {**os.environ, "PYTHONPATH": ""}
    run = subprocess.run(
        [sys.executable, "-m", "heterplan_runtime", ".", "--loss", "mse", "--lr", "0.05", "--steps",
         str(STEPS), "--checkpoint-every", "1", "--max-restarts", "1"],
        cwd=plan, env=environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "rank 1 on " in run.stderr and "resumed from" in run.stdout
    whole = Job(tmp_path / "whole")
    whole.folder.mkdir()
    wanted = whole.run(PARALLEL, STEPS)
    shown = [line.split()[3] for line in run.stdout.splitlines() if line.startswith(f"step {STEPS} ")]
    assert shown == [f"{wanted[-1]:.6f}"]
