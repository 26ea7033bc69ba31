"""Plans whose devices share every layer, compiled and trained: their losses, gradients, parameters and
optimizer state against those of the whole model in one process, in double precision."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest
import torch
from binary import heterplan, needs_binary
from ranks import run_ranks
from safetensors.torch import load_file
from slow_cluster import slow_cluster
from test_generated_models import Builder
from torch import Tensor

pytestmark = needs_binary


@dataclass(frozen=True)
class Layout:
    """A cluster of one node, all of whose devices a plan uses, since they are so slow."""

    devices: str
    degree: int
    ranks: int
    widths: list[int]  # replicas of each stage
    schedule: str = "data-parallel"
    options: tuple[str, ...] = ()

    @property
    def is_pipeline(self) -> bool:
        return self.schedule == "pipeline"


PAIR = Layout("{a: 2}", 2, 2, [1])
FOUR = Layout("{a: 4}", 4, 4, [1])
REPLICAS = Layout("{a: 4}", 2, 4, [2])
UNEVEN = Layout("{a: 2, b: 2}", 2, 4, [2])
PIPELINE = Layout("{a: 2, b: 2}", 2, 4, [1, 1], "pipeline")


def compile_plan(model: Path, folder: Path, layout: Layout, *options: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    cluster = folder / "cluster.yaml"
    cluster.write_text(slow_cluster(layout.devices))
    pins: list[str] = []
    if layout.is_pipeline:
        layers = folder / "model.layers.json"
        heterplan("import", model, "-o", layers)
        names = [layer["name"] for layer in json.loads(layers.read_text())["layers"]]
        pins = ["--pin", f"{names[0]}=a", "--pin", f"{names[-1]}=b"]
    heterplan(
        "compile", model, "--cluster", cluster, "--batch", 8, "--schedule", layout.schedule, *pins,
        "--tensor-parallel", layout.degree, *layout.options, *options, "-o", folder / "plan", "--force",
    )  # fmt: skip
    plan = json.loads((folder / "plan/plan.json").read_text())
    assert [len(stage["replicas"]) for stage in plan["stages"]] == layout.widths
    assert {stage.get("shardDegree") or 1 for stage in plan["stages"]} == {layout.degree}
    return folder / "plan"


def train(plan: Path, layout: Layout, folder: Path, *options: object) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / "result.json"
    arguments = [str(plan), "--json", str(result), *map(str, options)]
    outcomes = run_ranks(layout.ranks, folder / "logs", arguments)
    assert [outcome.status for outcome in outcomes] == [0] * layout.ranks, outcomes
    return json.loads(result.read_text())


def check(plan: Path, layout: Layout, folder: Path, *options: object) -> dict:
    found = train(plan, layout, folder, "--check", "--steps", 4, "--lr", 0.05, *options)
    assert found["checkPassed"]
    assert found["losses"] == pytest.approx(found["referenceLosses"], rel=1e-9)
    assert found["stateDifference"] < 1e-9
    assert found["losses"][-1] != pytest.approx(found["losses"][0], rel=1e-3), "nothing trained"
    return found


def calls(plan: Path) -> set[str]:
    """The methods of Shards that the code of a shard calls."""
    return set(re.findall(r"self\.shards\.(\w+)\(", (plan / "model.py").read_text()))


def save_without_values(path: Path) -> None:
    """Training starts at random values, which depend on the names of parameters."""
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="values", size_threshold=256)
    (path.parent / "values").unlink()


def mlp(path: Path) -> Path:
    """Dropout of a tensor that shards divide, and of one that all of them have."""
    b = Builder()
    ratio, on = b.constant("ratio", 0.3, "float32"), b.constant("on", True, "bool")
    x = b.input("x", [128])
    for layer, (rows, columns) in enumerate([(128, 512), (512, 128), (128, 512), (512, 10)]):
        names = [b.weight(f"{layer}.weight", rows, columns), b.weight(f"{layer}.bias", columns)]
        x = b.node("Gemm", x, *names)
        x = x if columns == 10 else b.node("Dropout", b.node("Tanh", x), ratio, on)
    b.save(path, x)
    save_without_values(path)
    return path


def transformers(name: str) -> Callable[[Path], Path]:
    """Small models, but so wide that it pays to divide their layers."""

    def build(path: Path) -> Path:
        pytest.importorskip("transformers")
        import zoo

        heads = {"num_hidden_layers": 1, "num_attention_heads": 4, "hidden_size": 128}
        examples = {
            "gpt2": lambda: zoo.gpt2(n_embd=128, n_layer=2, n_head=4, n_positions=16),
            "bert": lambda: zoo.bert(**heads, intermediate_size=512, max_position_embeddings=16),
            "vit": lambda: zoo.vit(16, **heads, intermediate_size=512, patch_size=4),
            "llama": lambda: zoo.llama(
                num_hidden_layers=1, hidden_size=256, num_attention_heads=8, num_key_value_heads=2,
                intermediate_size=512, max_position_embeddings=32,
            ),
            "long-llama": lambda: zoo.llama(
                length=128, num_hidden_layers=2, hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                intermediate_size=128, max_position_embeddings=128,
            ),
            "t5": lambda: zoo.t5(d_model=128, d_kv=32, d_ff=512, num_layers=1, num_heads=4),
            "resnet": lambda: zoo.resnet(
                16, embedding_size=64, hidden_sizes=[128, 256], depths=[1, 1], layer_type="basic"
            ),
        }  # fmt: skip
        zoo.export(examples[name](), path, "torchscript")
        return path

    return build


PIECE = ("--gradient-clip", 0.05, "--weight-decay", 0.1)
Case = tuple[Callable[[Path], Path], Layout, tuple[object, ...], tuple[object, ...]]
# The model, the layout, and options of compile and of run.
CASES: dict[str, Case] = {
    "mlp-4": (mlp, FOUR, ("--optimizer", "adam"), PIECE),
    "mlp-stages": (mlp, PIPELINE, ("--micro-batches", 4), PIECE),
    "mlp-zero1": (mlp, REPLICAS, ("--optimizer", "adam", "--shard-state", "optimizer"), PIECE),
    "mlp-zero2": (mlp, REPLICAS, ("--optimizer", "adam", "--shard-state", "gradients"), PIECE),
    "mlp-zero3": (mlp, REPLICAS, ("--optimizer", "momentum", "--shard-state", "parameters"), PIECE),
    "mlp-recompute": (mlp, PAIR, ("--recompute", "always"), ()),
    "gpt2-stages": (transformers("gpt2"), PIPELINE, ("--optimizer", "adam"), PIECE),
    "bert": (transformers("bert"), PAIR, ("--recompute", "always"), ()),
    "vit": (transformers("vit"), FOUR, (), ()),
    "llama-replicas": (transformers("llama"), REPLICAS, (), ()),
    "t5": (transformers("t5"), PAIR, (), ()),
    "resnet-replicas": (transformers("resnet"), REPLICAS, (), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_trains_as_one_process(name: str, tmp_path: Path) -> None:
    build, layout, compiling, running = CASES[name]
    plan = compile_plan(build(tmp_path / "model.onnx"), tmp_path, layout, *compiling)
    assert calls(plan), "no layer is divided"
    check(plan, layout, tmp_path, *running)


# The layout, and options of compile and of run, of a model whose norms are divided along the sequence.
LONG: dict[str, tuple[Layout, tuple[object, ...], tuple[object, ...]]] = {
    "one-stage": (FOUR, (), PIECE),
    "stages": (PIPELINE, ("--recompute", "always"), ()),
    "zero3": (REPLICAS, ("--shard-state", "parameters"), ()),
}


@pytest.mark.parametrize("name", LONG)
def test_sequences_are_divided(name: str, tmp_path: Path) -> None:
    layout, compiling, running = LONG[name]
    model = transformers("long-llama")(tmp_path / "model.onnx")
    plan = compile_plan(model, tmp_path, layout, "--optimizer", "adam", *compiling)
    assert {"reduce_scatter", "gather_sum"} <= calls(plan)
    check(plan, layout, tmp_path, *running)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float], dict[str, Tensor]]:
    """The model, and the losses and the weights of a training by one device."""
    folder = tmp_path_factory.mktemp("straight")
    model = mlp(folder / "model.onnx")
    alone = Layout("{a: 1}", 1, 1, [1])
    plan = compile_plan(model, folder, alone, "--optimizer", "adam")
    losses = train(plan, alone, folder, "--check", "--steps", 6)["losses"]
    return model, losses, load_file(plan / "trained/model.safetensors")


def test_resumes_at_another_degree(
    straight: tuple[Path, list[float], dict[str, Tensor]], tmp_path: Path
) -> None:
    """Slices are saved with their places, and weights as a whole."""
    model, losses, weights = straight
    found: list[float] = []
    pieces = (
        (REPLICAS, ("--shard-state", "optimizer")),
        (FOUR, ()),
        (Layout("{a: 1}", 1, 1, [1]), ()),
        (REPLICAS, ("--shard-state", "parameters")),
    )
    for number, (layout, options) in enumerate(pieces):
        folder = tmp_path / str(number)
        plan = compile_plan(model, folder, layout, "--optimizer", "adam", *options)
        steps = min(6, 2 * number + 2) if number < 3 else 7
        result = train(
            plan, layout, folder, "--check", "--resume", "--checkpoint-dir", tmp_path / "saved",
            "--steps", steps,
        )  # fmt: skip
        found += result["losses"]
        if steps == 6:
            trained = load_file(plan / "trained/model.safetensors")
            assert trained.keys() == weights.keys()
            for name, tensor in trained.items():
                torch.testing.assert_close(tensor, weights[name], rtol=1e-6, atol=1e-6)
    assert found[:6] == pytest.approx(losses, rel=1e-9)


def test_evaluation_counts_each_sample_once(tmp_path: Path) -> None:
    plan = compile_plan(mlp(tmp_path / "model.onnx"), tmp_path, REPLICAS)
    options = ("--steps", 1, "--evaluate-every", 1, "--metric", "accuracy", "--data", "fixed", "--lr", 0)
    (found,) = train(plan, REPLICAS, tmp_path, *options)["evaluations"]
    alone = Layout("{a: 1}", 1, 1, [1])
    plan = compile_plan(tmp_path / "model.onnx", tmp_path / "alone", alone)
    (wanted,) = train(plan, alone, tmp_path / "alone", *options)["evaluations"]
    assert found == pytest.approx(wanted, rel=1e-5)


def test_shares_move(tmp_path: Path) -> None:
    """Replicas of unlike devices, whose shares change while they train, and a last batch of an epoch that
    is smaller than the others."""
    plan = compile_plan(mlp(tmp_path / "model.onnx"), tmp_path, UNEVEN, "--optimizer", "adam")
    stage = json.loads((plan / "plan.json").read_text())["stages"][0]
    shares = [replica["share"] for replica in stage["replicas"]]
    assert len(set(shares)) == 2, shares
    decisions = [{"step": 1, "stage": 0, "shares": [1, 7]}, {"step": 3, "stage": 0, "shares": [8, 0]}]
    moves = tmp_path / "moves.json"
    moves.write_text(json.dumps({"balance": {"decisions": decisions}}))
    options = ("--balance", f"replay:{moves}", "--epoch-samples", 12, "--steps", 5)
    found = check(plan, UNEVEN, tmp_path, *options)
    assert len(found["losses"]) == 5 and len(found["balance"]["decisions"]) == 2
