"""Plans whose stages have unequal degrees of tensor parallelism, trained: against the whole model in one
process, in double precision."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from binary import heterplan, needs_binary
from ranks import run_ranks
from safetensors.torch import load_file
from test_generated_models import Builder
from test_tensor_parallel import PIECE, save_without_values, transformers

pytestmark = needs_binary

_CLUSTER = """
name: test
device_types:
  a: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 2MFLOP/s, bandwidth: 2MB/s}
  b: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 2MFLOP/s, bandwidth: 2MB/s}
  c: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 2MFLOP/s, bandwidth: 2MB/s}
nodes:
  - {name: one, devices: FIRST, link: {bandwidth: 1000GB/s, latency: 1ns}}
  - {name: two, count: 2, devices: {b: 2}, link: {bandwidth: 1000GB/s, latency: 1ns}}
network: {bandwidth: 1000GB/s, latency: 1ns}
"""


@dataclass(frozen=True)
class Stages:
    """The devices of the first node, the groups to which the first and the last layer are pinned, and the
    stages that follow: the degree and the replicas of each."""

    devices: str
    first: str
    last: str
    stages: list[tuple[int, int]]
    batch: int = 8

    @property
    def ranks(self) -> int:
        return sum(degree * replicas for degree, replicas in self.stages)


# Stages of two and of four devices do without the second node, whose devices are limited to none.
FALLING = Stages("{a: 2, c: 1}", "a×2", "c", [(2, 1), (1, 1)])
RISING = Stages("{a: 1, c: 2}", "a", "c×2", [(1, 1), (2, 1)])
THREE = Stages("{a: 4, c: 1}", "a×4", "c", [(4, 1), (2, 2), (1, 1)])


def compile_plan(model: Path, folder: Path, stages: Stages, *options: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    cluster, layers = folder / "cluster.yaml", folder / "model.layers.json"
    cluster.write_text(_CLUSTER.replace("FIRST", stages.devices))
    heterplan("import", model, "-o", layers)
    names = [layer["name"] for layer in json.loads(layers.read_text())["layers"]]
    beside = () if len(stages.stages) > 2 else ("--max-devices", "b=0")
    heterplan(
        "compile", model, "--cluster", cluster, "--batch", stages.batch, "--micro-batches", 4,
        "--pin", f"{names[0]}={stages.first}", "--pin", f"{names[-1]}={stages.last}",
        "--schedule", "pipeline", "--tensor-parallel", "by-stage", *beside,
        *(str(option).format(layers=names) for option in options),
        "-o", folder / "plan", "--force",
    )  # fmt: skip
    plan = json.loads((folder / "plan/plan.json").read_text())
    found = [(stage.get("shardDegree") or 1, len(stage["replicas"])) for stage in plan["stages"]]
    assert found == stages.stages
    heterplan("verify", folder / "plan", "--model", model, "--cluster", cluster)
    return folder / "plan"


def train(plan: Path, ranks: int, folder: Path, *options: object) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / "result.json"
    outcomes = run_ranks(ranks, folder / "logs", [str(plan), "--json", str(result), *map(str, options)])
    assert [outcome.status for outcome in outcomes] == [0] * ranks, outcomes
    return json.loads(result.read_text())


def mlp(path: Path) -> Path:
    b = Builder()
    x = b.input("x", [128])
    for layer, (rows, columns) in enumerate([(128, 512), (512, 128)] * 3 + [(128, 512), (512, 10)]):
        x = b.node("Gemm", x, b.weight(f"{layer}.weight", rows, columns), b.weight(f"{layer}.bias", columns))
        x = x if columns == 10 else b.node("Tanh", x)
    b.save(path, x)
    save_without_values(path)
    return path


def resnet18(path: Path) -> Path:
    pytest.importorskip("transformers")
    import zoo

    widths = {"embedding_size": 32, "hidden_sizes": [32, 64, 128, 256], "depths": [2, 2, 2, 2]}
    zoo.export(zoo.resnet(16, **widths, layer_type="basic"), path, "torchscript")
    return path


BUILDERS = {"mlp": mlp, "resnet18": resnet18}
Case = tuple[str, Stages, tuple[object, ...], tuple[object, ...]]
# The model, its stages, and options of compile, where {layers[i]} is a name, and of run.
CASES: dict[str, Case] = {
    "gpt2-three": ("gpt2", THREE, ("--optimizer", "adam", "--shard-state", "optimizer"), PIECE),
    "gpt2-rising": ("gpt2", RISING, ("--optimizer", "momentum"), PIECE),
    "gpt2-overlapped": ("gpt2", THREE, ("--optimizer", "adam", "--overlap-transfers"), PIECE),
    "t5-falling": ("t5", FALLING, ("--recompute", "always"), ()),
    "mlp-three": ("mlp", THREE, ("--optimizer", "adam"), PIECE),
    "resnet18-rising": ("resnet18", RISING, (), ()),
}  # fmt: skip
MORE: dict[str, Case] = {
    "gpt2-zero2": ("gpt2", THREE, ("--optimizer", "adam", "--shard-state", "gradients"), ()),
    "gpt2-zero3": ("gpt2", THREE, ("--optimizer", "adam", "--shard-state", "parameters"), ()),
    "gpt2-rising-overlapped": ("gpt2", RISING, ("--recompute", "always", "--overlap-transfers"), ()),
    "t5-overlapped": ("t5", FALLING, ("--overlap-transfers",), ()),
    "bert-three": ("bert", THREE, (), PIECE),
    "vit-three": ("vit", THREE, ("--shard-state", "none"), ()),
    "llama-three": ("llama", THREE, (), ()),
    "t5-three": ("t5", THREE, (), ()),
    "t5-rising": ("t5", RISING, (), ()),
    "mlp-rising": ("mlp", RISING, ("--recompute", "always"), PIECE),
    "mlp-zero3": ("mlp", THREE, ("--shard-state", "parameters"), ()),
    "resnet18-three": ("resnet18", THREE, ("--pin", "{layers[10]}=b×2", "--colocate", "{layers[4]},{layers[17]}"), ()),
    "resnet18-falling": ("resnet18", FALLING, ("--optimizer", "momentum"), ()),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [*CASES, *(pytest.param(name, marks=pytest.mark.sweep) for name in MORE)]
)
def test_trains_as_one_process(name: str, tmp_path: Path) -> None:
    model, stages, compiling, running = (CASES | MORE)[name]
    build = BUILDERS.get(model) or transformers(model)
    plan = compile_plan(build(tmp_path / "model.onnx"), tmp_path, stages, *compiling)
    found = train(plan, stages.ranks, tmp_path, "--check", "--steps", 4, "--lr", 0.05, *running)
    assert found["checkPassed"]
    assert found["losses"] == pytest.approx(found["referenceLosses"], rel=1e-9)
    assert found["stateDifference"] < 1e-9
    assert found["losses"][-1] != pytest.approx(found["losses"][0], rel=1e-4), "nothing trained"


def test_resumes_at_other_degrees(tmp_path: Path) -> None:
    """A tied table is divided in one stage and whole in the other; its checkpoint says how."""
    model = transformers("gpt2")(tmp_path / "model.onnx")
    saved = tmp_path / "saved"
    found: list[float] = []
    for number, stages in enumerate((FALLING, RISING)):
        folder = tmp_path / str(number)
        plan = compile_plan(model, folder, stages, "--optimizer", "adam")
        found += train(
            plan, stages.ranks, folder, "--check", "--resume", "--checkpoint-dir", saved,
            "--steps", 2 * number + 2,
        )["losses"]  # fmt: skip
    alone = tmp_path / "alone"
    heterplan(
        "compile", model, "--cluster", tmp_path / "0/cluster.yaml", "--batch", 8, "--optimizer", "adam",
        "--max-devices", "a=1", "--max-devices", "b=0", "--max-devices", "c=0", "-o", alone,
    )  # fmt: skip
    assert found == pytest.approx(train(alone, 1, alone, "--check", "--steps", 4)["losses"], rel=1e-9)
    weights = load_file(alone / "trained/model.safetensors")
    trained = load_file(tmp_path / "1/plan/trained/model.safetensors")
    assert trained.keys() == weights.keys()
    for name, tensor in trained.items():
        torch.testing.assert_close(tensor, weights[name], rtol=1e-6, atol=1e-6)


def test_shares_do_not_move(tmp_path: Path) -> None:
    plan = compile_plan(transformers("gpt2")(tmp_path / "model.onnx"), tmp_path, FALLING)
    outcomes = run_ranks(
        FALLING.ranks, tmp_path / "logs", [str(plan), "--steps", "2", "--balance", "lb-bsp"]
    )
    assert all(outcome.status for outcome in outcomes)
    assert any("unequal degrees" in outcome.err for outcome in outcomes)


@pytest.mark.parametrize(("network", "degree"), [("1KB/s", 1), ("1000GB/s", 2)])
def test_a_search_by_stage_may_end_with_one_degree(tmp_path: Path, network: str, degree: int) -> None:
    """Its plan holds, and is evaluated, with the layers that the search had."""
    model, layers, out = mlp(tmp_path / "model.onnx"), tmp_path / "model.layers.json", tmp_path / "plan"
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(_CLUSTER.replace("FIRST", "{a: 2, c: 1}").replace("1000GB/s", network))
    heterplan("import", model, "-o", layers)
    names = [layer["name"] for layer in json.loads(layers.read_text())["layers"]]
    heterplan(
        "compile", model, "--cluster", cluster, "--batch", 8, "--tensor-parallel", "by-stage",
        *(["--pin", f"{names[0]}=a×2"] if degree == 2 else []),
        *("--max-devices", "b=0", "--max-devices", "c=0", "-o", out),
    )  # fmt: skip
    plan = json.loads((out / "plan.json").read_text())
    assert {stage.get("shardDegree", 1) for stage in plan["stages"]} == {degree}
    heterplan("verify", out, "--model", model, "--cluster", cluster)
    evaluated = json.loads(heterplan("evaluate", out / "plan.json", "--model", model, "--cluster", cluster, "--json"))
    assert evaluated["iterationSeconds"] == pytest.approx(plan["iterationSeconds"], rel=1e-9)
