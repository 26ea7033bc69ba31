"""The models of published training rows, as ONNX files without values.

usage: bench/published_models.py FOLDER [NAME...]     writes FOLDER/NAME.onnx where it is missing

Vision models come from timm, language models from transformers; the U-Net is that of NVIDIA's
Deep Learning Examples for TensorFlow (no padding, 572 pixels, one channel, two classes).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))
LARGE = 1024  # bytes
SAMPLES = 2  # of the example that is traced; the files have a symbolic batch


class First(nn.Module):
    """A language model that takes token numbers only and returns its logits only."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor) -> Tensor:
        result = self.model(input_ids=input_ids, attention_mask=torch.ones_like(input_ids))
        return result[0] if isinstance(result, tuple) else next(iter(result.values()))


class Convolutions(nn.Sequential):
    """Two convolutions of 3x3 without padding."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3), nn.ReLU(), nn.Conv2d(outputs, outputs, 3), nn.ReLU()
        )


class UNet(nn.Module):
    """Ronneberger et al., MICCAI 2015."""

    def __init__(self) -> None:
        super().__init__()
        widths = [64, 128, 256, 512, 1024]
        self.down = nn.ModuleList(
            Convolutions(inputs, outputs) for inputs, outputs in zip([1, *widths], widths)
        )
        self.wider = nn.ModuleList(
            nn.ConvTranspose2d(2 * width, width, 2, stride=2) for width in widths[3::-1]
        )
        self.up = nn.ModuleList(Convolutions(2 * width, width) for width in widths[3::-1])
        self.head = nn.Conv2d(64, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        kept = []
        for level, block in enumerate(self.down):
            image = block(image if level == 0 else nn.functional.max_pool2d(image, 2))
            kept.append(image)
        for wider, block, skip in zip(self.wider, self.up, kept[-2::-1]):
            image = wider(image)
            border = (skip.shape[-1] - image.shape[-1]) // 2
            size = image.shape[-1]
            skip = skip[:, :, border : border + size, border : border + size]
            image = block(torch.cat([skip, image], 1))
        return self.head(image)


class FusedBlock(nn.Module):
    """A block of Megatron: one product for queries, keys and values, one kernel for GELU."""

    def __init__(self, width: int, heads: int, activation: str = "gelu") -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(0.1)  # of scores: a kernel of its own
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.activation = getattr(nn.functional, activation)

    def weights(self, scores: Tensor) -> Tensor:
        return self.drop(torch.softmax(scores, -1))  # scaled and masked in the same kernel

    def added(self, branch: Tensor) -> Tensor:
        return branch

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.qkv(self.before(x)).view(batch, length, self.heads, 3 * width // self.heads)
        q, k, v = split.transpose(1, 2).chunk(3, -1)
        scores = self.weights(q @ k.transpose(2, 3))
        x = x + self.added(self.out((scores @ v).transpose(1, 2).reshape(batch, length, width)))
        return x + self.added(self.down(self.activation(self.up(self.between(x)))))


class MaskedBlock(FusedBlock):
    """A block of Megatron in fp32, whose softmax is not fused with the mask; without dropout."""

    def weights(self, scores: Tensor) -> Tensor:
        places = torch.arange(scores.shape[-1], device=scores.device)
        later = places[None, :] > places[:, None]
        return torch.softmax(torch.where(later, -1.0, scores), -1)  # -10000 would be fused into attention


class FusedGpt(nn.Module):
    def __init__(self, width: int, length: int, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(51200, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 51200, bias=False)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.tokens(input_ids) + self.places
        for block in self.blocks:
            x = block(x)
        return self.shares(self.head(self.norm(x)).float())

    @staticmethod
    def shares(logits: Tensor) -> Tensor:
        """The kernels of Megatron's cross entropy over all words, in fp32."""
        powers = torch.exp(logits - logits.amax(-1, keepdim=True))
        return powers / powers.sum(-1, keepdim=True)


def megatron(
    width: int, layers: int, heads: int, length: int
) -> Callable[[], tuple[nn.Module, dict[str, Tensor]]]:
    build = lambda: FusedGpt(width, length, [FusedBlock(width, heads) for _ in range(layers)])
    return lambda: (build(), tokens(51200, length))


def masked(
    width: int, layers: int, heads: int, length: int, activation: str
) -> Callable[[], tuple[nn.Module, dict[str, Tensor]]]:
    build = lambda: FusedGpt(width, length, [MaskedBlock(width, heads, activation) for _ in range(layers)])
    return lambda: (build(), tokens(51200, length))


def bert(
    length: int, head: str, width: int = 1024, layers: int = 24
) -> Callable[[], tuple[nn.Module, dict[str, Tensor]]]:
    def build() -> tuple[nn.Module, dict[str, Tensor]]:
        import transformers as t

        config = t.BertConfig(
            vocab_size=30522, hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64,
            intermediate_size=4 * width, max_position_embeddings=512,
        )  # fmt: skip
        return First(getattr(t, head)(config)), tokens(30522, length)

    return build


