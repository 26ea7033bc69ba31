"""Trains a module, and what heterplan made of it, for five steps of Adam in double precision, and
compares the trained parameters: their number, their names and their values."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from entry import Call, Entry
from torch import Tensor, nn
from torch.utils import _pytree

SOURCE = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HETERPLAN_BINARY", SOURCE / "build/bin/heterplan")).resolve()
os.environ["HETERPLAN_BINARY"] = str(BINARY)
os.environ.setdefault("HETERPLAN_PYTHON", sys.executable)
sys.path.insert(0, str(SOURCE / "python"))

import heterplan  # noqa: E402
from heterplan.modules import WholeModel, _part  # noqa: E402

# By the module's own path, and by the four bare exports: (dynamo, optimised or constants folded).
TRAINED_WAYS = {
    "module": None,
    "dynamo": (True, True),
    "dynamo-plain": (True, False),
    "ts": (False, True),
    "ts-plain": (False, False),
}
STEPS, RATE, BATCH = 5, 1e-3, 4
TOLERANCE = 1e-4  # of the largest movement of a tensor
CLUSTER = """
name: one
device_types:
  core: {kind: cpu, memory: 64GiB, price_per_hour: 1, fp32: 1GFLOP/s, bandwidth: 1GB/s}
nodes:
  - {name: localhost, devices: {core: 1}, link: {bandwidth: 1GB/s, latency: 1us}}
"""
PLAN = {"batch": BATCH, "optimizer": "adam", "schedule": "data-parallel", "micro_batches": 1}


@dataclass
class Comparison:
    """`state`: no-export (nothing to plan), refused, or compared. `count` trained elements of
    `wanted`. `differences` name what is not the module's, `notes` are those of the planner."""

    state: str
    reason: str = ""
    count: int = 0
    wanted: int = 0
    unnamed: int = 0  # trained tensors without a name of the module
    differences: list[str] = field(default_factory=list)
    only_names: bool = False  # the differences are of names alone
    unexplained: list[str] = field(default_factory=list)  # kinds of differences that no note names
    notes: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)  # those that name the differences


@dataclass
class Run:
    """Losses, and by name the values of each trained tensor before and after."""

    losses: list[float]
    before: dict[str, Tensor]
    after: dict[str, Tensor]
    used: set[str]  # tensors that a gradient reaches


def without_dropout(module: nn.Module) -> nn.Module:
    """Masks of dropout are random: no two runs have the same."""
    for each in [m for part in module.modules() for m in (part, getattr(part, "config", None))]:
        for name, value in list(getattr(each, "__dict__", {}).items()):
            if isinstance(value, float) and re.search(r"drop|^p$", name):
                with contextlib.suppress(Exception):
                    setattr(each, name, 0.0)
    return module


def fresh(entry: Entry, wrapped: bool) -> nn.Module:
    """With the values of its constructor, equal ones too. `wrapped`: takes tensors and returns some."""
    torch.manual_seed(0)
    module = without_dropout(entry.build())
    return Call(module, tuple(entry.inputs), entry.outputs) if wrapped else module


def batches(entry: Entry) -> list[dict[str, Tensor]]:
    made = [entry.sample(BATCH, seed=100 + step) for step in range(STEPS)]
    return [{k: v.double() if v.is_floating_point() else v for k, v in each.items()} for each in made]


def loss_of(results: Any) -> Tensor:
    """Each element weighs otherwise, so that normalised results have gradients, too."""
    leaves = [x for x in _pytree.tree_leaves(results) if isinstance(x, Tensor)]
    floating = [x.flatten() for x in leaves if x.is_floating_point() and x.requires_grad]
    weights = [torch.linspace(1, 3, len(x), dtype=x.dtype) for x in floating]
    return torch.stack([(x.square() * w).mean() for x, w in zip(floating, weights)]).sum()


def train(module: nn.Module, forward: Any, data: list[dict[str, Tensor]]) -> Run:
    """`forward` calls `module`, which is in double precision already."""
    module.train()
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    before = {name: p.detach().clone() for name, p in named.items()}
    optimizer = torch.optim.Adam(named.values(), lr=RATE)
    losses, used = [], set()
    for inputs in data:
        optimizer.zero_grad()
        loss = loss_of(forward(inputs))
        loss.backward()
        used |= {name for name, p in named.items() if p.grad is not None}
        optimizer.step()
        losses.append(float(loss.detach()))
    return Run(losses, before, {name: p.detach().clone() for name, p in named.items()}, used)


