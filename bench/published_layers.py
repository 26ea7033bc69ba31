#!/usr/bin/env python3
"""Predictions from the catalogue alone against published layers and pipelines of language models.

usage: bench/published_layers.py DATA FOLDER

DATA is a folder with sailor_layers_tp1.csv (seconds of the forward and the backward pass of a layer,
eth-easl/sailor, MIT) and vtrain_tp1.csv (seconds of iterations with data and pipeline parallelism,
full recomputation, VIA-Research/vTrain, MIT). FOLDER is where the models are kept. Prints the errors
of the passes of transformer blocks by device, and those of the iterations on one node.
"""

from __future__ import annotations

import argparse
import copy
import csv
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import published_models
from kernel_model import Model, read_architectures, read_device, read_parameters, step
from published import binary

DEVICES = {
    "V100-16": "v100-sxm2-16gb", "A100-40": "a100-sxm4-40gb", "A100-80": "a100-sxm4-80gb",
    "GH-96": "gh200-96gb", "RTX-2080": "rtx-2080-ti", "RTX-3090": "rtx-3090", "Titan-RTX": "titan-rtx",
}  # fmt: skip
TWO_BLOCKS = {
    "OPT-350": published_models.masked(1024, 2, 16, 2048, "relu"),
    "GPT-Neo-2.7": published_models.masked(2560, 2, 20, 2048, "gelu"),
    "megatron-1024": published_models.megatron(1024, 2, 16, 1024),
    "megatron-2048": published_models.megatron(2048, 2, 16, 1024),
}


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(line for line in path.read_text().splitlines() if line[0] != "#"))


def layers_of(name: str, folder: Path) -> dict:
    """The layers of a model of two blocks: embedding, those of each block, head."""
    published_models.LANGUAGE[f"gpt_pair_{name}"] = TWO_BLOCKS[name]
    model = published_models.write(f"gpt_pair_{name}", folder)
    layers = model.with_suffix(".layers.json")
    subprocess.run([binary(), "import", str(model), "-o", str(layers)], check=True, stdout=subprocess.DEVNULL)
    two = json.loads(layers.read_text())
    return in_16_bits(two) if name.startswith("megatron") else two


def in_16_bits(model: dict) -> dict:
    """The model with all tensors in 16 bits: Megatron converts the model to fp16 and has no autocast."""
    for layer in model["layers"]:
        for kernel in layer["kernels"]:
            kernel["autocastForward"] = kernel["forwardBytes"] / 2
            kernel["autocastBackward"] = kernel["backwardBytes"] / 2
    return model


def masked_in_place(two: dict) -> dict:
    """The model with the passes over the gradient of the scores that PyTorch makes where Megatron fills the mask in
    place. The scores are a view of the result of baddbmm. A trace of the backward pass has new_zeros, copy_ and
    copy_, clone, masked_fill and copy_ of their size: 13 tensors are read or written, not 2."""
    for layer in two["layers"]:
        if [kernel["kind"] for kernel in layer["kernels"]] == ["batched-matmul", "elementwise", "softmax"]:
            layer["kernels"][1]["backwardBytes"] *= 13 / 2
    return two


def repeated(two: dict, blocks: int) -> dict:
    """The model with its first block `blocks` times."""
    count = (len(two["layers"]) - 2) // 2
    first, *middle, last = two["layers"]
    block, following = middle[:count], middle[count:]
    own = {layer["name"]: layer["name"] for layer in block}
    after = {b["name"]: a["name"] for a, b in zip(block, following, strict=True)}
    layers, tensors = [first], [t for t in two["tensors"] if t["producer"] == first["name"]]
    for tensor in tensors:
        tensor["consumers"] = [f"{name}.0" for name in tensor["consumers"]]
    for index in range(blocks):
        for layer in block:
            each = copy.deepcopy(layer)
            each["name"] += f".{index}"
            each["parameters"] = [f"{name}.{index}" for name in each["parameters"]]
            layers.append(each)
        for tensor in two["tensors"]:
            if tensor["producer"] not in own:
                continue
            each = copy.deepcopy(tensor)
            each["name"] += f".{index}"
            each["producer"] += f".{index}"
            leaves = [f"{after[n]}.{index + 1}" for n in tensor["consumers"] if n in after]
            each["consumers"] = [f"{n}.{index}" for n in tensor["consumers"] if n in own]
            if leaves and index + 1 < blocks:
                each["consumers"] += leaves
            elif leaves and f"{block[0]['name']}.{index + 1}" in leaves:
                each["consumers"] = [last["name"]]
            if each["consumers"]:
                tensors.append(each)
    return {**two, "layers": [*layers, last], "tensors": tensors}


