"""Fits the parameters of kernels and architectures to published training rows.

usage: bench/published_fit.py ROWS MODELS [--only KEYS] [--leave-out TEXTS] [--write]

ROWS: the folder of rows_*.csv (docs/experiments/published.md says where they come from). MODELS: the
layers of their models, as bench/published.py writes them. Prints the error of the fit; --write puts
the parameters into lib/cost/KernelParameters.def and lib/cost/Architectures.def. With --only, all
parameters but KEYS (separated by commas, such as hopper/half) stay; --leave-out drops rows whose
names have one of TEXTS.
bench/published.py --held-out predicts what the fit did not see.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from kernel_model import (
    ARCHITECTURES, SHARES, TABLE, Device, Model, accumulate, read_architectures, read_device, read_fitted,
    read_parameters, step, update,
)  # fmt: skip
from published_rows import Row, read_rows

FITTED = read_fitted()  # by architecture; the other rates are those of kernels, or of no row
for _name in ("ampere", "hopper"):  # the faster the units for products, the less convolutions gain from them
    FITTED[_name] += ("convolution",)
MOST = {  # of a parameter; "/": of a share
    "floorMicroseconds": 8.0, "weightGradient": 1.0, "softmax": 1.0, "batched": 1.0,
    "convolutionFp32": 1.0, "convolutionHalf": 1.1, "transformed": 2.25, "/": 1.0,
}  # fmt: skip
# Large batches do not show the first two: from docs/experiments/gpu.md. The bandwidth of an architecture is that of
# additions: elementwise kernels have all of it.
FIXED = ("hostMicroseconds", "autocastOperators", "elementwise")
# The start of a fit that must not know of any row; parameters that are not here start at 0.7. Convolutions in fp32
# start at the rate of products, since neither uses matrix units. Winograd's transformation saves a factor of 2.25 at
# most; the square root of that is its start. Softmax, normalisations and batched products start at the median ratio to
# additions and to products in the forward kernels of NeuSight's data set (MIT) on seven types of GPU.
UNTOUCHED = {
    "floorMicroseconds": 5.0, "depthFp32": 32.0, "depthTf32": 32.0, "depthHalf": 32.0,
    "transpositions": 2.0, "convolutionFp32": 1.0, "transformed": 1.5,
    "softmax": 0.83, "normalization": 0.68, "batched": 0.89,
    "depthwise": 0.5, "depthwiseRate": 0.05, "depthwiseRateLast": 0.05,
}  # fmt: skip
# Large products and additions that others measured by themselves, of the data sheet: what is known of an
# architecture of which there is no step. Products in tf32 and 16 bits: the mean over cards and over
# zzc0721/torch-performance-test-data at 07858687, mli/transformers-benchmarks at 04df81d0 (V100, A100, 3090 Ti) and
# "Maximum Achievable Matmul FLOPS" of stas00/ml-engineering (H100). fp32 and bandwidth: the median of the kernels of
# at least 0.2 TFLOP or 0.2 GB in NeuSight's data set (MIT) on V100, A100 and H100. GeForce cards state the rate of
# sums in fp32, half of what their units could do, and reach all of it.
MEASURED_KERNELS = {
    "volta": {"fp32": 0.94, "half": 0.72, "bandwidth": 0.91},
    "ampere": {"fp32": 0.87, "tf32": 0.74, "half": 0.79, "bandwidth": 0.87},
    "ampere-ga10x": {"half": 1.05},
    "hopper": {"fp32": 0.76, "half": 0.79},
}
LINKS = {  # bytes a second in one direction: profiles/links
    "nvlink2": 150e9, "nvlink3": 300e9, "nvlink4": 450e9,
    "pcie3": 12e9, "pcie4": 24e9, "pcie5": 48e9,
}  # fmt: skip
PULL = 0.1  # of the logarithm of a parameter towards where the fit starts: errors of 10 %, and values known to a third


class Fit:
    def __init__(self, rows: Sequence[Row], models: dict[str, Model]) -> None:
        self.rows = list(rows)
        self.models = models
        self.devices = {row.device: read_device(row.device) for row in rows}
        self.start = self.flatten(read_parameters(), read_architectures())

    @staticmethod
    def flatten(parameters: dict, architectures: dict) -> dict[str, float]:
        values = dict(parameters)
        for name, keys in FITTED.items():
            for key in keys:
                values[f"{name}/{key}"] = architectures[name][key]
        return values

    def predict(self, row: Row, values: dict[str, float]) -> float:
        device, model = self.devices[row.device], self.models[row.model]
        shares = dict(ALL_SHARES[device.architecture])
        for key in FITTED.get(device.architecture, ()):
            shares[key] = values[f"{device.architecture}/{key}"]
        samples = row.batch / row.gpus / row.micro
        last = row.layout == "nhwc"
        forward, backward = step(model, device, samples, row.precision, last, values, shares)
        seconds = row.micro * (forward + backward)
        if row.kind == "fb":
            return seconds
        seconds += update(model, device, row.optimizer, values, shares, row.optimizer_kernels)
        rounds = row.precision in ("bf16", "fp16")
        seconds += (row.micro - 1) * accumulate(model, device, rounds, values, shares)
        if row.gpus > 1:
            bandwidth = LINKS[row.link]
            seconds += 2 * (row.gpus - 1) / row.gpus * float(model.dense.sum()) / bandwidth
        return seconds

    def errors(self, values: dict[str, float], rows: Sequence[Row]) -> np.ndarray:
        return np.array([math.log(self.predict(row, values) / row.seconds) for row in rows])

    def loss(self, values: dict[str, float], rows: Sequence[Row]) -> float:
        error = np.abs(self.errors(values, rows))
        drift = [math.log(values[k] / self.start[k]) for k in values if self.start[k] > 0]
        # Half way between the median and the mean: outliers count, and do not decide.
        return float(np.mean(np.sqrt(error**2 + 0.03**2))) + PULL * float(np.mean(np.square(drift)))

    def run(
        self, rows: Sequence[Row], rounds: int = 12, only: Sequence[str] = ()
    ) -> dict[str, float]:
        """Coordinate descent over the logarithms, of the keys `only` or of all."""
        values, width = dict(self.start), 0.25
        best = self.loss(values, rows)
        for _ in range(rounds):
            improved = False
            for key in values:
                if key in FIXED or (only and key not in only):
                    continue
                for factor in (math.exp(width), math.exp(-width)):
                    moved = False
                    while True:
                        trial = self.moved(values, key, factor)
                        if trial[key] > MOST.get(key, MOST["/"] if "/" in key else math.inf):
                            break
                        if (loss := self.loss(trial, rows)) > best - 1e-4:
                            break
                        best, values, moved = loss, trial, True
                    if moved:
                        improved = True
                        break
            if not improved:
                width /= 2
            if width < 0.02:
                break
        return values

    @staticmethod
    def moved(values: dict[str, float], key: str, factor: float) -> dict[str, float]:
        """`values` with another value of `key`. A rate of products moves alone: where an architecture has a share of
        its own for convolutions, they keep their rate."""
        trial = {**values, key: values[key] * factor}
        name, _, rate = key.partition("/")
        if rate == "half" and f"{name}/convolution" in values:
            trial[f"{name}/convolution"] /= factor
        return trial

    def forget(self) -> None:
        """Starts from values that no row has touched: those of a fit must not reach rows that are
        held out."""
        for key in self.start:
            if key not in FIXED:
                name, _, rate = key.partition("/")
                kernel = MEASURED_KERNELS.get(name, {}).get(rate)
                self.start[key] = min(kernel, MOST["/"]) if kernel else UNTOUCHED.get(key, 0.7)

    def without(self, rows: Sequence[Row]) -> dict[str, float]:
        """A fit to `rows`. An architecture that they lack has the shares of the others in the mean; if its kernels
        were measured, these have the others' mean share of them in steps."""
        values = self.run(rows, rounds=10)
        seen = {self.devices[row.device].architecture for row in rows}
        for name, keys in FITTED.items():
            for key in keys if name not in seen else ():
                kernel = MEASURED_KERNELS.get(name, {}).get(key)
                others = [
                    values[f"{each}/{key}"] / (MEASURED_KERNELS[each][key] if kernel else 1)
                    for each in FITTED
                    if each in seen and key in FITTED[each] and (not kernel or key in MEASURED_KERNELS.get(each, {}))
                ]
                if others:
                    values[f"{name}/{key}"] = (kernel or 1) * math.exp(float(np.mean(np.log(others))))
        return values


