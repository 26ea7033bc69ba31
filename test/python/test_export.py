"""heterplan.export: what is in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.numpy_helper
import pytest
import torch
from torch import nn
from torch.nn import functional

import heterplan
from heterplan.exporting import export_by
from heterplan.newer_exporter import export_newer
from heterplan.older_exporter import export_older


class Mixed(nn.Module):
    """Batch normalisation, dropout, two inputs (one a scalar), two outputs (one without a batch)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(6, 8), nn.BatchNorm1d(8)
        self.second, self.other_norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.other_norm(self.second(self.dropout(self.norm(self.first(x)))))
        return {"logits": hidden * scale, "size": hidden.square().mean()}


def exported(folder: Path, module: nn.Module, inputs: object, **options: object) -> onnx.ModelProto:
    path = heterplan.export(module, inputs, folder / "model.onnx", **options)
    return onnx.load(path)


def test_training_graph_with_the_values_of_the_module(tmp_path: Path) -> None:
    module = Mixed().eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = exported(tmp_path, module, (torch.randn(3, 6) + 5, torch.tensor(2.0)))
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("BatchNormalization") == 2 and "Dropout" in kinds
    found = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    for name, value in before.items():  # running statistics too, which tracing would have moved
        if not name.endswith("num_batches_tracked"):
            assert (found[name] == value.numpy()).all(), name
    assert not module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_batch_is_symbolic_where_there_is_one(tmp_path: Path) -> None:
    model = exported(tmp_path, Mixed(), {"scale": torch.tensor(2.0), "x": torch.randn(3, 6)})
    axes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert axes == {"x": ["batch", 6], "scale": [], "output0": ["batch", 8], "output1": []}


