"""Training goes on where it was interrupted, on the same plan or on another of the same model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from chains import chain
from heterplan_runtime.checkpoint import (
    Checkpoint,
    Facts,
    Piece,
    commit,
    complete_ones,
    folder_of,
    keep_newest,
    remove_begun,
    write_part,
)
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.shards import Slicing
from packages import Package, awkward, tables
from pieces import PARALLEL, PIPELINE, STEPS, Job
from safetensors.torch import load_file

@pytest.mark.parametrize(
    ("first", "second"),
    [
        (PIPELINE, PIPELINE),
        (PIPELINE, PARALLEL),
        (PARALLEL, PIPELINE),
        (PARALLEL.sharded("optimizer"), PIPELINE),
        (PIPELINE.sharded("gradients"), chain([], [[1, 2, 1]], 2, "adam").sharded("optimizer")),
        (chain([3], [[1, 3], [4]], 2, "momentum"), chain([], [[4]], 2, "momentum")),
        (chain([2], [[4], [2, 2]], 2, "sgd"), chain([], [[2, 1, 1]], 2, "sgd")),
    ],
)
def test_another_plan_goes_on(tmp_path: Path, first: Package, second: Package) -> None:
    whole = Job(tmp_path / "whole")
    whole.folder.mkdir()
    wanted = whole.run(second, STEPS)
    job = Job(tmp_path)
    head = job.run(first, 3, "--checkpoint-every", "2")
    before = load_file(job.weights)["l0.weight"]
    tail = job.run(second, STEPS)
    assert "resumed from" in job.out and "3 steps are done" in job.out
    assert [*head, *tail] == pytest.approx(wanted, rel=1e-5)
    if first is second:
        assert [*head, *tail] == wanted
    weights, expected = load_file(job.weights), load_file(whole.weights)
    assert weights.keys() == expected.keys() and "bn.running_var" in weights
    assert not torch.allclose(weights["l0.weight"], before, rtol=1e-2), "nothing trained"
    for name, values in expected.items():
        torch.testing.assert_close(weights[name], values, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_tables_divided_otherwise_go_on(tmp_path: Path, optimizer: str) -> None:
    first = tables([[1, 3], [4]], [7, 6], [4, 3], 2, optimizer)
    second = tables([[2, 1, 1], [2, 2]], [3, 0, 10], [1, 5, 1], 2, optimizer)
    whole = Job(tmp_path / "whole")
    whole.folder.mkdir()
    wanted = whole.run(first, STEPS)
    job = Job(tmp_path)
    assert [*job.run(first, 2), *job.run(second, STEPS)] == pytest.approx(wanted, rel=1e-5)
    weights, expected = load_file(job.weights), load_file(whole.weights)
    assert weights["users"].shape == (13, 4)
    for name, values in expected.items():
        torch.testing.assert_close(weights[name], values, rtol=1e-4, atol=1e-6)


def test_check_sees_through_a_checkpoint(tmp_path: Path) -> None:
    """One process that trains from the first step ends with the same state."""
    job = Job(tmp_path, "--check")
    package = awkward([[1, 3], [4], [2, 2]], 2, "adam")
    job.options = ("--loss", "cross_entropy", "--check")
    job.run(package, 2)
    job.run(package.sharded("gradients"), 5)
    assert "parameters, buffers and optimizer state (off by" in job.out


def test_done_training_is_not_trained_again(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run(PARALLEL, 3)
    before = load_file(job.weights)
    assert job.run(PARALLEL, 3) == []
    assert "there is nothing to train" in job.out
    assert all(torch.equal(before[name], values) for name, values in load_file(job.weights).items())


def test_newest_are_kept(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run(PARALLEL, 7, "--checkpoint-every", "2", "--keep", "3")
    assert [path.name[-1] for path in complete_ones(job.checkpoints)] == ["7", "6", "4"]


@pytest.mark.parametrize(
    ("package", "options", "message"),
    [
        (chain([], [[4]], 2, "momentum"), (), "was trained with the optimizer (adam; here momentum)"),
        (chain([], [[2]], 2, "adam"), (), "was trained with the global batch (8; here 4)"),
        (awkward([[4], [4], [4]], 2, "adam"), ("--loss", "cross_entropy"), "is of another model"),
        (PARALLEL, ("--seed", "1"), "was trained with the seed (0; here 1)"),
    ],
)
def test_checkpoint_of_another_training_is_refused(tmp_path: Path, package, options, message) -> None:
    job = Job(tmp_path)
    job.run(PARALLEL, 2)
    outcomes = job.outcomes(package, 4, "--resume", *options)
    assert 0 not in [outcome.status for outcome in outcomes]
    assert message in "".join(outcome.err for outcome in outcomes)


def test_checkpoints_are_not_mixed_up(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run(PARALLEL, 2)
    outcomes = job.outcomes(PARALLEL, 4)
    assert "is there already; go on from it by --resume" in "".join(o.err for o in outcomes)


def damage(path: Path) -> None:
    """As a disk would: the size stays."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["cut", "damage", "unlink", "index"])
def test_what_is_not_whole_is_not_loaded(tmp_path: Path, how: str) -> None:
    job = Job(tmp_path)
    head = job.run(PARALLEL, 5, "--checkpoint-every", "2", "--keep", "9")
    newest = complete_ones(job.checkpoints)[0]
    part = newest / "0001.safetensors"
    if how == "cut":
        part.write_bytes(part.read_bytes()[:-8])
    elif how == "damage":
        damage(part)
    elif how == "unlink":
        part.unlink()
    else:
        (newest / "checkpoint.json").write_text('{"step": 5')
    tail = job.run(PARALLEL, STEPS)
    assert "this checkpoint is not used" in job.out and "4 steps are done" in job.out
    assert tail[0] == head[4]


