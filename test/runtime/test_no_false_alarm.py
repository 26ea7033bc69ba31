"""`--check` finds nothing where there is nothing: models whose rounding grows fast, by many seeds
(HETERPLAN_SEEDS=20 for all of them)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from binary import heterplan, needs_binary
from ranks import run_ranks
from slow_cluster import slow_cluster
from torch import Tensor, nn

pytest.importorskip("transformers")

import zoo  # noqa: E402

pytestmark = needs_binary

SEEDS = int(os.environ.get("HETERPLAN_SEEDS", "2"))
CLUSTER = slow_cluster("{a: 1, b: 1}")


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(6, 12, batch_first=True)
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": self.head(self.cells(x)[0])}


# Eight blocks of two convolutions like ResNet-18's, with batch normalisation after each.
RESNET = zoo.resnet(
    16, num_channels=3, embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[2, 2, 2, 2],
    layer_type="basic",
)  # fmt: skip
DROPPING = {**zoo.GPT2_TO_TRAIN, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}
EXAMPLES: dict[str, Callable[[], zoo.Example]] = {
    "resnet": lambda: RESNET,
    "lstm": lambda: zoo.Example(Lstm, {"x": zoo.noise(7, 6)}),
    "gpt2-tied-dropout": lambda: zoo.gpt2(**DROPPING),
}


@pytest.fixture(scope="module", params=EXAMPLES)
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of replicas with unequal shares."""
    folder = tmp_path_factory.mktemp(request.param)
    model = folder / "model.onnx"
    zoo.export(
        EXAMPLES[request.param](), model, "torchscript", training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
    )  # fmt: skip
    (folder / "cluster.yaml").write_text(CLUSTER)
    heterplan(
        "compile", model, "--cluster", folder / "cluster.yaml", "--batch", 6, "--schedule", "data-parallel",
        "--optimizer", "momentum", "-o", folder / "plan",
    )  # fmt: skip
    shares = json.loads((folder / "plan/plan.json").read_text())["stages"][0]["replicas"]
    assert len({replica["share"] for replica in shares}) == 2
    if "dropout" in request.param:
        assert (folder / "plan/model.py").read_text().count("= self.dropout(") >= 6
    return folder / "plan"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_fault_is_found(plan: Path, tmp_path: Path, seed: int) -> None:
    result = tmp_path / "result.json"
    outcomes = run_ranks(
        2, tmp_path / "logs",
        [str(plan), "--check", "--steps", "5", "--lr", "0.05", "--seed", str(seed), "--no-save",
         "--json", str(result)],
    )  # fmt: skip
    assert [outcome.status for outcome in outcomes] == [0, 0], outcomes[0].err + outcomes[0].out
    facts = json.loads(result.read_text())
    assert facts["checkPassed"] and facts["stateDifference"] < 1e-7