def gpt(
    width: int, layers: int, heads: int, length: int, dropout: float = 0.0
) -> Callable[[], tuple[nn.Module, dict[str, Tensor]]]:
    def build() -> tuple[nn.Module, dict[str, Tensor]]:
        import transformers as t

        config = t.GPT2Config(
            n_embd=width, n_layer=layers, n_head=heads, n_positions=length, use_cache=False,
            resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout
        )
        return First(t.GPT2LMHeadModel(config)), tokens(50257, length)

    return build


def opt(
    width: int, layers: int, heads: int, length: int, dropout: float = 0.0
) -> Callable[[], tuple[nn.Module, dict[str, Tensor]]]:
    def build() -> tuple[nn.Module, dict[str, Tensor]]:
        import transformers as t

        config = t.OPTConfig(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
            ffn_dim=4 * width, max_position_embeddings=length, dropout=dropout, attention_dropout=dropout, word_embed_proj_dim=width,
            use_cache=False,
        )  # fmt: skip
        return First(t.OPTForCausalLM(config)), tokens(50272, length)

    return build


def tokens(words: int, length: int) -> dict[str, Tensor]:
    return {"input_ids": torch.zeros(SAMPLES, length, dtype=torch.int64, device="meta")}


def unet() -> tuple[nn.Module, dict[str, Tensor]]:
    return UNet(), {"image": torch.zeros(SAMPLES, 1, 572, 572, device="meta")}


DROPOUT = "_dropout"  # at the end of a model's name: attention drops scores, so that it is not fused


def vision(name: str) -> Callable[[], tuple[nn.Module, dict[str, Tensor]]]:
    def build() -> tuple[nn.Module, dict[str, Tensor]]:
        import timm

        size = {"inception_v3": 299, "efficientnet_b4": 380}.get(name, 224)
        architecture = name.removesuffix(DROPOUT)
        options = {"attn_drop_rate": 0.1} if architecture != name else {}
        model = timm.create_model(architecture, pretrained=False, **options)
        return model, {"x": torch.zeros(SAMPLES, 3, size, size, device="meta")}

    return build


LANGUAGE = {
    "bert_large_pre128": bert(128, "BertForPreTraining"),
    "bert_large_pre288": bert(288, "BertForPreTraining"),
    "bert_large_pre512": bert(512, "BertForPreTraining"),
    "bert_base_qa384": bert(384, "BertForQuestionAnswering", 768, 12),
    "bert_large_qa384": bert(384, "BertForQuestionAnswering"),
    "gpt2_large_1024": gpt(1280, 36, 20, 1024),
    "gpt3_xl_2048": gpt(3072, 24, 24, 2048),
    "gpt3_27_2048": gpt(2560, 32, 32, 2048),
    "opt_13_2048": opt(2048, 24, 32, 2048),
    "gpt2_large_1024_dropout": gpt(1280, 36, 20, 1024, 0.1),
    "gpt3_xl_2048_dropout": gpt(3072, 24, 24, 2048, 0.1),
    "gpt3_27_2048_dropout": gpt(2560, 32, 32, 2048, 0.1),
    "opt_13_2048_dropout": opt(2048, 24, 32, 2048, 0.1),
}
OTHERS = {"unet_tf572": unet}


def builder(name: str) -> Callable[[], tuple[nn.Module, dict[str, Tensor]]]:
    return {**LANGUAGE, **OTHERS}.get(name) or vision(name)


def strip(path: Path) -> None:
    """Leaves the values of large parameters out: a planner needs their shapes only."""
    import onnx

    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > LARGE:
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            del tensor.external_data[:]
            entry = tensor.external_data.add()
            entry.key, entry.value = "location", "absent.weights"
    onnx.save(model, path)


def write(name: str, folder: Path) -> Path:
    """The file of model `name`, exported where it is missing."""
    from heterplan.exporting import export, export_by
    from heterplan.newer_exporter import export_newer

    path = folder / f"{name}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # PyTorch 2.13 traces neither convolutions nor BERT on the meta device.
        device = "meta" if name.startswith(("gpt", "opt")) else "cpu"
        with torch.device(device):
            model, inputs = builder(name)()
        inputs = {key: torch.zeros_like(value, device=device) for key, value in inputs.items()}
        part = folder / "part.onnx"
        if device == "meta":  # the other exporter takes parameters of equal shapes for one
            export_by((export_newer,), model, inputs, part)
        else:
            export(model, inputs, part)
            strip(part)
        part.rename(path)
    return path


if __name__ == "__main__":
    for each in sys.argv[2:]:
        write(each, Path(sys.argv[1]))
