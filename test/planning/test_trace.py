"""The predicted timeline keeps the rules by which Perfetto imports Chrome traces: complete events with names
and times, one after another or within each other on their track, a name for each track, flows with two ends
that each lie in an event, and counters that are numbers."""

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


def test_a_flow_has_two_ends_within_events(trace: dict) -> None:
    ends = defaultdict(dict)
    for event in trace["traceEvents"]:
        if event["ph"] in "sf":
            assert event["bp"] == "e" and event["name"] in ("activations", "gradients")
            assert event["ph"] not in ends[event["id"]], "an id is used once"
            ends[event["id"]][event["ph"]] = event
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X" and event.get("dur", 0) > 0]

    def around(end: dict) -> set[str]:
        track = end.get("pid", 0), end.get("tid", 0)
        return {span["name"] for span in spans if (span.get("pid", 0), span.get("tid", 0)) == track
                and span.get("ts", 0) < end["ts"] < span.get("ts", 0) + span["dur"]}  # fmt: skip

    received = sum(event["name"].startswith("receive") for event in trace["traceEvents"] if event["ph"] == "X")
    assert len(ends) == received
    for both in ends.values():
        assert set(both) == {"s", "f"} and both["s"]["ts"] < both["f"]["ts"]
        gradient = both["s"]["name"] == "gradients"
        assert around(both["s"]) == {"backward" if gradient else "forward"}
        assert around(both["f"]) == {"receiveGradient" if gradient else "receive"}
        step = both["f"].get("pid", 0) - both["s"].get("pid", 0)
        assert step == (-1 if gradient else 1)


def test_counters_say_how_many_samples_are_held(trace: dict) -> None:
    counters = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
            counters[event.get("pid", 0), event["name"]].append((event["ts"], event["args"].get("samples", 0)))
    ranks = {event.get("tid", 0) for event in trace["traceEvents"] if event["ph"] == "X"}
    assert {name for _, name in counters} == {f"activations held by rank {rank}" for rank in ranks}
    for series in counters.values():
        times, held = zip(*series)
        assert list(times) == sorted(times)
        assert all(samples >= 0 for samples in held) and held[-1] == 0 and max(held) > 0
    if len({stage for stage, _ in counters}) == 2:  # four micro-batches of 4: one holds two of them, one holds one
        most = {stage: max(samples for _, samples in series) for (stage, _), series in counters.items()}
        assert most[0] > most[1]
