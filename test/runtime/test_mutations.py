"""Faults put into copies of an output: `--check` finds each of them, and none where there is none."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from packages import Package, awkward, dropout, gathered, linear, tables

# Every rank imports model.py, so that a fault at its end is one of the runtime. What only the
# distributed run has is changed: rank 0 also trains the reference, in the same process.
START = """
import os
RANK = int(os.environ["RANK"])
from heterplan_runtime import assembly, batchnorm, communication, data, dropout, interpreter
from heterplan_runtime import local_batchnorm, part, sharded_parameters, sharded_state, tables, trained_state
PART, STATE, CALLS = part.PartExecution, trained_state.TrainedState, {}


def count(name):
    CALLS[name] = CALLS.get(name, 0) + 1
    return CALLS[name]


def wrap(home, name, make):
    setattr(home, name, make(getattr(home, name)))


def skip(home, name, when):
    wrap(home, name, lambda f: lambda *a, **k: None if when(count(name)) else f(*a, **k))


def scale_gradients(factor, when):
    def make(f):
        def changed(self, instruction):
            for parameter in self._parameters.values():
                if parameter.grad is not None and when(count("gradients"), instruction):
                    parameter.grad *= factor
            return f(self, instruction)
        return changed
    wrap(STATE, "all_reduce", make)


def optimizer(**changes):
    def make(f):
        def changed(*arguments, **named):
            made = f(*arguments, **named)
            for group in made.param_groups:
                group.update(changes)
            return made
        return changed
    wrap(assembly, "make_optimizer", make)


def stage(change):
    def make(f):
        def changed(*arguments, **named):
            made = f(*arguments, **named)
            with torch.no_grad():
                change(made)
            return made
        return changed
    wrap(assembly, "build_stage", make)


def received(change):
    wrap(communication.Communicator, "receive",
         lambda f: lambda self, specs, i: [change(t, i) for t in f(self, specs, i)])
"""


@dataclass(frozen=True)
class Fault:
    package: Package
    text: str
    loss: str = "cross_entropy"


REPLICAS = linear([3, 1], 2, "sgd")
MOMENTUM, ADAM = linear([3, 1], 2, "momentum"), linear([3, 1], 2, "adam")
STAGES = awkward([[3, 1], [4], [2, 2]], 2, "sgd")
LOCAL = replace(awkward([[3, 1], [4], [2, 2]], 2, "momentum"), batch_norm="local")
DROPOUT = dropout([[3, 1], [2, 2]], 2, "sgd")
TABLES = tables([[1, 3], [4]], [7, 6], [4, 3], 2, "adam")
GATHERED = gathered([[1, 3]], 2, "adam").sharded("parameters")
FAULTS = {
    "all-reduce skipped at one step": Fault(
        REPLICAS, 'skip(STATE, "all_reduce", lambda call: call == 2)', "mse"
    ),
    "all-reduce skipped at the last step": Fault(
        REPLICAS, 'skip(STATE, "all_reduce", lambda call: call == 3)', "mse"
    ),
    "shares counted alike": Fault(
        REPLICAS,
        """
def make(f):
    def changed(self, state, samples):
        f(self, state, samples)
        own = self.part.samples.count
        for parameter in self._stage.parameters():
            parameter.grad *= 2 / own
    return changed
wrap(PART, "_backward_from_loss", make)""",
        "mse",
    ),
    "a gradient of one rank scaled": Fault(
        REPLICAS, "scale_gradients(1.1, lambda call, i: RANK == 1)", "mse"
    ),
    "all gradients doubled": Fault(REPLICAS, "scale_gradients(2, lambda call, i: True)", "mse"),
    "gradient of one parameter lost": Fault(
        REPLICAS, "scale_gradients(0, lambda call, i: call % 2 == 1)", "mse"
    ),
    "stale weights on one rank": Fault(
        REPLICAS, 'RANK == 1 and skip(STATE, "update", lambda call: call == 3)', "mse"
    ),
    "momentum of 0.8": Fault(MOMENTUM, "optimizer(momentum=0.8)", "mse"),
    "Nesterov's momentum": Fault(MOMENTUM, "optimizer(nesterov=True)", "mse"),
    "Adam's first constant": Fault(ADAM, "optimizer(betas=(0.8, 0.999))", "mse"),
    "Adam's second constant": Fault(ADAM, "optimizer(betas=(0.9, 0.99))", "mse"),
    "Adam's epsilon": Fault(ADAM, "optimizer(eps=1e-3)", "mse"),
    "weight decay that nobody wanted": Fault(ADAM, "optimizer(weight_decay=0.1)", "mse"),
    "learning rate": Fault(
        REPLICAS,
        'wrap(STATE, "set_rate", lambda f: lambda self, rate: f(self, rate * 1.05))',
        "mse",
    ),
    "samples off by one": Fault(
        REPLICAS,
        'wrap(data.RandomData, "load", lambda f: lambda self, step, s: f(self, step, range(s.start + 1, '
        "s.stop + 1) if len(s) < 4 else s))",
        "mse",
    ),
    "samples of the step before": Fault(
        REPLICAS,
        'wrap(data.RandomData, "load", lambda f: lambda self, step, s: f(self, max(0, step - 1) '
        "if len(s) < 4 else step, s))",
        "mse",
    ),
    "a micro-batch lost": Fault(
        REPLICAS,
        'RANK == 1 and skip(PART, "_backward", lambda call: call == 2)',
        "mse",
    ),
    "a weight of one rank off by 1 %": Fault(
        REPLICAS, "RANK == 1 and stage(lambda made: made.down.weight.mul_(1.01))", "mse"
    ),
    "one rank with another seed": Fault(
        REPLICAS, "RANK == 1 and stage(lambda made: made.up.weight.normal_())", "mse"
    ),
    "activations scaled on the way": Fault(
        STAGES, "received(lambda t, i: t * 1.01 if t.is_floating_point() and not i.is_gradient else t)"
    ),
    "gradients lost on the way": Fault(
        STAGES, "received(lambda t, i: t * 0 if i.is_gradient and i.micro_batch == 1 else t)"
    ),
    "samples in another order": Fault(
        STAGES, "received(lambda t, i: t.flip(0) if len(t) == 2 else t)"
    ),
    "batch normalisation by replica": Fault(
        STAGES, "assembly._synchronise_batch_norm = lambda *arguments: None"
    ),
    "running statistics moved by another part": Fault(
        STAGES,
        'wrap(batchnorm.SynchronisedBatchNorm, "_measure", lambda f: lambda self, x, m, v, p: '
        "f(self, x, m, v, p * 0.9))",
    ),
    "running statistics of replicas left apart": Fault(
        LOCAL, 'skip(local_batchnorm.LocalStatistics, "bring_together", lambda call: True)'
    ),
    "running statistics of replicas that count alike": Fault(
        LOCAL,
        'wrap(local_batchnorm.LocalStatistics, "bring_together", lambda f: lambda self, w: f(self, 0.5))',
    ),
    "batch normalisation over replicas that was to be local": Fault(
        LOCAL,
        """