ALL_SHARES = read_architectures()


def read_models(rows: Sequence[Row], folder: Path) -> dict[str, Model]:
    return {name: Model(folder / f"{name}.layers.json") for name in {row.model for row in rows}}


def summary(errors: np.ndarray) -> str:
    relative = np.abs(np.expm1(errors))
    return f"median {np.median(relative):.1%}, ninth decile {np.quantile(relative, 0.9):.1%}"


def held_out(fit: Fit, groups: Callable[[Row], str], rows: Sequence[Row]) -> np.ndarray:
    """Errors of each group by a fit to the others."""
    fit.forget()
    found = np.zeros(len(rows))
    for group in sorted({groups(row) for row in rows}):
        values = fit.without([row for row in rows if groups(row) != group])
        own = [index for index, row in enumerate(rows) if groups(row) == group]
        found[own] = fit.errors(values, [rows[index] for index in own])
    return found


def write(values: dict[str, float]) -> None:
    text = TABLE.read_text()
    for name, value in values.items():
        if "/" not in name:
            text = re.sub(rf"(PARAMETER\({name}, )[\d.e-]+", rf"\g<1>{value:.3g}", text)
    TABLE.write_text(text)
    text = ARCHITECTURES.read_text()
    for name, keys in FITTED.items():
        shares = dict(ALL_SHARES[name])
        for key in keys:
            shares[key] = values[f"{name}/{key}"]
        numbers = ", ".join(f"{shares[key]:.2f}" for key in SHARES)
        text = re.sub(rf'(ARCHITECTURE\("{name}"), .*\)', rf"\g<1>, {numbers})", text)
    ARCHITECTURES.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("models", type=Path)
    split = lambda text: text.split(",")
    parser.add_argument("--only", type=split, default=[], metavar="KEYS")
    parser.add_argument("--leave-out", type=split, default=[], metavar="TEXTS")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    left_out = lambda row: any(text in row.name for text in options.leave_out)
    rows = [row for row in read_rows(options.rows) if not row.stages and not left_out(row)]
    fit = Fit(rows, read_models(rows, options.models))
    print(f"{len(rows)} rows, before: {summary(fit.errors(fit.start, rows))}", flush=True)
    values = fit.run(rows, only=options.only)
    errors = fit.errors(values, rows)
    print(f"fitted: {summary(errors)}")
    for index in np.argsort(-np.abs(errors))[:25]:
        print(f"  {math.expm1(errors[index]):+.0%} {rows[index].name} {rows[index].kind}")
    for key in ("device", "family", "source"):
        for group in sorted({getattr(row, key) for row in rows}):
            own = np.array([e for e, row in zip(errors, rows) if getattr(row, key) == group])
            print(f"  {group}: {len(own)} rows, {summary(own)}, bias {math.expm1(np.median(own)):+.1%}")
    for name, value in values.items():
        print(f"  {name}: {fit.start[name]:.3g} -> {value:.3g}")
    if options.write:
        write(values)


if __name__ == "__main__":
    main()
