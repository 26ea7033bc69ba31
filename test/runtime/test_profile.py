"""`heterplan profile --engine torch`: layers measured one by one, and what of it survives a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from binary import BINARY, heterplan, needs_binary
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.profile_bench import Bench, Effort, Samples, Times
from heterplan_runtime.profile_file import Environment, ProfileFile, summary
from heterplan_runtime.precision import Precision
from heterplan_runtime.profile_layer import Argument, Copy, Layer, footprint
from heterplan_runtime.robust import spread_of, trimmed_mean
from heterplan_runtime.profile_run import main, tasks_of
from heterplan_runtime.shards import LoneShard
from torch import Tensor, nn

MODELS = Path(__file__).resolve().parents[1] / "data/small"
FLOAT = ((1, 0), (0, 4))
HERE = Environment("a processor", "a system", "", "torch", 1)



class Linear(nn.Module):
    """As model.py has it, and how often it ran forward and backward."""

    parameters_spec = {"w": ((4, 4), "float32", "kaiming")}
    buffers_spec: dict[str, Any] = {}
    frozen_spec: dict[str, Any] = {}
    constants_spec = {"shift": ((4,), "int64")}
    tables_spec: dict[str, Any] = {}
    receives = ("x",)
    passes: list[str] = []

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(4, 4))
        self.register_buffer("shift", torch.zeros(4, dtype=torch.int64))

    def tensor(self, name: str) -> Tensor:
        return getattr(self, name)  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> tuple[Tensor]:
        self.passes.append("forward")
        y = x @ self.w
        y.register_hook(lambda _: self.passes.append("backward"))
        return (y,)


class Table(nn.Module):
    """Looks rows of a table up, of which `rows` is what it was given last."""

    parameters_spec: dict[str, Any] = {}
    buffers_spec: dict[str, Any] = {}
    frozen_spec: dict[str, Any] = {}
    constants_spec: dict[str, Any] = {}
    tables_spec = {"t": ((100, 3), "float32", "normal")}
    lookups = ("t",)
    receives = ()
    rows: list[Tensor] = []

    def __init__(self, tables: bool = True) -> None:
        super().__init__()

    def indices(self, words: Tensor) -> tuple[Tensor, ...]:
        return (words,)

    def forward(self, words: Tensor) -> tuple[Tensor]:
        found = self.lookup("t", words)
        self.rows.append(found.detach())
        return (found * 2,)


class Broken(Linear):
    def forward(self, x: Tensor) -> tuple[Tensor]:
        raise ValueError("no such shape")


def line(name: str, stage: type[nn.Module] = Linear, seconds: float = 1, count: int = 1) -> Any:
    return {
        "name": name,
        "signature": f"sig {name}",
        "count": count,
        "modelledSeconds": seconds,
        "stage": stage,
        "arguments": (("x", "float32", FLOAT, True, 0),),
        "constants": {"shift": (3, 5)},
    }


def lookup(count: int = 1) -> Any:
    return line("words", Table, count=count) | {
        "arguments": (("words", "int64", ((1, 0),), False, 100),), "constants": {},
    }  # fmt: skip


def options(file: Path, *more: str) -> list[str]:
    return ["-o", str(file), "--device-type", "core", "--batches", "1,3", *more]


def entries(file: Path) -> dict[tuple[str, int], Any]:
    found = json.loads(file.read_text())["entries"]
    return {(entry.get("signature") or entry["layer"], entry["batch"]): entry for entry in found}


def sessions(file: Path) -> list[Any]:
    return [(*key, session) for key, entry in entries(file).items() for session in entry["sessions"]]


def test_copies_run_as_the_layers_of_a_stage() -> None:
    Linear.passes.clear()
    bench = Bench(Layer.of(line("a")), 3, torch.device("cpu"), cache_bytes=1000)
    assert bench.copies == 5  # of 240 bytes each or a little more
    times = bench.measure(Effort(least=14, most=14))
    assert times.repetitions == 15
    assert times.forward > 0 and times.backward > 0 and times.update > 0
    to_warm_up, sweep = ["forward", "backward"] * 5, ["forward"] * 5 + ["backward"] * 5
    assert Linear.passes == to_warm_up + sweep * 3


def test_a_sparse_table_is_looked_up_and_updated_by_rows() -> None:
    Table.rows.clear()
    bench = Bench(Layer.of(lookup()), 5, torch.device("cpu"), cache_bytes=1)
    times = bench.measure(Effort(least=8, most=8))
    assert times.forward > 0 and times.backward > 0 and times.update > 0
    assert all(rows.shape == (5, 3) for rows in Table.rows)
    # each pass has moved the rows that were read, by its small rate
    first, last = Table.rows[0], Table.rows[-bench.copies]
    assert 0 < (first - last).abs().max() < 1e-3


def test_tables_are_looked_up_as_many_at_once_as_the_model_has() -> None:
    Table.rows.clear()
    bench = Bench(Layer.of(lookup(count=3)), 5, torch.device("cpu"), cache_bytes=1)
    bench.measure(Effort(least=4, most=4))
    first, second, third = Table.rows[:3]
    assert len({id(rows) for rows in (first, second, third)}) == 3
    assert not torch.equal(first, second) and not torch.equal(second, third)
    assert len(Table.rows) % 3 == 0


def test_a_pass_touches_arguments_and_parameters_but_no_whole_table() -> None:
    layers = [Layer.of(line("a", count=2)), Layer.of(lookup())]
    # twice, with gradients: two layers of 3 x 4 inputs and 4 x 4 weights, and 3 indices
    assert footprint(layers, 3) == 2 * (2 * 4 * (12 + 16) + 3 * 8)


@pytest.mark.parametrize("loss", ["cross_entropy", "token_cross_entropy", "mse"])
def test_the_loss_is_measured_with_the_layer_that_it_is_of(loss: str, tmp_path: Path) -> None:
    last = line("a", Linear) | {"loss": (loss, 0)}
    copy = Copy(Layer.of(last), 5, 0, torch.device("cpu"), "sgd", Precision("fp32"))
    (value,) = copy.forward()
    assert value.numel() == 1 and value.requires_grad
    copy.backward([value])
    assert all(parameter.grad is not None for parameter in copy.parameters)
    file = tmp_path / "p.json"
    assert main("m", [line("a", count=2), last], options(file, "--rounds", "1")) == 0
    found = json.loads(file.read_text())["entries"]
    named = [(entry.get("layer"), entry.get("signature"), entry["batch"]) for entry in found]
    assert named == [("a", None, 1), ("a", None, 3), (None, "sig a", 1), (None, "sig a", 3)]
    assert main("m", [line("a", count=2), last], options(file, "--rounds", "1")) == 0
    assert json.loads(file.read_text())["entries"] == found  # nothing is missing
    other = "mse" if loss == "cross_entropy" else "cross_entropy"
    assert main("m", [line("a", count=2), last | {"loss": (other, 0)}], options(file, "--rounds", "1")) == 0
    again = json.loads(file.read_text())["entries"]
    assert [(e.get("loss"), len(e["sessions"])) for e in again] == [(other, 1), (other, 1), (None, 1), (None, 1)]


def test_what_has_no_parameters_adds_no_gradients() -> None:
    here, effort = torch.device("cpu"), Effort(least=3, most=3)
    assert Bench(Layer.of(line("a")), 3, here, cache_bytes=1).measure(effort).accumulate > 0
    assert Bench(Layer.of(lookup()), 5, here, cache_bytes=1).measure(effort).accumulate == 0


def test_images_have_the_layout_that_is_measured(tmp_path: Path) -> None:
    image = Argument("x", torch.float32, ((1, 0), (0, 3), (0, 8), (0, 8)), True, 0)
    last = image.random(2, 1, channels_last=True)
    assert last.is_contiguous(memory_format=torch.channels_last) and last.is_leaf and last.requires_grad
    assert torch.equal(last, image.random(2, 1)) and image.random(2, 1).is_contiguous()
    file = tmp_path / "p.json"
    assert main("m", [line("a")], options(file, "--rounds", "1", "--memory-format", "channels-last")) == 0
    found = json.loads(file.read_text())
    assert found["memoryFormat"] == "channels-last" and found["engine"].count("channels-last") == 1


def test_integers_keep_within_the_table_that_they_look_up() -> None:
    indices = Argument("words", torch.int64, ((1, 0), (0, 100)), False, 7).random(50, 1)
    assert indices.shape == (50, 100)
    assert 0 <= int(indices.min()) and int(indices.max()) == 6
    mask = Argument("attention_mask", torch.int64, ((1, 0),), False, 0).random(9, 1)
    assert mask.tolist() == [1] * 9


def test_a_trimmed_mean_leaves_the_ends_out() -> None:
    assert trimmed_mean([4.0]) == 4
    assert trimmed_mean([9.0, 1.0]) == 5
    assert trimmed_mean([9.0, 1.0, 4.0]) == 4
    assert trimmed_mean([90.0, 1.0, 4.0, 5.0, 6.0]) == 5
    assert trimmed_mean([100.0] * 2 + [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0] + [0.0] * 2) == 4


def test_the_spread_is_that_of_the_median() -> None:
    assert spread_of([1.0] * 9) == 0
    assert spread_of([1.0, 2.0, 3.0]) == pytest.approx(0.5)  # few: their whole range
    # of 100 values the 41st and the 60th enclose the median with 95%
    assert spread_of([float(v) for v in range(1, 101)]) == pytest.approx(9.5 / 50.5)


@pytest.mark.parametrize(
    ("repetitions", "value", "elapsed", "enough"),
    [(2, 1.0, 9.0, False), (3, 1.0, 0.09, False), (3, 1.0, 0.11, True), (200, 1.0, 0.0, True)],
)
def test_a_measurement_ends_when_it_is_steady(
    repetitions: int, value: float, elapsed: float, enough: bool
) -> None:
    samples = Samples([value] * repetitions, [0.0] * repetitions)
    assert Effort().suffices(samples, elapsed) is enough


def test_an_unsteady_measurement_goes_on_until_its_time_is_up() -> None:
    samples = Samples([1.0, 2.0] * 10, [0.0] * 20)
    assert not Effort().suffices(samples, 0.3)
    assert Effort().suffices(samples, 0.4)


def test_what_matters_most_is_measured_first() -> None:
    layers = [
        Layer.of(line("light", seconds=1)),
        Layer.of(line("often", seconds=2, count=9)),
        Layer.of(line("heavy", seconds=10)),
    ]
    order = [(layer.name, batch) for layer, batch in tasks_of(layers, [1, 2, 8])]
    assert order[:3] == [("often", 8), ("heavy", 8), ("light", 8)]
    assert [batch for _, batch in order] == [8] * 3 + [1] * 3 + [2] * 3


def test_a_second_run_keeps_what_the_first_one_measured(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    assert main("m", [line("a")], options(file)) == 0
    kept = entries(file)
    assert set(kept) == {("sig a", 1), ("sig a", 3)}
    assert main("m", [line("a"), line("b")], options(file)) == 0
    assert len(entries(file)) == 4
    assert {key: entries(file)[key] for key in kept} == kept


def test_the_time_budget_leaves_the_rest_for_another_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.json"
    assert main("m", [line("a")], options(file, "--time-budget", "0")) == 0
    assert "the time is up with 10 sessions left" in capsys.readouterr().err
    assert entries(file) == {}
    assert main("m", [line("a")], options(file)) == 0
    assert len(entries(file)) == 2


def test_rounds_add_visits_and_their_mean_counts(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    assert main("m", [line("a")], options(file, "--rounds", "1")) == 0
    first = entries(file)["sig a", 3]["sessions"]
    assert main("m", [line("a")], options(file, "--rounds", "2")) == 0
    entry = entries(file)["sig a", 3]
    assert entry["sessions"][: len(first)] == first and len(entry["sessions"]) == 2
    for name in ("forwardSeconds", "backwardSeconds", "updateSeconds", "accumulateSeconds"):
        assert entry[name] == trimmed_mean(session[name] for session in entry["sessions"])
    assert entry["repetitions"] == sum(session["repetitions"] for session in entry["sessions"])
    assert all(session["referenceKernelSeconds"] > 0 for session in entry["sessions"])


def test_what_does_not_state_its_visits_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    assert main("m", [line("a")], options(file, "--rounds", "1")) == 0
    text = json.loads(file.read_text())
    for entry in text["entries"]:
        del entry["sessions"]
    file.write_text(json.dumps(text))
    before = entries(file)
    assert main("m", [line("a")], options(file)) == 0
    assert entries(file) == before


@needs_binary
def test_the_program_takes_visits_together_as_the_script_does(tmp_path: Path) -> None:
    file, model = tmp_path / "p.json", Path(__file__).parents[1] / "data/small/cnn.onnx"
    heterplan("profile", model, "--device", "cpu", "--engine", "native", "--batches", 2,
              "--cores", max(os.sched_getaffinity(0)), "--rounds", 2, "-o", file)  # fmt: skip
    for entry in entries(file).values():
        expected = summary(entry["sessions"])
        assert {name: entry[name] for name in expected} == pytest.approx(expected)
        assert len(entry["sessions"]) == 2


def test_a_layer_that_does_not_run_is_said_to_be_modelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.json"
    assert main("m", [line("a"), line("b", Broken)], options(file)) == 0
    assert {signature for signature, _ in entries(file)} == {"sig a"}
    assert "layer 'b' does not run by itself and stays modelled: ValueError: no such shape" in (
        capsys.readouterr().err
    )


def test_a_file_of_another_machine_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    ProfileFile(file, "m", HERE).write()
    before = file.read_text()
    with pytest.raises(RuntimeFault, match="was measured with device 'a processor', and here it is"):
        ProfileFile(file, "m", Environment("another", "a system", "", "torch", 1))
    assert main("m", [line("a")], options(file)) == 1
    assert file.read_text() == before


def test_no_part_of_a_file_is_ever_seen(tmp_path: Path) -> None:
    file = ProfileFile(tmp_path / "p.json", "m", HERE)
    for batch in (1, 2, 3):
        file.add({"signature": "s"}, "core", batch, Times(1, 2, 3, 0.5, 4))
        assert len(entries(tmp_path / "p.json")) == batch
        assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


def emit(folder: Path, *more: str) -> Path:
    script = folder / "measure.py"
    run = subprocess.run(
        [BINARY, "profile", MODELS / "cnn.onnx", "--device", "cpu", "--emit-script", script, *more],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return script


def start(command: list[Any], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


@needs_binary
@pytest.mark.parametrize("engine", [pytest.param("torch", marks=pytest.mark.sweep), "native"])
def test_killed_at_any_moment_it_keeps_what_was_finished(tmp_path: Path, engine: str) -> None:
    """SIGKILL as soon as the file has some more sessions, until one run reaches its end."""
    more = 30 if engine == "torch" else 6  # each start of which imports torch
    file = tmp_path / "cnn.profile.json"
    if engine == "torch":  # far from the sources, so that it finds nothing but what it carries
        script = emit(tmp_path, "--batches", "1,2,3", "-o", file.name)
        command: list[Any] = [sys.executable, "-I", script]
    else:
        command = [BINARY, "profile", MODELS / "cnn.onnx", "--device", "cpu", "--batches", "1,2,3"]
    before: list[Any] = []
    ended = False
    while not ended:
        process = start(command, tmp_path)
        while process.poll() is None and (
            not file.exists() or len(sessions(file)) < len(before) + more
        ):
            time.sleep(0.001)
        ended = process.poll() == 0
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate()
        now = sessions(file)  # it reads
        assert len(now) >= len(before) + more or ended, err
        assert all(session in now for session in before)  # nothing measured was lost
        before = now
    measured = 6 if engine == "torch" else 5  # layers, and the last one with its loss
    assert len(before) == measured * 3 * 5  # batches, rounds
    found = [path.name for path in tmp_path.glob("*.json")]
    assert found == [file.name]


@needs_binary
@pytest.mark.parametrize("engine", ["torch", "native"])
def test_profiled_times_are_what_a_plan_is_made_of(tmp_path: Path, engine: str) -> None:
    profile = tmp_path / "cnn.profile.json"
    environment = {**os.environ, "HETERPLAN_PYTHON": sys.executable}
    model = MODELS / "cnn.onnx"
    cluster = MODELS.parents[2] / "profiles/clusters/local-cpu.yaml"
    run = subprocess.run(
        [BINARY, "profile", model, "--device", "cpu", "--batches", "1,2,4", "-o", profile,
         "--engine", engine, "--json"],
        capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    assert said["measuredShare"] == 1 and said["modelled"] == []
    assert said["entries"] == (18 if engine == "torch" else 15)  # the last layer with its loss, too
    plan = subprocess.run(
        [BINARY, "compile", model, "--cluster", cluster, "--batch", "16", "--micro-batches", "4",
         "--schedule", "data-parallel", "--profile", profile, "--require-measured", "--json",
         "-o", tmp_path / "plan"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert plan.returncode == 0, plan.stderr
    provenance = json.loads(plan.stdout)["provenance"]
    assert provenance["measured"] > 0.5  # the rest is communication
    assert provenance.get("interpolated", 0) == 0
    stage = json.loads(plan.stdout)["stages"][0]
    measured = [entry for (_, batch), entry in entries(profile).items() if batch == 1]
    assert stage["replicas"][0]["forwardSeconds"] >= max(e["forwardSeconds"] for e in measured)


@needs_binary
def test_layers_of_one_of_two_devices_are_measured_for_plans_that_share_them(tmp_path: Path) -> None:
    """Layers that two devices share are other layers than those of one device. One run measures both."""
    model = MODELS / "transformer.onnx"
    cluster = tmp_path / "pair.yaml"
    cluster.write_text(
        "name: pair\ndevice_types: {core: {kind: cpu, memory: 8GiB, catalogue: cpu-core}}\n"
        "nodes: [{name: box, devices: {core: 2}, link: {bandwidth: 10GB/s, latency: 10us}}]\n"
        "network: {bandwidth: 1GB/s, latency: 50us}\n"
    )
    environment = {**os.environ, "HETERPLAN_PYTHON": sys.executable}

    def profiled(degrees: str, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BINARY, "profile", model, "--device", "cpu", "--batches", "8,16", "--rounds", "1", "--shard-degrees", degrees,
             "-o", tmp_path / f"{degrees}.profile.json", "--json", *more],
            capture_output=True, text=True, timeout=120, env=environment,
        )  # fmt: skip

    def planned(degree: int, profile: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BINARY, "compile", model, "--cluster", cluster, "--batch", "16", "--micro-batches", "1", "--tensor-parallel",
             str(degree), "--require-measured", "--json", "-o", tmp_path / "plan", "--force", "--profile",
             tmp_path / f"{profile}.profile.json"],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    for degrees in ("1", "1,2"):
        run = profiled(degrees)
        assert run.returncode == 0, run.stderr
        assert json.loads(run.stdout)["measuredShare"] == 1
    measured = json.loads((tmp_path / "1,2.profile.json").read_text())["entries"]
    losses = {
        entry.get("shardDegree", 1): entry for entry in measured if entry.get("layer") and entry["batch"] == 16
    }
    assert sorted(losses) == [1, 2] and losses[1]["layer"] == losses[2]["layer"]
    signatures = [entry["signature"] for entry in measured if entry.get("signature") and entry["batch"] == 16]
    assert len(signatures) == len(set(signatures)), "a layer that no device divides is measured once"
    assert "of degree 2 was not measured" in planned(2, "1").stderr
    for degree in (1, 2):
        done = planned(degree, "1,2")
        assert done.returncode == 0, done.stderr
        stage = json.loads(done.stdout)["stages"][0]
        assert len(stage["replicas"][0]["devices"]) == degree
        assert stage["forwardSeconds"] > losses[degree]["forwardSeconds"]
    refused = profiled("1,2", "--engine", "native")
    assert refused.returncode == 1 and "--shard-degrees above 1 by --engine native" in refused.stderr


@needs_binary
@pytest.mark.parametrize("degrees", ["0", "1,", "2,x", "1025", "-1"])
def test_wrong_degrees_are_refused(degrees: str) -> None:
    run = subprocess.run(
        [BINARY, "profile", MODELS / "transformer.onnx", "--device", "cpu", f"--shard-degrees={degrees}"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 1 and "--shard-degrees" in run.stderr


def test_a_pass_of_a_shard_touches_the_layers_of_its_degree() -> None:
    layers = [Layer.of(line("a", count=2)), Layer.of(line("b") | {"also": (2,)}), Layer.of(line("c") | {"degree": 2})]
    one = 2 * 4 * (12 + 16)  # twice, with gradients: 3 x 4 inputs and 4 x 4 weights
    assert [footprint(layers, 3, degree) for degree in (1, 2, 4)] == [3 * one, 2 * one, 0]
    assert layers[2].entry == {"signature": "sig c", "shardDegree": 2}


def test_entries_of_unequal_degrees_lie_beside_each_other(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    lines = [line("a"), line("a") | {"degree": 2}]
    assert main("m", lines, options(file, "--rounds", "2")) == 0
    found = json.loads(file.read_text())["entries"]
    assert [(entry.get("shardDegree", 1), entry["batch"]) for entry in found] == [(1, 1), (1, 3), (2, 1), (2, 3)]
    assert all(len(entry["sessions"]) == 2 for entry in found)


def test_a_shard_by_itself_has_whole_tensors_of_what_it_has() -> None:
    shard = LoneShard(2)
    x = torch.arange(4.0).view(2, 2).requires_grad_()
    assert shard.gather(x, 1, (4,)).tolist() == [[0, 1, 0, 1], [2, 3, 2, 3]]
    assert shard.reduce_scatter(x, 1, (2,)).tolist() == [[0], [2]]
    assert shard.all_reduce(x).equal(x) and shard.copy(x).equal(x)
    (shard.gather(x, 1, (4,)) * torch.arange(4.0)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0, 1], [0, 1]]
