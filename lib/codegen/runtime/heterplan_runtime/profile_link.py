"""Measures what messages between ranks that compute take, by the communicator that a plan trains with.

    python -m heterplan_runtime.profile_link --name loopback --ranks 2 -o links.profile.json

`heterplan profile --link` calls this; with `--hosts` it has set RANK and the like. Without RANK in the
environment it starts the ranks on this machine. Rank 0 writes a profile file: the latency and bandwidth that
explain the measured times of messages, of each collective, and of rows that ranks read from each other, best.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from .allocator import keep_freed_memory
from .communication import Communicator
from .device_classes import CPU, DEVICE_CLASSES, class_named, class_of, local_rank
from .errors import RuntimeFault
from .link_cases import AllGather, AllReduce, Case, Lookup, LookupGradient, ReduceScatter, Table, Transfer
from .link_fit import Fit, Point, fit
from .local_ranks import measurement, run_ranks
from .pinning import pin_to_cores
from .profile_file import environment
from .program import Instruction, Part, PlannedDevice, RankProgram, SampleRange
from .rank_group import RankGroup
from .robust import trimmed_mean

SIZES = tuple(1 << shift for shift in range(10, 27, 2))  # 1 KiB to 64 MiB
POOL = 256 << 20  # bytes that messages are taken from in turn: no cache holds them
WORK = 3e-3  # seconds that a rank computes before each repetition
ROUNDS, FEWEST = 11, 3  # over all sizes; at least, however long they take
MOST = 40  # repetitions in a round
BUDGET, OVERLAP_PART = 60.0, 0.2  # seconds of all; the part of them for computing beside all-reduces
SIDE = 160  # of the matrices that a rank multiplies meanwhile
OVERLAP_BYTES, BUCKET, LONGEST = 16 << 20, 4 << 20, 0.3  # of an all-reduce beside computing; of a message; seconds
COLUMNS, READ = (16, 128), (1 << 8, 1 << 11, 1 << 14, 1 << 17)  # of tables; rows that a rank reads


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures a link between ranks.")
    add = parser.add_argument
    add("-o", "--output", type=Path, required=True, help="profile file")
    add("--name", required=True, help="the link's name in cluster files or the catalogue")
    add("--ranks", type=int, default=2, help="processes on this machine (2)")
    add("--sizes", type=_sizes, default=SIZES, help="bytes of the messages: 1024,65536")
    add("--time-budget", type=float, default=BUDGET, help="seconds of all measurements, about (60)")
    add("--device", choices=[each.torch_device for each in DEVICE_CLASSES], default="cpu", help="one GPU a rank, or CPUs")
    return parser.parse_args(arguments)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def reducing_program(rank: int, world: int, kind: str) -> RankProgram:
    """A program that all-reduces over the first 2, 3, ... ranks."""
    none = SampleRange(0, 0)
    instructions = tuple(
        Instruction("allReduce", 0, -1, -1, -1, none, RankGroup((range(size),)))
        for size in range(2, world + 1)
    )
    part = Part(0, rank, SampleRange(0, 1), (), (), ())
    device = PlannedDevice(kind, "", rank)
    return RankProgram("link", rank, world, 1, kind, device, world, 1, "sgd", (part,), instructions)


class Work:
    """The computation of a rank between messages: products of matrices, for about WORK seconds.
    Threads of the library that carries messages then have to share its core, as in training."""

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

    def run(self, times: int = 1) -> None:
        for _ in range(self._products * times):
            self._matrix @ self._matrix
        synchronise(self._device)


def synchronise(device: torch.device) -> None:
    class_of(device).synchronize(device)


class LinkBench:
    """Measures cases in rounds over all of them, since a machine may be disturbed for seconds."""

    def __init__(self, communicator: Communicator, budget: float) -> None:
        """`budget`: seconds that the rounds take, about."""
        self._communicator = communicator
        self._work = Work(communicator.device)
        self._budget = budget

    def points(self, cases: Sequence[Case]) -> list[Point]:
        """In seconds the trimmed mean of the blocks; of a block the mean, since now and then a message
        waits for a turn of the scheduler."""
        seconds = (1 - OVERLAP_PART) * self._budget
        each = seconds / ROUNDS / len(cases)
        repetitions = [self._repetitions(case, each) for case in cases]
        blocks = [
            [self._block(case, count) for case, count in zip(cases, repetitions, strict=True)]
            for _ in self._rounds(seconds)
        ]
        self._communicator.drain()
        return [
            Point(case.steps, case.bytes, trimmed_mean(times), case.rows)
            for case, times in zip(cases, zip(*blocks, strict=True), strict=True)
        ]

    def _repetitions(self, case: Case, seconds: float) -> int:
        """As many as fit into `seconds`, the same number on every rank; at least one."""
        once = self._block(case, 1)
        if once < seconds:
            once = self._block(case, 3)
        return min(MOST, max(1, int(seconds / (WORK + once))))

    def _rounds(self, seconds: float) -> Iterator[int]:
        """As many as fit into `seconds`, the same number on every rank."""
        begin = time.perf_counter()
        for done in range(ROUNDS):
            if done >= FEWEST and self._communicator.largest(time.perf_counter() - begin) > seconds:
                return
            yield done

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

    def overlap_loss(self, all_reduces: Fit) -> float:
        """How much computing a rank loses to an all-reduce that travels meanwhile, as a share of the time of the
        all-reduce by itself: 0 to 1. The computing takes twice as long as the all-reduce."""
        members = self._communicator.world_size
        steps = 2 * (members - 1)
        whole = all_reduces.seconds(Point(steps, steps / members * OVERLAP_BYTES, 0.0))
        whole = self._communicator.largest(whole)  # which all ranks agree on
        parts = max(1, min(OVERLAP_BYTES // BUCKET, int(LONGEST / whole * OVERLAP_BYTES // BUCKET)))
        alone = whole * parts * BUCKET / OVERLAP_BYTES
        gradients = [torch.zeros(BUCKET // 4, device=self._communicator.device) for _ in range(parts)]
        times = max(1, round(2 * alone / WORK))
        losses = []
        for _ in self._rounds(OVERLAP_PART * self._budget):
            quiet = self._together(times, [])
            losses.append(self._together(times, gradients) - quiet)
        return min(1.0, max(0.0, trimmed_mean(losses) / alone))

    def _together(self, times: int, gradients: list[Tensor]) -> float:
        """Seconds of computing beside the sum of `gradients`, the mean over all ranks."""
        communicator = self._communicator
        communicator.barrier()
        begin = time.perf_counter()
        wait = communicator.begin_sum(gradients, tuple(range(communicator.world_size)))
        self._work.run(times)
        wait()
        synchronise(communicator.device)
        return communicator.total(time.perf_counter() - begin) / communicator.world_size


@dataclass(frozen=True)
class LinkPoints:
    messages: list[Point]
    all_reduces: list[Point]
    reduce_scatters: list[Point]
    all_gathers: list[Point]
    lookups: list[Point]  # and their gradients
    overlap_loss: float


def measure(communicator: Communicator, sizes: Sequence[int] = SIZES, budget: float = BUDGET) -> LinkPoints:
    pool = torch.zeros(POOL, dtype=torch.uint8, device=communicator.device)
    messages: list[Case] = [Transfer(communicator, pool, size) for size in sizes]
    groups = range(2, communicator.world_size + 1)
    collectives = [
        [kind(communicator, pool, members, size) for members in groups for size in sizes]
        for kind in (AllReduce, ReduceScatter, AllGather)
    ]
    tables = [Table(communicator, columns) for columns in COLUMNS]
    kinds = (Lookup, LookupGradient)
    lookups = [kind(communicator, table, read) for kind in kinds for table in tables for read in READ]
    bench = LinkBench(communicator, budget)
    kinds_of_cases = [messages, *collectives, lookups]
    points = iter(bench.points([case for cases in kinds_of_cases for case in cases]))
    sent, reduced, scattered, gathered, looked_up = (list(islice(points, len(cases))) for cases in kinds_of_cases)
    return LinkPoints(sent, reduced, scattered, gathered, looked_up, bench.overlap_loss(fit(reduced)))


def _write(options: argparse.Namespace, communicator: Communicator, points: LinkPoints) -> None:
    message, reduction, scattering, gathering, lookup = (
        fit(some)
        for some in (
            points.messages, points.all_reduces, points.reduce_scatters, points.all_gathers, points.lookups,
        )
    )  # fmt: skip
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
        "reduceScatterBandwidthBytesPerSecond": scattering.bandwidth,
        "reduceScatterLatencySeconds": scattering.latency,
        "reduceScatterResidual": scattering.residual,
        "allGatherBandwidthBytesPerSecond": gathering.bandwidth,
        "allGatherLatencySeconds": gathering.latency,
        "allGatherResidual": gathering.residual,
        "lookupBandwidthBytesPerSecond": lookup.bandwidth,
        "lookupLatencySeconds": lookup.latency,
        "lookupRowSeconds": lookup.row,
        "lookupResidual": lookup.residual,
        "overlapLoss": points.overlap_loss,
    }
    text = json.dumps({"schemaVersion": "1.0", **now, "date": date, "links": [link]}, indent=1)
    try:
        options.output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise RuntimeFault(f"{options.output}: cannot be written: {error.strerror}") from error
    _print_points("message", points.messages, message)
    _print_points("all-reduce", points.all_reduces, reduction)
    _print_points("reduce-scatter", points.reduce_scatters, scattering)
    _print_points("all-gather", points.all_gathers, gathering)
    _print_points("lookup", points.lookups, lookup)
    print(f"computing loses {points.overlap_loss:.0%} of the time of an all-reduce that travels meanwhile")


def _print_points(what: str, points: Sequence[Point], line: Fit) -> None:
    row = f" + {line.row * 1e9:.0f} ns for a row" if line.row else ""
    print(f"{what}: {line.latency * 1e6:.0f} us + {line.bandwidth / 1e9:.2f} GB/s{row}, "
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
    communicator.share_tables([0])
    if class_of(device).place(device) is None:  # ranks share the cores
        pin_to_cores(local_rank(), 1)
    results = measure(communicator, options.sizes, options.time_budget)
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
