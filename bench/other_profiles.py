#!/usr/bin/env python3
"""Predictions on an H100 with the shipped profile of another model, beside those of the catalogue.

usage: bench/other_profiles.py FOLDER

FOLDER is where models are kept that bench/fidelity_models.py makes. The prediction with the own
profile of a model stands for the measurement. Prints the median errors by catalogue and by each
profile of another model, and the predictions that such a profile makes worse by the most.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from published import binary

ROOT = Path(__file__).resolve().parent.parent
PRECISIONS = {"fp32": "channels-first", "bf16": "channels-last"}  # as they were measured
Errors = tuple[float, float, str]  # by the catalogue, with the profile, and where
CLUSTER = "name: one\ndevice_types: {gpu: {catalogue: h100-sxm5-80gb}}\nnodes: [{name: node, devices: {gpu: 1}}]\n"


def profiles() -> dict[str, list[str]]:
    """The models that have a profile in each precision."""
    return {
        precision: sorted(path.name.split("-")[0] for path in (ROOT / "profiles/measured").glob(f"*-h100-{precision}.profile.json")
                          if "native" not in path.name)
        for precision in PRECISIONS
    }  # fmt: skip


def profile_of(model: str, precision: str) -> Path:
    return ROOT / f"profiles/measured/{model}-h100-{precision}.profile.json"


def file_of(model: str, folder: Path) -> Path:
    kept = ROOT / f"test/data/models/{model}.onnx"
    path = folder / f"{model}.onnx"
    if not kept.exists() and not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, str(ROOT / "bench/fidelity_models.py"), model, str(path)], check=True,
                       env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    return kept if kept.exists() else path


def seconds(model: Path, batch: int, precision: str, profile: Path | None, scratch: Path) -> float:
    known = ["--profile", str(profile)] if profile else []
    subprocess.run(
        [binary(), "compile", str(model), "--cluster", str(scratch / "cluster.yaml"), "--batch", str(batch),
         "--micro-batches", "1", "--precision", precision, "--memory-format", PRECISIONS[precision], "--recompute",
         "never", "--force", "-o", str(scratch / "plan"), *known],
        check=True, capture_output=True,
    )  # fmt: skip
    return json.loads((scratch / "plan/plan.json").read_text())["iterationSeconds"]


def batches(profile: Path) -> list[int]:
    """The second and the last but one of the measured batches."""
    measured = sorted({entry["batch"] for entry in json.loads(profile.read_text())["entries"]})
    return sorted({measured[1], measured[-2]})


def errors(model: str, precision: str, others: list[str], folder: Path, scratch: Path) -> Iterator[tuple[str, Errors]]:
    """The profiles of other models, with what each does to the predictions of a model."""
    file, own = file_of(model, folder), profile_of(model, precision)
    for batch in batches(own):
        measured, alone, *told = (
            seconds(file, batch, precision, profile, scratch)
            for profile in (own, None, *(profile_of(other, precision) for other in others))
        )
        for other, with_profile in zip(others, told, strict=True):
            yield other, (abs(alone / measured - 1), abs(with_profile / measured - 1), f"{model}, {batch}, {precision}")


def main() -> None:
    folder = Path(sys.argv[1])
    found: dict[str, list[Errors]] = {}
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "cluster.yaml").write_text(CLUSTER)
        for precision, models in profiles().items():
            for model in models:
                others = [other for other in models if other != model]
                for other, each in errors(model, precision, others, folder, Path(name)):
                    found.setdefault(other, []).append(each)
    print("| profile of | predictions of others | by the catalogue | with the profile | worse by most | where |")
    print("| --- | --- | --- | --- | --- | --- |")
    for title, each in [*sorted(found.items()), ("all", sum(found.values(), []))]:
        alone, told = np.array([e[0] for e in each]), np.array([e[1] for e in each])
        worst = int(np.argmax(told - alone))
        print(f"| {title} | {len(each)} | {np.median(alone):.1%} | {np.median(told):.1%} | "
              f"{(told - alone)[worst] * 100:+.1f} points | {each[worst][2]} |")


if __name__ == "__main__":
    main()
