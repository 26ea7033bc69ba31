"""From ONNX file to losses: `heterplan compile`, then the ranks of its plan against one process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from binary import heterplan, needs_binary
from ranks import run_ranks

MODELS = Path(__file__).resolve().parents[1] / "data/small"

pytestmark = needs_binary


@dataclass(frozen=True)
class Case:
    """A cluster of one node whose devices are so slow, and its link so fast, that all are used."""

    devices: str
    options: tuple[str, ...]
    batch: int
    widths: list[int]  # replicas of each stage
    pinned: bool = False  # first layer on type a, last layer on type b

    def cluster(self) -> str:
        return f"""
name: test
device_types:
  a: {{kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 2MFLOP/s, bandwidth: 2MB/s}}
  b: {{kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 1MFLOP/s, bandwidth: 1MB/s}}
nodes:
  - {{name: here, devices: {self.devices}, link: {{bandwidth: 1000GB/s, latency: 1ns}}}}
"""


CASES = {
    "pipeline": Case("{a: 1, b: 1}", ("--schedule", "pipeline"), 8, [1, 1], pinned=True),
    "uneven": Case("{a: 1, b: 2}", ("--schedule", "data-parallel"), 12, [3]),
    "two-by-two": Case("{a: 2, b: 2}", ("--schedule", "pipeline", "--tensor-parallel", "1"), 12, [2, 2], pinned=True),
}


def compile_plan(case: Case, model: Path, folder: Path) -> dict:
    cluster = folder / "cluster.yaml"
    cluster.write_text(case.cluster())
    pins: list[str] = []
    if case.pinned:
        layers = folder / "model.layers.json"
        heterplan("import", model, "-o", layers)
        names = [layer["name"] for layer in json.loads(layers.read_text())["layers"]]
        pins = ["--pin", f"{names[0]}=a", "--pin", f"{names[-1]}=b"]
    heterplan(
        "compile", model, "--cluster", cluster, "--batch", case.batch, *case.options, *pins,
        "-o", folder / "plan",
    )  # fmt: skip
    return json.loads((folder / "plan/plan.json").read_text())


@pytest.mark.parametrize("model", ["mlp", "cnn", "transformer"])
@pytest.mark.parametrize("name", CASES)
def test_compiled_plan_trains_like_one_process(name: str, model: str, tmp_path: Path):
    case = CASES[name]
    plan = compile_plan(case, MODELS / f"{model}.onnx", tmp_path)
    assert [len(stage["replicas"]) for stage in plan["stages"]] == case.widths
    if name == "uneven":
        shares = {replica["share"] for replica in plan["stages"][0]["replicas"]}
        assert len(shares) > 1
    result = tmp_path / "result.json"
    options = ["--check", "--steps", "10", "--lr", "0.05", "--json", str(result)]
    outcomes = run_ranks(sum(case.widths), tmp_path / "logs", [str(tmp_path / "plan"), *options])
    assert [outcome.status for outcome in outcomes] == [0] * sum(case.widths), outcomes
    facts = json.loads(result.read_text())
    assert facts["checkPassed"] and len(facts["referenceLosses"]) == 10
    assert facts["predictedSeconds"] == plan["expectedSeconds"]


def test_run_starts_the_launcher(tmp_path: Path):
    """The whole way of a user, torchrun included; the trace is one that heterplan reads."""
    plan = compile_plan(CASES["pipeline"], MODELS / "cnn.onnx", tmp_path)
    trace = tmp_path / "measured.trace.json"
    out = heterplan("run", tmp_path / "plan", "--steps", "2", "--check", "--trace", trace)
    assert "check: 2 losses equal those of one process" in out
    assert f"predicted {plan['expectedSeconds'] * 1e3:.2f} ms, measured" in out
    assert {event["pid"] for event in json.loads(trace.read_text())["traceEvents"]} == {0, 1}
