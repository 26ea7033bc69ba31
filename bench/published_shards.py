#!/usr/bin/env python3
"""Blocks of GPTs that 1, 2, 4 and 8 GPUs share: predictions against published measurements.

usage: bench/published_shards.py DATA FOLDER

DATA is a folder with the tables `gpt_*_mbs*_tp*.csv` of Aceso (microsoft/SuperScaler, MIT):
microseconds of both passes and MiB of activations of the operators of a GPT on V100-32GB in fp16.
FOLDER is where the models are kept. A block's prediction is what a plan of three blocks has more
than one of two. Its activations are what twice as many samples add to that. Prints both passes and
the activations at degree t as shares of those at degree 1.

The tables count what every operator writes. The scores before softmax are left out, since the
gradient needs no more than the result.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import published_models
from published import binary
from torch import Tensor

DEGREES = (1, 2, 4, 8)
LENGTH = 2048
SHAPES = {"350M": (1024, 16), "1_3B": (2048, 32), "2_6B": (2560, 32), "6_7B": (4096, 32), "13B": (5120, 40)}


class DroppedBlock(published_models.FusedBlock):
    """A block whose branches have dropout, too."""

    def added(self, branch: Tensor) -> Tensor:
        return self.drop(branch)


@dataclass
class Figures:
    """Seconds of both passes on a device, and bytes of activations or of all its memory."""

    forward: float
    backward: float
    bytes: float

    def __sub__(self, other: Figures) -> Figures:
        return Figures(*(a - b for a, b in zip(self.all(), other.all(), strict=True)))

    def all(self) -> tuple[float, float, float]:
        return self.forward, self.backward, self.bytes


def measured(path: Path) -> Figures:
    rows = [row for row in csv.DictReader(path.read_text().splitlines()) if row["op_name"].startswith("enc-")]

    def total(column: str, leave_out: str = "") -> float:
        return sum(float(row[column]) for row in rows if row["op_name"] != leave_out)

    kept = total("activations", "enc-attention-score")
    return Figures(total("forward-compute") * 1e-6, total("backward-compute") * 1e-6, kept * 2**20)


def predicted(model: Path, degree: int, samples: int, folder: Path) -> Figures:
    cluster, out = folder / "cluster.yaml", folder / "out"
    cluster.write_text("name: one\ndevice_types: {gpu: {catalogue: v100-sxm2-32gb, memory: 1000GB}}\n"
                       f"nodes: [{{name: node, devices: {{gpu: {degree}}}, link: nvlink2}}]\n")
    subprocess.run(
        [binary(), "compile", str(model), "--cluster", str(cluster), "--batch", str(samples), "--micro-batches", "1",
         "--tensor-parallel", str(degree), "--sequence-parallel", "never", "--precision", "fp16", "--recompute", "never",
         "--shard-state", "none", "--objective", "throughput", "-o", str(out), "--force"], check=True, capture_output=True,
    )  # fmt: skip
    plan = json.loads((out / "plan.json").read_text())
    (stage,) = plan["stages"]
    return Figures(stage["forwardSeconds"], stage["backwardSeconds"], stage["memoryBytes"])


def model_of(name: str, blocks: int, folder: Path) -> Path:
    key, (width, heads) = f"gpt_dropped_{name}_{blocks}", SHAPES[name]
    published_models.LANGUAGE[key] = lambda: (
        published_models.FusedGpt(width, LENGTH, [DroppedBlock(width, heads) for _ in range(blocks)]),
        published_models.tokens(51200, LENGTH),
    )  # fmt: skip
    return published_models.write(key, folder)


def block(name: str, degree: int, samples: int, folder: Path) -> Figures:
    three, two = (model_of(name, blocks, folder) for blocks in (3, 2))
    with tempfile.TemporaryDirectory() as scratch:
        once, twice = (
            predicted(three, degree, count, Path(scratch)) - predicted(two, degree, count, Path(scratch))
            for count in (samples, 2 * samples)
        )
    return Figures(once.forward, once.backward, twice.bytes - once.bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    print("| block of GPT | samples | degree | forward: measured | predicted | backward: measured | predicted "
          "| activations: measured | predicted |\n" + "| --- " * 9 + "|")
    errors = []
    for name in SHAPES:
        for samples in (1, 4):
            one = None
            for degree in DEGREES:
                path = options.data / f"gpt_{name}_mbs{samples}_tp{degree}_algo0.csv"
                pair = measured(path), block(name, degree, samples, options.folder)
                one = one or pair
                if degree == 1:
                    continue
                shares = [[a / b for a, b in zip(x.all(), y.all(), strict=True)] for x, y in zip(pair, one, strict=True)]
                cells = [f"{share:.3f}" for both in zip(*shares, strict=True) for share in both]
                errors.append([abs(p / m - 1) for m, p in zip(*shares, strict=True)])
                print(f"| {name.replace('_', '.')} | {samples} | {degree} | {' | '.join(cells)} |", flush=True)
    print("\nmedian errors of the shares: " + ", ".join(
        f"{what} {error:.1%}" for what, error in zip(("forward", "backward", "activations"), np.median(errors, axis=0))))


if __name__ == "__main__":
    main()
