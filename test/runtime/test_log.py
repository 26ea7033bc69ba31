"""Tests of the records of a training for programs that draw curves."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.log import JsonLines, make_log
from packages import linear
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def curves(folder: Path) -> dict[str, dict[int, float]]:
    """By name and step."""
    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        name: {event.step: event.value for event in events.Scalars(name)} for name in events.Tags()["scalars"]
    }


def test_a_training_shows_its_losses_in_tensorboard(train, tmp_path: Path) -> None:
    options = ("--loss", "mse", "--steps", "3", "--tensorboard", str(tmp_path / "events"))
    result = train(linear([3, 1], micro_batches=1), *options)
    shown = curves(tmp_path / "events")
    assert list(shown["loss"]) == [1, 2, 3]
    assert list(shown["loss"].values()) == pytest.approx(result["losses"], rel=1e-6)
    assert {"learningRate", "stepSeconds", "samplesPerSecond"} <= set(shown)


def test_what_goes_on_takes_the_place_of_later_steps(tmp_path: Path) -> None:
    for first_step, losses in ((0, [5.0, 4.0, 3.0]), (1, [2.0])):
        log = make_log(tmp_path / "lines", tmp_path / "events", first_step)
        for step, loss in enumerate(losses, first_step + 1):
            log.write(step, loss=loss, evaluation={"accuracy": loss / 10})
    shown = curves(tmp_path / "events")
    assert shown["loss"] == {1: 5.0, 2: 2.0}
    assert shown["evaluation/accuracy"] == pytest.approx({1: 0.5, 2: 0.2})
    lines = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 2]


def test_json_has_null_for_what_is_no_number(tmp_path: Path) -> None:
    JsonLines(tmp_path / "lines", goes_on=False).write(1, loss=math.nan)
    assert json.loads((tmp_path / "lines").read_text()) == {"step": 1, "loss": None}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeFault, match="--log-file .*missing"):
        make_log(tmp_path / "missing" / "lines", None, 0)
    with pytest.raises(RuntimeFault, match="--tensorboard .*file"):
        make_log(None, tmp_path / "file" / "events", 0)
