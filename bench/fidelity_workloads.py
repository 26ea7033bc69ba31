"""The frozen list of models, plans and runs that predictions are judged by: reads and checks it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")


class BadWorkloads(Exception):
    """Says what of the file is wrong."""


@dataclass(frozen=True)
class Form:
    """A plan: `stages` types of `cores` cores each make a pipeline, cores of one type split the samples."""

    name: str
    stages: int = 1
    cores: int = 1
    micro_batches: int = 1
    extra: int = 0  # samples more than the model's batch: shares become uneven
    cut: float = 0  # of two stages: the part of the layers in the first; 0: as the search likes

    @property
    def ranks(self) -> int:
        return self.stages * self.cores


@dataclass(frozen=True)
class Subject:
    """A model and what it is trained with."""

    name: str
    batch: int  # samples of an iteration
    profile_batches: tuple[int, ...]
    loss: str
    file: str = ""  # below test/data
    builder: str = ""  # of fidelity_models.py
    held_out: bool = False


@dataclass(frozen=True)
class Bootstrap:
    resamples: int
    seed: int
    confidence: float


@dataclass(frozen=True)
class Workloads:
    version: int
    runs: int
    run_seconds: float
    profile_rounds: int
    bootstrap: Bootstrap
    models: tuple[Subject, ...]
    plans: tuple[Form, ...]

    def model(self, name: str) -> Subject:
        for subject in self.models:
            if subject.name == name:
                return subject
        known = ", ".join(subject.name for subject in self.models)
        raise BadWorkloads(f"the list has no model '{name}'; it has {known}")


def local_batches(batch: int, forms: tuple[Form, ...]) -> list[int]:
    """The samples of one pass on one core, in all of the plans."""
    sizes = set()
    for form in forms:
        per_pass = (batch + form.extra) // form.micro_batches
        sizes |= {per_pass // form.cores, -(-per_pass // form.cores)}
    return sorted(size for size in sizes if size)


def read_workloads(path: Path) -> Workloads:
    """BadWorkloads where a model is measured at a batch that a plan has, or not on both sides of it."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise BadWorkloads(f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise BadWorkloads(f"{path}: not a mapping")
    parts = {
        **found,
        "bootstrap": _record(Bootstrap, found.get("bootstrap"), f"{path}: bootstrap"),
        "models": _records(Subject, found.get("models"), f"{path}: models"),
        "plans": _records(Form, found.get("plans"), f"{path}: plans"),
    }
    workloads = _record(Workloads, parts, str(path))
    for subject in workloads.models:
        _check(subject, workloads.plans)
    return workloads


def _records(kind: type[T], found: Any, where: str) -> tuple[T, ...]:
    if not isinstance(found, list) or not found:
        raise BadWorkloads(f"{where}: not a list")
    records = tuple(_record(kind, each, f"{where}[{index}]") for index, each in enumerate(found))
    names = [getattr(record, "name") for record in records]
    for name in names:
        if names.count(name) > 1:
            raise BadWorkloads(f"{where}: '{name}' is there twice")
    return records


def _record(kind: type[T], found: Any, where: str) -> T:
    if not isinstance(found, dict):
        raise BadWorkloads(f"{where}: not a mapping")
    accepted = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(set(found) - accepted):
        raise BadWorkloads(f"{where}: '{unknown[0]}' is not known; accepted are {', '.join(sorted(accepted))}")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise BadWorkloads(f"{where}: {error}") from error


def _check(subject: Subject, forms: tuple[Form, ...]) -> None:
    if bool(subject.file) == bool(subject.builder):
        raise BadWorkloads(f"model '{subject.name}' needs either a file or a builder")
    planned = local_batches(subject.batch, forms)
    if both := sorted(set(planned) & set(subject.profile_batches)):
        raise BadWorkloads(f"model '{subject.name}' is measured at {both[0]} samples, as a plan has on a core")
    if not min(subject.profile_batches) < planned[0] <= planned[-1] < max(subject.profile_batches):
        raise BadWorkloads(
            f"plans of '{subject.name}' have {planned[0]} to {planned[-1]} samples on a core; measure it at fewer "
            "and at more"
        )
