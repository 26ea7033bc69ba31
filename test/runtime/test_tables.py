"""Sparse tables: rows that ranks share give the losses of one process that holds them all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.model import load_model, table_rows
from heterplan_runtime.program import TableSpec
from heterplan_runtime.tables import GroupedEmbedding, RowCodec, RowOptimizer, Tables, make_groups
from packages import tables

CHECK = ("--check", "--steps", "10", "--lr", "0.05")


@pytest.mark.parametrize(
    ("widths", "users", "items"),
    [
        ([[4], [4]], [13], [7]),  # nothing to exchange
        ([[1, 3], [4]], [7, 6], [4, 3]),
        ([[2, 1, 1], [3, 1]], [0, 13, 0], [3, 0, 4]),  # whole tables, and ranks without rows
    ],
)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_equals_one_process(train, widths, users, items, optimizer):
    package = tables(widths, users, items, micro_batches=3, optimizer=optimizer)
    result = train(package, *CHECK)
    assert result["checkPassed"]
    assert result["losses"][-1] != pytest.approx(result["losses"][0], rel=1e-3), "nothing trained"


def test_momentum_of_rows_equals_one_process(train):
    package = tables([[2, 2], [4]], [6, 7], [3, 4], micro_batches=2, optimizer="momentum")
    assert train(package, *CHECK)["checkPassed"]


def test_losses_do_not_depend_on_the_shards(train, tmp_path: Path):
    import json

    from ranks import run_ranks

    split = train(tables([[1, 3], [4]], [7, 6], [4, 3], micro_batches=2), *CHECK)
    folder = tables([[4], [4]], [13], [7], micro_batches=2).write(tmp_path / "whole")
    result = tmp_path / "whole.json"
    outcomes = run_ranks(
        2, tmp_path / "logs2", [str(folder), *CHECK, "--json", str(result)]
    )
    assert [outcome.status for outcome in outcomes] == [0, 0], outcomes
    assert split["losses"] == pytest.approx(json.loads(result.read_text())["losses"], rel=1e-5)


def test_half_precision_on_the_way(train):
    package = tables([[2, 2], [4]], [6, 7], [3, 4], micro_batches=2)
    result = train(package, *CHECK, "--transfer-precision", "fp16")
    assert result["checkPassed"]
    assert "half precision" in result["out"]
    assert result["losses"] != result["referenceLosses"]  # it was not ignored


def test_an_index_beyond_the_table_is_a_fault(fail, tmp_path: Path):
    package = tables([[2, 2], [4]], [6, 6], [3, 4], micro_batches=2)  # 12 rows, indices below 13
    package.model = package.model.replace("((13, 4)", "((12, 4)")
    folder = package.write(tmp_path / "plan")
    outcomes = fail(folder, 3, "--steps", "10", "--timeout", "20")
    assert any("not below its 12 rows" in outcome.err for outcome in outcomes), outcomes
    assert any("'lookup' of micro-batch" in outcome.err for outcome in outcomes)


@pytest.mark.parametrize("users", [[7, 7], [13]])
def test_shards_that_are_not_those_of_the_model_are_refused(fail, tmp_path: Path, users):
    folder = tables([[2, 2], [4]], users, [3, 4], micro_batches=2).write(tmp_path / "plan")
    outcomes = fail(folder, 3, "--steps", "1")
    assert any("other tables" in o.err or "another group" in o.err for o in outcomes), outcomes


def test_rows_start_alike_on_any_rank(tmp_path: Path):
    package = tables([[4], [4]], [13], [7], micro_batches=1)
    package.model = package.model.replace("((13, 4)", "((10000, 4)")
    folder = package.write(tmp_path / "plan")
    model = load_model(folder)

    def rows(begin: int, end: int) -> torch.Tensor:
        return table_rows(model, 0, "users", range(begin, end), folder, seed=3)

    whole = rows(0, 10000)
    assert whole.shape == (10000, 4)
    assert len(whole.unique(dim=0)) == 10000
    assert torch.equal(torch.cat([rows(0, 5000), rows(5000, 5001), rows(5001, 10000)]), whole)
    assert rows(77, 77).shape == (0, 4)


@pytest.mark.parametrize(("name", "dense"), [("sgd", torch.optim.SGD), ("adam", torch.optim.SparseAdam)])
def test_row_optimizer_equals_pytorch(name, dense):
    torch.manual_seed(0)
    weight = torch.randn(9, 4)
    parameter = torch.nn.Parameter(weight.clone())
    rows, theirs = RowOptimizer(name, weight, 0.1), dense([parameter], lr=0.1)
    for step in range(6):
        index = torch.randint(0, 9, (5,)) if step != 3 else torch.empty(0, dtype=torch.int64)
        gradient = torch.randn(len(index), 4)
        parameter.grad = torch.sparse_coo_tensor(index[None], gradient, (9, 4))
        theirs.step()
        rows.step(index, gradient)
        torch.testing.assert_close(weight, parameter.detach())


def test_momentum_of_rows_that_are_always_touched_is_that_of_pytorch():
    torch.manual_seed(0)
    weight = torch.randn(5, 3)
    parameter = torch.nn.Parameter(weight.clone())
    rows, theirs = RowOptimizer("momentum", weight, 0.1), torch.optim.SGD([parameter], 0.1, 0.9)
    for _ in range(4):
        parameter.grad = torch.randn(5, 3)
        theirs.step()
        rows.step(torch.arange(5), parameter.grad)
        torch.testing.assert_close(weight, parameter.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rows_travel_unchanged(dtype):
    rows = torch.randn(7, 5).to(dtype)
    codec = RowCodec("fp32", dtype)
    data = codec.encode(rows)
    assert len(data) == 7 * codec.size(5)
    assert torch.equal(codec.decode(data, 5), rows)


def test_half_precision_keeps_eleven_bits_of_any_size():
    torch.manual_seed(0)
    rows = torch.randn(50, 8) * 10.0 ** torch.randint(-30, 30, (50, 1))
    rows[7] = 0
    codec = RowCodec("fp16", torch.float32)
    data = codec.encode(rows)
    assert codec.size(8) == 20 and len(data) == 50 * 20
    decoded = codec.decode(data, 8)
    largest = rows.abs().amax(1, keepdim=True)
    assert ((decoded - rows).abs() <= largest * 2.0**-11).all()
    assert torch.equal(decoded[7], torch.zeros(8))
    assert not torch.equal(decoded, rows)


def test_a_lookup_sums_the_gradients_of_a_row():
    spec = TableSpec("t", torch.float32, 2, (6,))
    groups = [GroupedEmbedding([spec], 0, lambda _: torch.arange(12.0).view(6, 2), "sgd", 1.0)]
    table, weight = Tables(groups, ("t",)), groups[0].weight
    index = torch.tensor([[5, 1], [1, -6]])
    table.start(0, lambda: [index])
    found = table.finish(0)
    rows = found.take("t", index)
    assert torch.equal(rows, torch.arange(12.0).view(6, 2)[index])
    rows.sum().backward()
    table.push_gradients(found)
    before = weight.clone()
    table.step()
    assert torch.equal(before - weight, torch.tensor([1.0, 2, 0, 0, 0, 1])[:, None].expand(6, 2))
    table.step()  # nothing has come since
    with pytest.raises(RuntimeFault, match="other rows than announced"):
        table.start(1, lambda: [index])
        table.finish(1).take("t", index[:1])
    table.close()


def test_keys_are_those_of_the_member_that_has_the_row():
    specs = [TableSpec("a", torch.float32, 2, (3, 2)), TableSpec("b", torch.float32, 2, (0, 4))]
    empty = lambda spec: torch.zeros(spec.rows[1], 2)  # noqa: E731
    group = GroupedEmbedding(specs, 1, empty, "sgd", 1.0)
    assert group.weight.shape == (6, 2)
    # member 0 has rows 0, 1, 2 of a; member 1 has rows 3, 4 of a and then all of b
    keys = group.keys([0, 1, 0], [torch.tensor([[4, 2]]), torch.tensor([0, -1]), torch.tensor([3])])
    assert keys.tolist() == [4, 2, 5, 8, 3]
    parts = group.by_member(torch.tensor([0, 2, 3, 8]))
    assert [part.tolist() for part in parts] == [[0, 2], [0, 5]]
    with pytest.raises(RuntimeFault, match="an index of table 'b' is not below its 4 rows"):
        group.keys([0, 1], [torch.tensor([4]), torch.tensor([4])])


def test_tables_of_one_kind_are_looked_up_together():
    torch.manual_seed(0)
    kinds = [("a", torch.float32, 2), ("b", torch.float64, 2), ("c", torch.float32, 2)]
    specs = [TableSpec(name, dtype, columns, (5,)) for name, dtype, columns in kinds]
    rows = {spec.name: torch.randn(5, 2, dtype=spec.dtype) for spec in specs}
    groups = make_groups(specs, lambda alike: GroupedEmbedding(alike, 0, lambda s: rows[s.name], "sgd", 1.0))
    assert [[spec.name for spec in group.specs] for group in groups] == [["a", "c"], ["b"]]
    lookups = ("c", "b", "a", "c")
    indices = [torch.randint(0, 5, shape) for shape in ((3,), (2, 2), (1,), (2,))]
    table = Tables(groups, lookups)
    table.start(0, lambda: indices)
    found = table.finish(0)
    taken = [found.take(name, index) for name, index in zip(lookups, indices, strict=True)]
    for name, index, read in zip(lookups, indices, taken, strict=True):
        assert torch.equal(read, rows[name][index])
    sum(read.double().sum() for read in taken).backward()
    table.push_gradients(found)
    table.step()
    both = torch.cat([indices[0], indices[3]])
    changed = torch.zeros(5).index_add_(0, both, torch.ones(5))[:, None].expand(5, 2)
    torch.testing.assert_close(rows["c"] - groups[0].weight[5:], changed)
    table.close()
