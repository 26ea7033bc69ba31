"""Data sets as samples: exact in uneven shares, made ahead by workers, the same after a resume."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from heterplan_runtime.data import Batch
from heterplan_runtime.data_option import make_data
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.losses import make_loss
from heterplan_runtime.model import Model
from heterplan_runtime.prefetch import PrefetchedData
from heterplan_runtime.program import TensorSpec
from packages import linear

X = TensorSpec("x", torch.float32, ((1, 0), (0, 3)))
Y = TensorSpec("y", torch.float32, ((1, 0), (0, 2)))
MODEL = Model("m", (), {"x": X}, {"y": Y}, {})

MINE = """
import time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset


class Numbers(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return torch.full((3,), float(i)), torch.tensor([i, -i], dtype=torch.float32)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(())


def rows():  # as Hugging Face's data sets give them
    return [{"x": [float(i)] * 3, "labels": [float(i), -float(i)]} for i in range(10)]


numbers = Numbers()
shuffled = DataLoader(numbers, shuffle=True, batch_size=3)
in_order = DataLoader(numbers, batch_size=3)
stream = Stream()
streamed = DataLoader(stream)
other = [{"a": 1.0}]


def batches(step, samples):
    time.sleep(0.5)
    x = torch.tensor([[float(step), float(s), 0.5] * 2 for s in samples])
    return {"x": x}, x[:, :3]


def broken(step, samples):
    raise ValueError("no such file")
"""


def source(name: str, tmp_path: Path, monkeypatch: Any, seed: int = 0) -> Any:
    (tmp_path / "samples_of_test.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    loss = make_loss("mse", Y)
    return make_data("--data", f"samples_of_test:{name}", MODEL, loss, seed, global_batch=4)


def numbers_of(batch: Batch) -> list[int]:
    assert torch.equal(batch.inputs["x"][:, 0], batch.targets[:, 0])
    return [int(number) for number in batch.inputs["x"][:, 0].tolist()]


@pytest.mark.parametrize("name", ["numbers", "Numbers", "in_order", "rows"])
def test_samples_come_in_order_and_epochs_follow_each_other(name, tmp_path, monkeypatch):
    data = source(name, tmp_path, monkeypatch)
    found = [numbers_of(data.load(step, range(4))) for step in range(5)]
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1], [2, 3, 4, 5], [6, 7, 8, 9]]
    assert numbers_of(data.load(2, range(1, 4))) == [9, 0, 1]


def test_each_epoch_has_an_order_of_its_own(tmp_path, monkeypatch):
    data = source("shuffled", tmp_path, monkeypatch)
    found = [n for step in range(5) for n in numbers_of(data.load(step, range(4)))]
    first, second = found[:10], found[10:]
    assert sorted(first) == sorted(second) == list(range(10)) and first != second
    again = source("shuffled", tmp_path, monkeypatch)
    split = [n for part in (range(3), range(3, 4)) for n in numbers_of(again.load(1, part))]
    assert split == found[4:8]
    other = source("shuffled", tmp_path, monkeypatch, seed=1)
    assert [n for step in range(5) for n in numbers_of(other.load(step, range(4)))] != found


def test_epochs_of_stated_length_hold_each_sample_once(tmp_path, monkeypatch):
    (tmp_path / "samples_of_test.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    data = make_data(
        "--data", "samples_of_test:shuffled", MODEL, make_loss("mse", Y), 0, global_batch=4, epoch_samples=10
    )
    sizes = [4, 4, 2] * 2
    found = [numbers_of(data.load(step, range(size))) for step, size in enumerate(sizes)]
    for epoch in (found[:3], found[3:]):
        assert sorted(number for batch in epoch for number in batch) == list(range(10))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("stream", "can only be iterated"),
        ("streamed", "can only be iterated"),
        ("other", "gives 'a'; expected the inputs 'x' and one of targets"),
        ("broken", "no such file"),
        ("MINE", "no attribute 'MINE'"),
    ],
)
def test_what_cannot_be_taken_is_refused(name, message, tmp_path, monkeypatch):
    with pytest.raises(RuntimeFault, match=message):
        source(name, tmp_path, monkeypatch).load(0, range(2))


class Slow:
    """Says which process made a batch, and when it began."""

    def load(self, step: int, samples: range) -> Batch:
        import os

        if step == 3:
            raise RuntimeFault("step 3 is missing")
        return Batch({"x": torch.tensor([os.getpid()])}, (step, samples))


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_make_what_was_announced(workers: int):
    import os

    data = PrefetchedData(Slow(), workers, timeout=60)
    data.begin(range(1, 4), [range(2), range(5, 7)])
    for step in (1, 2):
        for samples in (range(2), range(5, 7)):
            batch = data.load(step, samples)
            assert batch.targets == (step, samples)
            assert (batch.inputs["x"].item() == os.getpid()) == (workers == 0)
    assert data.load(9, range(2)).inputs["x"].item() == os.getpid()  # not announced
    with pytest.raises(RuntimeFault, match="^step 3 is missing$"):
        data.load(3, range(2))


def test_waiting_is_told_and_shortened_by_workers(train, tmp_path, monkeypatch):
    """Half a second a micro-batch: unseen by the time of the steps, but by that of the run."""
    (tmp_path / "slow_samples.py").write_text(MINE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    package = linear([3, 1], micro_batches=1)
    package.model = package.model.replace("import torch\n", f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport torch\n", 1)
    options = ("--loss", "mse", "--steps", "3", "--data", "slow_samples:batches", "--data-workers", "0")
    begin = time.perf_counter()
    result = train(package, *options, "--log-file", str(tmp_path / "log.jsonl"))
    assert time.perf_counter() - begin > 1.5
    assert min(result["dataSeconds"]) > 0.5 > max(result["stepSeconds"])
    assert result["samplesPerSecond"] < 8
    assert "of the time went by waiting for samples" in result["out"]
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log] == [1, 2, 3]
    assert [line["loss"] for line in log] == result["losses"]
    assert [line["dataSeconds"] for line in log] == result["dataSeconds"]
