"""The command line of the script that `heterplan profile --emit-script` writes.

It measures each distinct layer at each number of samples and saves every measurement at once: a
second run goes on where the first was ended. Exit status: 0 done, 1 wrong usage or a fault, 130
interrupted.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .allocator import keep_freed_memory
from .device_classes import class_named, class_of
from .errors import RuntimeFault
from .profile_bench import Bench, Effort
from .precision import Precision
from .profile_file import ProfileFile, environment
from .profile_layer import Layer, footprint

Task = tuple[Layer, int]  # at a number of samples


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures the layers of a model with PyTorch.")
    add = parser.add_argument
    add("-o", "--output", type=Path, required=True, help="profile file; one that is there grows")
    add("--device", default="cpu", help="cpu or cuda:N")
    add("--device-type", required=True, help="the device's name in cluster files")
    add("--batches", type=_batches, required=True, help="samples of a pass: 1,2,4")
    add("--threads", type=int, default=1, help="CPU threads")
    add("--cores", type=_cores, help="run on these cores only: 0-3,8")
    add("--optimizer", choices=("sgd", "momentum", "adam"), default="sgd")
    add("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    add("--memory-format", choices=("channels-first", "channels-last"), default="channels-first")
    add("--rounds", type=int, default=5, help="how often each layer is measured")
    add("--time-budget", type=float, help="stop after so many seconds; what matters most is first")
    add("--parent", type=int, help="stop when this process is gone")
    return parser.parse_args(arguments)


def _batches(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _cores(text: str) -> list[int]:
    cores: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cores.extend(range(int(first), int(last or first) + 1))
    return cores


def tasks_of(layers: Sequence[Layer], batches: Sequence[int]) -> list[Task]:
    """The largest batch first, then the smallest, so that what lies between can be interpolated
    early; for each, the layers with the largest part of the model's time first."""
    ordered = sorted(set(batches))
    passes = [ordered[-1], *ordered[:-1]]
    heavy = sorted(layers, key=lambda layer: -layer.count * layer.modelled_seconds)
    return [(layer, batch) for batch in passes for layer in heavy]


class Progress:
    """One line on a terminal, rewritten in place."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._done = 0
        self._shown = sys.stderr.isatty()

    def update(self, layer: Layer, batch: int, left: int) -> None:
        """`left`: sessions, this one included."""
        if not self._shown:
            return
        time_left = ""
        if self._done:
            seconds = (time.monotonic() - self._begin) / self._done * left
            minutes = f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
            time_left = f", {minutes} left"
        total = self._done + left
        what = f"profiling {self._done}/{total}: {layer.label[-40:]}, batch {batch}{time_left}"
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)

    def step(self) -> None:
        self._done += 1

    def clear(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def say(text: str) -> None:
    print(f"heterplan: {text}", file=sys.stderr)


class Run:
    """Sessions tasks until they are done, the time is up, or nobody waits any more. Each round sessions
    all of them: the speed of a machine changes from second to second."""

    def __init__(
        self, options: argparse.Namespace, layers: Sequence[Layer], file: ProfileFile
    ) -> None:
        self._options = options
        self._layers = layers
        self._file = file
        self._device = torch.device(options.device)
        self._precision = Precision(options.precision)
        self._begin = time.monotonic()
        self._failed: dict[str, str] = {}  # layer -> why

    def go(self, tasks: list[Task]) -> int:
        """How many sessions are left."""
        progress, rounds = Progress(), range(1, self._options.rounds + 1)
        try:
            for task in (task for wanted in rounds for task in tasks if self._missing(task, wanted)):
                if self._over():
                    break
                progress.update(*task, self._left(tasks))
                self._measure(*task)
                progress.step()
        finally:
            progress.clear()
        return self._left(tasks)

    def _left(self, tasks: list[Task]) -> int:
        return sum(self._missing(task, self._options.rounds) for task in tasks)

    def _missing(self, task: Task, wanted: int) -> int:
        layer, batch = task
        if layer.label in self._failed:
            return 0
        device_type = self._options.device_type
        return self._file.missing(layer.entry, device_type, batch, wanted)

    @property
    def failed(self) -> dict[str, str]:
        return self._failed

    def _over(self) -> bool:
        budget, parent = self._options.time_budget, self._options.parent
        if parent is not None and os.getppid() != parent:
            raise RuntimeFault("whoever started this is gone")
        return budget is not None and time.monotonic() - self._begin >= budget

    def _measure(self, layer: Layer, batch: int) -> None:
        """A layer that does not run alone is left to the model of costs, and said to be."""
        device = class_of(self._device)
        try:
            bench = Bench(
                layer,
                batch,
                self._device,
                self._options.optimizer,
                min(device.cache_bytes(self._device), footprint(self._layers, batch, layer.degree)),
                device.available_memory(self._device) // 4,
                self._precision,
                self._options.memory_format == "channels-last",
            )
            times = bench.measure(Effort())
        except Exception as error:  # whatever PyTorch raises
            lines = str(error).strip().splitlines()
            self._failed[layer.label] = f"{type(error).__name__}: {lines[0] if lines else ''}"
            return
        self._file.add(layer.entry, self._options.device_type, batch, times)


def _prepare(options: argparse.Namespace) -> None:
    if options.cores:
        try:
            os.sched_setaffinity(0, options.cores)
        except (OSError, AttributeError) as error:
            raise RuntimeFault(f"--cores: {error}") from error
    keep_freed_memory()
    gc.freeze()  # what PyTorch has made is not searched again before each session
    torch.set_num_threads(options.threads)
    Precision(options.precision).apply()
    if class_named(options.device).count() == 0:
        raise RuntimeFault(f"--device {options.device}: PyTorch finds none here")


def _profile(options: argparse.Namespace, model: str, lines: Sequence[dict[str, Any]]) -> int:
    _prepare(options)
    now = environment(
        torch.device(options.device), options.threads, options.optimizer, options.precision, options.memory_format
    )  # fmt: skip
    file = ProfileFile(options.output, model, now)
    layers = [Layer.of(line) for line in lines]
    run = Run(options, layers, file)
    try:
        left = run.go(tasks_of(layers, options.batches))
    except KeyboardInterrupt:
        say(f"interrupted; {options.output} keeps {len(file)} measurements, run again to go on")
        return 130
    file.write()
    for name, why in run.failed.items():
        say(f"note: layer '{name}' does not run by itself and stays modelled: {why}")
    if left:
        say(f"note: the time is up with {left} sessions left; run again to go on")
    return 0


def main(model: str, layers: Sequence[dict[str, Any]], arguments: Sequence[str]) -> int:
    try:
        return _profile(parse(arguments), model, layers)
    except RuntimeFault as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
