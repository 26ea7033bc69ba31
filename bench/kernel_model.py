"""Times of kernels on a GPU, as lib/cost/KernelModel.cpp has them, for the fit of their parameters.

bench/published.py asks the binary for the same rows, whose errors are those of the fit.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "lib/cost/KernelParameters.def"
ARCHITECTURES = ROOT / "lib/cost/Architectures.def"
RATES = ("fp32", "tf32", "half", "bandwidth")
SHARES = (*RATES, "convolution")
NARROW_TILE = 8.0
PRODUCTS = ("convolution", "depthwise-convolution", "matmul", "batched-matmul")


def read_parameters() -> dict[str, float]:
    pattern = re.compile(r"^HETERPLAN_KERNEL_PARAMETER\((\w+), ([\d.e-]+),", re.M)
    return {name: float(value) for name, value in pattern.findall(TABLE.read_text())}


def read_architectures() -> dict[str, dict[str, float]]:
    pattern = re.compile(r'^HETERPLAN_ARCHITECTURE\("([\w-]*)", (.*)\)', re.M)
    return {
        name: dict(zip(SHARES, map(float, values.split(","))))
        for name, values in pattern.findall(ARCHITECTURES.read_text())
    }


def read_fitted() -> dict[str, tuple[str, ...]]:
    """By architecture: the rates of products that a fit tells."""
    pattern = re.compile(r'^HETERPLAN_FITTED_RATES\("([\w-]*)", (.*)\)', re.M)
    return {
        name: tuple(key for key, flag in zip(RATES, flags.split(", ")) if flag == "true")
        for name, flags in pattern.findall(ARCHITECTURES.read_text())
    }


@dataclass
class Device:
    """A type of the catalogue: peaks in operations and bytes a second."""

    name: str
    architecture: str
    peaks: dict[str, float]
    sustained: dict[str, float] = field(default_factory=dict)


def read_device(name: str) -> Device:
    text = (ROOT / f"profiles/devices/{name}.yaml").read_text()

    def rate(key: str, unit: float) -> float:
        found = re.search(rf"^{key}: ([\d.]+)[TG]", text, re.M)
        return float(found[1]) * unit if found else 0.0

    half = max(rate("bf16", 1e12), rate("fp16", 1e12))
    peaks = {"fp32": rate("fp32", 1e12), "tf32": rate("tf32", 1e12), "half": half,
             "bandwidth": rate("bandwidth", 1e9)}
    architecture = re.search(r"^architecture: (.*)$", text, re.M)
    sustained = {}
    if block := re.search(r"^sustained: \{(.*)\}", text, re.M):
        for key, value, unit in re.findall(r"(\w+): ([\d.]+)([TG])", block[1]):
            sustained[key] = float(value) * (1e12 if unit == "T" else 1e9)
    return Device(name, architecture[1] if architecture else "", peaks, sustained)


class Model:
    """The kernels of the layers of one model, as arrays."""

    def __init__(self, path: Path) -> None:
        layers = json.loads(path.read_text())["layers"]
        rows, transformed = [], []
        self.layer_count = len(layers)
        self.dense = np.zeros(len(layers))
        self.parameters = np.array([len(l.get("parameters", [])) - len(l.get("tables", [])) for l in layers])
        for index, layer in enumerate(layers):
            tables = sum(t["rows"] * t["columns"] * 4 for t in layer.get("tables", []))
            self.dense[index] = layer.get("parameterBytes", 0) - tables
            for kernel in layer.get("kernels", []):
                rows.append((index, kernel))
                transformed.append(layer.get("convolutionBytes", 0) > 0)
        self.last = np.array([kernel.get("channelsLast", False) for _, kernel in rows])
        get = lambda key, default=0.0: np.array([float(k.get(key, default)) for _, k in rows])
        self.layer = np.array([index for index, _ in rows])
        self.kind = np.array([k["kind"] for _, k in rows])
        self.transformed = np.array(transformed)
        self.count = get("count")
        self.flops = {"forward": get("forwardFlops"), "backward": get("backwardFlops")}
        self.bytes = {"forward": get("forwardBytes"), "backward": get("backwardBytes")}
        self.autocast = {"forward": get("autocastForward"), "backward": get("autocastBackward")}
        self.rows, self.columns = get("rows"), get("columns")
        self.depth, self.groups = get("depth"), get("groups", 1.0)
        weights = np.where(self.kind == "batched-matmul", 0.0, self.columns * self.depth * self.groups * 4)
        weights = np.where(self.rows > 0, weights, 0.0)
        self.rounded = np.minimum(np.bincount(self.layer, weights, self.layer_count), self.dense)
        self.activations = sum(l.get("activationBytes", 0) for l in layers)
        self.autocast_activations = sum(
            l.get("autocastActivationBytes", l.get("activationBytes", 0)) for l in layers
        )


def tiled(size: np.ndarray) -> np.ndarray:
    """The used part of the tiles that cover `size` rows or columns."""
    tile = np.where(size > 64, 128.0, np.where(size > 32, 64.0, 32.0))
    return size / (np.ceil(size / tile) * tile)


def tiled_columns(model: Model) -> np.ndarray:
    """The used part of the tiles over the columns; small groups have tiles of the width of a matrix instruction."""
    narrow = (model.kind == "convolution") & (model.groups > 1) & (model.columns > 0)
    wide = tiled(np.maximum(model.columns, 1))
    return np.where(narrow, model.columns / np.maximum(np.ceil(model.columns / NARROW_TILE) * NARROW_TILE, 1), wide)


def kernel_times(
    model: Model, device: Device, samples: float, units: str, half: bool, channels_last: bool,
    p: dict[str, float], shares: dict[str, float],
) -> list[np.ndarray]:
    """Seconds of the forward and of the backward pass of each kernel on `units`, without the floor of kernels."""
    rate = {key: device.sustained.get(key, device.peaks[key] * shares[key]) for key in RATES}
    if "memory" in device.sustained:
        rate["bandwidth"] = device.sustained["memory"]
    computing = max(rate["fp32"], rate[units])
    depth = p[{"half": "depthHalf", "tf32": "depthTf32", "fp32": "depthFp32"}[units]]
    last = model.last | channels_last
    first = (units != "fp32") & ~last
    conv = model.kind == "convolution"
    batched = model.kind == "batched-matmul"
    depthwise = model.kind == "depthwise-convolution"
    grouped = conv & (model.groups > 1)
    product = model.rows > 0
    rows = np.where(batched, model.rows, model.rows * samples)
    share = np.ones(len(rows))
    if units == "half":
        share[conv] = np.where(last, p["convolutionHalf"], p["convolutionFirst"])[conv] * shares["convolution"]
    else:
        share[conv] = p["convolutionTf32" if units == "tf32" else "convolutionFp32"]
    transformed = (units == "fp32") & conv & model.transformed & ~grouped & (model.depth % 9 == 0)
    side = np.sqrt(np.maximum(model.rows, 1))
    saved = 4 * (side / (np.ceil(side / 4) * 4)) ** 2
    share[grouped] *= p["grouped"]
    odd = np.log2(np.maximum(model.columns, 1)) % 1 > 0
    if units == "half":
        share[grouped & odd & last] *= p["oddGroups"]
    share[batched] = p["batched"]
    memory = np.full(len(rows), p["others"])
    memory[product] = 1.0
    memory[depthwise] = p["depthwise"]
    by_filter = rate["fp32"] * np.where(half & last, p["depthwiseRateLast"], p["depthwiseRate"])
    memory[model.kind == "normalization"] = p["normalization"]
    memory[model.kind == "softmax"] = p["softmax"]
    memory[(model.kind == "elementwise") | (model.kind == "data-movement")] = p["elementwise"]
    traffic = np.where(conv & first, 1 + p["transpositions"], 1.0)
    columns = tiled_columns(model)
    times = []
    weights = np.where(product & ~batched, model.columns * model.depth * model.groups * 4, 0.0)
    for way in ("forward", "backward"):
        moved = (model.autocast if half else model.bytes)[way] * samples
        moved = moved * traffic + weights * (1 if way == "forward" else 2) * (1.5 if half else 1)
        work = model.flops[way] * samples
        by_memory = moved / (rate["bandwidth"] * memory)
        with np.errstate(divide="ignore", invalid="ignore"):
            if way == "forward":
                used = tiled(rows) * columns * model.depth / (model.depth + depth)
                by_work = work / (computing * share * used)
            else:
                # The gradient of the data is [rows, columns] x [columns, depth], that of the weights
                # [depth, rows] x [rows, columns].
                data = tiled(rows) * tiled(model.depth) * model.columns / (model.columns + depth)
                other = tiled(model.depth) * columns * rows / (rows + depth)
                other = other * np.where(batched, 1.0, p["weightGradient"])
                # With one product only, it is that of the weights.
                both = work > 1.5 * model.flops["forward"] * samples
                by_work = work / (computing * share) * np.where(both, 0.5 / data + 0.5 / other, 1 / other)
        by_work = np.where(product & ~depthwise & (work > 0), by_work, 0.0)
        by_work = np.where(depthwise, work / by_filter, by_work)
        by_tiles = by_work / (saved * p["tiles"]) + moved * 4.5 / rate["bandwidth"]
        by_work = np.where(transformed, np.minimum(by_work / p["transformed"], by_tiles), by_work)
        times.append(np.where(moved + work > 0, np.maximum(by_work, by_memory), 0.0))
    return times


def step(
    model: Model, device: Device, samples: float, precision: str, channels_last: bool,
    p: dict[str, float], shares: dict[str, float],
) -> tuple[float, float]:
    """Seconds of a forward and of a backward pass."""
    half = precision in ("bf16", "fp16")
    units = "half" if half and device.peaks["half"] else "tf32" if precision == "tf32" and device.peaks["tf32"] else "fp32"
    of_units = kernel_times(model, device, samples, units, half, channels_last, p, shares)
    if units != "fp32":  # a convolution may use matrix units, and need not
        free = (model.kind == "convolution") & (model.groups <= 1)
        free = free & ((units == "tf32") | ~(model.last | channels_last))
        plain = kernel_times(model, device, samples, "fp32", half, channels_last, p, shares)
        of_units = [np.where(free, np.minimum(a, b), a) for a, b in zip(of_units, plain, strict=True)]
    floor, host = p["floorMicroseconds"] * 1e-6, p["hostMicroseconds"] * 1e-6
    product = model.rows > 0
    times = []
    for way, each in zip(("forward", "backward"), of_units, strict=True):
        kernels = np.where(model.flops[way] > 1.5 * model.flops["forward"], 2.0, 1.0)
        count = model.count * np.where(product & (way == "backward"), kernels, 1.0)
        device_time = np.bincount(model.layer, np.where(each > 0, each + floor * count, 0.0), model.layer_count)
        casts = p["autocastOperators"] * model.count * product if half else 0.0
        host_time = np.bincount(model.layer, np.where(each > 0, count + casts, 0.0) * host, model.layer_count)
        times.append(float(np.maximum(device_time, host_time).sum()))
    return times[0], times[1]


UPDATE = {"sgd": 3, "momentum": 5, "adam": 7}
FOR_LOOP = {"sgd": (1, 3), "momentum": (3, 8), "adam": (7, 18)}  # kernels of a parameter, and how often they move it


def update(
    model: Model, device: Device, optimizer: str, p: dict[str, float], shares: dict[str, float], kernels: str = "fused"
) -> float:
    bandwidth = device.sustained.get("memory", device.peaks["bandwidth"] * shares["bandwidth"]) * p["elementwise"]
    if kernels == "fused":
        return float(model.dense.sum()) * UPDATE[optimizer] / bandwidth
    each, traffic = FOR_LOOP[optimizer]
    count = each * np.maximum(model.parameters, 1) * (model.dense > 0)
    on_device = model.dense * traffic / bandwidth + p["floorMicroseconds"] * 1e-6 * count
    return float(np.maximum(on_device, p["hostMicroseconds"] * 1e-6 * count).sum())


def accumulate(model: Model, device: Device, rounds: bool, p: dict[str, float], shares: dict[str, float]) -> float:
    """Seconds of one more micro-batch beside its passes: it adds gradients, and finds rounded weights."""
    saved = 1.5 * float(model.rounded.sum()) / float(model.dense.sum()) if rounds else 0.0
    return update(model, device, "sgd", p, shares) * (1 - saved / UPDATE["sgd"])
