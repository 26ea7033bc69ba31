"""What becomes of one exported model: imported, written in one and in two stages, run and
differentiated at several batches, and compared with the module that it came from."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy
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
TOLERANCE = 2e-3  # of the largest value: exporters reorder sums, and fold in single precision


@dataclass
class Verdict:
    """`state`: no-export (nothing to import), refused (with a remedy), equal, or wrong."""

    state: str
    reason: str = ""
    layers: int = 0
    faults: list[str] = field(default_factory=list)  # of the trained set and of gradients
    remarks: list[str] = field(default_factory=list)


class Elements:
    """Of all trained tensors together, by value: the same wherever an exporter puts them, since no
    two parameters are equal. Exporters transpose weights, and join those of recurrent layers."""

    def __init__(self, parts: list[nn.Module]) -> None:
        named = [item for part in parts for item in part.named_parameters()]
        self.tensors = [(name, p) for name, p in named if p.requires_grad and p.numel()]
        values = [p.detach().double().flatten() for _, p in self.tensors] or [torch.empty(0)]
        grads = [
            (torch.zeros_like(p) if p.grad is None else p.grad).double().flatten()
            for _, p in self.tensors
        ] or [torch.empty(0)]
        self.count = sum(p.numel() for _, p in self.tensors)
        self.values, order = torch.cat(values).unique(return_inverse=True)
        self.gradients = torch.zeros_like(self.values).index_add(0, order, torch.cat(grads))

    def place(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Where its elements are, and which of them are there."""
        flat = tensor.detach().double().flatten()
        if not len(self.values):
            return torch.zeros_like(flat, dtype=torch.int64), torch.zeros_like(flat, dtype=torch.bool)
        at = torch.searchsorted(self.values, flat).clamp(max=len(self.values) - 1)
        return at, self.values[at] == flat

    def at(self, tensor: Tensor) -> Tensor:
        """The gradients of its elements; where two parameters have an element in common, summed."""
        return self.gradients[self.place(tensor)[0]]

    def largest(self) -> float:
        return float(self.gradients.abs().max()) if len(self.gradients) else 0.0

    def has(self, tensor: Tensor, gradient: Tensor) -> bool:
        """Nearly all of its elements that have a gradient: of a table exporters keep the rows that
        are read."""
        there = self.place(tensor)[1][gradient.flatten() != 0]
        return bool(there.double().mean() > 0.9)


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
    inputs = entry.sample(samples)
    parts = generated.stages(generated.load(folder), folder)
    expected = results_of(module, inputs)
    results = [*generated.forward(parts, inputs).values()]
    for index, value in enumerate(results):
        if not any(not differ(value, other) for other in expected):
            return f"output {index} at a batch of {samples}", parts
    if len(results) != len(expected):
        return f"{len(results)} outputs of {len(expected)}", parts
    loss_of(results).backward()
    loss_of(expected).backward()
    return "", parts


def values_of(tensors: Iterable[Tensor]) -> Tensor:
    floating = [t.detach().double().flatten() for t in tensors if t.is_floating_point()]
    return torch.cat([torch.empty(0).double(), *floating]).unique()


def share(tensor: Tensor, values: Tensor) -> float:
    return float(torch.isin(tensor.detach().double(), values).double().mean())


def compare_training(
    module: nn.Module, parts: list[nn.Module], path: Path
) -> tuple[list[str], list[str]]:
    """What is trained that is no parameter, what is one and is not trained, other gradients; and
    what the file cannot tell: parameters that are frozen, tensors that the exporter computed."""
    wanted, found = Elements([module]), Elements(parts)
    frozen = values_of(p for p in module.parameters() if not p.requires_grad)
    buffers = values_of(module.buffers())
    faults, remarks = [], []
    for name, tensor in found.tensors:
        if wanted.has(tensor, torch.ones_like(tensor)) or tensor.grad is None or not tensor.grad.any():
            continue
        if share(tensor, frozen) > 0.9:
            remarks.append(f"trains '{name}', which is frozen: the file does not say so")
        elif share(tensor, buffers) > 0.9:
            faults.append(f"trains '{name}', which is a buffer")
        else:
            remarks.append(f"trains '{name}', which the exporter computed")
    held = values_of(torch.tensor(x) for x in initializers(path))
    for name, tensor in wanted.tensors:
        if tensor.grad is None or not tensor.grad.any():
            continue
        at, there = found.place(tensor)
        if not found.has(tensor, tensor.grad):
            missing = share(tensor[tensor.grad != 0], held) < 0.5
            where = remarks if missing else faults
            where.append(f"does not train '{name}'" + (", which the file does not have" if missing else ""))
        elif differ(found.gradients[at][there], wanted.at(tensor)[there], 1e-4 * wanted.largest()):
            faults.append(f"another gradient of '{name}'")
    return faults, remarks


def initializers(path: Path) -> list[numpy.ndarray]:
    return [onnx.numpy_helper.to_array(x).copy() for x in onnx.load(path).graph.initializer]


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
            faults, remarks = ([], []) if folded else compare_training(module, parts, path)
            verdict.faults += [fault for fault in faults if fault not in verdict.faults]
            verdict.remarks += [remark for remark in remarks if remark not in verdict.remarks]
    return verdict