def train_module(module: nn.Module, entry: Entry, named: bool) -> Run:
    double = _part("module_reference").in_double_precision
    copy = module.double()

    def forward(inputs: dict[str, Tensor]) -> Any:
        with double():
            return copy(**inputs) if named else copy(*inputs.values())

    return train(copy, forward, batches(entry))


def train_plan(directory: Path, entry: Entry) -> Run:
    model = _part("model")
    description = model.load_model(directory, double=True)
    stages = [
        model.build_stage(description, i, directory, 0, torch.device("cpu"), whole_tables=True)
        for i in range(len(description.stages))
    ]
    whole = WholeModel(description, stages)

    def forward(inputs: dict[str, Tensor]) -> Any:
        if not set(whole.inputs) <= inputs.keys():  # names of the arguments of forward()
            inputs = dict(zip(whole.inputs, inputs.values(), strict=True))
        return whole(**{name: inputs[name] for name in whole.inputs})

    run = train(whole, forward, batches(entry))

    def plain(table: dict[str, Tensor]) -> dict[str, Tensor]:
        return {re.sub(r"^stages\.\d+\.", "", name): value for name, value in table.items()}

    used = {re.sub(r"^stages\.\d+\.", "", name) for name in run.used}
    return Run(run.losses, plain(run.before), plain(run.after), used)


def export_bare(module: nn.Module, entry: Entry, path: Path, way: str) -> None:
    dynamo, optimised = TRAINED_WAYS[way]  # type: ignore[misc]
    example = tuple(entry.sample(2).values())
    axis = entry.batch_axis
    options: dict[str, Any] = {}
    module.eval()
    if dynamo:
        batch = torch.export.Dim("batch")
        shapes = tuple({axis: batch} if each.dim() else {} for each in example)
        options = {"dynamic_shapes": (shapes,), "optimize": optimised, "verbose": False}
    else:
        with torch.no_grad():
            results = _pytree.tree_leaves(module(*example))
        names = [f"output_{i}" for i in range(len(results))]
        options = {
            "output_names": names,
            "dynamic_axes": {name: {axis: "batch"} for name in [*entry.inputs, *names]},
            "do_constant_folding": optimised,
        }
        if not optimised:
            options["training"] = torch.onnx.TrainingMode.TRAINING
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, example, path, input_names=list(entry.inputs), dynamo=dynamo, **options)


def plan_module(entry: Entry, cluster: Path, out: Path) -> str:
    """Plans the module of `entry` into `out`. Returns the refusal; "" if there is none."""
    inputs = entry.sample(2)
    given: Any = inputs if entry.outputs else tuple(inputs.values())
    module = fresh(entry, wrapped=False)
    try:
        heterplan.compile(module, cluster, inputs=given, output=out, force=True, **PLAN)
    except heterplan.HeterplanError as error:
        return str(error)
    return ""


