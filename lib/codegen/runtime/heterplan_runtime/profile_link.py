"""Measures what messages between ranks that compute take, by the communicator that a plan trains with.

    python -m heterplan_runtime.profile_link --name loopback --ranks 2 -o links.profile.json

`heterplan profile --link` calls this; with `--hosts` it has set RANK and the like. Without RANK in the
environment it starts the ranks on this machine. Rank 0 writes a profile file: the latency and bandwidth that explain the measured times of messages, and of all-reduces, best.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .allocator import keep_freed_memory
from .communication import Communicator
from .device_classes import CPU, DEVICE_CLASSES, class_named, class_of, local_rank
from .errors import RuntimeFault
from .local_ranks import measurement, run_ranks
from .pinning import pin_to_cores
from .profile_file import environment
from .program import Instruction, Part, PlannedDevice, RankProgram, SampleRange, TensorSpec
from .robust import trimmed_mean

SIZES = tuple(1 << shift for shift in range(10, 27, 2))  # 1 KiB to 64 MiB
POOL = 256 << 20  # bytes that messages are taken from in turn: no cache holds them
TENSOR = 4 << 20  # gradients of more bytes are several tensors
WORK = 3e-3  # seconds that a rank computes before each repetition
ROUNDS, SECONDS = 11, 1.5  # over all sizes; of a size in all rounds
MOST = 40  # repetitions in a round
SIDE = 160  # of the matrices that a rank multiplies meanwhile
BYTE = TensorSpec("message", torch.uint8, ((1, 0),))


@dataclass(frozen=True)
class Point:
    """A measured time and the time that the model gives it: steps · latency + bytes / bandwidth."""

    steps: float
    bytes: float
    seconds: float


@dataclass(frozen=True)
class Fit:
    latency: float
    bandwidth: float
    residual: float  # median of the relative deviations of the points

    def seconds(self, point: Point) -> float:
        return point.steps * self.latency + point.bytes / self.bandwidth


def fit(points: Sequence[Point]) -> Fit:
    """Least squares of the relative deviations, neither parameter below zero, repeated with less
    weight for points that are further off than most (Huber's weights)."""
    weights = [1.0] * len(points)
    found = _least_squares(points, weights)
    for _ in range(20):
        deviations = [abs(found.seconds(p) / p.seconds - 1) for p in points]
        usual = 1.4826 * statistics.median(deviations)
        weights = [1.0 if d <= 1.345 * usual else 1.345 * usual / d for d in deviations]
        found = _least_squares(points, weights)
    deviations = [abs(found.seconds(p) / p.seconds - 1) for p in points]
    return replace(found, residual=statistics.median(deviations))


def _least_squares(points: Sequence[Point], weights: Sequence[float]) -> Fit:
    rows = [(p.steps / p.seconds, p.bytes / p.seconds) for p in points]
    aa = sum(w * a * a for w, (a, _) in zip(weights, rows, strict=True))
    ab = sum(w * a * b for w, (a, b) in zip(weights, rows, strict=True))
    bb = sum(w * b * b for w, (_, b) in zip(weights, rows, strict=True))
    a1 = sum(w * a for w, (a, _) in zip(weights, rows, strict=True))
    b1 = sum(w * b for w, (_, b) in zip(weights, rows, strict=True))
    determinant = aa * bb - ab * ab
    latency = (bb * a1 - ab * b1) / determinant if determinant > 0 else 0.0
    latency = max(latency, 0.0)
    per_byte = (b1 - ab * latency) / bb
    if per_byte <= 0:
        raise RuntimeFault("larger messages take no longer: no bandwidth can be told")
    return Fit(latency, 1 / per_byte, 0.0)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures a link between ranks.")
    add = parser.add_argument
    add("-o", "--output", type=Path, required=True, help="profile file")
    add("--name", required=True, help="the link's name in cluster files or the catalogue")
    add("--ranks", type=int, default=2, help="processes on this machine (2)")
    add("--sizes", type=_sizes, default=SIZES, help="bytes of the messages: 1024,65536")
    add("--device", choices=[each.torch_device for each in DEVICE_CLASSES], default="cpu", help="one GPU a rank, or CPUs")
    return parser.parse_args(arguments)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def reducing_program(rank: int, world: int, kind: str) -> RankProgram:
    """A program that all-reduces over the first 2, 3, ... ranks."""
    none = SampleRange(0, 0)
    instructions = tuple(
        Instruction("allReduce", 0, -1, -1, -1, none, tuple(range(size)))
        for size in range(2, world + 1)
    )
    part = Part(0, rank, SampleRange(0, 1), (), (), ())
    device = PlannedDevice(kind, "", rank)
    return RankProgram("link", rank, world, 1, kind, device, world, 1, "sgd", (part,), instructions)


class Work:
    """What a rank computes between messages: products of matrices, for about WORK seconds. Threads of
    the library that carries messages then have to share its core, as in training."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._matrix = torch.full((SIDE, SIDE), 1 / SIDE, device=device)
        self._products = 1
        taken = min(self.seconds() for _ in range(100))
        self._products = max(1, round(WORK / taken))

    def seconds(self) -> float:
        begin = time.perf_counter()
        self.run()
        return time.perf_counter() - begin

    def run(self) -> None:
        for _ in range(self._products):
            self._matrix @ self._matrix
        synchronise(self._device)


def synchronise(device: torch.device) -> None:
    class_of(device).synchronize(device)


class Case:
    """Something to time among the first `members` ranks. Each computes, then communicates; what the
    second part takes on all of them together is divided by `share`."""

    members = 2
    share = 1
    steps = 1.0  # of the model of its time
    bytes = 0.0

    def before(self) -> None:
        """Not timed."""

    def communicate(self) -> None:
        """Timed."""


class Transfer(Case):
    """Rank 0 sends to rank 1. What both take counts: sending, and from asking until it is there."""

    def __init__(self, communicator: Communicator, pool: Tensor, size: int) -> None:
        self._communicator, self._size = communicator, size
        self._messages = _rotation(pool, size)
        self._sent = 0
        self.bytes = size

    def before(self) -> None:
        """A message is let go once a later one is on its way."""
        self._communicator.settle(self._message("receiveGradient", 1, self._sent - 2))

    def communicate(self) -> None:
        if self._communicator.rank == 0:
            message = self._message("send", 1, self._sent)
            self._communicator.send([next(self._messages)], message)
        else:
            self._communicator.receive([BYTE], self._message("receive", 0, self._sent))
        self._sent += 1

    def _message(self, op: str, peer: int, number: int) -> Instruction:
        return Instruction(op, 0, number, peer, 0, SampleRange(0, self._size), ())


class AllReduce(Case):
    """A ring of k ranks takes 2(k−1) steps, and moves 2(k−1)/k of the bytes."""

    def __init__(self, communicator: Communicator, pool: Tensor, members: int, size: int) -> None:
        self._communicator = communicator
        self._gradients = _rotation(pool, size)
        self.members = self.share = members
        self.steps = 2 * (members - 1)
        self.bytes = self.steps / members * size

    def communicate(self) -> None:
        parts = next(self._gradients).view(torch.float32).split(TENSOR // 4)
        self._communicator.sum_in_place(list(parts), tuple(range(self.members)))


def _rotation(pool: Tensor, size: int) -> Iterator[Tensor]:
    """Parts of the pool in turn."""
    parts = [part for part in pool.split(size) if len(part) == size]
    while True:
        yield from parts


class LinkBench:
    """Measures cases in rounds over all of them, since a machine may be disturbed for seconds."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._work = Work(communicator.device)

    def points(self, cases: Sequence[Case]) -> list[Point]:
        """In seconds the trimmed mean of the blocks; of a block the mean, since now and then a message
        waits for a turn of the scheduler."""
        repetitions = [
            min(MOST, max(1, int(SECONDS / ROUNDS / (WORK + self._block(case, 3))))) for case in cases
        ]
        blocks = [
            [self._block(case, count) for case, count in zip(cases, repetitions, strict=True)]
            for _ in range(ROUNDS)
        ]
        self._communicator.drain()
        return [
            Point(case.steps, case.bytes, trimmed_mean(seconds))
            for case, seconds in zip(cases, zip(*blocks, strict=True), strict=True)
        ]

    def _block(self, case: Case, repetitions: int) -> float:
        own = 0.0
        for _ in range(repetitions if self._communicator.rank < case.members else 0):
            case.before()
            self._work.run()
            begin = time.perf_counter()
            case.communicate()
            synchronise(self._communicator.device)
            own += time.perf_counter() - begin
        return self._communicator.total(own) / case.share / repetitions


def measure(
    communicator: Communicator, sizes: Sequence[int] = SIZES
) -> tuple[list[Point], list[Point]]:
    """Points of transfers and of all-reduces."""
    pool = torch.zeros(POOL, dtype=torch.uint8, device=communicator.device)
    cases: list[Case] = [Transfer(communicator, pool, size) for size in sizes]
    for members in range(2, communicator.world_size + 1):
        cases += [AllReduce(communicator, pool, members, size) for size in sizes]
    points = LinkBench(communicator).points(cases)
    return points[: len(sizes)], points[len(sizes) :]


def _write(options: argparse.Namespace, communicator: Communicator, results: Any) -> None:
    transfers, reductions = results
    message, reduction = fit(transfers), fit(reductions)
    now = environment(communicator.device, torch.get_num_threads(), "sgd").as_json()
    now["engine"] = f"torch {torch.__version__}, {communicator.backend}, {communicator.world_size} ranks"
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    link = {
        "name": options.name,
        "bandwidthBytesPerSecond": message.bandwidth,
        "latencySeconds": message.latency,
        "residual": message.residual,
        "allReduceBandwidthBytesPerSecond": reduction.bandwidth,
        "allReduceLatencySeconds": reduction.latency,
        "allReduceResidual": reduction.residual,
    }
    text = json.dumps({"schemaVersion": "1.0", **now, "date": date, "links": [link]}, indent=1)
    try:
        options.output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise RuntimeFault(f"{options.output}: cannot be written: {error.strerror}") from error
    _print_points("message", transfers, message)
    _print_points("all-reduce", reductions, reduction)


def _print_points(what: str, points: Sequence[Point], line: Fit) -> None:
    print(f"{what}: {line.latency * 1e6:.0f} us + {line.bandwidth / 1e9:.2f} GB/s, "
          f"median deviation {line.residual:.0%}")  # fmt: skip
    for point in points:
        print(f"  {point.bytes / 1024:10.0f} KiB {point.seconds * 1e6:10.0f} us, "
              f"fitted {line.seconds(point) * 1e6:10.0f} us")  # fmt: skip


def _rank(options: argparse.Namespace) -> None:
    keep_freed_memory()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    wanted = class_named(options.device)
    device_class = wanted if wanted.count() else CPU
    device = device_class.device(local_rank() % device_class.count())
    program = reducing_program(rank, world, device.type)
    communicator = Communicator(program, device, timedelta(seconds=300))
    if class_of(device).place(device) is None:  # ranks share the cores
        pin_to_cores(local_rank(), 1)
    results = measure(communicator, options.sizes)
    if rank == 0:
        _write(options, communicator, results)
    communicator.barrier()


def _launch(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Starts the ranks here; 0 when all have ended well."""
    if options.ranks < 2:
        raise RuntimeFault("--ranks: a link has two ends")
    return run_ranks("profile_link", options.ranks, arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    return measurement(
        lambda: _rank(options) if "RANK" in os.environ else _launch(options, arguments)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
