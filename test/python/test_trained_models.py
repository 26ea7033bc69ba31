"""Plans of models of transformers train what the modules do: adapters alone, tied tables over two stages."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch
import transformers
from conftest import SOURCE
from test_parameters import Adapted
from torch import Tensor, nn
from torch.nn import functional

import heterplan

sys.path.append(str(SOURCE / "test/runtime"))

from live_memory import LiveMemory  # noqa: E402

WORDS, LENGTH, BATCH = 200, 32, 8
BANDWIDTH, LATENCY = 1e9, 1e-6


def llama() -> nn.Module:
    """Adapters beside the projections of queries and values; everything else is frozen."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=256, max_position_embeddings=64,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).requires_grad_(False)
    for layer in model.model.layers:
        for name in ("q_proj", "v_proj"):
            base = getattr(layer.self_attn, name)
            adapted = Adapted(base.in_features, base.out_features, rank=4)
            adapted.base = base
            setattr(layer.self_attn, name, adapted)
    return model


def tokens() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    words = torch.randint(3, WORDS, (BATCH, LENGTH), generator=generator)
    return {"input_ids": words, "attention_mask": torch.ones_like(words)}


def memory_of_training(model: nn.Module) -> int:
    """Bytes of the tensors that are alive at the worst moment of two steps of Adam."""
    batch = tokens()
    held = sum(each.numel() * each.element_size() for each in (*model.parameters(), *model.buffers()))
    optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad])
    with LiveMemory() as live:
        for _ in range(2):
            returned = model(**batch)
            logits = returned if isinstance(returned, Tensor) else returned.logits
            functional.cross_entropy(logits.flatten(0, 1), batch["input_ids"].flatten()).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    return held + live.peak


def test_adapters_take_the_memory_that_pytorch_takes(tmp_path: Path, cores: Path) -> None:
    example = {name: each[:2] for name, each in tokens().items()}
    wanted = memory_of_training(llama().train())
    alone = heterplan.compile(
        llama(), cores, inputs=example, batch=BATCH, micro_batches=1, optimizer="adam", max_devices={"core": 1},
        schedule="data-parallel", output=tmp_path / "alone",
    )  # fmt: skip
    assert alone.stages[0].memory_bytes <= 1.1 * wanted
    assert memory_of_training(alone.module().train()) <= 1.1 * wanted
    both = heterplan.compile(
        llama(), cores, inputs=example, batch=BATCH, micro_batches=1, optimizer="adam", shard_state="none",
        schedule="data-parallel", output=tmp_path / "both",
    )  # fmt: skip
    stage = both.json["stages"][0]
    adapters = 4 * sum(each.numel() for each in llama().parameters() if each.requires_grad)
    assert len(both.stages[0].replicas) == 2 and stage["parameterBytes"] == adapters
    # Two replicas send half of the gradients twice.
    reduced = stage["syncSeconds"] - stage["updateSeconds"]
    assert reduced == pytest.approx(adapters / BANDWIDTH + 2 * LATENCY, rel=1e-6)


def gpt2() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=16, bos_token_id=1, eos_token_id=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def test_a_pipeline_of_a_tied_gpt2_trains_the_module(tmp_path: Path, cores: Path) -> None:
    module = gpt2()
    example = {"input_ids": torch.randint(3, WORDS, (2, 12)), "attention_mask": torch.ones(2, 12).long()}
    plan = heterplan.compile(
        module, cores, inputs=example, batch=BATCH, micro_batches=2, optimizer="adam", output=tmp_path / "out",
        separate=[("/transformer/wte/Gather", "/lm_head/MatMul")],
    )  # fmt: skip
    assert len(plan.stages) == 2
    assert all(stage["parameterBytes"] >= 4 * WORDS * 32 for stage in plan.json["stages"])
    plan.verify(cores)
    checked = plan.check(steps=3, lr=0.01)  # beside the module, and the ranks beside one process
    result = plan.run(steps=3, lr=0.01, checkpoint_every=2, checkpoint_dir=tmp_path / "saved")
    assert result["losses"] == pytest.approx(checked["losses"], rel=1e-4)
    weights = plan.weights()
    lacking = module.load_state_dict(weights, strict=False)
    assert not lacking.unexpected_keys and set(lacking.missing_keys) <= {"lm_head.weight"}
    plan.export(tmp_path / "trained.onnx")
    alone = heterplan.compile(
        tmp_path / "trained.onnx", cores, batch=BATCH, optimizer="adam", output=tmp_path / "alone",
        schedule="data-parallel", max_devices={"core": 1},
    )  # fmt: skip
    logits = alone.module().eval()(**example)
    assert torch.allclose(logits, module.eval()(**example).logits, atol=1e-4)
    shutil.copytree(tmp_path / "saved", tmp_path / "copy")
    resumed = alone.run(steps=5, lr=0.01, resume=True, checkpoint_dir=tmp_path / "copy", no_save=True)
    went_on = plan.run(steps=5, lr=0.01, resume=True, checkpoint_dir=tmp_path / "saved", no_save=True)
    assert resumed["losses"] == pytest.approx(went_on["losses"], rel=1e-4)