def make(f):
    def changed(run, part, stage, sharded):
        found = f(run, part, stage, sharded)
        assembly._synchronise_batch_norm(stage, part.stage, run.communicator, assembly.Presence())
        return found
    return changed
wrap(assembly, "_make_trained", make)""",
    ),
    "shared parameter not summed": Fault(
        STAGES, "interpreter.Interpreter._sum_shared = lambda self: None"
    ),
    "gradients of earlier passes sent": Fault(
        replace(awkward([[3, 1], [4], [2, 2]], 2), overlaps_sums=True),
        'wrap(part.PartExecution, "_backward", lambda f: lambda self, instruction: '
        "(self.trained.begin_last_backward(), f(self, instruction)))",
    ),
    "slices not gathered": Fault(
        ADAM.sharded("optimizer"),
        'skip(sharded_state.ShardedState, "all_gather", lambda call: call == 2)',
        "mse",
    ),
    "wrong slice of the gradients": Fault(
        ADAM.sharded("gradients"),
        'wrap(communication.Communicator, "start_reduce_scatter", '
        "lambda f: lambda self, stage, flat: f(self, stage, flat.roll(1)))",
        "mse",
    ),
    "gathered from the wrong replicas": Fault(
        GATHERED,
        'wrap(communication.Communicator, "all_gather", lambda f: lambda self, stage, whole, own: '
        "(f(self, stage, whole, own), whole.copy_(whole.roll(whole.numel() // 2))))",
        "mse",
    ),
    "a gradient of gathered parameters lost": Fault(
        GATHERED,
        'wrap(sharded_parameters.GatheredLayer, "flattened", lambda f: lambda self, gradients: '
        'f(self, () if count("flattened") == 4 else gradients))',
        "mse",
    ),
    "masks of other samples": Fault(
        DROPOUT,
        'RANK == 3 and wrap(dropout.SampleDropout, "kept", lambda f: lambda self, name, *rest: '
        'f(self, name + "?", *rest))',
        "mse",
    ),
    "gradients of rows lost on one rank": Fault(
        TABLES,
        'RANK == 1 and wrap(tables.GroupedEmbedding, "step", lambda f: lambda self: '
        "(self.rows.clear(), self.gradients.clear(), f(self)))",
    ),
    "other rows looked up": Fault(
        TABLES,
        'wrap(tables.GroupedEmbedding, "keys", lambda f: lambda self, t, indices: '
        "f(self, t, [torch.where(i == 3, 2, i) for i in indices]))",
    ),
    "rows updated as if counted from this step": Fault(
        TABLES,
        'wrap(tables.RowOptimizer, "step", lambda f: lambda self, rows, g: '
        '(setattr(self, "steps", 0), f(self, rows, g)))',
    ),
}


def check(fail, folder: Path, fault: Fault, text: str) -> list:
    fault.package.write(folder)
    with (folder / "model.py").open("a") as model:
        model.write(START + text)
    return fail(
        folder, fault.package.world_size, "--loss", fault.loss, "--steps", "3", "--lr", "0.05",
        "--check", "--no-save", "--json", str(folder / "result.json"), stop_on_failure=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(fail, tmp_path: Path, name: str) -> None:
    outcomes = check(fail, tmp_path / "plan", FAULTS[name], FAULTS[name].text)
    told = "".join(outcome.err for outcome in outcomes)
    assert [outcome.status for outcome in outcomes] == [2] * len(outcomes), told
    assert "check failed" in told
    assert not json.loads((tmp_path / "plan/result.json").read_text())["checkPassed"]


PACKAGES = {fault.package.model + repr(fault.package.optimizer): fault for fault in FAULTS.values()}


@pytest.mark.parametrize("fault", PACKAGES.values(), ids=range(len(PACKAGES)))
def test_no_fault_is_found_where_there_is_none(fail, tmp_path: Path, fault: Fault) -> None:
    for outcome in check(fail, tmp_path / "plan", fault, ""):
        assert outcome.status == 0, outcome.err
