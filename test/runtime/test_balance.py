"""Shares that move while a plan trains: exact gradients, no rank that waits for ever, decisions that
follow the ranks' speeds and can be replayed."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest
from heterplan_runtime.epochs import Epochs
from heterplan_runtime.forecast import fit
from heterplan_runtime.main import parse
from heterplan_runtime.program import MicroBatches, SampleRange, read_rank_program
from heterplan_runtime.resize import Division, resized, stated_shares
from heterplan_runtime.shares import TimeModel, even, fill, scaled
from heterplan_runtime.stragglers import Measured, stragglers
from hypothesis import given, settings
from hypothesis import strategies as st
from packages import Package, awkward, linear, tables
from safetensors.torch import load_file

MODELS = st.builds(
    TimeModel,
    slope=st.floats(0.01, 10),
    constant=st.floats(0, 3),
    floor=st.one_of(st.just(0.0), st.floats(0, 20)),
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_shares_are_better(data) -> None:
    models = data.draw(st.lists(MODELS, min_size=1, max_size=4))
    most = [data.draw(st.integers(0, 9)) for _ in models]
    samples = data.draw(st.integers(0, sum(most)))
    shares = fill(models, samples, most)
    assert sum(shares) == samples
    assert all(0 <= share <= limit for share, limit in zip(shares, most, strict=True))
    every = itertools.product(*(range(limit + 1) for limit in most))
    best = min(_slowest(models, each) for each in every if sum(each) == samples)
    assert _slowest(models, shares) == best


def _slowest(models, shares) -> float:
    return max(model(share) for model, share in zip(models, shares, strict=True))


@settings(max_examples=300, deadline=None)
@given(st.lists(MODELS, min_size=2, max_size=5), st.integers(1, 60), st.floats(0.2, 0.99))
def test_a_faster_worker_never_has_fewer_samples(models, samples, factor) -> None:
    most = [samples] * len(models)
    before = fill(models, samples, most)
    first = models[0]
    faster = TimeModel(first.slope * factor, first.constant, first.floor)
    after = fill([faster, *models[1:]], samples, most)
    assert after[0] >= before[0]
    assert all(b >= a for a, b in zip(after[1:], before[1:], strict=True))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.data())
def test_scaled_shares_sum_up_and_never_grow(shares, data) -> None:
    if sum(shares) == 0:
        shares[0] = 1
    samples = data.draw(st.integers(0, sum(shares)))
    parts = scaled(shares, samples)
    assert sum(parts) == samples
    assert all(0 <= part <= share for part, share in zip(parts, shares, strict=True))
    assert sum(even(samples, len(shares))) == samples


def test_a_line_with_a_floor_is_found() -> None:
    model = TimeModel(slope=2.0, constant=1.0, floor=10.0)
    found = fit([(batch, model(batch)) for batch in (1, 2, 4, 8, 16, 32)])
    for batch in (1, 3, 8, 20, 64):
        assert found(batch) == pytest.approx(model(batch), rel=0.02)
    assert fit([(4, 8.0)])(6) == pytest.approx(12.0)


def test_every_sample_is_used_once_an_epoch() -> None:
    epochs = Epochs(batch=7, samples=24)
    assert [epochs.batch_at(step) for step in range(8)] == [7, 7, 7, 3] * 2
    assert [Epochs(7).batch_at(step) for step in (0, 9)] == [7, 7]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_resized_programs_fit_together(tmp_path_factory, data) -> None:
    """Every sample of every micro-batch is computed once in each stage, and each message that one rank
    sends is what another waits for, in the same order."""
    package = awkward([[2, 2, 2], [6], [3, 3]], micro_batches=3)
    folder = package.write(tmp_path_factory.mktemp("resized") / "plan")
    programs = [read_rank_program(folder, rank) for rank in range(package.world_size)]
    batch = data.draw(st.integers(3, 18))
    shares = {s: _random_shares(data, sum(own), len(own)) for s, own in stated_shares(programs).items()}
    division = Division(programs, MicroBatches(batch, 3), shares)
    moved = [resized(program, division) for program in programs]
    sent: dict[tuple, list] = {}
    received: dict[tuple, list] = {}
    for program in moved:
        assert program.global_batch == batch
        for each in program.instructions:
            kind = each.info.kind
            ends = (program.rank, each.peer) if kind == "send" else (each.peer, program.rank)
            if each.is_transfer:
                into = sent if kind == "send" else received
                key = (*ends, each.boundary, each.is_gradient)
                into.setdefault(key, []).append((each.micro_batch, each.samples))
    assert sent == received
    for stage, micro_batch in itertools.product(range(3), range(3)):
        ranges = [
            each.samples
            for program in moved
            for each in program.instructions
            if each.op == "forward" and each.micro_batch == micro_batch
            and program.parts[each.part].stage == stage
        ]  # fmt: skip
        assert sorted(n for own in ranges for n in range(own.begin, own.end)) == list(
            range(division.sizes.size(micro_batch))
        )


def _random_shares(data, samples: int, replicas: int) -> list[int]:
    cuts = sorted(data.draw(st.lists(st.integers(0, samples), min_size=replicas - 1, max_size=replicas - 1)))
    return [b - a for a, b in zip([0, *cuts], [*cuts, samples], strict=True)]


def test_the_shares_of_the_plan_make_its_program(tmp_path: Path) -> None:
    package = awkward([[1, 3], [3, 1], [2, 2]], micro_batches=3)
    folder = package.write(tmp_path / "plan")
    programs = [read_rank_program(folder, rank) for rank in range(package.world_size)]
    division = Division(programs, programs[0].sizes, stated_shares(programs))
    for program in programs:
        again = resized(program, division)
        assert again.parts == program.parts
        assert [str(i) for i in again.instructions] == [str(i) for i in program.instructions]
        assert [i.samples for i in again.instructions if i.is_transfer] == [
            i.samples for i in program.instructions if i.is_transfer
        ]
        assert SampleRange(0, 0) not in [i.samples for i in again.instructions if i.op == "forward"]


def _replay(folder: Path, widths: list[list[int]], steps: int, seed: int) -> str:
    """A file of decisions: other shares of every stage at each step, zeros among them."""
    draws = random.Random(seed)
    decisions = []
    for step in range(steps):
        for stage, own in enumerate(widths):
            samples = sum(own)
            cuts = sorted(draws.choice((0, samples, draws.randint(0, samples))) for _ in own[1:])
            shares = [b - a for a, b in zip([0, *cuts], [*cuts, samples], strict=True)]
            decisions.append({"step": step, "stage": stage, "shares": shares})
    path = folder / "decisions.json"
    path.write_text(json.dumps({"balance": {"decisions": decisions}}))
    return f"replay:{path}"


@pytest.mark.parametrize(
    ("package", "steps", "loss"),
    [
        (linear([3, 2, 4], micro_batches=2, optimizer="sgd"), 200, "mse"),  # 200 vectors of shares
        (awkward([[2, 2], [4], [1, 3]], micro_batches=2, optimizer="momentum"), 10, "cross_entropy"),
        (
            awkward([[2, 2], [4], [1, 3]], 2, "adam").recomputed().sharded("gradients"),
            5, "cross_entropy",
        ),
        (tables([[1, 3], [4]], [7, 6], [4, 3], micro_batches=2, optimizer="adam"), 12, "cross_entropy"),
    ],
    ids=["data-parallel", "pipeline", "sharded", "tables"],
)  # fmt: skip
def test_any_shares_train_like_one_process(
    train, tmp_path: Path, package: Package, steps: int, loss: str
) -> None:
    """Shares of zero, and epochs that the batch does not divide; no rank waits for ever."""
    batch = package.samples * 2
    replay = _replay(tmp_path, package.widths, steps, seed=len(package.widths))
    result = train(
        package, "--check", "--steps", str(steps), "--lr", "0.02", "--loss", loss,
        "--balance", replay, "--epoch-samples", str(2 * batch + 3), "--timeout", "30",
    )  # fmt: skip
    assert result["checkPassed"] and len(result["losses"]) == steps
    assert len(result["balance"]["decisions"]) == steps * len(package.widths)


def test_gradients_of_any_shares_are_those_of_even_ones(fail, tmp_path: Path) -> None:
    """Compares the weights after one step of plain gradient descent."""
    moved = []
    for number, shares in enumerate(([3, 3, 3], [7, 0, 2], [1, 8, 0])):
        folder = linear(shares if all(shares) else [3, 3, 3], 2, "sgd").write(tmp_path / str(number))
        decisions = [{"step": 0, "stage": 0, "shares": shares}]
        replay = tmp_path / f"{number}.json"
        replay.write_text(json.dumps({"balance": {"decisions": decisions}}))
        saved = []
        for rate in ("0", "1"):
            options = ("--steps", "1", "--loss", "mse", "--lr", rate, "--balance", f"replay:{replay}")
            for outcome in fail(folder, 3, *options, "--save", str(tmp_path / "w")):
                assert outcome.status == 0, outcome.err
            saved.append(load_file(tmp_path / "w/model.safetensors"))
        moved.append({name: (saved[1][name] - saved[0][name]).double() for name in saved[0]})
    for name, gradient in moved[0].items():
        assert float(gradient.norm()) > 0
        for other in moved[1:]:
            assert float((other[name] - gradient).norm() / gradient.norm()) < 1e-5


SLOW = """
import os
from types import SimpleNamespace

