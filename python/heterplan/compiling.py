"""heterplan.compile: a model and a cluster to a plan."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import CheckFailed, HeterplanError, Infeasible
from .exporting import export, export_by
from .inputs import samples_of
from .older_exporter import export_older
from .plans import Plan
from .program import option_words, run

if TYPE_CHECKING:
    from typing import Unpack

    from torch import nn

    from .inputs import Inputs
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
    is_file = isinstance(model, (str, os.PathLike))
    if output is None:
        keep = tempfile.TemporaryDirectory(prefix="heterplan-")
        output = Path(keep.name) / ("plan" if is_file else type(model).__name__)
    words = ["--cluster", os.fspath(cluster), "-o", os.fspath(output), "--json", *option_words(options)]
    if is_file:
        if inputs is not None:
            raise ValueError("inputs are for torch modules; a file has its own")
        return _plan(Path(model), words, Path(output), keep, None)
    changed = bool({"train", "freeze"} & options.keys())  # the plan is to train something else than the module
    return _plan_module(model, inputs, words, Path(output), keep, changed)


def _plan(path: Path, words: list[str], output: Path, keep: object, module: nn.Module | None) -> Plan:
    answer = run(["compile", str(path), *words])
    if answer.status:
        facts = answer.json()
        if facts.get("feasible", True):  # there is a plan, but the checker refuses it
            raise CheckFailed(answer.errors.strip() or "the checker refuses the plan", answer.status)
        raise Infeasible(facts)
    return Plan(output, path, keep=keep, module=module)


def _plan_module(
    module: nn.Module, inputs: Inputs | None, words: list[str], output: Path, keep: object, changed: bool
) -> Plan:
    """Plans the file of an exporter whose plan computes what the module does."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        raise TypeError(f"a {type(module).__name__} is neither a torch module nor the path of a model")
    if inputs is None:
        raise ValueError("a torch module needs an example of its inputs: inputs=(tensor, ...)")
    from .checking import confirm

    output.parent.mkdir(parents=True, exist_ok=True)
    path = output.with_name(output.name + ".onnx")
    if ("--batch-dim", "none") in itertools.pairwise(words) and not any(each.startswith("batch=") for each in words):
        words = [*words, "--dim", f"batch={samples_of(module, inputs)}"]  # a run is as large as the example
    failure: HeterplanError | None = None
    for exporter in (export, _export_older):  # the second may write what the first gets wrong
        try:
            exporter(module, inputs, path)
            plan = _plan(path, words, output, keep, module)
        except Infeasible:
            raise
        except HeterplanError as error:
            if not (failure or error).code.startswith(("HP11", "HP17", "HP1802")):
                raise failure or error from None
            failure = failure or error
            continue
        difference = "" if changed else confirm(plan, module, inputs)
        if not difference:
            return plan
        failure = failure or HeterplanError(
            f"error: [HP1802] the plan of {type(module).__name__} would train something else than the module: "
            f"{difference}; forward() does what ONNX cannot say, such as detach(), or what the exporter gets wrong: "
            "rewrite it with other operators"
        )
        words = [*words, *(["--force"] if "--force" not in words else [])]
    assert failure is not None
    raise failure


def _export_older(module: nn.Module, inputs: Inputs, path: Path) -> Path:
    return export_by((export_older,), module, inputs, path)


def machine(path: PathLike, *, links: bool = True) -> Path:
    """Writes a cluster file of this machine to `path`; `links`: with its messages measured, which takes
    seconds and writes `<path without .yaml>.links.profile.json` too."""
    measured = {"link": "loopback"} if links else {}
    run(["profile", "--machine", *option_words(measured), "-o", os.fspath(path)])
    return Path(path)
