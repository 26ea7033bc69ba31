"""Models as users bring them: built from transformers' configurations with random weights, and
exported by PyTorch in both ways. Tiny by default; the full sizes are for trials by hand."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers as t
from torch import Tensor, nn

EXPORTERS = ("torchscript", "dynamo")
VOCABULARY = 99
SEQUENCE = 12
Maker = Callable[[int], Tensor]  # from the number of samples


class Select(nn.Module):
    """The model with positional inputs, and as its outputs the tensors called `outputs`."""

    def __init__(self, model: nn.Module, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.inputs = inputs
        self.outputs = outputs

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        result = self.model(**dict(zip(self.inputs, inputs, strict=True)))
        return tuple(result[name] for name in self.outputs)


@dataclass
class Example:
    """How to build one model, and how to make each of its inputs."""

    build: Callable[[], nn.Module]
    inputs: dict[str, Maker]
    outputs: tuple[str, ...] = ("logits",)

    def module(self) -> Select:
        torch.manual_seed(0)
        model = self.build().eval()
        with torch.no_grad():
            for parameter in model.parameters():  # no two are equal: the file must not share them
                parameter += 0.01 * torch.randn_like(parameter)
        return Select(model, tuple(self.inputs), self.outputs).eval()

    def sample(self, samples: int, seed: int = 1) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        return {name: make(samples) for name, make in self.inputs.items()}


def tokens(bound: int, length: int) -> Maker:
    """Never 0: torch.nn.Embedding(padding_idx=0) does not train its row, but ONNX cannot say so."""
    return lambda samples: torch.randint(1, bound, (samples, length))


def padding(length: int) -> Maker:
    """A mask of sequences that end one token apart."""

    def make(samples: int) -> Tensor:
        ends = length - torch.arange(samples)[:, None] % (length - 1)
        return (torch.arange(length)[None] < ends).long()

    return make


def noise(*shape: int) -> Maker:
    return lambda samples: torch.randn(samples, *shape)


def bert(vocabulary: int = VOCABULARY, length: int = SEQUENCE, **sizes: object) -> Example:
    config = t.BertConfig(vocab_size=vocabulary, **sizes)
    inputs = {"input_ids": tokens(vocabulary, length), "attention_mask": padding(length)}
    return Example(lambda: t.BertForMaskedLM(config), inputs)


def gpt2(vocabulary: int = VOCABULARY, length: int = SEQUENCE, **sizes: object) -> Example:
    config = t.GPT2Config(vocab_size=vocabulary, use_cache=False, **sizes)
    inputs = {"input_ids": tokens(vocabulary, length), "attention_mask": padding(length)}
    return Example(lambda: t.GPT2LMHeadModel(config), inputs)


def llama(vocabulary: int = VOCABULARY, length: int = SEQUENCE, **sizes: object) -> Example:
    config = t.LlamaConfig(vocab_size=vocabulary, use_cache=False, **sizes)
    inputs = {"input_ids": tokens(vocabulary, length), "attention_mask": padding(length)}
    return Example(lambda: t.LlamaForCausalLM(config), inputs)


def mixtral(vocabulary: int = VOCABULARY, length: int = SEQUENCE, **sizes: object) -> Example:
    config = t.MixtralConfig(vocab_size=vocabulary, use_cache=False, **sizes)
    config._experts_implementation = "batched_mm"
    inputs = {"input_ids": tokens(vocabulary, length), "attention_mask": padding(length)}
    return Example(lambda: t.MixtralForCausalLM(config), inputs)


def t5(vocabulary: int = VOCABULARY, length: int = SEQUENCE, **sizes: object) -> Example:
    config = t.T5Config(vocab_size=vocabulary, use_cache=False, **sizes)
    config._attn_implementation = "eager"
    inputs = {
        "input_ids": tokens(vocabulary, length),
        "attention_mask": padding(length),
        "decoder_input_ids": tokens(vocabulary, length - 3),
    }
    return Example(lambda: t.T5ForConditionalGeneration(config), inputs)


def vit(image: int = 224, **sizes: object) -> Example:
    config = t.ViTConfig(image_size=image, num_labels=10, **sizes)
    inputs = {"pixel_values": noise(3, image, image)}
    return Example(lambda: t.ViTForImageClassification(config), inputs)


def resnet(image: int = 224, **sizes: object) -> Example:
    config = t.ResNetConfig(num_labels=10, **sizes)
    inputs = {"pixel_values": noise(3, image, image)}
    return Example(lambda: t.ResNetForImageClassification(config), inputs)


def whisper(vocabulary: int = VOCABULARY, frames: int = 3000, **sizes: object) -> Example:
    special = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0)
    config = t.WhisperConfig(
        vocab_size=vocabulary,
        max_source_positions=frames // 2,
        use_cache=False,
        **special,
        decoder_start_token_id=0,
        **sizes,
    )
    inputs = {
        "input_features": noise(config.num_mel_bins, frames),
        "decoder_input_ids": tokens(vocabulary, SEQUENCE),
        "decoder_attention_mask": padding(SEQUENCE),
    }
    return Example(lambda: t.WhisperForConditionalGeneration(config), inputs)


class Recommender(nn.Module):
    """A small DLRM: an embedding a feature, their pairwise products, a tower below and above."""

    def __init__(self, rows: int = 50, features: int = 4, width: int = 8) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(features))
        pairs = torch.tril_indices(features + 1, features + 1, -1)
        self.register_buffer("rows", pairs[0], persistent=False)
        self.register_buffer("columns", pairs[1], persistent=False)
        self.top = nn.Sequential(nn.Linear(width + len(pairs[0]), 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, dense: Tensor, sparse: Tensor) -> dict[str, Tensor]:
        low = self.bottom(dense)
        rows = [table(sparse[:, i]) for i, table in enumerate(self.tables)]
        stack = torch.stack([low, *rows], 1)
        products = stack @ stack.transpose(1, 2)
        pairs = products[:, self.rows, self.columns]
        return {"logits": self.top(torch.cat([low, pairs], 1))}


def dlrm() -> Example:
    return Example(Recommender, {"dense": noise(6), "sparse": tokens(50, 4)})


SMALL_BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TINY: dict[str, Example] = {
    "bert": bert(**SMALL_BERT, intermediate_size=64, max_position_embeddings=SEQUENCE),
    "gpt2": gpt2(n_embd=32, n_layer=2, n_head=4, n_positions=16),
    "llama": llama(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=48, max_position_embeddings=32,
    ),
    "t5": t5(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
    "vit": vit(
        16, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        patch_size=4,
    ),
    "resnet": resnet(
        32, embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2], layer_type="bottleneck"
    ),
    "whisper": whisper(
        frames=20, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8,
        max_target_positions=16,
    ),
    "mixtral": mixtral(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=48, max_position_embeddings=32, num_local_experts=4,
        num_experts_per_tok=2,
    ),
}

# Without dropout, which no two programs draw alike.
BERT_TO_TRAIN = {
    **SMALL_BERT, "intermediate_size": 64, "max_position_embeddings": SEQUENCE,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}
GPT2_TO_TRAIN = {
    "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 16, "resid_pdrop": 0.0,
    "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}
TRAINED: dict[str, Example] = {
    "bert": bert(**BERT_TO_TRAIN),
    "bert-untied": bert(**BERT_TO_TRAIN, tie_word_embeddings=False),
    "gpt2": gpt2(**GPT2_TO_TRAIN),
    "gpt2-untied": gpt2(**GPT2_TO_TRAIN, tie_word_embeddings=False),
    "resnet": TINY["resnet"],
    "dlrm": dlrm(),
}

FULL: dict[str, Example] = {
    "bert": bert(30522, 128),
    "gpt2": gpt2(50257, 128),
    "llama": llama(
        128256, 128, hidden_size=2048, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, intermediate_size=8192, tie_word_embeddings=True, head_dim=64,
    ),
    "t5": t5(32128, 128),
    "vit": vit(),
    "resnet": resnet(),
    "whisper": whisper(51865),
}


def export(
    example: Example,
    path: Path,
    exporter: str,
    *,
    dynamic: bool = True,
    opset: int | None = None,
    samples: int = 2,
    **options: object,
) -> Select:
    """Writes the ONNX file of `example`, its batch symbolic or not; returns the exported module."""
    module = example.module()
    if dynamic and exporter == "torchscript":
        names = (*example.inputs, *example.outputs)
        options["dynamic_axes"] = {name: {0: "batch"} for name in names}
    elif dynamic:
        batch = torch.export.Dim("batch")
        options["dynamic_shapes"] = (tuple({0: batch} for _ in example.inputs),)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(example.sample(samples).values()),
            path,
            input_names=list(example.inputs),
            output_names=list(example.outputs),
            opset_version=opset or (17 if exporter == "torchscript" else None),
            dynamo=exporter == "dynamo",
            verbose=False,
            **options,
        )
    return module


class Exports:
    """The exports of one test session, each made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: dict[tuple[str, str], tuple[Path, Select]] = {}

    def __call__(self, name: str, exporter: str) -> tuple[Path, Select]:
        key = name, exporter
        if key not in self.made:
            path = self.folder / f"{name}-{exporter}.onnx"
            self.made[key] = path, export(TINY[name], path, exporter)
        return self.made[key]
