"""Tests of the times of consecutive calls on a GPU whose kernels are enqueued ahead; a clock with
two timelines stands in for the GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from heterplan_runtime import laps
from heterplan_runtime.laps import CpuLaps, GpuLaps

GPU = torch.device("cuda", 0)


class Timelines:
    """The host's clock, and when the GPU is done with all that it was told."""

    def __init__(self) -> None:
        self.host = self.gpu = 0.0
        self.slept: list[float] = []

    def tell(self, telling: float, computing: float, wait: bool = False) -> None:
        self.host += telling
        self.gpu = max(self.gpu, self.host) + computing
        if wait:
            self.synchronize()

    def synchronize(self, device: Any = None) -> None:
        self.host = max(self.host, self.gpu)

    def sleep(self, cycles: int) -> None:
        self.slept.append(cycles / laps.CYCLES_PER_SECOND)
        self.tell(0.0, self.slept[-1])


class Event:
    times: Timelines

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = max(self.times.gpu, self.times.host)

    def elapsed_time(self, other: Event) -> float:
        return (other.at - self.at) * 1e3


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Timelines:
    made = Timelines()
    monkeypatch.setattr(Event, "times", made, raising=False)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", made.sleep)
    monkeypatch.setattr(laps.class_of(GPU), "synchronize", made.synchronize)
    monkeypatch.setattr(laps.time, "perf_counter", lambda: made.host)
    return made


def sweep(gpu: GpuLaps, times: Timelines, calls: list[tuple[float, float]], wait: bool = False) -> list[float]:
    gpu.begin()
    for telling, computing in calls:
        times.tell(telling, computing, wait)
        gpu.lap()
    return gpu.seconds(0.0)


def test_a_lap_takes_what_computing_or_telling_takes(times: Timelines) -> None:
    gpu, calls = GpuLaps(GPU), [(0.002, 0.001), (0.002, 0.005), (0.002, 0.0)]
    assert not gpu.ready
    sweep(gpu, times, calls)
    assert gpu.ready and not times.slept
    assert sweep(gpu, times, calls) == pytest.approx([0.002, 0.005, 0.002])
    assert times.slept[0] > 0.006, "the GPU waits for as long as telling takes"


def test_what_telling_takes_of_itself_is_left_out_of_it_alone(times: Timelines) -> None:
    gpu = GpuLaps(GPU)
    sweep(gpu, times, [(0.002, 0.001), (0.002, 0.005)])
    gpu.begin()
    for computing in (0.001, 0.005):
        times.tell(0.002, computing)
        gpu.lap()
    assert gpu.seconds(0.0005) == pytest.approx([0.0015, 0.005])


def test_a_lap_that_waits_for_the_gpu_has_no_wait_of_ours(times: Timelines) -> None:
    gpu, calls = GpuLaps(GPU), [(0.001, 0.003), (0.001, 0.002)]
    sweeps = [sweep(gpu, times, calls, wait=True) for _ in range(4)]
    assert len(times.slept) == 1
    # what tells the first lap of the second sweep goes by while the GPU is made to wait
    assert sweeps == [pytest.approx(laps) for laps in ([0.004, 0.003], [0.003, 0.003]) + ([0.004, 0.003],) * 2]


def test_a_processor_is_done_when_a_call_returns(times: Timelines) -> None:
    cpu = CpuLaps()
    assert cpu.ready
    cpu.begin()
    for seconds in (0.5, 0.25):
        times.host += seconds
        cpu.lap()
    assert cpu.seconds(0.1) == pytest.approx([0.4, 0.15])
    assert cpu.seconds(0.1) == []