def test_outputs_can_be_named(tmp_path: Path) -> None:
    inputs = (torch.randn(2, 6), torch.tensor(2.0))
    model = exported(tmp_path, Mixed(), inputs, output_names=("logits", "size"))
    assert [value.name for value in model.graph.output] == ["logits", "size"]
    with pytest.raises(ValueError, match="2 outputs; output_names has 1"):
        exported(tmp_path, Mixed(), inputs, output_names=("logits",))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (torch.randn(1, 6), "has one sample"),
        ((), "no input has an axis of samples"),
        ((torch.randn(2, 6), torch.randn(3)), "'scale' has 3 samples along axis 0, others have 2"),
        ((torch.randn(2, 6), 1, 2), "forward takes 2 arguments, not 3"),
        ((torch.randn(2, 6), 2.0), "'scale' is a float; expected a tensor"),
        ({"y": torch.randn(2, 6)}, "no argument 'y', only x, scale"),
    ],
)
def test_what_is_no_example_is_told_so(tmp_path: Path, inputs: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        heterplan.export(Mixed(), inputs, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


class Positions(nn.Module):
    """A language model as Hugging Face writes them: it computes positions by an operator that TorchScript's exporter
    has not, and looks at values."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.head = nn.Embedding(30, 8), nn.Linear(8, 30, bias=False)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        hidden = self.wte(input_ids)
        if attention_mask is None:
            hidden = hidden * torch.diff(hidden, dim=1, append=hidden[:, :1])
        else:
            hidden = hidden * attention_mask[..., None]
        return self.head(hidden)


def test_known_failures_are_tried_again_with_a_mask(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    export_by((export_older,), Positions(), {"input_ids": torch.zeros(2, 4, dtype=torch.long)}, path)
    assert [value.name for value in onnx.load(path).graph.input] == ["input_ids", "attention_mask"]
    assert capfd.readouterr().out == ""  # without the graph that the exporter prints when it fails


def test_the_newer_exporter_writes_what_it_can(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = exported(tmp_path, Positions(), {"input_ids": torch.zeros(2, 4, dtype=torch.long)})
    assert [value.name for value in model.graph.input] == ["input_ids"]
    assert any(entry.key == "pkg.torch.onnx.name_scopes" for entry in model.graph.node[-1].metadata_props)
    assert not any(entry.key.endswith("stack_trace") for node in model.graph.node for entry in node.metadata_props)
    written = capfd.readouterr()
    assert written.out == "" and "torchvision" not in written.err


class Stack(nn.Module):
    """Modules in a list; the second is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[1](self.layers[1](self.layers[0](x)).relu())


def test_both_exporters_name_layers_by_modules(tmp_path: Path) -> None:
    names = {}
    for exporter in (export_newer, export_older):
        export_by((exporter,), Stack(), torch.zeros(2, 6), tmp_path / "stack.onnx")
        names[exporter] = [node.name for node in onnx.load(tmp_path / "stack.onnx").graph.node]
    assert names[export_newer] == ["/layers.0/Gemm", "/layers.1/Gemm", "/Relu", "/layers.1/Gemm_1"]
    assert [name.split("/")[1] for name in names[export_older] if "layers" in name] == ["layers.0", "layers.1", "layers.1_1"]


class Bounded(nn.Module):
    """Functions that bound their argument. PyTorch gives some of them a gradient at the bounds."""

    functions = (
        functional.hardtanh, lambda x: functional.hardtanh(x, -2.0, 3.0), functional.relu6, lambda x: x.clamp(-2.0, 3.0),
        lambda x: x.clamp(0, 6), lambda x: x.clamp(min=-2.0), lambda x: x.clamp(torch.tensor(-2.0), torch.tensor(3.0)),
    )  # fmt: skip

    def __init__(self, points: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.ones(len(self.functions), points))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([each(x * factor) for each, factor in zip(self.functions, self.factors, strict=True)], dim=1)


@pytest.mark.parametrize("exporter", [export_newer, export_older])
def test_bounds_have_the_gradients_of_the_module(
    exporter: Callable[..., None], tmp_path: Path, cores: Path
) -> None:
    points = torch.tensor([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 6.0, 7.0]).repeat(2, 1)
    module = Bounded(points.shape[1])
    export_by((exporter,), module, points, tmp_path / "model.onnx")
    whole = heterplan.compile(tmp_path / "model.onnx", cores, batch=2).module()
    whole(x=points).sum().backward()
    module(points).sum().backward()
    (found,) = whole.parameters()
    torch.testing.assert_close(found.grad, module.factors.grad)


class Bags(nn.Module):
    """A bag of each sample, of as many words."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.bag, self.out = nn.EmbeddingBag(40, 8, mode=mode), nn.Linear(8, 3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.bag(words))


@pytest.mark.parametrize("exporter", [export_newer, export_older])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_one_size_have_the_gradients_of_the_module(
    mode: str, exporter: Callable[..., None], tmp_path: Path, cores: Path
) -> None:
    words, module = torch.arange(14).reshape(2, 7) % 9, Bags(mode)
    export_by((exporter,), module, {"words": words}, tmp_path / "model.onnx")
    whole = heterplan.compile(tmp_path / "model.onnx", cores, batch=2).module()
    for each in (whole, module):
        each(words=words).square().sum().backward()
    found = {name.removeprefix("stages.0."): each for name, each in whole.named_parameters()}
    wanted = dict(module.named_parameters())
    assert found.keys() == wanted.keys()
    for name, each in wanted.items():
        torch.testing.assert_close(found[name].grad, each.grad)


@pytest.mark.parametrize("exporter", [export_newer, export_older])
def test_further_axes_are_symbolic_on_request(tmp_path: Path, exporter: Callable[..., None]) -> None:
    tokens = {"input_ids": torch.zeros(2, 4, dtype=torch.long), "attention_mask": torch.ones(2, 4)}
    axes = {name: {1: "length"} for name in tokens}
    path = tmp_path / "model.onnx"
    export_by((exporter,), Positions(), tokens, path, axes=axes)
    shapes = [
        [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in onnx.load(path).graph.input
    ]
    assert shapes == [["batch", "length"], ["batch", "length"]]
    for length in (4, 7):
        plan = heterplan.compile(path, "local-cpu", batch=4, dim={"length": length}, schedule="data-parallel")
        assert plan.module().eval()(torch.zeros(4, length, dtype=torch.long), torch.ones(4, length)).shape == (4, length, 30)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"words": {1: "length"}}, "axes names an input 'words'; there are input_ids"),
        ({"input_ids": {0: "length"}}, "0 is not one of its 2 axes, or counts samples"),
        ({"input_ids": {2: "length"}}, "2 is not one of its 2 axes"),
    ],
)
def test_axes_that_an_input_does_not_have_are_refused(tmp_path: Path, axes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        heterplan.export(Positions(), {"input_ids": torch.zeros(2, 4, dtype=torch.long)}, tmp_path / "m.onnx", axes=axes)


class Deciding(nn.Module):
    """Decides by the values of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x) if x.sum().item() > 0 else self.head(-x)


def test_a_module_that_no_exporter_writes_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(heterplan.HeterplanError) as error:
        export_by((export_newer,), Deciding(), torch.zeros(2, 6), tmp_path / "model.onnx")
    text = str(error.value)
    assert "Deciding cannot be exported: forward() decides by the values of a tensor" in text
    assert "\n" not in text and len(text) < 300


class Head(nn.Module):
    """An argument with a default value, as models of Hugging Face have `logits_to_keep`."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, keep: int = 0, scale: torch.Tensor | None = None) -> torch.Tensor:
        return self.head(x[:, -keep:] if scale is None else x[:, -keep:] * scale)


def test_arguments_with_default_values_are_no_inputs(tmp_path: Path) -> None:
    model = exported(tmp_path, Head(), torch.zeros(2, 3, 6))
    assert [value.name for value in model.graph.input] == ["x"]


class Around(nn.Module):
    """Hands on whatever it is given, as PEFT's models do."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Head()

    def forward(self, *arguments: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
        return self.base(*arguments, **others)


def test_modules_that_take_any_arguments_are_exported(tmp_path: Path) -> None:
    model = exported(tmp_path, Around(), {"x": torch.zeros(2, 3, 6)})
    assert [value.name for value in model.graph.input] == ["x"]
    model = exported(tmp_path, Around(), torch.zeros(2, 3, 6))
    assert [value.name for value in model.graph.input] == ["arguments0"]
    assert "base.head.weight" in {each.name for each in model.graph.initializer}


def test_a_module_without_values_gives_a_file_without_values(tmp_path: Path) -> None:
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(6, 1 << 20), nn.ReLU(), nn.Linear(1 << 20, 5))
    path = heterplan.export(module, torch.zeros(2, 6), tmp_path / "large.onnx")
    assert path.stat().st_size < 10_000
    found = {each.name: list(each.dims) for each in onnx.load(path, load_external_data=False).graph.initializer}
    assert found["2.weight"] == [5, 1 << 20]
    plan = heterplan.compile(path, "local-cpu", batch=4, freeze=["0.*"], schedule="data-parallel", tensor_parallel=1)
    assert sum(float(stage["parameterBytes"]) for stage in plan.json["stages"]) == 4 * (5 * (1 << 20) + 5)


class Rotated(nn.Module):
    """A buffer that is not in the state, as frequencies of rotary embeddings are not."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 6)
        self.register_buffer("angles", torch.arange(6.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x) * (self.angles[None].transpose(0, 1).flatten() / 6).cos()


def test_buffers_of_a_module_without_values_have_their_names(tmp_path: Path) -> None:
    with torch.device("meta"):
        module = Rotated()
    path = heterplan.export(module, torch.zeros(2, 6), tmp_path / "empty.onnx")
    model = onnx.load(path, load_external_data=False)
    assert {each.name for each in model.graph.initializer} >= {"head.weight", "head.bias", "angles"}


class Tied(nn.Module):
    """An embedding whose table is also the head, between layers of equal shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(6, 8)
        self.layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3)))
        self.head = nn.Linear(8, 6, bias=False)
        self.head.weight = self.table.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.table(words)))


def test_parameters_of_equal_shape_stay_apart_without_values(tmp_path: Path) -> None:
    words = torch.zeros(2, 3, dtype=torch.long)
    with torch.device("meta"):
        empty = Tied()
    planned = [
        heterplan.compile(heterplan.export(module, words, tmp_path / f"{name}.onnx"), "local-cpu", batch=4,
                          schedule="data-parallel")
        for name, module in (("empty", empty), ("full", Tied()))
    ]  # fmt: skip
    trained = [sum(float(stage["parameterBytes"]) for stage in plan.json["stages"]) for plan in planned]
    assert trained == [4 * (6 * 8 + 3 * (8 * 8 + 8))] * 2


def test_gradients_that_count_rows_are_refused(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Embedding(20, 4, scale_grad_by_freq=True), nn.Linear(4, 3))
    with pytest.raises(heterplan.HeterplanError, match=r"'0' scales gradients .*scale_grad_by_freq.* without it"):
        heterplan.export(module, torch.zeros(2, 5, dtype=torch.long), tmp_path / "model.onnx")
