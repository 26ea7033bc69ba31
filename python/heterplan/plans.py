"""A compiled plan: the fields of plan.json, typed, and the commands for its directory."""

from __future__ import annotations

import html
import json
import os
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import HeterplanError
from .program import expect_done, option_words, run

if TYPE_CHECKING:
    from typing import Unpack

    from torch import Tensor, nn

    from .options import RunOptions


@dataclass(frozen=True)
class Device:
    """A device of the cluster: the `index`-th of its `type` on `node`."""

    type: str
    node: str
    index: int


@dataclass(frozen=True)
class Replica:
    """`share` samples of the global batch go to these devices."""

    share: int
    devices: tuple[Device, ...]


@dataclass(frozen=True)
class Stage:
    """Layers that run on the same devices. Times in seconds, of a micro-batch (synchronisation: of an
    iteration); memory in bytes, of the device that needs most."""

    id: int
    layers: tuple[str, ...]
    replicas: tuple[Replica, ...]
    forward_seconds: float
    backward_seconds: float
    sync_seconds: float
    memory_bytes: int


@dataclass(frozen=True)
class Check:
    """A constraint, as the independent checker found it; `slack` in `unit`, may be negative."""

    name: str
    holds: bool
    slack: float
    unit: str


_COLUMNS = ("stage", "layers", "devices", "samples", "forward", "backward", "memory")