from heterplan_runtime import stopwatch

_clock = [0.0]
stopwatch.time = SimpleNamespace(perf_counter=lambda: _clock[0])


def _take(module, inputs):
    _clock[0] += (1.48 if os.environ["RANK"] == "1" else 0.2) * len(inputs[0])


_original = Whole.__init__


def _init(self):
    _original(self)
    self.register_forward_pre_hook(_take)


Whole.__init__ = _init
"""


@pytest.mark.parametrize("policy", ["lb-bsp", "lb-bsp-ema", "lb-bsp-fit"])
def test_shares_move_away_from_a_slow_rank(train, policy: str) -> None:
    """By the clock that the balancer reads, one rank takes 7.4 times as long for a
    sample: with 14 and 2 of 16 samples it is still the slower one, and no other shares are better."""
    package = linear([8, 8], micro_batches=1)
    package.model += SLOW
    result = train(
        package, "--steps", "16", "--loss", "mse", "--check", "--balance", policy,
        "--balance-every", "4",
    )  # fmt: skip
    decisions = result["balance"]["decisions"]
    assert decisions and decisions[0]["step"] == 4
    assert decisions[-1]["shares"][0] > 2 * decisions[-1]["shares"][1]
    assert result["checkPassed"]
    (report,) = result["balance"]["stragglers"]
    assert report["slowestSteps"][1] > report["slowestSteps"][0]
    assert report["evenSeconds"] > report["staticSeconds"] >= 0.99 * report["dynamicSeconds"] > 0
    assert "replica 1 was the slowest" in result["out"]


def test_decisions_can_be_replayed(train, tmp_path: Path) -> None:
    decisions = [{"step": 1, "stage": 0, "shares": [1, 3]}, {"step": 3, "stage": 0, "shares": [4, 0]}]
    path = tmp_path / "earlier.json"
    path.write_text(json.dumps({"balance": {"decisions": decisions}}))
    trace = tmp_path / "trace.json"
    result = train(
        linear([2, 2], 1), "--steps", "4", "--loss", "mse", "--check", "--balance", f"replay:{path}",
        "--trace", str(trace),
    )  # fmt: skip
    found = [{key: each[key] for key in ("step", "stage", "shares")} for each in result["balance"]["decisions"]]
    assert found == decisions
    counters = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "C"]
    assert [each["args"]["samples"] for each in counters] == [4, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "not what --json wrote"),
        ('{"balance": {"decisions": [{"step": 0, "stage": 0, "shares": [1, 2]}]}}', "do not divide"),
        ('{"balance": {"decisions": [{"step": 0, "stage": 5, "shares": [4, 0]}]}}', "do not divide"),
    ],
)
def test_a_file_that_cannot_be_replayed_is_refused(fail, tmp_path: Path, text, message) -> None:
    folder = linear([2, 2], 1).write(tmp_path / "plan")
    path = tmp_path / "wrong.json"
    path.write_text(text)
    outcomes = fail(folder, 2, "--loss", "mse", "--balance", f"replay:{path}")
    assert outcomes[0].status == 1 and message in outcomes[0].err


def test_wrong_options_are_refused(fail, tmp_path: Path, capsys) -> None:
    for option, wrong in (("--balance", "fair"), ("--balance", "replay:"), ("--balance-hysteresis", "1")):
        with pytest.raises(SystemExit):
            parse(["plan", option, wrong])
        assert "expected" in capsys.readouterr().err
    folder = linear([2, 2], 2).write(tmp_path / "plan")
    (outcome, *_) = fail(folder, 2, "--loss", "mse", "--epoch-samples", "9")
    assert outcome.status == 1 and "the last batch of an epoch has 1 samples" in outcome.err


def test_stragglers_by_hand() -> None:
    """Replica 1 takes 3 s a sample, replica 0 takes 1 s: 4 samples each."""
    ranks = [
        [[Measured(0, 0, 4, 99.0, 0.0)], [Measured(0, 0, 4, 4.0, 0.0)]],
        [[Measured(0, 1, 4, 99.0, 0.0)], [Measured(0, 1, 4, 12.0, 0.0)]],
    ]
    said: list[str] = []
    (report,) = stragglers(ranks, 12.0, said.append)
    assert report["waitedSeconds"] == [8.0, 0.0] and report["causedSeconds"] == [0.0, 8.0]
    assert (report["computeSeconds"], report["evenSeconds"]) == (12.0, 12.0)
    assert report["staticShares"] == [6, 2] and report["staticSeconds"] == 6.0
    assert report["dynamicSeconds"] == 6.0
    assert "replica 1 was the slowest in 1 of 1 steps" in said[0]
