"""Plans in the words of other programs: torchtitan and TorchX."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))

from binary import BINARY, heterplan, needs_binary  # noqa: E402

pytestmark = needs_binary
CLUSTER = """
name: two
device_types:
  fast: {kind: gpu, memory: 16GiB, price_per_hour: 2, fp32: 2MFLOP/s, bandwidth: 200MB/s, bf16: 2MFLOP/s}
  slow: {kind: gpu, memory: 16GiB, price_per_hour: 1, fp32: 1MFLOP/s, bandwidth: 100MB/s, bf16: 1MFLOP/s}
nodes:
  - {name: quick, count: 2, devices: {fast: 2}, link: {bandwidth: 100GB/s, latency: 1us}}
  - {name: lazy, devices: {slow: 4}, link: {bandwidth: 100GB/s, latency: 1us}}
network: {bandwidth: 100GB/s, latency: 1us}
"""


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(16, 64), nn.Linear(64, 16), nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Language(nn.Module):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(50, 16)
        self.layers = nn.ModuleList(Block() for _ in range(4))
        self.output = nn.Linear(16, 50, bias=False)
        if tied:
            self.output.weight = self.tok_embeddings.weight

    def forward(self, words: Tensor) -> Tensor:
        x = self.tok_embeddings(words)
        for layer in self.layers:
            x = layer(x)
        return self.output(x)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    import heterplan as package

    made = tmp_path_factory.mktemp("models")
    for name, tied in (("free", False), ("tied", True)):
        package.export(Language(tied), torch.zeros(2, 8, dtype=torch.long), made / f"{name}.onnx")
    (made / "cluster.yaml").write_text(CLUSTER)
    return made


def compiled(folder: Path, out: Path, *options: object, model: str = "free") -> Path:
    heterplan(
        "compile", folder / f"{model}.onnx", "--cluster", folder / "cluster.yaml", "--objective", "throughput", *options,
        "-o", out,
    )  # fmt: skip
    return out


def parameters_of_layers(folder: Path) -> dict[str, list[str]]:
    heterplan("import", folder / "free.onnx", "-o", folder / "free.layers.json")
    layers = json.loads((folder / "free.layers.json").read_text())["layers"]
    return {layer["name"]: layer.get("parameters", []) for layer in layers}


def block_of(parameter: str) -> str:
    parts = parameter.split(".")
    return ".".join(parts[:2]) if parts[0] == "layers" else parts[0]


def pinned_at(names: list[str], cut: int) -> list[str]:
    """The layers before a cut on the fast GPU, the others on the slow one."""
    return [f"{name}={'fast' if i < cut else 'slow'}" for i, name in enumerate(names)]


def cuts(folder: Path, between_blocks: bool) -> list[int]:
    """Cuts that divide no block, or one."""
    blocks = [{block_of(name) for name in own} for own in parameters_of_layers(folder).values()]
    divides = [bool(set().union(*blocks[:cut]) & set().union(*blocks[cut:])) for cut in range(len(blocks))]
    return [cut for cut in range(1, len(blocks)) if divides[cut] != between_blocks]


def load(text: str, path: Path) -> ModuleType:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def titan(plan: Path, model: Path, scratch: Path) -> SimpleNamespace:
    """The configuration after apply(), with the fields of torchtitan 0.3."""
    module = load(heterplan("inspect", plan, "--format", "torchtitan", "--model", model), scratch / "titan.py")
    config = SimpleNamespace(parallelism=SimpleNamespace(), training=SimpleNamespace(), activation_checkpoint="unset")
    assert module.apply(config) is config
    return config


def refused(plan: Path, model: Path) -> str:
    done = subprocess.run(
        [BINARY, "inspect", plan, "--format", "torchtitan", "--model", model], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def two_stages(folder: Path, out: Path, *options: object, model: str = "free") -> Path:
    """Whole blocks on the first kind of GPU, the others on the second."""
    between = cuts(folder, between_blocks=True)
    return compiled(
        folder, out, "--batch", 32, "--micro-batches", 4, "--pin", *pinned_at(list(parameters_of_layers(folder)), between[len(between) // 2]),
        "--shard-state", "none", *options, model=model,
    )  # fmt: skip


def test_torchtitan_gets_data_parallel_fields(folder: Path, tmp_path: Path) -> None:
    plan = compiled(
        folder, tmp_path / "plan", "--batch", 64, "--micro-batches", 2, "--schedule", "data-parallel", "--max-devices",
        "slow=0", "--shard-state", "parameters", "--precision", "bf16", "--recompute", "never",
    )  # fmt: skip
    replicas = len(json.loads((plan / "plan.json").read_text())["stages"][0]["replicas"])
    config = titan(plan, folder / "free.onnx", tmp_path)
    assert vars(config.parallelism) == {
        "data_parallel_replicate_degree": 1, "data_parallel_shard_degree": replicas,
        "fsdp_reshard_after_forward": "always", "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1,
    }  # fmt: skip
    assert vars(config.training) == {
        "local_batch_size": 64 // replicas // 2, "global_batch_size": 64, "mixed_precision_param": "bfloat16",
    }  # fmt: skip
    assert config.activation_checkpoint is None


def test_torchtitan_gets_the_modules_of_stages(folder: Path, tmp_path: Path) -> None:
    plan = two_stages(folder, tmp_path / "plan", "--max-devices", "fast=1", "slow=1")
    stages = json.loads((plan / "plan.json").read_text())["stages"]
    config = titan(plan, folder / "free.onnx", tmp_path)
    modules = config.parallelism.module_fqns_per_model_part
    assert len(modules) == len(stages) == config.parallelism.pipeline_parallel_degree
    blocks = [f"layers.{i}" for i in range(4)]
    assert [name for part in modules for name in part] == ["tok_embeddings", *blocks, "output"]
    assert config.parallelism.pipeline_parallel_schedule == "1F1B"
    assert config.parallelism.pipeline_parallel_microbatch_size == 8
    assert config.training.local_batch_size == 32


def test_torchtitan_refuses_what_it_cannot_say(folder: Path, tmp_path: Path) -> None:
    model = folder / "free.onnx"
    uneven = compiled(
        folder, tmp_path / "uneven", "--batch", 31, "--micro-batches", 1, "--schedule", "data-parallel", "--shard-state",
        "none",
    )  # fmt: skip
    assert "torchtitan has equal shares" in refused(uneven, model)
    zero = compiled(
        folder, tmp_path / "zero", "--batch", 64, "--schedule", "data-parallel", "--max-devices", "slow=0",
        "--shard-state", "optimizer",
    )  # fmt: skip
    assert "--shard-state none, gradients or parameters" in refused(zero, model)
    burst = compiled(folder, tmp_path / "burst", "--batch", 64, "--schedule", "burst")
    assert "schedule burst is none of torchtitan's" in refused(burst, model)
    tied = two_stages(folder, tmp_path / "tied", "--max-devices", "fast=1", "slow=1", model="tied")
    assert "share a parameter" in refused(tied, folder / "tied.onnx")
    done = subprocess.run([BINARY, "inspect", zero, "--format", "torchtitan"], capture_output=True, text=True)
    assert done.returncode == 1 and "--model" in done.stderr


def test_torchtitan_refuses_a_module_in_two_stages(folder: Path, tmp_path: Path) -> None:
    pins = pinned_at(list(parameters_of_layers(folder)), cuts(folder, between_blocks=False)[0])
    plan = compiled(
        folder, tmp_path / "plan", "--batch", 32, "--pin", *pins, "--shard-state", "none", "--max-devices", "fast=1",
        "slow=1",
    )  # fmt: skip
    assert "lies in stages 0 and 1" in refused(plan, folder / "free.onnx")


def test_torchx_has_a_role_for_each_device_type(folder: Path, tmp_path: Path) -> None:
    specs = pytest.importorskip("torchx.specs")
    from torchx.specs.file_linter import validate

    plan = compiled(
        folder, tmp_path / "plan", "--batch", 256, "--micro-batches", 1, "--schedule", "data-parallel", "--min-throughput", 1,
    )  # fmt: skip
    ranks = [json.loads(path.read_text()) for path in sorted((plan / "ranks").iterdir())]
    text = heterplan("inspect", plan, "--format", "torchx")
    app = load(text, tmp_path / "launch_torchx.py").train(folder="/my plan", steps=7, options="--lr 0.1")
    assert isinstance(app, specs.AppDef)
    assert validate(str(tmp_path / "launch_torchx.py"), "train") == []
    types = {rank["device"]["type"] for rank in ranks}
    assert {role.name for role in app.roles} == types
    for role in app.roles:
        own = [rank for rank in ranks if rank["device"]["type"] == role.name]
        nodes = {rank["device"]["node"] for rank in own}
        assert role.num_replicas == len(nodes)
        assert role.resource.gpu == len(own) // len(nodes)
        assert role.env["HETERPLAN_DEVICE_TYPES"] == role.name
        command = role.args[1]
        assert f"--nproc-per-node {len(own) // len(nodes)} " in command
        assert "'/my plan' --steps 7 --lr 0.1" in command
    assert f"--nnodes {sum(role.num_replicas for role in app.roles)} " in app.roles[0].args[1]
