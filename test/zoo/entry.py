"""A model of the zoo: how it is built, what it is fed, how people export it."""

from __future__ import annotations

import importlib.metadata
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

Maker = Callable[[int], Tensor]  # from the number of samples
WAYS = {
    "ts-symbolic": (False, True),
    "ts-fixed": (False, False),
    "dynamo-symbolic": (True, True),
    "dynamo-fixed": (True, False),
}


def noise(*shape: int) -> Maker:
    return lambda samples: torch.randn(samples, *shape)


def tokens(bound: int, *shape: int, least: int = 2) -> Maker:
    """By default never 0 or 1: the row of torch.nn.Embedding(padding_idx) is not trained, which a bare ONNX file
    cannot say."""
    return lambda samples: torch.randint(least, bound, (samples, *shape))


def padding(length: int) -> Maker:
    """A mask of sequences that end one token apart."""

    def make(samples: int) -> Tensor:
        ends = length - torch.arange(samples)[:, None] % (length - 1)
        return (torch.arange(length)[None] < ends).long()

    return make


class Call(nn.Module):
    """`model` with positional inputs, and of its outputs those called `outputs`."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names
        self.outputs = outputs

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        if not self.outputs:
            return self.model(*inputs)
        result = self.model(**dict(zip(self.names, inputs, strict=True)))
        return tuple(result[name] for name in self.outputs)


@dataclass
class Entry:
    """`outputs`: names of the result, which is a dictionary then; none where it is a tensor, or
    several. `batch_axis`: of the inputs and the outputs."""

    build: Callable[[], nn.Module]
    inputs: dict[str, Maker]
    outputs: tuple[str, ...] = ()
    batch_axis: int = 0
    options: tuple[str, ...] = ()  # of `heterplan import`, as a user has to give them
    is_partly_frozen: bool = False  # elements of trained tensors have no gradient in the module
    without: tuple[str, ...] = field(default=())  # ways that are not tried, each with a reason

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        model = self.build().eval()
        with torch.no_grad():
            for parameter in model.parameters():  # no two are equal: the file must not share them
                if parameter.is_floating_point():
                    parameter += 0.01 * torch.randn_like(parameter)
        return Call(model, tuple(self.inputs), self.outputs).eval()

    def sample(self, samples: int, seed: int = 1) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        return {name: make(samples) for name, make in self.inputs.items()}


def results_of(module: nn.Module, inputs: dict[str, Tensor]) -> list[Tensor]:
    result = module(*inputs.values())
    return [result] if isinstance(result, Tensor) else list(result)


def export(entry: Entry, module: nn.Module, path: Path, way: str) -> None:
    """As a user does who knows no more than that the batch is to be symbolic, or not even that."""
    dynamo, symbolic = WAYS[way]
    example = entry.sample(2 if symbolic else 1)
    options: dict[str, object] = {}
    axis = entry.batch_axis
    if symbolic and not dynamo:
        count = len(results_of(module, example))
        names = [f"output_{i}" for i in range(count)]
        options["output_names"] = names
        options["dynamic_axes"] = {name: {axis: "batch"} for name in [*entry.inputs, *names]}
    elif symbolic:
        batch = torch.export.Dim("batch")
        options["dynamic_shapes"] = (tuple({axis: batch} for _ in entry.inputs),)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(example.values()),
            path,
            input_names=list(entry.inputs),
            dynamo=dynamo,
            verbose=False,
            **options,
        )


def use_torchvision() -> None:
    """PyPI's torchvision is built for CUDA's PyTorch: where its operators cannot be loaded, its
    models can, once the names that it gives shapes to are there."""
    try:
        importlib.metadata.version("torchvision")
    except importlib.metadata.PackageNotFoundError:
        return
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            schema = f"torchvision::{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(schema.split("(")[0], "(" + schema.split("(", 1)[1])
