"""The background job of a burst plan: beside each rank whose device has room for it, a second process
that trains a copy of another model in the idle gaps (`gap_filling.py`). The rank tells it by a shared file when
it is idle and for how long, and takes gaps back from it when the steps become longer than agreed."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import torch

from .device_classes import class_of
from .fields import Fields, read_fields
from .gap_gate import Gate
from .manifest import BACKGROUND
from .gap_filling import gap_filling_recorder
from .program import Instruction, RankProgram
from .recorder import Recorder

ENDLESS = 10**9  # steps of a copy
BASELINE = 5  # steps without the copies by which the others are measured
REPEAT, AGAIN = 40, 2  # after so many steps beside the copies, so many without them
WINDOW = 5  # steps whose median is compared with what was agreed
LEAST_SHARE = 1 / 16
GAINED = 1 / 8  # of the gaps, after a window that kept what was agreed
START = 120.0  # seconds that a copy has until it can train
GRACE = 30.0  # seconds in which a copy has to save what it has trained


@dataclass(frozen=True)
class PlannedJob:
    """The background job as plan.json states it."""

    max_slowdown: float
    memory_bytes: float  # of a copy
    overrun: float
    predicted_slowdown: float
    samples_per_second: float
    cluster_throughput: float
    devices: tuple[tuple[str, str, int], ...]

    def has(self, device: tuple[str, str, int]) -> bool:
        return device in self.devices


def _device(fields: Fields) -> tuple[str, str, int]:
    return fields.text("type"), fields.text("node"), fields.integer("index")


def read_job(directory: Path) -> PlannedJob | None:
    """None where the plan has no background job, or no device has room for it."""
    fields = read_fields(directory / "plan.json").object("background")
    copies = fields.objects("copies")
    if not copies:
        return None
    return PlannedJob(
        fields.number("maxSlowdown"), fields.number("memoryBytes"), fields.number("overrunSeconds"),
        fields.number("predictedSlowdown"), fields.number("samplesPerSecond"), fields.number("clusterThroughput"),
        tuple(_device(copy.object("device")) for copy in copies),
    )  # fmt: skip


@dataclass
class SlowdownControl:
    """Which share of the gaps the copies get in the next step: none until it is known how long steps take
    without them; all of them then; half as many when steps become longer than agreed, and more again, bit
    by bit, when they do not. The ranks hear the same times and so decide alike."""

    max_slowdown: float
    warmup: int
    share: float = 0.0
    alone: list[float] = field(default_factory=list)  # seconds of steps
    beside: list[float] = field(default_factory=list)
    _window: list[float] = field(default_factory=list)
    _steps: int = 0
    _alone_left: int = BASELINE
    _granted: float = 1.0

    @property
    def baseline(self) -> float:
        """Median time of the newest steps that ran without the copies."""
        return statistics.median(self.alone[-BASELINE:])

    @property
    def slowdown(self) -> float | None:
        """Median of the steps beside the copies against that of the others; None before there are any."""
        if not self.alone or not self.beside:
            return None
        return statistics.median(self.beside) / statistics.median(self.alone) - 1

    def after_step(self, seconds: float) -> None:
        self._steps += 1
        if self._steps <= self.warmup:
            return
        if self._alone_left > 0:
            self.alone.append(seconds)
            self._alone_left -= 1
        else:
            self._take_in(seconds)
        self.share = self._granted if self._alone_left == 0 else 0.0

    def _take_in(self, seconds: float) -> None:
        self.beside.append(seconds)
        self._window.append(seconds)
        if len(self._window) >= WINDOW:
            kept = statistics.median(self._window) <= self.baseline * (1 + self.max_slowdown)
            self._granted = min(1.0, self._granted + GAINED) if kept else self._granted / 2
            if self._granted < LEAST_SHARE:
                self._granted = LEAST_SHARE
                self._alone_left = WINDOW  # a rest; and the agreement may have become another
            self._window.clear()
        if len(self.beside) % REPEAT == 0:
            self._alone_left = max(self._alone_left, AGAIN)


class GapRecorder(Recorder):
    """Tells the copy when the rank waits for a message, and for how long as far as it knows."""

    def __init__(self, program: RankProgram, device: torch.device, gate: Gate) -> None:
        super().__init__(program, device)
        self._gate = gate
        self._waits: dict[int, float] = {}  # by instruction: seconds of the shorter waits so far

    @contextmanager
    def instruction(self, index: int, instruction: Instruction) -> Iterator[None]:
        if instruction.info.kind != "receive" or instruction.peer == self._program.rank:
            with super().instruction(index, instruction):
                yield
            return
        class_of(self._device).synchronize(self._device)  # what it computed before is no gap
        begin = time.monotonic()
        self._gate.set("gap_end", begin + self._waits.get(index, 0.0))
        try:
            with super().instruction(index, instruction):
                yield
                class_of(self._device).synchronize(self._device)
        finally:
            self._gate.set("gap_end", 0.0)
        waited = time.monotonic() - begin
        known = self._waits.get(index, waited)
        self._waits[index] = known + 0.2 * (waited - known)


class Companion:
    """The copy beside one rank; started with it, and ended by finish()."""

    def __init__(self, options: argparse.Namespace, program: RankProgram) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="heterplan-background-")
        scratch = Path(self._scratch.name)
        self.gate = Gate(scratch / "gate", create=True)
        self._log: IO[bytes] = (scratch / "log").open("w+b")
        self._process = subprocess.Popen(
            _command(options, program, scratch), env=_environment(), stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._rank = program.rank
        self._failed = False
        self._samples = self._seconds = 0.0  # in steps beside the copy
        self._mark = (0.0, time.monotonic())

    def wait_until_ready(self) -> None:
        """To train; or it has failed, or takes too long, and the rank trains without it."""
        limit = time.monotonic() + START
        while not self.gate.get("ready") and self._runs() and time.monotonic() < limit:
            time.sleep(0.02)

    def after_step(self, share: float) -> None:
        """The copy had the share of the gaps that it was told before, and has `share` from now on."""
        self._runs()
        samples, now = self.gate.get("samples"), time.monotonic()
        if self.gate.get("share") > 0:
            before, since = self._mark
            self._samples += samples - before
            self._seconds += now - since
        self._mark = (samples, now)
        self.gate.set("share", share)

    def finish(self) -> dict[str, float]:
        """Ends the copy, which saves a checkpoint, and returns what it has done: steps in all, and
        samples and seconds beside measured steps of the rank."""
        self.gate.set("stop", 1.0)
        if self._runs():
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        steps = self.gate.get("steps")
        self._log.close()
        self._scratch.cleanup()
        return {"steps": steps, "samples": self._samples, "seconds": self._seconds}

    def abandon(self) -> None:
        """Ends the copy as it is: the rank has failed."""
        self._failed = True
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._scratch.cleanup()

    def _runs(self) -> bool:
        """Says once where it does not."""
        status = self._process.poll()
        if status is not None and not self._failed:
            self._failed = True
            print(
                f"note: rank {self._rank}: the background job beside it has ended with status {status}: "
                f"{self._last_words()}",
                file=sys.stderr,
            )
        return status is None

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class Background:
    """The background job as one rank knows it: with a copy of its own, or beside ranks that have one."""

    def __init__(self, options: argparse.Namespace, program: RankProgram, job: PlannedJob) -> None:
        self.job = job
        self.control = SlowdownControl(job.max_slowdown, options.warmup)
        self.companion: Companion | None = None
        if job.has(_device_of(options.directory, program.rank)):
            self.companion = Companion(options, program)

    def begin(self) -> None:
        """Before the first step."""
        if self.companion is not None:
            self.companion.wait_until_ready()

    def after_step(self, seconds: float) -> None:
        """`seconds`: of the slowest rank, so that all ranks decide alike."""
        self.control.after_step(seconds)
        if self.companion is not None:
            self.companion.after_step(self.control.share)

    def finish(self) -> dict[str, float] | None:
        companion, self.companion = self.companion, None
        return None if companion is None else companion.finish()

    def abandon(self) -> None:
        if self.companion is not None:
            self.companion.abandon()


def start_background(options: argparse.Namespace, program: RankProgram) -> Background | None:
    """None where the plan has no background job, or none is wanted."""
    if options.no_background or options.gate is not None:
        return None
    job = read_job(options.directory)
    return None if job is None else Background(options, program, job)


def copy_bytes(options: argparse.Namespace, rank: int) -> int:
    """Predicted memory of the copy that shares the rank's device, in bytes; 0 without a copy."""
    job = None if options.no_background or options.gate is not None else read_job(options.directory)
    if job is None or not job.has(_device_of(options.directory, rank)):
        return 0
    return int(job.memory_bytes)