class Plan:
    """The directory that `compile` wrote. `json` is plan.json, whose fields docs/formats.md lists."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        model: str | os.PathLike[str] | None = None,
        *,
        keep: object = None,
        module: nn.Module | None = None,
    ) -> None:
        """`model`: the file that was planned, exported from `module`. `keep` lives as long as the plan (a
        temporary folder)."""
        self.directory = Path(directory)
        self.model = None if model is None else Path(model)
        self._keep, self._module = keep, module
        self.json: dict[str, Any] = _read_plan(self.directory / "plan.json")

    def __repr__(self) -> str:
        """The plan as a table, as a notebook shows it."""
        rows = [_COLUMNS, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([*self._headline(), *table, f"directory: {self.directory}"])

    def _repr_html_(self) -> str:
        """The table of __repr__ for Jupyter."""
        lines = "<br>".join(html.escape(line) for line in self._headline())
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows()
        )
        return f"<div>{lines}<table><tr>{head}</tr>{rows}</table>directory: {html.escape(str(self.directory))}</div>"

    def _headline(self) -> list[str]:
        proof = "proven optimal" if self.json.get("optimal") else f"within {self.json.get('gap', 0):.2%} of the bound"
        return [
            f"plan of {self.json.get('model', '')} on {self.json.get('cluster', '')}: {self.throughput:.5g} samples/s, "
            f"${self.cost_per_hour:.4g} per hour, {proof}",
            f"iteration of {self.global_batch} samples in {self.micro_batches} micro-batches: "
            f"{_duration(self.expected_seconds)}",
        ]

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(stage.id), _layers(stage.layers), _devices(stage.replicas),
                "+".join(str(each.share) for each in stage.replicas) if len(stage.replicas) < 5
                else f"{sum(each.share for each in stage.replicas)} on {len(stage.replicas)} replicas",
                _duration(stage.forward_seconds), _duration(stage.backward_seconds), _size(stage.memory_bytes),
            )
            for stage in self.stages
        ]  # fmt: skip

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(_stage(each) for each in self.json["stages"])

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        return tuple(
            Check(each.get("name", ""), each.get("holds", False), each.get("slack", 0.0), each.get("unit", ""))
            for each in self.json.get("checks", [])
        )

    @property
    def global_batch(self) -> int:
        """Samples of an iteration."""
        return int(self.json["globalBatch"])

    @property
    def micro_batches(self) -> int:
        return int(self.json["microBatches"])

    @property
    def iteration_seconds(self) -> float:
        """Predicted time of an iteration, by which plans are compared."""
        return float(self.json["iterationSeconds"])

    @property
    def expected_seconds(self) -> float:
        """Predicted for a run, where early stages run ahead while the pipeline fills."""
        return float(self.json.get("expectedSeconds", self.iteration_seconds))

    @property
    def throughput(self) -> float:
        """Predicted samples a second."""
        return float(self.json.get("throughput", 0))

    @property
    def cost_per_hour(self) -> float:
        """Dollars, of the devices that it uses."""
        return float(self.json.get("costPerHour", 0))

    def module(self, stage: int | None = None, *, seed: int = 0, device: Any = "cpu") -> nn.Module:
        """A stage as a module for a loop of your own; without `stage` all of them, one after another.

        See heterplan.modules for what they take and return. Raises HeterplanError where the plan has no
        code (it was made from a layers file) and IndexError where it has no such stage.
        """
        from .modules import stage_module, whole_model

        if stage is None:
            return whole_model(self.directory, seed, device)
        if not 0 <= stage < len(self.stages):
            raise IndexError(f"stage {stage} of a plan with {len(self.stages)} stages")
        return stage_module(self.directory, stage, seed, device)

    def run(
        self, steps: int = 3, *, echo: bool = False, **options: Unpack[RunOptions]
    ) -> dict[str, Any]:
        """Trains the plan on this machine, with one process a rank: `heterplan run`. `options` are
        keyword arguments (`lr=0.1`, `data="mine:data"`). The result has the fields of `run --json`
        (docs/runtime.md).

        `echo` shows the output of the ranks while they train. Raises CheckFailed if `check=True` finds a
        difference, HeterplanError if a rank fails.
        """
        words = ["run", str(self.directory), "--steps", str(steps), "--json", *option_words(options)]
        return expect_done(run(words, echo=echo)).json()

    def check(
        self, steps: int = 5, module: nn.Module | None = None, **options: Unpack[RunOptions]
    ) -> dict[str, Any]:
        """Trains the module itself in PyTorch beside the plan, both in double precision and with the same
        data, and compares the losses and every parameter. The ranks are compared with one process, too.

        `module`: of a plan that was made from a file; it has the values and the names of that file.
        `options` as for run(). Returns what run() does. Raises CheckFailed where they differ, HeterplanError
        where the module and the plan do not train the same parameters, ValueError without a module.
        """
        from .checking import check_module

        checked = self._module if module is None else module
        if checked is None:
            raise ValueError("the plan was made from a file; give the module that the file was exported from")
        return check_module(self, checked, steps, options)

    def weights(self) -> dict[str, Tensor]:
        """The trained weights by their names in the module if the file states them, else by those
        of the ONNX file: `module.load_state_dict(plan.weights(), strict=False)`."""
        from .modules import read_tensors

        return read_tensors(self.directory / "trained/model.safetensors")

    def export(
        self, path: str | os.PathLike[str], model: str | os.PathLike[str] | None = None
    ) -> Path:
        """Writes the trained weights into the ONNX model: `heterplan export`."""
        words = ["--model", str(self._model(model)), "-o", os.fspath(path)]
        expect_done(run(["export", str(self.directory), *words]))
        return Path(path)

    def verify(
        self,
        cluster: str | os.PathLike[str],
        model: str | os.PathLike[str] | None = None,
        **options: object,
    ) -> None:
        """Has the independent checker decide every constraint again: `heterplan verify`. Raises
        CheckFailed where one fails. `options`: `profile=[...]`, those that the plan was made with."""
        inputs: Mapping[str, object] = {"model": self._model(model), "cluster": cluster, **options}
        expect_done(run(["verify", str(self.directory), *option_words(inputs)]))

    def report(self, *, show: bool = False) -> Path:
        """Returns the HTML report of the plan; `show` opens it in a browser."""
        page = self.directory / "report.html"
        if show:
            webbrowser.open(page.resolve().as_uri())
        return page

    def _model(self, stated: str | os.PathLike[str] | None) -> Path:
        if stated is None and self.model is None:
            raise ValueError("the plan does not know its model file; give it: model=...")
        return Path(stated) if stated is not None else self.model  # type: ignore[return-value]


def _read_plan(path: Path) -> dict[str, Any]:
    """Reads plan.json. Raises HeterplanError if it is absent or no plan."""
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HeterplanError(f"{path}: {error.strerror}; heterplan.compile() or `heterplan compile -o` writes it") from error
    except ValueError as error:
        raise HeterplanError(f"{path}: is not JSON: {error}") from error
    needed = ("stages", "globalBatch", "microBatches", "iterationSeconds")
    missing = [name for name in needed if not isinstance(plan, dict) or name not in plan]
    if missing:
        raise HeterplanError(f"{path}: lacks '{missing[0]}', so it is no plan of heterplan")
    return plan


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns" if seconds else "0 s"


def _size(count: float) -> str:
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << power:
            return f"{count / (1 << power):.4g} {unit}"
    return f"{count:.0f} B"


def _layers(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]} ({len(names)})"


def _devices(replicas: tuple[Replica, ...]) -> str:
    """The device types with their counts: "4 v100 + 2 a100"."""
    counts: dict[str, int] = {}
    for replica in replicas:
        for device in replica.devices:
            counts[device.type] = counts.get(device.type, 0) + 1
    return " + ".join(f"{count} {name}" for name, count in counts.items())


def _stage(fields: dict[str, Any]) -> Stage:
    replicas = tuple(
        Replica(
            int(each.get("share", 0)),
            tuple(
                Device(device.get("type", ""), device.get("node", ""), int(device.get("index", 0)))
                for device in each.get("devices", [])
            ),
        )
        for each in fields.get("replicas", [])
    )
    return Stage(
        int(fields.get("id", 0)), tuple(fields.get("layers", [])), replicas,
        float(fields.get("forwardSeconds", 0)), float(fields.get("backwardSeconds", 0)),
        float(fields.get("syncSeconds", 0)), int(fields.get("memoryBytes", 0)),
    )  # fmt: skip