# The files.

FACTS = Facts(3, 8, "adam", 0, "model", "plan")


def saved(folder: Path, step: int = 3, **pieces: list[float]) -> Path:
    """Pieces by "kind:begin:name"."""
    own = {}
    for key, values in pieces.items():
        kind, begin, name = key.split(":")
        own[Piece(kind, name, int(begin))] = torch.tensor(values)
    begun = folder / f".saving-{step}"
    file = write_part(begun, 0, own, {"w": step})
    return commit(begun, folder, Facts(step, 8, "adam", 0, "model", "plan"), [file])


def test_elements_are_found_wherever_they_are(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        **{"value:0:a/b": [0.0, 1.0], "value:2:a/b": [2.0, 3.0], "value:1:a/b": [1.0, 2.0, 3.0, 4.0]},
    )
    checkpoint = Checkpoint(path)
    checkpoint.verify(0, 1)
    assert (checkpoint.facts, checkpoint.updates) == (FACTS, {"w": 3})
    target = torch.full((3,), -1.0)
    checkpoint.fill(Piece("value", "a/b", 2), target)
    assert target.tolist() == [2, 3, 4]
    with pytest.raises(RuntimeFault, match=r"element 5 of 'a/b' \(value\) is missing"):
        checkpoint.fill(Piece("value", "a/b", 3), target)
    with pytest.raises(RuntimeFault, match="element 0 of 'a/b' .exp_avg. is missing"):
        checkpoint.fill(Piece("exp_avg", "a/b", 0), target)


WHOLE = torch.arange(24.0).reshape(4, 6)
COLUMNS = Slicing(1, (2, 4), (4, 6), 2)  # two fused matrices


def sliced(folder: Path) -> Path:
    """A tensor of which two shards have columns each; a replica of shard 1 has written half of its part."""
    begun, files = folder / ".saving-3", []
    for rank, (shard, begin, end) in enumerate([(0, 0, 12), (1, 0, 6), (1, 6, 12)]):
        own = COLUMNS.part(WHOLE, shard).reshape(-1)[begin:end]
        piece = Piece("value", "w", begin, COLUMNS, shard)
        files.append(write_part(begun, rank, {piece: own}, {"w": 3}, shard))
    return commit(begun, folder, FACTS, files, {"w": COLUMNS})


@pytest.mark.parametrize("slicing", [COLUMNS, None, Slicing(0, (4,), (4, 6), 4), Slicing(1, (6,), (4, 6), 2)])
def test_slices_are_found_however_they_are_cut(tmp_path: Path, slicing: Slicing | None) -> None:
    checkpoint = Checkpoint(sliced(tmp_path))
    for shard in range(slicing.degree if slicing else 1):
        wanted = (slicing.part(WHOLE, shard) if slicing else WHOLE).reshape(-1)
        for begin, end in ((0, len(wanted)), (2, 5)):
            target = torch.full((end - begin,), -1.0)
            checkpoint.fill(Piece("value", "w", begin, slicing, shard), target, (4, 6))
            assert torch.equal(target, wanted[begin:end])


def test_whole_tensors_are_sliced(tmp_path: Path) -> None:
    checkpoint = Checkpoint(saved(tmp_path, **{"value:0:w": WHOLE.reshape(-1).tolist()}))
    target = torch.empty(12)
    checkpoint.fill(Piece("value", "w", 0, COLUMNS, 1), target, (4, 6))
    assert torch.equal(target, COLUMNS.part(WHOLE, 1).reshape(-1))


@pytest.mark.parametrize(("old", "new"), [('"axis": 1', '"axis": 2'), ('"degree": 2', '"degree": 3'), ("2, 4", "0, 0")])
def test_slices_of_the_index_are_not_trusted(tmp_path: Path, old: str, new: str) -> None:
    index = sliced(tmp_path) / "checkpoint.json"
    text = json.dumps(json.loads(index.read_text()))
    assert old in text
    index.write_text(text.replace(old, new))
    with pytest.raises(RuntimeFault, match="cannot divide a tensor so"):
        Checkpoint(index.parent)


def test_only_complete_ones_count(tmp_path: Path) -> None:
    write_part(tmp_path / ".saving-4", 0, {Piece("value", "w", 0): torch.ones(2)}, {})
    write_part(folder_of(tmp_path, 5), 0, {Piece("value", "w", 0): torch.ones(2)}, {})
    path = saved(tmp_path, **{"value:0:w": [1.0]})
    (tmp_path / "step-00000009.bak").mkdir()
    assert complete_ones(tmp_path) == [path]
    remove_begun(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["step-00000003", "step-00000009.bak"]
    for step in (7, 8):
        saved(tmp_path, step, **{"value:0:w": [1.0]})
    keep_newest(tmp_path, 1)
    assert [each.name for each in complete_ones(tmp_path)] == ["step-00000008"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"step": 3', '"step": 4', "holds step 4"),
        ("0000.safetensors", "../../etc/passwd", "is not the name of a rank's file"),
        ('"schemaVersion": "1.0"', '"schemaVersion": "2.0"', "this runtime reads 1.x"),
        ('"updates": {', '"updates": {"x": -1, ', "field 'x' is -1"),
    ],
)
def test_index_is_not_trusted(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = saved(tmp_path, **{"value:0:w": [1.0]})
    index = path / "checkpoint.json"
    text = index.read_text()
    assert old in text
    index.write_text(text.replace(old, new))
    with pytest.raises(RuntimeFault) as error:
        Checkpoint(path)
    assert message in str(error.value)
