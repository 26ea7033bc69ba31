"""heterplan.compile: a model and a cluster to a plan."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import CheckFailed, Infeasible
from .exporting import export
from .plans import Plan
from .program import option_words, run

if TYPE_CHECKING:
    from typing import Unpack

    from torch import nn

    from .exporting import Inputs
    from .options import CompileOptions

PathLike = str | os.PathLike[str]


def compile(
    model: nn.Module | PathLike,
    cluster: PathLike,
    *,
    inputs: Inputs | None = None,
    output: PathLike | None = None,
    **options: Unpack[CompileOptions],
) -> Plan:
    """Plans the training of `model` on `cluster`: `heterplan compile`.

    `model`: a torch module, with an example of its `inputs` (see heterplan.export), or the path of a
    `.onnx` or `.layers.json` file. `cluster`: a cluster file, or the name of a bundled one
    (`"local-cpu"`, `"mixed-small"`). `output`: the directory of the plan; a module is written beside it, as
    `<output>.onnx`. Without it both lie in a temporary folder that goes when the plan does.

    All options of the command line are keyword arguments: `batch=512`, `min_throughput=500`,
    `max_devices={"v100": 2}`, `pin={"conv1": "v100"}`, `colocate=[("a", "b")]`, `force=True`.

    Raises Infeasible if no plan meets the constraints, HeterplanError with the diagnostics for wrong
    options and bad input, ValueError for a module without inputs.
    """
    keep = None
    if output is None:
        keep = tempfile.TemporaryDirectory(prefix="heterplan-")
        output = Path(keep.name) / ("plan" if isinstance(model, (str, os.PathLike)) else type(model).__name__)
    path = _model_file(model, inputs, Path(output))
    words = [str(path), "--cluster", os.fspath(cluster), "-o", os.fspath(output), "--json"]
    answer = run(["compile", *words, *option_words(options)])
    if answer.status:
        facts = answer.json()
        if facts.get("feasible", True):  # there is a plan, but the checker refuses it
            raise CheckFailed(answer.errors.strip() or "the checker refuses the plan", answer.status)
        raise Infeasible(facts)
    is_file = isinstance(model, (str, os.PathLike))
    return Plan(output, path, keep=keep, module=None if is_file else model)


def _model_file(model: nn.Module | PathLike, inputs: Inputs | None, output: Path) -> Path:
    if isinstance(model, (str, os.PathLike)):
        if inputs is not None:
            raise ValueError("inputs are for torch modules; a file has its own")
        return Path(model)
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise TypeError(f"a {type(model).__name__} is neither a torch module nor the path of a model")
    if inputs is None:
        raise ValueError("a torch module needs an example of its inputs: inputs=(tensor, ...)")
    output.parent.mkdir(parents=True, exist_ok=True)
    return export(model, inputs, output.with_name(output.name + ".onnx"))


def machine(path: PathLike, *, links: bool = True) -> Path:
    """Writes a cluster file of this machine to `path`; `links`: with its messages measured, which takes
    seconds and writes `<path without .yaml>.links.profile.json` too."""
    measured = {"link": "loopback"} if links else {}
    run(["profile", "--machine", *option_words(measured), "-o", os.fspath(path)])
    return Path(path)