def make_recorder(
    options: argparse.Namespace, program: RankProgram, device: torch.device, background: Background | None
) -> Recorder:
    """Returns the recorder of a rank with a copy beside it, of such a copy, or of another rank."""
    if options.gate is not None:
        job = read_job(options.directory.resolve().parent)
        return gap_filling_recorder(program, device, options.gate, 0.0 if job is None else job.overrun)
    if background is None or background.companion is None:
        return Recorder(program, device)
    return GapRecorder(program, device, background.companion.gate)


def _device_of(directory: Path, rank: int) -> tuple[str, str, int]:
    return _device(read_fields(directory / "ranks" / f"{rank:04d}.json").object("device"))


def _command(options: argparse.Namespace, program: RankProgram, scratch: Path) -> list[str]:
    package: Path = options.directory / BACKGROUND
    saved = scratch if options.no_save else package
    return [
        sys.executable, "-m", Path(__file__).parent.name, str(package), "--gate", str(scratch / "gate"),
        "--steps", str(ENDLESS), "--seed", str(options.seed + 1 + program.rank), "--checked", "--no-save",
        "--resume", "--checkpoint-dir", str(saved / "checkpoints" / f"copy-{program.rank:04d}"),
        "--device", options.device, "--threads", "1", "--ignore-memory",
        *shlex.split(options.background_options),
    ]  # fmt: skip


