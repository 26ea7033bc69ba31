"""Training goes on where it was interrupted, on the same plan or on another of the same model."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from chains import chain
from heterplan_runtime.checkpoint import (
    Checkpoint,
    Facts,
    Piece,
    commit,
    complete_ones,
    folder_of,
    keep_newest,
    remove_begun,
    write_part,
)
from heterplan_runtime.errors import RuntimeFault
from packages import Package, awkward, linear, tables
from ranks import Outcome, run_ranks
from safetensors.torch import load_file

STEPS = 6


class Job:
    """A training in pieces; each gives the losses of its steps."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.checkpoints = folder / "checkpoints"
        self._pieces = 0

    def outcomes(self, package: Package, steps: int, *more: str, text: str = "", **how: Any) -> list[Outcome]:
        """`text`: is added to model.py."""
        self._pieces += 1
        plan = self.folder / f"plan{self._pieces}"
        package.write(plan)
        with (plan / "model.py").open("a") as model:
            model.write(text)
        self.result = plan / "result.json"
        self.weights = plan / "trained/model.safetensors"
        return run_ranks(
            package.world_size, self.folder / "logs",
            [str(plan), "--loss", "mse", "--lr", "0.05", "--steps", str(steps), *self.options, *more,
             "--json", str(self.result), "--checkpoint-dir", str(self.checkpoints)],
            **how,
        )  # fmt: skip

    def run(self, package: Package, steps: int, *more: str) -> list[float]:
        outcomes = self.outcomes(package, steps, "--resume", *more)
        for outcome in outcomes:
            assert outcome.status == 0, outcome.out + "".join(o.err for o in outcomes)
        self.out = outcomes[0].out
        return json.loads(self.result.read_text())["losses"]


