"""Plans train the parameters of the module: frozen ones, ties, merged initializers, names."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import onnx
import pytest
import torch
from conftest import SOURCE
from torch import Tensor, nn
from torch.nn import functional

import heterplan


class Adapted(nn.Module):
    def __init__(self, inputs: int, outputs: int, rank: int = 2) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.lora_a = nn.Parameter(torch.randn(rank, inputs) * 0.1)
        self.lora_b = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + functional.linear(functional.linear(x, self.lora_a), self.lora_b)


class Lora(nn.Module):
    """The first block is frozen altogether; of the others the adapters are trained."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Linear(12, 16)
        self.layers = nn.ModuleList([Adapted(16, 16), Adapted(16, 16)])
        self.norm = nn.LayerNorm(16)
        self.head = Adapted(16, 5)
        for name, parameter in self.named_parameters():
            parameter.requires_grad_("lora_" in name and "layers.0" not in name)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.embedding(x))
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(self.norm(x))


class Language(nn.Module):
    """A head that is tied to the embedding; a scalar that is a parameter; a table that is none."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(40, 16)
        self.register_buffer("places", torch.randn(6, 16))
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.gate = nn.Parameter(torch.zeros(1))
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.wte(tokens) + self.places
        for block in self.blocks:
            hidden = hidden + torch.tanh(block(hidden)) * (1 + self.gate)
        return self.head(self.norm(hidden))


def lora_module() -> Lora:
    torch.manual_seed(0)
    return Lora()


@pytest.fixture(scope="module")
def lora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of lora_module()."""
    path = tmp_path_factory.mktemp("lora") / "lora.onnx"
    return heterplan.export(lora_module(), torch.zeros(2, 12), path)