def sailor(rows: list[dict[str, str]], folder: Path) -> None:
    parameters, architectures = read_parameters(), read_architectures()
    models = {}
    for name in sorted({row["model"] for row in rows}):
        two = masked_in_place(layers_of(name, folder))
        two["layers"] = two["layers"][1:-1]
        path = folder / f"{name}.block.json"
        path.write_text(json.dumps(two))
        models[name] = Model(path)
    errors: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["layer"] != "block":
            continue
        device = read_device(DEVICES[row["gpu"]])
        precision = "tf32" if device.peaks["tf32"] else "fp32"
        times = step(models[row["model"]], device, float(row["microbatch"]), precision, False, parameters,
                     architectures[device.architecture])
        pair = tuple(t / 2 / float(row[k]) - 1 for t, k in zip(times, ("forward", "backward"), strict=True))
        errors.setdefault(f"{row['model']} on {row['gpu']}", []).append(pair)
    print("| blocks of Sailor | rows | forward | backward |\n| --- | --- | --- | --- |")
    for name, pairs in sorted(errors.items()):
        forward, backward = np.median(pairs, axis=0)
        print(f"| {name} | {len(pairs)} | {forward:+.0%} | {backward:+.0%} |")
    every = np.abs(np.concatenate(list(errors.values())))
    forward, backward = np.median(every, axis=0)
    print(f"| median error | {len(every)} | {forward:.1%} | {backward:.1%} |\n")


def iteration(row: dict[str, str], model: Path, names: list[str], folder: Path) -> float:
    ways, stages, blocks = int(row["dp"]), int(row["pp"]), int(row["L"])
    cluster, plan, size = folder / "cluster.yaml", folder / "plan.yaml", (len(names) - 2) // blocks
    cluster.write_text("name: one\ndevice_types: {gpu: {catalogue: a100-sxm4-80gb}}\n"
                       f"nodes: [{{name: node, devices: {{gpu: {row['gpus']}}}, link: nvlink3}}]\n")
    ends = [0] + [1 + size * (blocks * (s + 1) // stages) for s in range(stages)]
    ends[-1] = len(names)
    lines = [f"  - {{layers: [{', '.join(names[a:b])}], devices: {{gpu: {ways}}}, recompute: true}}"
             for a, b in zip(ends, ends[1:])]
    plan.write_text("\n".join([f"microBatches: {row['m']}", "stages:", *lines]) + "\n")
    done = subprocess.run(
        [binary(), "evaluate", str(plan), "--model", str(model), "--cluster", str(cluster), "--batch", row["batch"],
         "--precision", "fp16", "--recompute", "always", "--optimizer", "adam", "--shard-state", "none", "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{row}: {done.stderr}")
    return json.loads(done.stdout)["iterationSeconds"]


def vtrain(rows: list[dict[str, str]], folder: Path) -> None:
    found: dict[str, list[float]] = {}
    twos = {width: layers_of(f"megatron-{width}", folder) for width in ("1024", "2048")}
    with tempfile.TemporaryDirectory() as scratch:
        for row in rows:
            whole = repeated(copy.deepcopy(twos[row["H"]]), int(row["L"]))
            model = Path(scratch) / "gpt.layers.json"
            model.write_text(json.dumps(whole))
            seconds = iteration(row, model, [layer["name"] for layer in whole["layers"]], Path(scratch))
            found.setdefault(f"width {row['H']}, {row['pp']} stages", []).append(seconds / float(row["meas"]) - 1)
    print("| iterations of vTrain | rows | error in the middle | median error |\n| --- | --- | --- | --- |")
    for name, errors in [*sorted(found.items()), ("all", sum(found.values(), []))]:
        print(f"| {name} | {len(errors)} | {np.median(errors):+.1%} | {np.median(np.abs(errors)):.1%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    sailor(read(options.data / "sailor_layers_tp1.csv"), options.folder)
    vtrain([row for row in read(options.data / "vtrain_tp1.csv") if row["set"] == "single"], options.folder)


if __name__ == "__main__":
    main()
