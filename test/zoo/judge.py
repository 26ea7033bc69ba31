"""Judges one exported model: it is imported, written in one and in two stages, run and
differentiated at several batches, and compared with the module that it came from."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnxruntime
import torch
from entry import Entry, export, results_of
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))

import generated  # noqa: E402

BINARY = generated.BINARY
BATCHES = (1, 2, 3)
STAGES = (1, 2)
MOST_ELEMENTS = 200_000  # of all parameters of a model, whose gradients are compared
TOLERANCE = 2e-3  # of the largest value: exporters reorder sums, and fold in single precision


@dataclass
class Verdict:
    """`state`: no-export (nothing to import), refused (with a remedy), equal, or wrong."""

    state: str
    reason: str = ""
    layers: int = 0
    faults: list[str] = field(default_factory=list)  # of the trained set and of gradients
    remarks: list[str] = field(default_factory=list)


@dataclass
class Trained:
    """Elements of a trained tensor: all of them, or a sample that depends on the values alone."""

    name: str
    values: Tensor
    gradients: Tensor


class Elements:
    """A digest of all trained tensors together, by value: the same wherever an exporter puts them, since no
    two parameters are equal. Exporters transpose weights, and join those of recurrent layers."""

    def __init__(self, parts: list[nn.Module], stride: int) -> None:
        """About one element of `stride`."""
        named = [item for part in parts for item in part.named_parameters()]
        trained = [(name, p) for name, p in named if p.requires_grad and p.numel()]
        self.tensors = [self.sample(name, p, stride) for name, p in trained]
        values = torch.cat([torch.empty(0).double(), *(t.values for t in self.tensors)])
        gradients = torch.cat([torch.empty(0).double(), *(t.gradients for t in self.tensors)])
        self.values, order, counts = values.unique(return_inverse=True, return_counts=True)
        self.alone = counts == 1  # of few elements another happens to have the value
        self.gradients = torch.zeros_like(self.values).index_add(0, order, gradients)

    @staticmethod
    def sample(name: str, parameter: Tensor, stride: int) -> Trained:
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        values, gradient = parameter.detach().double().flatten(), gradient.double().flatten()
        chosen = (values.view(torch.int64) >> 29) % stride == 0  # float32 leaves 29 bits zero
        return Trained(name, values[chosen], gradient[chosen])

    def place(self, tensor: Trained) -> tuple[Tensor, Tensor]:
        """The places of its elements, and which of them are present."""
        if not len(self.values):
            return torch.zeros_like(tensor.values).long(), torch.zeros_like(tensor.values).bool()
        at = torch.searchsorted(self.values, tensor.values).clamp(max=len(self.values) - 1)
        return at, self.values[at] == tensor.values

    def largest(self) -> float:
        return float(self.gradients.abs().max()) if len(self.gradients) else 0.0

    def has(self, tensor: Trained) -> bool:
        """Nearly all of its elements that have a gradient: of a table exporters keep the rows that
        are read."""
        return bool(self.place(tensor)[1][tensor.gradients != 0].double().mean() > 0.9)


def differ(found: Tensor, expected: Tensor, least: float = 1e-3) -> bool:
    """By more than the tolerance, which is relative to the largest value, or to `least`."""
    if found.shape != expected.shape:
        return True
    scale = float(expected.detach().abs().max()) if expected.numel() else 0.0
    gap = float((found.detach() - expected.detach()).abs().max()) if expected.numel() else 0.0
    return not gap <= TOLERANCE * max(scale, least)


def loss_of(results: list[Tensor]) -> Tensor:
    """Each element weighs otherwise, so that normalised results have gradients, too."""
    floating = [x.flatten() for x in results if x.is_floating_point()]
    return torch.stack([(x.square() * torch.linspace(1, 3, len(x))).mean() for x in floating]).sum()


def compare_results(
    folder: Path, entry: Entry, module: nn.Module, samples: int
) -> tuple[str, list[nn.Module]]:
    """The difference, or ""; gradients are there after the last batch."""
    inputs = entry.sample(samples)
    parts = generated.stages(generated.load(folder), folder)
    last = samples == BATCHES[-1]
    with torch.set_grad_enabled(last):
        expected = results_of(module, inputs)
        results = [*generated.forward(parts, inputs).values()]
    for index, value in enumerate(results):
        if not any(not differ(value, other) for other in expected):
            return f"output {index} at a batch of {samples}", parts
    if len(results) != len(expected):
        return f"{len(results)} outputs of {len(expected)}", parts
    if last:
        loss_of(results).backward()
        loss_of(expected).backward()
    return "", parts


def values_of(tensors: Iterable[Tensor]) -> Tensor:
    floating = [t.detach().double().flatten() for t in tensors if t.is_floating_point()]
    return torch.cat([torch.empty(0).double(), *floating]).unique()


def share(values: Tensor, among: Tensor) -> float:
    return float(torch.isin(values, among).double().mean())


def compare_training(
    module: nn.Module, parts: list[nn.Module], path: Path
) -> tuple[list[str], list[str]]:
    """Discrepancies of a trained model: trained tensors that are no parameters, parameters that are
    not trained, and other gradients. The second list holds what the file cannot tell: frozen
    parameters, and tensors that the exporter computed."""
    stride = 1 + sum(p.numel() for p in module.parameters()) // MOST_ELEMENTS
    wanted, found = Elements([module], stride), Elements(parts, stride)
    faults: list[str] = []
    remarks: list[str] = []
    for tensor in found.tensors:
        if not tensor.gradients.any() or wanted.place(tensor)[1].double().mean() > 0.9:
            continue
        if share(tensor.values, values_of(p for p in module.parameters() if not p.requires_grad)) > 0.9:
            remarks.append(f"trains '{tensor.name}', which is frozen: the file does not say so")
        elif share(tensor.values, values_of(module.buffers())) > 0.9:
            faults.append(f"trains '{tensor.name}', which is a buffer")
        else:
            remarks.append(f"trains '{tensor.name}', which the exporter computed")
    for tensor in wanted.tensors:
        if not tensor.gradients.any():
            continue
        own = wanted.place(tensor)[0]
        at, there = found.place(tensor)
        there = there & wanted.alone[own] & found.alone[at]
        if not found.has(tensor):
            held = share(tensor.values[tensor.gradients != 0], values_of(initializers(path))) > 0.5
            if held:
                faults.append(f"does not train '{tensor.name}'")
            else:
                remarks.append(f"does not train '{tensor.name}', which the file does not have")
        elif differ(
            found.gradients[at][there],
            wanted.gradients[own][there],
            1e-4 * wanted.largest(),
        ):
            faults.append(f"another gradient of '{tensor.name}'")
    return faults, remarks


def initializers(path: Path) -> list[Tensor]:
    tensors = onnx.load(path).graph.initializer
    return [torch.from_numpy(onnx.numpy_helper.to_array(x).copy()) for x in tensors]


def folds(module: nn.Module, path: Path) -> bool:
    """Whether the exporter has folded batch normalisation into the weights before it: then what is
    trained is not what was."""
    layers = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    nodes = onnx.load(path, load_external_data=False).graph.node
    return sum(node.op_type == "BatchNormalization" for node in nodes) < len(layers)


def judge(entry: Entry, folder: Path, way: str) -> Verdict:
    path = folder / f"{way}.onnx"
    module = entry.module()
    if not path.exists():
        try:
            export(entry, module, path, way)
        except Exception as error:  # noqa: BLE001 - the exporter's, whatever it is
            path.unlink(missing_ok=True)
            return Verdict("no-export", f"{type(error).__name__}: {str(error).strip()[:160]}")
    run = subprocess.run(
        [generated.BINARY, "import", path, "--json", *entry.options, "-o", folder / "layers.json"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if run.returncode == 1:
        return Verdict("refused", run.stderr.strip())
    if run.returncode:
        return Verdict("wrong", f"import ends with {run.returncode}: {run.stderr[-300:]}")
    return compare(entry, module, path, folder, len(json.loads(run.stdout)["layers"]))


def file_differs(path: Path, entry: Entry, module: nn.Module) -> bool:
    """Whether the file is wrong already, by onnxruntime, at the batch that it was exported with."""
    inputs = entry.sample(2 if "symbolic" in path.stem else 1)
    try:
        session = onnxruntime.InferenceSession(path)
        fed = {value.name for value in session.get_inputs()}
        found = session.run(None, {k: x.numpy() for k, x in inputs.items() if k in fed})
    except Exception:  # noqa: BLE001 - what it does not know is no proof
        return False
    expected = results_of(module, inputs)
    return any(differ(torch.from_numpy(a), b) for a, b in zip(found, expected))


def compare(entry: Entry, module: nn.Module, path: Path, folder: Path, layers: int) -> Verdict:
    verdict = Verdict("equal", layers=layers)
    folded = folds(module, path)
    if folded:
        verdict.remarks.append("the exporter folded batch normalisation")
    outs = {count: folder / f"{path.stem}-{count}" for count in STAGES}
    errors = generated.emit([(path, out, count) for count, out in outs.items()])
    if any(errors):
        return Verdict("refused", next(filter(None, errors)), layers)
    for count, out in outs.items():
        for samples in BATCHES:
            module.zero_grad()
            try:
                wrong, parts = compare_results(out, entry, module, samples)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
                wrong = f"{type(error).__name__}: {str(error).strip()[:200]}"
            if wrong and file_differs(path, entry, module):
                return Verdict("no-export", "the file computes something else than the module")
            if wrong:
                return Verdict("wrong", f"{wrong} ({count} stages)", layers)
            if folded or samples != BATCHES[-1]:
                continue
            faults, remarks = compare_training(module, parts, path)
            verdict.faults += [fault for fault in faults if fault not in verdict.faults]
            verdict.remarks += [remark for remark in remarks if remark not in verdict.remarks]
    return verdict
