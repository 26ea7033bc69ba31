"""The predicted timeline keeps the rules by which Perfetto imports Chrome traces: complete events with names
and times, one after another or within each other on their track, and a name for each track."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import BINARY, SOURCE

HAND = SOURCE / "test/data/hand"
PLANS = {
    "pipeline": ("--micro-batches", "4", "--separate", "stem,head"),
    "data parallelism": ("--schedule", "data-parallel"),
}


@pytest.fixture(scope="module", params=PLANS)
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("trace")
    layers = json.loads((HAND / "chain.layers.json").read_text())["layers"]
    ends = f"{layers[0]['name']},{layers[-1]['name']}"
    options = [ends if option == "stem,head" else option for option in PLANS[request.param]]
    inputs = [HAND / "chain.layers.json", "--cluster", HAND / "pair.yaml", "--profile", HAND / "chain.profile.json"]
    subprocess.run([BINARY, "compile", *inputs, "--batch", "16", *options, "-o", folder / "out"], check=True, capture_output=True)
    shown = [BINARY, "inspect", folder / "out", "--format", "trace"]
    return json.loads(subprocess.run(shown, check=True, capture_output=True).stdout)


def test_every_event_is_complete(trace: dict) -> None:
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert events
    for event in events:
        assert event["name"] and event["cat"] == "predicted"
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0


def test_tracks_have_names(trace: dict) -> None:
    tracks = {(event.get("pid", 0), event.get("tid", 0)) for event in trace["traceEvents"] if event["ph"] == "X"}
    threads, processes = set(), set()
    for event in trace["traceEvents"]:
        if event["ph"] == "M":
            assert event["args"]["name"]
            place = event.get("pid", 0), event.get("tid", 0)
            (threads if event["name"] == "thread_name" else processes).add(place)
    assert threads == tracks
    assert {process for process, _ in processes} == {process for process, _ in tracks}


def test_events_of_a_track_nest(trace: dict) -> None:
    tracks = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            begin = event.get("ts", 0)
            tracks[event.get("pid", 0), event.get("tid", 0)].append((begin, begin + event.get("dur", 0)))
    rounding = 1e-6  # microseconds
    for spans in tracks.values():
        open_until: list[float] = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= begin + rounding:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + rounding
            open_until.append(end)
