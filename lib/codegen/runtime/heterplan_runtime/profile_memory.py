"""Measures what a rank takes of its device beyond the tensors that a plan counts.

    python -m heterplan_runtime.profile_memory --device-type cpu-core -o memory.profile.json

Two ranks train small models of several kinds, as plans are trained: by the communicator and with the
allocator's options of the runtime. The profile has a constant (of the process), a factor (of the
tensors) and another (of what is under way in a layer) that no rank was above.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import torch
from torch import nn

from .allocator import keep_freed_memory
from .communication import Communicator
from .device_classes import CPU, DEVICE_CLASSES, class_named, class_of, local_rank
from .errors import RuntimeFault
from .local_ranks import measurement, run_ranks
from .memory import PeakMemory
from .memory_workloads import WORKLOADS, Counter, Workload
from .profile_file import environment
from .profile_link import reducing_program

STEPS, MICRO_BATCHES, RANKS = 4, 2, 2
OWN = 16  # times the samples on a device that a rank has for itself, whose context takes more
MEBI = 1 << 20
HEAP = 16 * MEBI  # that the C library's heap grows by (allocator.py): so much two runs may differ


@dataclass(frozen=True)
class Point:
    """Memory of one rank, in bytes."""

    tensors: float  # but those that are under way
    workspace: float  # of the largest layer
    resident: float  # at most


@dataclass(frozen=True)
class Overhead:
    constant: float
    factor: float
    under_way: float

    def of(self, point: Point) -> float:
        return self.constant + self.factor * point.tensors + self.under_way * point.workspace


FACTORS = [index / 20 for index in range(20, 81)]  # 1 to 4
UNDER_WAY = [index / 4 for index in range(4, 121)]  # 1 to 30


def overhead_above(points: Sequence[Point]) -> Overhead:
    """The overhead that no point exceeds and that has the least mean relative distance to the
    points. The constant is in steps of the heap, and one more."""

    def fitted(factor: float, under_way: float) -> Overhead:
        without = Overhead(0.0, factor, under_way)
        constant = max(0.0, *(point.resident - without.of(point) for point in points))
        return Overhead((-(-constant // HEAP) + 1) * HEAP, factor, under_way)

    choices = [fitted(factor, under_way) for factor in FACTORS for under_way in UNDER_WAY]
    return min(choices, key=lambda choice: sum(choice.of(p) / p.resident for p in points))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures what ranks take beyond their tensors.")
    add = parser.add_argument
    add("-o", "--output", type=Path, required=True, help="profile file")
    add("--device-type", required=True, help="the device's name in cluster files or the catalogue")
    add("--device", choices=[each.torch_device for each in DEVICE_CLASSES], default="cpu")
    add("--workload", type=int, help=argparse.SUPPRESS)  # of a rank: which
    return parser.parse_args(arguments)


def train(workload: Workload, communicator: Communicator) -> Point:
    """Some steps of data parallelism over all ranks."""
    device = communicator.device
    memory = PeakMemory(device)
    torch.manual_seed(0)
    module = workload.module().to(device)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    counter = Counter(module)
    count = workload.samples * (1 if class_of(device).place(device) is None else OWN)
    samples = torch.randn(count, *workload.sample, device=device)
    for _ in range(STEPS):
        for _ in range(MICRO_BATCHES):
            with counter.counting():
                outputs = module(samples)
                loss = nn.functional.mse_loss(outputs, torch.zeros_like(outputs))
            loss.backward()
        gradients = [each.grad for each in module.parameters() if each.grad is not None]
        communicator.sum_in_place(gradients, tuple(range(communicator.world_size)))
        optimizer.step()
        optimizer.zero_grad()
        del outputs, loss, gradients
    return Point(counter.tensors, counter.workspace, memory.resident_bytes())


def _rank(options: argparse.Namespace) -> None:
    from . import training  # what a rank that trains has loaded

    del training
    keep_freed_memory()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device_class = class_named(options.device)
    device = device_class.device(local_rank())
    communicator = Communicator(
        reducing_program(rank, world, device.type), device, timedelta(seconds=300)
    )
    points = communicator.gather(train(WORKLOADS[options.workload], communicator))
    if rank == 0:
        worst = max(points, key=lambda point: point.resident)
        environment_ = environment(device, torch.get_num_threads(), "sgd").as_json()
        facts = {"point": asdict(worst), "environment": environment_}
        options.output.write_text(json.dumps(facts), encoding="utf-8")
    communicator.barrier()


def _ranks(device: str) -> int:
    """As many as there are devices for."""
    device_class = class_named(device)
    ranks = RANKS if device_class is CPU else min(RANKS, device_class.count())
    if not ranks:
        raise RuntimeFault(f"--device {device}: this machine has none")
    return ranks


def _measure(options: argparse.Namespace) -> None:
    points, facts, ranks = [], {}, _ranks(options.device)
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "point.json"
        for index, workload in enumerate(WORKLOADS):
            own = ["--device", options.device, "--device-type", options.device_type]
            if run_ranks("profile_memory", ranks, [*own, "--workload", str(index), "-o", str(part)]):
                raise RuntimeFault(f"the ranks that train '{workload.name}' failed")
            found = json.loads(part.read_text(encoding="utf-8"))
            points.append(Point(**found["point"]))
            facts = found["environment"]
    overhead = overhead_above(points)
    _write(options, overhead, facts)
    print(f"a rank takes {overhead.constant / MEBI:.0f} MiB, {overhead.factor:.2f} times its tensors and "
          f"{overhead.under_way:.2f} times the workspace of a layer")  # fmt: skip
    for workload, point in zip(WORKLOADS, points, strict=True):
        print(f"  {workload.name:20} {point.tensors / MEBI:7.1f} MiB of tensors, "
              f"{point.workspace / MEBI:6.1f} of workspace, {point.resident / MEBI:7.1f} in all, "
              f"at most {overhead.of(point) / MEBI:7.1f}")  # fmt: skip


def _write(options: argparse.Namespace, overhead: Overhead, facts: dict[str, object]) -> None:
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    memory = {
        "deviceType": options.device_type, "constantBytes": overhead.constant,
        "factor": overhead.factor, "underWay": overhead.under_way,
    }  # fmt: skip
    text = json.dumps({"schemaVersion": "1.0", **facts, "date": date, "memory": [memory]}, indent=1)
    try:
        options.output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise RuntimeFault(f"{options.output}: cannot be written: {error.strerror}") from error


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)

    def run() -> int | None:
        if options.workload is not None:
            return _rank(options)
        _measure(options)
        return 0

    return measurement(run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