def _environment() -> dict[str, str]:
    """The environment of a copy, which has a process group of its own."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    package = str(Path(__file__).resolve().parents[1])
    paths = [package, os.environ.get("PYTHONPATH", "")]
    return ours | {
        "RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }  # fmt: skip


def describe_jobs(
    done: list[dict[str, float]], control: SlowdownControl, job: PlannedJob, foreground: float
) -> tuple[dict[str, Any], list[str]]:
    """Combines the results of all copies: the facts for --json and the lines for the user.
    `foreground`: samples of a step."""
    rate = sum(each["samples"] / each["seconds"] for each in done if each["seconds"] > 0)
    facts: dict[str, Any] = {
        "copies": len(done),
        "steps": [int(each["steps"]) for each in done],
        "samplesPerSecond": rate,
        "slowdown": control.slowdown,
        "maxSlowdown": job.max_slowdown,
        "predictedSlowdown": job.predicted_slowdown,
        "predictedSamplesPerSecond": job.samples_per_second,
        "predictedClusterThroughput": job.cluster_throughput,
        "clusterThroughput": None,
        "share": control.share,
    }
    steps = f"{sum(facts['steps'])} steps of {len(done)} copies"
    if control.slowdown is None:
        return facts, [f"background job: {steps}; too few steps beside it to measure a slow-down"]
    beside = foreground / statistics.median(control.beside)
    facts["clusterThroughput"] = beside + rate
    return facts, [
        f"background job: {steps}, {rate:.1f} samples/s (predicted {job.samples_per_second:.1f}); "
        f"it slows the steps down by {control.slowdown:.1%} (at most {job.max_slowdown:.1%}, predicted "
        f"{job.predicted_slowdown:.1%})",
        f"cluster throughput {beside + rate:.1f} samples/s (predicted {job.cluster_throughput:.1f})",
    ]
