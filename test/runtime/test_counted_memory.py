"""Plans count at least the tensors that a training step keeps alive on a GPU, and not many more."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from binary import heterplan, needs_binary
from cuda_autocast import CudaAutocast
from generated import load
from live_memory import LiveMemory
from torch import Tensor
from torch.nn import functional

SMALL = Path(__file__).resolve().parents[1] / "data/small"
BATCH, CLUSTER = 64, """\
name: one
device_types:
  gpu: {kind: gpu, memory: 16GiB, fp32: 10TFLOP/s, bf16: 100TFLOP/s, bandwidth: 1TB/s, memory_overhead: 1B}
nodes:
  - {name: node, devices: {gpu: 1}, link: {bandwidth: 1GB/s, latency: 1us}}
"""


def attention_on_gpu(precision: str) -> Callable[..., Tensor]:
    """The kernels that scaled_dot_product_attention takes on a GPU; on meta tensors it takes none."""

    def attend(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, scale: float | None = None) -> Tensor:
        if precision == "bf16":
            q, k, v = (operand.to(torch.bfloat16) for operand in (q, k, v))
            flash = torch.ops.aten._scaled_dot_product_flash_attention
            return flash(q, k, v, 0.0, is_causal, False, scale=scale)[0]
        efficient = torch.ops.aten._scaled_dot_product_efficient_attention
        return efficient(q, k, v, None, True, 0.0, is_causal, scale=scale)[0]

    return attend


def peak_of_a_step(folder: Path, precision: str) -> int:
    """The most bytes that are alive in a forward and a backward pass of the only stage."""
    module = load(folder)
    meta = torch.device("meta")

    def sizes(dims: tuple[tuple[int, int], ...]) -> list[int]:
        return [each * BATCH + fixed for each, fixed in dims]

    with LiveMemory() as memory:
        with torch.device(meta):
            stage = module.Stage0()
        inputs = [
            torch.empty(sizes(module.INPUTS[name][1]), dtype=getattr(torch, module.INPUTS[name][0]), device=meta)
            for name in stage.inputs
        ]
        targets = torch.empty(sizes(module.OUTPUTS[stage.sends[0]][1])[:-1], dtype=torch.int64, device=meta)
        with CudaAutocast() if precision == "bf16" else nullcontext():
            outputs = stage(*inputs)
        outputs = outputs[0]
        logits = outputs.float()
        loss = functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
        del logits
        loss.backward()
    return memory.peak


@needs_binary
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("model", ["transformer", "cnn", "branches"])
def test_plans_count_what_a_step_keeps(
    tmp_path: Path, model: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functional, "scaled_dot_product_attention", attention_on_gpu(precision))
    (tmp_path / "c.yaml").write_text(CLUSTER)
    text = heterplan(
        "compile", SMALL / f"{model}.onnx", "--cluster", tmp_path / "c.yaml", "--batch", BATCH, "--micro-batches", 1,
        "--precision", precision, "--recompute", "never", "--json", "-o", tmp_path / "plan",
    )  # fmt: skip
    counted = json.loads(text)["stages"][0]["memoryBytes"]
    alive = peak_of_a_step(tmp_path / "plan", precision)
    assert 0.98 * alive <= counted <= 1.3 * alive, (alive, counted)
