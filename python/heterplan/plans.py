"""A compiled plan: what plan.json says, typed, and what can be done with its directory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .program import expect_done, option_words, run

if TYPE_CHECKING:
    from torch import Tensor, nn


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
        text = (self.directory / "plan.json").read_text(encoding="utf-8")
        self.json: dict[str, Any] = json.loads(text)

    def __repr__(self) -> str:
        return (
            f"<Plan of {self.json['model']} on {self.json['cluster']}: {len(self.stages)} stages, "
            f"{self.throughput:.4g} samples/s, in {self.directory}>"
        )

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(_stage(each) for each in self.json["stages"])

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        return tuple(
            Check(each["name"], each.get("holds", False), each.get("slack", 0.0), each.get("unit", ""))
            for each in self.json["checks"]
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
        """Predicted, as plans are compared."""
        return float(self.json["iterationSeconds"])

    @property
    def expected_seconds(self) -> float:
        """Predicted for a run, where early stages run ahead while the pipeline fills."""
        return float(self.json.get("expectedSeconds", self.iteration_seconds))

    @property
    def throughput(self) -> float:
        """Predicted samples a second."""
        return float(self.json["throughput"])

    @property
    def cost_per_hour(self) -> float:
        """Dollars, of the devices that it uses."""
        return float(self.json["costPerHour"])

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

    def run(self, steps: int = 3, *, echo: bool = False, **options: object) -> dict[str, Any]:
        """Trains it on this machine, a process a rank: `heterplan run`. `options` as keyword arguments
        (`lr=0.1`, `data="mine:data"`). The result has the fields of `run --json` (docs/runtime.md).

        `echo` shows what the ranks print while they train. Raises CheckFailed where `check=True` finds a
        difference, HeterplanError where a rank fails.
        """
        words = ["run", str(self.directory), "--steps", str(steps), "--json", *option_words(options)]
        result: dict[str, Any] = json.loads(expect_done(run(words, echo=echo)).output)
        return result

    def check(
        self, steps: int = 5, module: nn.Module | None = None, **options: object
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

    def report(self) -> Path:
        """The page that shows the plan, for a browser."""
        return self.directory / "report.html"

    def _model(self, stated: str | os.PathLike[str] | None) -> Path:
        if stated is None and self.model is None:
            raise ValueError("say which model was planned: model=...")
        return Path(stated) if stated is not None else self.model  # type: ignore[return-value]


def _stage(fields: dict[str, Any]) -> Stage:
    replicas = tuple(
        Replica(
            int(each.get("share", 0)),
            tuple(
                Device(device["type"], device["node"], int(device.get("index", 0)))
                for device in each["devices"]
            ),
        )
        for each in fields["replicas"]
    )
    return Stage(
        int(fields.get("id", 0)), tuple(fields["layers"]), replicas,
        float(fields.get("forwardSeconds", 0)), float(fields.get("backwardSeconds", 0)),
        float(fields.get("syncSeconds", 0)), int(fields.get("memoryBytes", 0)),
    )  # fmt: skip
