"""How the fidelity benchmark judges predictions: by a frozen list of workloads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import fidelity_measured as measured_files  # noqa: E402
import fidelity_report as judged  # noqa: E402
from fidelity_workloads import (  # noqa: E402
    BadWorkloads,
    Bootstrap,
    Form,
    Workloads,
    local_batches,
    read_workloads,
)

LIST = BENCH / "fidelity-workloads.yaml"
BOOTSTRAP = Bootstrap(resamples=200, seed=1, confidence=0.9)


def outcome(
    form: str, predicted: float, measured: list[float], batch: int = 8, most: float = 0
) -> judged.Outcome:
    runs = tuple(judged.Run((each,), (1.0,), 60.0 + index, 0.0) for index, each in enumerate(measured))
    least = predicted / 2 if most else 0
    return judged.Outcome("m", form, batch, predicted, 80.0, "", 1.0, least, most, runs)


def test_the_list_is_what_its_version_says() -> None:
    """Whoever changes the list changes its version, and this."""
    workloads = read_workloads(LIST)
    assert workloads.version == 1
    assert [subject.name for subject in workloads.models] == [
        "transformer", "mobilenet_v2", "dlrm", "resnet50", "bert_base",
        "resnet18", "vit_small", "lstm", "unet", "llama_small",
    ]  # fmt: skip
    assert [subject.batch for subject in workloads.models] == [2048, 8, 2048, 8, 8, 16, 16, 64, 8, 8]
    assert sum(subject.held_out for subject in workloads.models) == 5
    assert workloads.runs >= 5 and len(workloads.plans) == 14
    assert any(form.extra for form in workloads.plans)


def test_batches_of_one_pass_on_one_core() -> None:
    forms = (Form("a"), Form("b", cores=2, extra=1), Form("c", stages=2, micro_batches=4))
    assert local_batches(8, forms) == [2, 4, 5, 8]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("profile_batches: [384,", "profile_batches: [512,", "measured at 512 samples"),
        ("profile_batches: [384, 768, 1536, 3072]", "profile_batches: [768, 3072]", "measure it at fewer"),
        ("file: small/transformer.onnx, ", "", "needs either a file or a builder"),
        ("name: mobilenet_v2", "name: transformer", "'transformer' is there twice"),
        ("cores: 2}", "nodes: 2}", "'nodes' is not known"),
        ("run_seconds: 5", "", "run_seconds"),
    ],
)
def test_a_list_that_is_wrong(old: str, new: str, complaint: str, tmp_path: Path) -> None:
    text = LIST.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "list.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadWorkloads, match=complaint):
        read_workloads(tmp_path / "list.yaml")


def test_uneven_plans_count_in_the_regret() -> None:
    even = outcome("even", 8.0, [10.0], batch=8)
    uneven = outcome("uneven", 10.0, [9.0], batch=9)
    lost = judged.regret([even, uneven], [0, 0])
    assert lost([even.measured, uneven.measured]) == pytest.approx((10 / 8) / (9 / 9) - 1)


def test_the_interval_of_a_figure() -> None:
    runs = [[1.0, 2.0, 3.0, 4.0, 5.0]]
    low, high = judged.interval(runs, lambda times: times[0], BOOTSTRAP)
    assert 1 < low < 3 < high < 5
    assert (low, high) == judged.interval(runs, lambda times: times[0], BOOTSTRAP), "by its seed"
    assert judged.interval([[7.0] * 5], lambda times: times[0], BOOTSTRAP) == (7.0, 7.0)


def test_order_of_the_plans() -> None:
    assert judged.spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert judged.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert judged.spearman([1, 1, 1], [3, 2, 1]) == 0


def test_memory_is_that_of_the_worst_run() -> None:
    plan = outcome("a", 1.0, [1.0, 1.0, 1.0])
    assert plan.measured_bytes == 62
    assert plan.memory_share == pytest.approx(62 / 80)


def test_a_report_names_its_list() -> None:
    bootstrap = Bootstrap(resamples=20, seed=1, confidence=0.9)
    workloads = Workloads(7, 3, 5.0, 5, bootstrap, read_workloads(LIST).models, ())
    plans = [
        outcome("a", 1.0, [1.0, 1.1, 1.2], most=2.0),
        outcome("b", 2.0, [4.0, 4.1, 4.2], most=3.0),
    ]
    text = judged.report(plans, workloads)
    assert text.startswith("Workloads version 7, 3 runs of each plan")
    (row,) = [line for line in text.splitlines() if line.startswith("| all |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == "2" and cells[10] == "50%" and cells[11] == "2 of 2", "half of the intervals hold"
    assert cells[8:10] == ["0.0%", "0.0% to 0.0%"], "the choice by prediction is the fastest"
    assert "| 1.00 | 1.00 to 1.00 |" in text, "no resample of these runs changes their order"


def test_what_was_measured_is_read_as_it_was_written(tmp_path: Path) -> None:
    plans = [outcome("a", 1.0, [1.25, 1.5], most=2.0), outcome("b", 2.0, [])]
    assert measured_files.known(tmp_path, "m") == []
    measured_files.keep(tmp_path, "m", plans)
    assert measured_files.known(tmp_path, "m") == plans
    assert measured_files.known(tmp_path, "n") == []
    assert [path.name for path in tmp_path.iterdir()] == ["m.outcomes.json"]


def test_a_machine_has_one_name_that_a_folder_may_have() -> None:
    assert measured_files.machine() == measured_files.machine()
    assert set(measured_files.machine()) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-_")