def plan_file(path: Path, cluster: Path, out: Path) -> tuple[str, list[str]]:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in PLAN.items()]
    run = subprocess.run(
        [BINARY, "compile", path, "--cluster", cluster, "-o", out, "--force", *words],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    notes = [line.strip() for line in run.stderr.splitlines() if "note:" in line]
    return (run.stderr.strip() or f"status {run.returncode}") if run.returncode else "", notes


def judge_training(entry: Entry, folder: Path, way: str) -> Comparison:
    from judge import file_differs

    cluster = folder / "one.yaml"
    cluster.write_text(CLUSTER)
    out = folder / f"plan-{way}"
    bare = way != "module"
    if bare:
        path = folder / f"train-{way}.onnx"
        if not path.exists():
            try:
                export_bare(fresh(entry, wrapped=True), entry, path, way)
            except Exception as error:  # noqa: BLE001 - the exporter's, whatever it is
                path.unlink(missing_ok=True)
                return Comparison("no-export", f"{type(error).__name__}: {str(error).strip()[:160]}")
        refused, notes = plan_file(path, cluster, out)
    else:
        refused, notes = plan_module(entry, cluster, out), []
    if refused:
        return Comparison("refused", refused, notes=notes)
    module = fresh(entry, wrapped=bare)
    wanted = train_module(module, entry, named=bool(entry.outputs) and not bare)
    found = train_plan(out, entry)
    result = compare(module, wanted, found, notes, entry.is_partly_frozen)
    if bare and result.unexplained and file_differs(path, entry, fresh(entry, wrapped=True).eval()):
        return Comparison("no-export", "the file computes something else than the module")
    return result


def aliases_of(module: nn.Module) -> dict[str, str]:
    """The first name of each parameter, by all of its names."""
    first: dict[int, str] = {}
    names = {}
    for name, each in module.named_parameters(remove_duplicate=False):
        names[name] = first.setdefault(id(each), name)
    return names


# Texts of notes, by the kinds of differences that they name.
NOTES = {
    "frozen": r"does not say what has no gradient in the module",
    "names": r"names that the exporter made up|are trained as one with what they are copied|merges with others",
    "missing": r"computed at export|the file does not have \d+ parameters|names that the exporter made up|"
    r"one module reads it several times|lists \d+ parameters that it does not have|merges with others|"
    r"does not say whether .* hardtanh\(\)",
}


def compare(
    module: nn.Module, wanted: Run, found: Run, notes: list[str], is_partly_frozen: bool
) -> Comparison:
    aliases = aliases_of(module)
    expected = {name for name in wanted.before if name in wanted.used}
    result = Comparison("compared", notes=notes)
    result.wanted = sum(wanted.before[name].numel() for name in expected)
    result.count = sum(found.before[name].numel() for name in found.before if name in found.used)
    kinds: set[str] = set()
    worst = max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(found.losses, wanted.losses))
    if result.count != result.wanted:
        result.differences.append(f"trains {result.count} parameters of {result.wanted}")
    if not worst <= 1e-6:
        result.differences.append(f"losses differ by {worst:.1e}")
    known: set[str] = set()
    others: list[str] = []
    for name in sorted(found.used):
        own = aliases.get(name, name)
        if own in expected and found.before[name].shape == wanted.before[own].shape and own not in known:
            known.add(own)
            gap = difference(found.after[name], wanted.after[own], wanted.before[own])
            if not gap <= TOLERANCE:
                result.differences.append(f"'{name}' has moved otherwise, by {gap:.1e}")
        else:
            others.append(name)
    held = {*aliases, *(name for name, _ in module.named_buffers())}
    extra = [name for name in others if name in held]  # frozen, or a buffer
    unnamed = [name for name in others if name not in held]
    missing = sorted(expected - known)
    result.unnamed = len(unnamed)
    if extra:
        result.differences.append(f"trains '{extra[0]}', which the module does not")
        kinds.add("frozen")
    if unnamed or missing:
        gap = gap_of_sorted([found.after[name] for name in unnamed], [wanted.after[name] for name in missing])
        same = gap <= TOLERANCE * RATE * STEPS
        if not same:
            result.differences.append(f"{len(unnamed)} trained tensors are not those of the module ({(unnamed or ['none'])[0]})")
        result.only_names = same and not result.differences
        result.differences.append(f"{len(missing)} tensors of the module have other names ({(missing or ['none'])[0]})")
        kinds.add("names" if result.only_names else "missing")
    elif result.differences and not kinds:
        kinds.add("frozen" if is_partly_frozen else "missing")
    for kind in sorted(kinds):
        named = [note for note in notes if re.search(NOTES[kind], note)]
        result.named += [note for note in named if note not in result.named]
        if not named:
            result.unexplained.append(kind)
    return result


def difference(found: Tensor, wanted: Tensor, before: Tensor) -> float:
    """Relative to the movement of the tensor."""
    moved = float((wanted - before).norm())
    return float((found - wanted).norm()) / max(moved, 1e-3 * RATE)


def gap_of_sorted(found: list[Tensor], wanted: list[Tensor]) -> float:
    """Exporters transpose and join tensors: only the values are compared, in their order of size."""
    a, b = (torch.cat([torch.empty(0).double(), *(t.flatten() for t in each)]).sort().values for each in (found, wanted))
    if len(a) != len(b):
        return float("inf")
    return float((a - b).abs().max()) if len(a) else 0.0