def steps(model: nn.Module, inputs: list[Tensor], classes: int, count: int = 5) -> list[float]:
    """Losses of Adam."""
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer, losses = torch.optim.AdamW(trained, lr=0.01, weight_decay=0.0), []
    for _ in range(count):
        for each in inputs:
            logits = model(each)
            labels = torch.arange(logits[..., 0].numel()) % classes
            loss = functional.cross_entropy(logits.reshape(-1, classes), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    return losses


def metadata(path: Path) -> dict[str, dict[str, object]]:
    props = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert props["heterplan.parameters.version"] == "1"
    found: dict[str, dict[str, object]] = json.loads(props["heterplan.parameters"])
    return found


def test_the_file_states_what_the_module_says(lora: Path, tmp_path: Path) -> None:
    stated = metadata(lora)
    assert stated.keys() == Lora().state_dict().keys()
    assert [name for name, each in stated.items() if each["trained"]] == [
        name for name, each in Lora().named_parameters() if each.requires_grad
    ]
    assert stated["embedding.weight"]["shape"] == [16, 12]
    tokens = torch.zeros(2, 6, dtype=torch.long)
    tied = metadata(heterplan.export(Language(), tokens, tmp_path / "language.onnx"))
    assert tied["wte.weight"]["tied"] == "wte.weight"
    assert tied["places"]["kind"] == "buffer" and tied["gate"]["trained"]


def test_frozen_parameters_take_part_in_nothing_but_forward(tmp_path: Path, cores: Path) -> None:
    torch.manual_seed(0)
    module = Lora()
    plan = heterplan.compile(
        module, cores, inputs=torch.zeros(2, 12), batch=8, optimizer="adam", output=tmp_path / "out",
        separate=[("/layers.0/base/Gemm", "/head/base/Gemm")],
    )  # fmt: skip
    trained = {name: each for name, each in module.named_parameters() if each.requires_grad}
    assert len(plan.stages) == 2
    counted = sum(float(stage["parameterBytes"]) for stage in plan.json["stages"])
    assert counted == 4 * sum(each.numel() for each in trained.values())
    before = {name: value.clone() for name, value in module.state_dict().items()}
    plan.check(steps=3, lr=0.01)
    plan.run(steps=2, lr=0.01)
    after = plan.weights()
    assert after.keys() == trained.keys()
    assert all((after[name] - before[name]).abs().max() > 0 for name in after)
    whole = plan.module()
    assert {name for name, _ in whole.named_parameters()} == {
        f"stages.{index}.{name}"
        for index, stage in enumerate(plan.stages)
        for name in trained
        if name in dict(plan.module(index).named_parameters())
    }
    inputs = [torch.randn(8, 12)]
    assert steps(whole, inputs, 5) == pytest.approx(steps(module, inputs, 5), rel=1e-5)


def test_freeze_and_train_say_it_for_a_file_that_does_not(tmp_path: Path, cores: Path) -> None:
    module = Lora()
    torch.onnx.export(
        module, (torch.zeros(2, 12),), tmp_path / "bare.onnx", dynamo=False, input_names=["x"],
        training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
        dynamic_axes={"x": {0: "batch"}},
    )  # fmt: skip
    plan = heterplan.compile(
        tmp_path / "bare.onnx", cores, batch=8, output=tmp_path / "out", freeze=["*"],
        train=["layers.1.lora_*", "head.lora_*"], schedule="data-parallel",
    )  # fmt: skip
    wanted = {name for name, each in module.named_parameters() if each.requires_grad}
    assert {name for name, _ in plan.module(0).named_parameters()} == wanted
    with pytest.raises(heterplan.HeterplanError, match="no parameter of the model is called 'lora'"):
        heterplan.compile(tmp_path / "bare.onnx", cores, batch=8, freeze=["lora"])


def test_a_tied_parameter_is_used_by_two_stages(tmp_path: Path, cores: Path) -> None:
    torch.manual_seed(0)
    module = Language()
    tokens = torch.zeros(2, 6, dtype=torch.long)
    plan = heterplan.compile(
        module, cores, inputs=tokens, batch=8, optimizer="adam", output=tmp_path / "out",
        micro_batches=4, separate=[("/wte/Gather", "/head/MatMul")],
    )  # fmt: skip
    table = 4 * 40 * 16
    assert len(plan.stages) == 2
    assert all(float(stage["parameterBytes"]) >= table for stage in plan.json["stages"])
    plan.verify(cores)
    checked = plan.check(steps=3, lr=0.01)
    result = plan.run(steps=3, lr=0.01, checkpoint_every=2, checkpoint_dir=tmp_path / "saved")
    assert result["losses"] == pytest.approx(checked["losses"], rel=1e-4)
    weights = plan.weights()
    assert "wte.weight" in weights and "head.weight" not in weights and "gate" in weights
    plan.export(tmp_path / "trained.onnx")
    alone = heterplan.compile(
        tmp_path / "trained.onnx", cores, batch=8, optimizer="adam", output=tmp_path / "alone",
        schedule="data-parallel", max_devices={"core": 1},
    )  # fmt: skip
    tied = dict(alone.module(0).named_parameters())["wte.weight"]
    assert torch.equal(tied, weights["wte.weight"])
    shutil.copytree(tmp_path / "saved", tmp_path / "copy")
    resumed = alone.run(steps=5, lr=0.01, resume=True, checkpoint_dir=tmp_path / "copy", no_save=True)
    went_on = plan.run(steps=5, lr=0.01, resume=True, checkpoint_dir=tmp_path / "saved", no_save=True)
    assert resumed["losses"] == pytest.approx(went_on["losses"], rel=1e-4)


def dynamo(module: nn.Module, inputs: tuple[Tensor, ...], path: Path) -> Path:
    """As PyTorch exports by default."""
    batch = torch.export.Dim("batch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, inputs, path, dynamo=True, dynamic_shapes=({0: batch},), external_data=False, verbose=False
        )
    return path


class Fresh(nn.Module):
    """Norms, adapters and gates that start equal, clones, and a head that is tied."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(40, 16)
        block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        for layer in self.encoder.layers:  # which the exporter leaves out where they are zero
            nn.init.ones_(layer.self_attn.out_proj.bias)
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)
        nn.init.zeros_(self.first.weight)
        nn.init.zeros_(self.second.weight)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.encoder(self.wte(tokens))
        return self.head(hidden + self.first(hidden) + self.second(hidden * 2))


def test_the_default_export_trains_what_the_module_does(tmp_path: Path, cores: Path) -> None:
    torch.manual_seed(0)
    module = Fresh().eval()
    tokens = torch.randint(40, (2, 6))
    path = dynamo(module, (tokens,), tmp_path / "fresh.onnx")
    plan = heterplan.compile(path, cores, batch=8, output=tmp_path / "out", schedule="data-parallel")
    count = sum(each.numel() for each in module.parameters())
    whole = plan.module()
    assert sum(each.numel() for each in whole.parameters()) == count
    inputs = [torch.randint(40, (8, 6))]
    assert steps(whole, inputs, 40) == pytest.approx(steps(module, inputs, 40), rel=1e-5)
    plan.run(steps=1, lr=0.01)
    plan.export(tmp_path / "trained.onnx")
    again = heterplan.compile(
        tmp_path / "trained.onnx", cores, batch=8, output=tmp_path / "again", schedule="data-parallel"
    )
    assert sum(each.numel() for each in again.module().parameters()) == count


def test_a_file_that_was_changed_after_export_is_refused(lora: Path, tmp_path: Path, cores: Path) -> None:
    path = tmp_path / "lora.onnx"
    model = onnx.load(lora)
    model.graph.initializer[0].raw_data = bytes(len(model.graph.initializer[0].raw_data))
    onnx.save(model, path)
    with pytest.raises(heterplan.HeterplanError, match="the metadata state other values of") as error:
        heterplan.compile(path, cores, batch=8)
    assert error.value.code == "HP1101"


def test_samples_that_depend_on_each_other_are_refused_or_computed_whole(
    tmp_path: Path, cores: Path
) -> None:
    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            sums = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
            return self.second(torch.relu(self.first(x) + sums))

    path = tmp_path / "graph.onnx"
    torch.onnx.export(
        Graph(), (torch.randn(5, 8), torch.randint(5, (2, 6))), path, dynamo=False,
        input_names=["x", "edges"], dynamic_axes={"x": {0: "nodes"}, "edges": {1: "count"}},
    )  # fmt: skip
    with pytest.raises(heterplan.HeterplanError, match="operator Gather reads all samples") as error:
        heterplan.compile(path, cores, batch=4, dim={"count": 6})
    assert error.value.code == "HP1802" and "--batch-dim none" in str(error.value)
    plan = heterplan.compile(
        path, cores, batch=4, dim={"count": 6, "nodes": 5}, batch_dim="none", output=tmp_path / "out"
    )
    assert plan.micro_batches == 4
    assert all(len(stage.replicas) == 1 for stage in plan.stages)
    plan.run(steps=2, check=True)


class Contrast(nn.Module):
    """Compares each sample of one kind with all of another kind, as CLIP does."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.image = nn.Linear(6, 8), nn.Linear(5, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.text(x) @ self.image(y).T


def test_the_remedy_for_samples_that_are_compared_works_for_modules(tmp_path: Path, cores: Path) -> None:
    example = (torch.randn(4, 6), torch.randn(4, 5))
    with pytest.raises(heterplan.HeterplanError, match="operator (MatMul|Gemm) .* samples") as error:
        heterplan.compile(Contrast(), cores, inputs=example, batch=8)
    assert error.value.code == "HP1802" and "--batch-dim none" in str(error.value)
    plan = heterplan.compile(
        Contrast(), cores, inputs=example, batch=3, batch_dim="none", output=tmp_path / "out"
    )
    assert plan.micro_batches == 3 and all(len(stage.replicas) == 1 for stage in plan.stages)
    plan.check(steps=2)


def test_a_loss_without_gradient_is_refused(tmp_path: Path, cores: Path) -> None:
    plan = heterplan.compile(
        SOURCE / "test/data/small/cnn.onnx", cores, batch=8, output=tmp_path / "out",
        schedule="data-parallel", max_devices={"core": 1},
    )  # fmt: skip
    (tmp_path / "out/mine.py").write_text(
        "def loss(outputs, targets):\n    return outputs.detach().square().mean()\n"
    )
    with pytest.raises(heterplan.HeterplanError, match="the loss has no gradient"):
        plan.run(steps=1, loss="mine:loss")


MODULE = """
import sys

import torch

sys.path.insert(0, {folder!r})
from test_parameters import Lora


def make():
    module = Lora()
    module.load_state_dict(torch.load({weights!r}))
    return module


def thawed():
    return make().requires_grad_(True)


def other():
    return Lora()
"""


def test_the_command_line_compares_with_a_module(lora: Path, tmp_path: Path, cores: Path) -> None:
    torch.save(lora_module().state_dict(), tmp_path / "weights.pt")
    plan = heterplan.compile(
        lora, cores, batch=8, output=tmp_path / "out", schedule="data-parallel", max_devices={"core": 1}
    )
    file = tmp_path / "mine.py"
    folder = str(Path(__file__).parent)
    file.write_text(MODULE.format(folder=folder, weights=str(tmp_path / "weights.pt")))
    plan.run(steps=2, check=True, module=f"{file}:make", lr=0.1)
    for function, message in [
        ("thawed", "the module trains 'embedding.weight', which the plan does not"),
        ("other", "has other values in the module than in the plan"),
        ("none", "AttributeError"),
    ]:
        with pytest.raises(heterplan.HeterplanError, match=message):
            plan.run(steps=1, check=True, module=f"{file}:{function}")
    with pytest.raises(heterplan.HeterplanError, match="give --check, too"):
        plan.run(steps=1, module=f"{file}:make")


def test_a_plan_that_trains_something_else_fails_its_check(lora: Path, tmp_path: Path, cores: Path) -> None:
    made = heterplan.compile(
        lora, cores, batch=8, output=tmp_path / "out", train=["*"], schedule="data-parallel", max_devices={"core": 1},
    )  # fmt: skip
    plan = heterplan.Plan(made.directory, lora, module=lora_module())
    with pytest.raises(heterplan.HeterplanError, match="the plan trains '.*', which the module does not"):
        plan.check(steps=1)


class Padded(nn.Module):
    """The padding row of the table is trained by the head that is tied to it, and not by lookups."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 20, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.tanh(self.words(tokens)))


@pytest.mark.parametrize("tied", [False, True])
def test_lookups_do_not_train_the_padding_row(tmp_path: Path, cores: Path, tied: bool) -> None:
    torch.manual_seed(0)
    module, tokens = Padded(tied), torch.randint(20, (8, 5))
    tokens[:, :2] = 0
    path = heterplan.export(module, tokens, tmp_path / "padded.onnx")
    assert metadata(path)["words.weight"]["padding"] == 0
    plan = heterplan.compile(
        module, cores, inputs=tokens, batch=8, output=tmp_path / "out", schedule="data-parallel"
    )
    before = module.words.weight[0].clone()
    whole = plan.module()
    assert steps(whole, [tokens], 20) == pytest.approx(steps(module, [tokens], 20), rel=1e-5)
    trained = dict(whole.named_parameters())["stages.0.words.weight"]
    assert torch.equal(trained[0], before) != tied
    assert torch.allclose(trained, module.words.weight, rtol=1e-4, atol=1e-6)


class Features(nn.Module):
    """Features without gradients: under torch.no_grad(), or one of two uses of them is detached."""

    def __init__(self, is_half: bool) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.is_half = is_half

    def forward(self, x: Tensor) -> Tensor:
        if self.is_half:
            features = self.body(x)
            return self.head(features + features.tanh().detach())
        with torch.no_grad():
            features = torch.tanh(self.body(x))
        return self.head(features)


def test_parameters_that_no_gradient_reaches_are_frozen(tmp_path: Path, cores: Path) -> None:
    stated = metadata(heterplan.export(Features(is_half=False), torch.zeros(2, 6), tmp_path / "features.onnx"))
    assert [name for name, each in stated.items() if each["trained"]] == ["head.weight", "head.bias"]
    with pytest.raises(heterplan.HeterplanError, match="the gradient of 'body.bias' is another one") as error:
        heterplan.compile(Features(is_half=True), cores, inputs=torch.zeros(2, 6), batch=8)
    assert error.value.code == "HP1802" and "detach()" in str(error.value)


class LastToken(nn.Module):
    """The state at the end of each sequence, as classifiers of transformers pick it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = torch.tanh(self.words(tokens))
        return self.head(hidden)[torch.arange(tokens.shape[0]), tokens.argmax(-1)]


def test_samples_that_pick_rows_of_their_own_are_divided(tmp_path: Path, cores: Path) -> None:
    plan = heterplan.compile(
        LastToken(), cores, inputs=torch.randint(20, (2, 5)), batch=8, output=tmp_path / "out",
        schedule="data-parallel",
    )  # fmt: skip
    assert len(plan.stages[0].replicas) == 2
    plan.check(steps=2, lr=0.1)


class Sums(nn.Module):
    """Sums rows by index_add, which PyTorch's older exporter writes as an assignment."""

    def __init__(self) -> None:
        super().__init__()
        self.message = nn.Linear(4, 4)
        self.register_buffer("targets", torch.tensor([0, 1, 0, 2]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros(x.size(0), 3, 4).index_add(1, self.targets, self.message(x))


def test_what_one_exporter_gets_wrong_is_exported_by_the_other(tmp_path: Path, cores: Path) -> None:
    torch.manual_seed(0)
    module = Sums()
    plan = heterplan.compile(
        module, cores, inputs=torch.zeros(2, 4, 4), batch=8, output=tmp_path / "out", schedule="data-parallel"
    )
    x = torch.randn(8, 4, 4)
    assert torch.allclose(plan.module().eval()(x), module(x), atol=1e-6)
    assert plan.run(steps=1, check=True)["losses"]


def test_devices_share_the_layers_of_a_module(cores: Path, tmp_path: Path) -> None:
    """The plan trains what the module does, and its weights are whole, under the names of the module."""
    net = nn.Sequential(nn.Linear(128, 512), nn.Tanh(), nn.Linear(512, 10))
    example = torch.randn(2, 128)
    plan = heterplan.compile(net, cores, inputs=(example,), output=tmp_path / "plan", batch=8, tensor_parallel=2)
    assert "self.shards." in (plan.directory / "model.py").read_text()
    torch.testing.assert_close(plan.module()(example), net(example))
    plan.check(steps=2, lr=0.1)
    plan.run(steps=1)
    assert {name: each.shape for name, each in plan.weights().items()} == {
        name: each.shape for name, each in net.state_dict().items()
    }
