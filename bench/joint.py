#!/usr/bin/env python3
"""How far from the optimum are plans of GPTs whose stages choose a degree of tensor parallelism each, on large clusters?

    bench/joint.py DATA [--only TEXT] [--json FILE] [--options "WORDS"]

DATA is a folder with the tables `gpt_*_mbs*_tp*.csv` of Aceso (microsoft/SuperScaler, MIT): microseconds, and megabytes
in 16 bits, of the operators of a GPT on V100s at degrees 1, 2 and 4. A block is a layer. The other device types take a
stated multiple of the time of a V100. Columns as in gaps.py. A list that changes gets a new name.
"""

from __future__ import annotations

import csv
import json
import shlex
import tempfile
from pathlib import Path
from typing import Any

from gaps import Workload, compiled, finish, line, parser_of, print_head, summary

MODELS = {"350M": (24, 1024), "1_3B": (24, 2048), "2_6B": (32, 2560), "6_7B": (32, 4096)}
CLUSTERS = {
    "128": {"a100": 64, "v100": 64},
    "320": {"a100": 128, "v100": 192},
    "320-of-three": {"a100": 64, "v100": 128, "t4": 128},
    "512": {"a100": 256, "v100": 256},
}
SLOWER = {"v100": 1.0, "a100": 0.38, "t4": 3.2}  # time, as a multiple of that of a V100
MEMORY = {"v100": 16, "a100": 40, "t4": 16}
LENGTH, BATCH, DEGREES, SAMPLES = 2048, 2048, (1, 2, 4), (1, 4)
UPDATED = 14 / 2 / 800e9  # seconds of Adam for a byte of fp32 parameters: 28 bytes each, at 800 GB/s

Table = dict[str, dict[str, float]]


def read(data: Path, model: str, samples: int, degree: int) -> Table:
    text = (data / f"gpt_{model}_mbs{samples}_tp{degree}_algo0.csv").read_text()
    columns = ("forward-compute", "backward-compute", "weights", "activations")
    return {
        row["op_name"]: {key: float(row[key]) for key in columns} for row in csv.DictReader(text.splitlines())
    }


class Chain:
    """Embedding, blocks and head."""

    def __init__(self, data: Path, model: str):
        self.model = model
        self.blocks, self.width = MODELS[model]
        self.tables = {(samples, degree): read(data, model, samples, degree) for samples in SAMPLES for degree in DEGREES}
        operators = list(self.tables[1, 1])
        first = [name for name in operators if "embedding" in name]
        block = [name for name in operators if name.startswith("enc") and name not in first]
        last = [name for name in operators if name not in first + block]
        self.layers = {"first": first, **{f"block{i}": block for i in range(self.blocks)}, "last": last}

    def total(self, layer: str, column: str, degree: int, samples: int = 1) -> float:
        return sum(self.tables[samples, degree][name][column] for name in self.layers[layer])

    def figures(self, layer: str, degree: int) -> dict[str, float]:
        return {
            "parameterBytes": 2 * 1e6 * self.total(layer, "weights", degree),
            "activationBytes": 1e6 * self.total(layer, "activations", degree),
        }

    def layer(self, name: str) -> dict[str, Any]:
        size = 2 * LENGTH * self.width
        sums = [
            {"collective": "all-reduce", "backward": backward, "count": 2, "bytesPerSample": 2 * size}
            for backward in (False, True)
            if name.startswith("block")
        ]
        shards = [{"degree": degree, **self.figures(name, degree), "collectives": sums} for degree in DEGREES[1:]]
        return {"name": name, **self.figures(name, 1), "shards": shards}

    def entry(self, layer: str, kind: str, degree: int, samples: int) -> dict[str, Any]:
        seconds = 1e-6 * SLOWER[kind]
        return {
            "layer": layer,
            "shardDegree": degree,
            "deviceType": kind,
            "batch": samples,
            "forwardSeconds": seconds * self.total(layer, "forward-compute", degree, samples),
            "backwardSeconds": seconds * self.total(layer, "backward-compute", degree, samples),
            "updateSeconds": UPDATED * SLOWER[kind] * self.figures(layer, degree)["parameterBytes"],
        }

    def write(self, folder: Path) -> tuple[Path, Path]:
        names = list(self.layers)
        tensors = [
            {"name": f"after-{a}", "producer": a, "consumers": [b], "bytesPerSample": 2 * LENGTH * self.width}
            for a, b in zip(names, names[1:])
        ]
        entries = [
            self.entry(layer, kind, degree, samples)
            for layer in names
            for kind in SLOWER
            for degree in DEGREES
            for samples in SAMPLES
        ]
        model, profile = folder / f"{self.model}.layers.json", folder / f"{self.model}.profile.json"
        layers = [self.layer(name) for name in names]
        model.write_text(json.dumps({"model": self.model, "layers": layers, "tensors": tensors}))
        profile.write_text(json.dumps({"model": self.model, "date": "2026-11-28", "entries": entries}))
        return model, profile


def cluster(folder: Path, name: str) -> Path:
    types = {kind: {"kind": "gpu", "memory": f"{MEMORY[kind]}GB"} for kind in CLUSTERS[name]}
    nodes = [
        {
            "name": kind,
            "count": count // 4,
            "devices": {kind: 4},
            "link": {"bandwidth": "12GB/s" if kind == "t4" else "130GB/s", "latency": "10us"},
        }
        for kind, count in CLUSTERS[name].items()
    ]
    network = {"bandwidth": "12GB/s", "latency": "20us"}
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"name": name, "device_types": types, "nodes": nodes, "network": network}))
    return path


def workloads(data: Path, folder: Path, more: list[str]) -> list[Workload]:
    listed = []
    for model in MODELS:
        layers, profile = Chain(data, model).write(folder)
        options = ("--profile", str(profile), "--require-measured", "--objective", "throughput", "--optimizer", "adam")
        listed += [
            Workload(f"{model} on {name}", layers, str(cluster(folder, name)), (*options, "--precision", "fp16", *more), BATCH)
            for name in CLUSTERS
        ]
    return listed


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--options", default="--threads 1", help="more options of compile, in one word")
    arguments = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    print_head("joint-1", batch=BATCH)
    with tempfile.TemporaryDirectory() as name:
        for work in workloads(arguments.data, Path(name), shlex.split(arguments.options)):
            if arguments.only in work.name:
                rows[work.name] = compiled(work, Path(name))
                print(line(work.name, rows[work.name]), flush=True)
    summary("joint-1", rows)
    finish(rows, arguments.json)


if __name__ == "__main__":
    main()