PIPELINE = chain([1, 2], [[4], [3, 1], [4]], 2, "adam")  # four ranks
PARALLEL = chain([], [[3, 1]], 2, "adam")  # two


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (PIPELINE, PIPELINE),
        (PIPELINE, PARALLEL),
        (PARALLEL, PIPELINE),
        (PARALLEL.sharded("optimizer"), PIPELINE),
        (PIPELINE.sharded("gradients"), chain([], [[1, 2, 1]], 2, "adam").sharded("optimizer")),
        (chain([3], [[1, 3], [4]], 2, "momentum"), chain([], [[4]], 2, "momentum")),
        (chain([2], [[4], [2, 2]], 2, "sgd"), chain([], [[2, 1, 1]], 2, "sgd")),
    ],
)
def test_another_plan_goes_on(tmp_path: Path, first: Package, second: Package) -> None:
    whole = Job(tmp_path / "whole")
    whole.folder.mkdir()
    wanted = whole.run(second, STEPS)
    job = Job(tmp_path)
    head = job.run(first, 3, "--checkpoint-every", "2")
    before = load_file(job.weights)["l0.weight"]
    tail = job.run(second, STEPS)
    assert "resumed from" in job.out and "3 steps are done" in job.out
    assert [*head, *tail] == pytest.approx(wanted, rel=1e-5)
    if first is second:
        assert [*head, *tail] == wanted
    weights, expected = load_file(job.weights), load_file(whole.weights)
    assert weights.keys() == expected.keys() and "bn.running_var" in weights
    assert not torch.allclose(weights["l0.weight"], before, rtol=1e-2), "nothing trained"
    for name, values in expected.items():
        torch.testing.assert_close(weights[name], values, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_tables_divided_otherwise_go_on(tmp_path: Path, optimizer: str) -> None:
    first = tables([[1, 3], [4]], [7, 6], [4, 3], 2, optimizer)
    second = tables([[2, 1, 1], [2, 2]], [3, 0, 10], [1, 5, 1], 2, optimizer)
    whole = Job(tmp_path / "whole")
    whole.folder.mkdir()
    wanted = whole.run(first, STEPS)
    job = Job(tmp_path)
    assert [*job.run(first, 2), *job.run(second, STEPS)] == pytest.approx(wanted, rel=1e-5)
    weights, expected = load_file(job.weights), load_file(whole.weights)
    assert weights["users"].shape == (13, 4)
    for name, values in expected.items():
        torch.testing.assert_close(weights[name], values, rtol=1e-4, atol=1e-6)


def test_check_sees_through_a_checkpoint(tmp_path: Path) -> None:
    """One process that trains from the first step ends with the same state."""
    job = Job(tmp_path, "--check")
    package = awkward([[1, 3], [4], [2, 2]], 2, "adam")
    job.options = ("--loss", "cross_entropy", "--check")
    job.run(package, 2)
    job.run(package.sharded("gradients"), 5)
    assert "parameters, buffers and optimizer state (off by" in job.out


def test_done_training_is_not_trained_again(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run(PARALLEL, 3)
    before = load_file(job.weights)
    assert job.run(PARALLEL, 3) == []
    assert "there is nothing to train" in job.out
    assert all(torch.equal(before[name], values) for name, values in load_file(job.weights).items())


def test_newest_are_kept(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run(PARALLEL, 7, "--checkpoint-every", "2", "--keep", "3")
    assert [path.name[-1] for path in complete_ones(job.checkpoints)] == ["7", "6", "4"]


@pytest.mark.parametrize(
    ("package", "options", "message"),
    [
        (chain([], [[4]], 2, "momentum"), (), "was trained with the optimizer (adam; here momentum)"),
        (chain([], [[2]], 2, "adam"), (), "was trained with the global batch (8; here 4)"),
        (awkward([[4], [4], [4]], 2, "adam"), ("--loss", "cross_entropy"), "is of another model"),
        (PARALLEL, ("--seed", "1"), "was trained with the seed (0; here 1)"),
    ],
)
def test_checkpoint_of_another_training_is_refused(tmp_path: Path, package, options, message) -> None:
    job = Job(tmp_path)
    job.run(PARALLEL, 2)
    outcomes = job.outcomes(package, 4, "--resume", *options)
    assert 0 not in [outcome.status for outcome in outcomes]
    assert message in "".join(outcome.err for outcome in outcomes)


def test_checkpoints_are_not_mixed_up(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run(PARALLEL, 2)
    outcomes = job.outcomes(PARALLEL, 4)
    assert "is there already; go on from it by --resume" in "".join(o.err for o in outcomes)


def damage(path: Path) -> None:
    """As a disk would: the size stays."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["cut", "damage", "unlink", "index"])
def test_what_is_not_whole_is_not_loaded(tmp_path: Path, how: str) -> None:
    job = Job(tmp_path)
    head = job.run(PARALLEL, 5, "--checkpoint-every", "2", "--keep", "9")
    newest = complete_ones(job.checkpoints)[0]
    part = newest / "0001.safetensors"
    if how == "cut":
        part.write_bytes(part.read_bytes()[:-8])
    elif how == "damage":
        damage(part)
    elif how == "unlink":
        part.unlink()
    else:
        (newest / "checkpoint.json").write_text('{"step": 5')
    tail = job.run(PARALLEL, STEPS)
    assert "this checkpoint is not used" in job.out and "4 steps are done" in job.out
    assert tail[0] == head[4]


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
    tail = job.run(PIPELINE, STEPS)
    assert 0 < len(tail) <= STEPS and tail == wanted[-len(tail) :]
    assert not list(job.checkpoints.glob(".saving-*"))


def reference_losses(folder: Path) -> list[float]:
    """Of PIPELINE without a fault, once for all tests."""
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


# The files.

FACTS = Facts(3, 8, "adam", 0, "model", "plan")


def saved(folder: Path, step: int = 3, **pieces: list[float]) -> Path:
    """Pieces by "kind:begin:name"."""
    own = {}
    for key, values in pieces.items():
        kind, begin, name = key.split(":")
        own[Piece(kind, name, int(begin))] = torch.tensor(values)
    begun = folder / f".saving-{step}"
    file = write_part(begun, 0, own, {"w": step})
    return commit(begun, folder, Facts(step, 8, "adam", 0, "model", "plan"), [file])


def test_elements_are_found_wherever_they_are(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        **{"value:0:a/b": [0.0, 1.0], "value:2:a/b": [2.0, 3.0], "value:1:a/b": [1.0, 2.0, 3.0, 4.0]},
    )
    checkpoint = Checkpoint(path)
    checkpoint.verify(0, 1)
    assert (checkpoint.facts, checkpoint.updates) == (FACTS, {"w": 3})
    target = torch.full((3,), -1.0)
    checkpoint.fill(Piece("value", "a/b", 2), target)
    assert target.tolist() == [2, 3, 4]
    with pytest.raises(RuntimeFault, match=r"element 5 of 'a/b' \(value\) is missing"):
        checkpoint.fill(Piece("value", "a/b", 3), target)
    with pytest.raises(RuntimeFault, match="element 0 of 'a/b' .exp_avg. is missing"):
        checkpoint.fill(Piece("exp_avg", "a/b", 0), target)


def test_only_complete_ones_count(tmp_path: Path) -> None:
    write_part(tmp_path / ".saving-4", 0, {Piece("value", "w", 0): torch.ones(2)}, {})
    write_part(folder_of(tmp_path, 5), 0, {Piece("value", "w", 0): torch.ones(2)}, {})
    path = saved(tmp_path, **{"value:0:w": [1.0]})
    (tmp_path / "step-00000009.bak").mkdir()
    assert complete_ones(tmp_path) == [path]
    remove_begun(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["step-00000003", "step-00000009.bak"]
    for step in (7, 8):
        saved(tmp_path, step, **{"value:0:w": [1.0]})
    keep_newest(tmp_path, 1)
    assert [each.name for each in complete_ones(tmp_path)] == ["step-00000008"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"step": 3', '"step": 4', "holds step 4"),
        ("0000.safetensors", "../../etc/passwd", "is not the name of a rank's file"),
        ('"schemaVersion": "1.0"', '"schemaVersion": "2.0"', "this runtime reads 1.x"),
        ('"updates": {', '"updates": {"x": -1, ', "field 'x' is -1"),
    ],
)
def test_index_is_not_trusted(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = saved(tmp_path, **{"value:0:w": [1.0]})
    index = path / "checkpoint.json"
    text = index.read_text()
    assert old in text
    index.write_text(text.replace(old, new))
    with pytest.raises(RuntimeFault) as error:
        Checkpoint(path)
    assert message in str(error.value)
