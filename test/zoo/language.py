"""Models of transformers, from tiny configurations with random weights."""

from __future__ import annotations

from collections.abc import Callable

import transformers as t
from entry import Entry, noise, padding, tokens
from torch import nn

WORDS, LENGTH = 99, 12
TEXT = {"input_ids": tokens(WORDS, LENGTH), "attention_mask": padding(LENGTH)}
SMALL = {
    "vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 32,
}
GROUPED = {**SMALL, "num_key_value_heads": 2, "use_cache": False}


def text(
    model: type[nn.Module],
    config: type,
    output: str = "logits",
    set_up: Callable[[object], None] = lambda config: None,
    **sizes: object,
) -> Entry:
    def build() -> nn.Module:
        settings = config(**sizes)
        set_up(settings)
        return model(settings)

    return Entry(build, TEXT, (output,))


def batched_experts(config: object) -> None:
    config._experts_implementation = "batched_mm"  # type: ignore[attr-defined]


def image(model: type[nn.Module], config: type, size: int = 32, output: str = "logits",
          **sizes: object) -> Entry:
    return Entry(lambda: model(config(**sizes)), {"pixel_values": noise(3, size, size)}, (output,))


ENCODERS: dict[str, Entry] = {
    "bert": text(t.BertForMaskedLM, t.BertConfig, **SMALL),
    "bert-classifier": text(t.BertForSequenceClassification, t.BertConfig, **SMALL),
    "roberta": text(t.RobertaForMaskedLM, t.RobertaConfig, **SMALL),
    "distilbert": text(
        t.DistilBertForMaskedLM, t.DistilBertConfig, vocab_size=WORDS, dim=32, n_layers=2,
        n_heads=4, hidden_dim=64, max_position_embeddings=32,
    ),
    "albert": text(t.AlbertForMaskedLM, t.AlbertConfig, embedding_size=16, **SMALL),
    "electra": text(t.ElectraForMaskedLM, t.ElectraConfig, embedding_size=16, **SMALL),
    "deberta-v2": text(
        t.DebertaV2ForMaskedLM, t.DebertaV2Config, relative_attention=True,
        pos_att_type=["c2p", "p2c"], **SMALL,
    ),
    "mpnet": text(t.MPNetForMaskedLM, t.MPNetConfig, **SMALL),
    "modernbert": text(
        t.ModernBertForMaskedLM, t.ModernBertConfig, pad_token_id=0,
        **{**SMALL, "num_hidden_layers": 3},
    ),
}

DECODERS: dict[str, Entry] = {
    "gpt2": text(
        t.GPT2LMHeadModel, t.GPT2Config, vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4,
        n_positions=16, use_cache=False,
    ),
    "gpt2-classifier": text(
        t.GPT2ForSequenceClassification, t.GPT2Config, vocab_size=WORDS, n_embd=32, n_layer=2,
        n_head=4, n_positions=16, use_cache=False, pad_token_id=0,
    ),
    "gpt-neox": text(t.GPTNeoXForCausalLM, t.GPTNeoXConfig, use_cache=False, **SMALL),
    "opt": text(
        t.OPTForCausalLM, t.OPTConfig, vocab_size=WORDS, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, ffn_dim=64, max_position_embeddings=32, use_cache=False,
        word_embed_proj_dim=32, pad_token_id=0,
    ),
    "bloom": text(
        t.BloomForCausalLM, t.BloomConfig, vocab_size=WORDS, hidden_size=32, n_layer=2, n_head=4,
        use_cache=False,
    ),
    "falcon": text(
        t.FalconForCausalLM, t.FalconConfig, vocab_size=WORDS, hidden_size=32,
        num_hidden_layers=2, num_attention_heads=4, use_cache=False,
    ),
    "llama": text(t.LlamaForCausalLM, t.LlamaConfig, **GROUPED),
    "llama-classifier": text(
        t.LlamaForSequenceClassification, t.LlamaConfig, pad_token_id=0, **GROUPED
    ),
    "mistral": text(t.MistralForCausalLM, t.MistralConfig, sliding_window=4, **GROUPED),
    "mixtral": text(
        t.MixtralForCausalLM, t.MixtralConfig, set_up=batched_experts, num_local_experts=4,
        num_experts_per_tok=2, **GROUPED,
    ),
    "qwen2": text(t.Qwen2ForCausalLM, t.Qwen2Config, **GROUPED),
    "qwen3": text(t.Qwen3ForCausalLM, t.Qwen3Config, head_dim=8, **GROUPED),
    "qwen3-tied": text(
        t.Qwen3ForCausalLM, t.Qwen3Config, head_dim=8, tie_word_embeddings=True, **GROUPED
    ),
    "qwen3-moe": text(
        t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig, set_up=batched_experts, head_dim=8,
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, **GROUPED,
    ),
    "gemma2": text(t.Gemma2ForCausalLM, t.Gemma2Config, head_dim=8, sliding_window=4, **GROUPED),
    "gemma3": text(
        t.Gemma3ForCausalLM, t.Gemma3TextConfig, head_dim=8, sliding_window=4, **GROUPED
    ),
    "phi3": text(t.Phi3ForCausalLM, t.Phi3Config, pad_token_id=0, **GROUPED),
    "olmo2": text(t.Olmo2ForCausalLM, t.Olmo2Config, **GROUPED),
    "deepseek-v3": text(
        t.DeepseekV3ForCausalLM, t.DeepseekV3Config, set_up=batched_experts,
        moe_intermediate_size=16, n_routed_experts=4, num_experts_per_tok=2, n_group=2,
        topk_group=1, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8,
        v_head_dim=8, first_k_dense_replace=1, **{**GROUPED, "num_key_value_heads": 4},
    ),
    "mamba": Entry(
        lambda: t.MambaForCausalLM(
            t.MambaConfig(vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, state_size=4,
                          time_step_rank=2, use_cache=False)
        ),
        {"input_ids": tokens(WORDS, LENGTH)},
        ("logits",),
    ),
}

PAIRS: dict[str, Entry] = {
    "t5": Entry(
        lambda: t.T5ForConditionalGeneration(
            t.T5Config(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                       use_cache=False)
        ),
        {**TEXT, "decoder_input_ids": tokens(WORDS, 9)},
        ("logits",),
    ),
    "bart": Entry(
        lambda: t.BartForConditionalGeneration(
            t.BartConfig(vocab_size=WORDS, d_model=32, encoder_layers=2, decoder_layers=2,
                         encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                         decoder_ffn_dim=64, max_position_embeddings=32, use_cache=False,
                         pad_token_id=0, bos_token_id=1, eos_token_id=2,
                         decoder_start_token_id=2, forced_eos_token_id=2)
        ),
        {**TEXT, "decoder_input_ids": tokens(WORDS, 9)},
        ("logits",),
    ),
    "whisper": Entry(
        lambda: t.WhisperForConditionalGeneration(
            t.WhisperConfig(vocab_size=WORDS, num_mel_bins=8, max_source_positions=10, d_model=32,
                            encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
                            max_target_positions=16, use_cache=False, pad_token_id=0,
                            bos_token_id=0, eos_token_id=0, decoder_start_token_id=0)
        ),
        {"input_features": noise(8, 20), "decoder_input_ids": tokens(WORDS, 9)},
        ("logits",),
    ),
    "clip": Entry(
        lambda: t.CLIPModel(
            t.CLIPConfig(
                text_config={**SMALL, "projection_dim": 16, "eos_token_id": 98, "bos_token_id": 97,
                             "pad_token_id": 0},
                vision_config={"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                               "num_attention_heads": 4, "image_size": 16, "patch_size": 4,
                               "projection_dim": 16},
                projection_dim=16,
            )
        ),
        {**TEXT, "pixel_values": noise(3, 16, 16)},
        ("text_embeds", "image_embeds"),
    ),
}

SIGHT: dict[str, Entry] = {
    "vit": image(
        t.ViTForImageClassification, t.ViTConfig, 16, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=4,
    ),
    "deit": image(
        t.DeiTForImageClassification, t.DeiTConfig, 16, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=4,
    ),
    "dinov2": image(
        t.Dinov2ForImageClassification, t.Dinov2Config, 16, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, image_size=16, patch_size=4,
    ),
    "swin": image(
        t.SwinForImageClassification, t.SwinConfig, 32, image_size=32, patch_size=2, embed_dim=8,
        depths=[1, 2], num_heads=[2, 4], window_size=4,
    ),
    "convnext": image(
        t.ConvNextForImageClassification, t.ConvNextConfig, 32, hidden_sizes=[8, 16],
        depths=[1, 1], num_stages=2,
    ),
    "resnet-hf": image(
        t.ResNetForImageClassification, t.ResNetConfig, 32, embedding_size=8,
        hidden_sizes=[16, 32], depths=[1, 2], layer_type="bottleneck",
    ),
    "segformer": image(
        t.SegformerForSemanticSegmentation, t.SegformerConfig, 32, num_encoder_blocks=2,
        depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[3, 3],
        strides=[2, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16,
    ),
    "detr": Entry(
        lambda: t.DetrForObjectDetection(
            t.DetrConfig(
                use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
                backbone_config=t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16],
                                               depths=[1, 1], out_features=["stage2"]),
                num_queries=5, d_model=32, encoder_layers=1, decoder_layers=1,
                encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=32,
                decoder_ffn_dim=32,
            )
        ),
        {"pixel_values": noise(3, 32, 32)},
        ("logits", "pred_boxes"),
    ),
    "sam-encoder": Entry(
        lambda: t.SamVisionModel(
            t.SamVisionConfig(hidden_size=32, output_channels=16, num_hidden_layers=2,
                              num_attention_heads=4, image_size=32, patch_size=4, window_size=3,
                              global_attn_indexes=[1], mlp_dim=64)
        ),
        {"pixel_values": noise(3, 32, 32)},
        ("last_hidden_state",),
    ),
}  # fmt: skip

def newest(name: str, **sizes: object) -> Entry:
    """A language model that transformers got in 2026, by its names in the library."""
    model, config = getattr(t, f"{name}ForCausalLM", None), getattr(t, f"{name}Config")
    if model is None:
        return text(getattr(t, f"{name}ForMaskedLM"), config, **SMALL, **sizes)
    return text(model, config, set_up=batched_experts, head_dim=8, **GROUPED, **sizes)


NEWEST: dict[str, Entry] = {
    "nomic-bert": newest("NomicBert"),
    "gte": newest("Gte"),
    "jina-embeddings-v3": newest("JinaEmbeddingsV3"),
    "ultrabert": newest("Ultrabert"),
    "granite-swa": newest("GraniteSWA"),
    "granite-moe-swa": newest("GraniteMoeSWA"),
    "hrm-text": newest("HrmText"),
    "hyperclova-x": newest("HyperCLOVAX"),
    "esmc": newest("Esmc"),
    "cohere2-moe": newest("Cohere2Moe"),
    "flint": newest("Flint"),
    "lfm3": newest("Lfm3", pad_token_id=0),
}

SERIES: dict[str, Entry] = {
    "mamba2": Entry(
        lambda: t.Mamba2ForCausalLM(
            t.Mamba2Config(vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, state_size=8,
                           num_heads=4, head_dim=8, n_groups=1, chunk_size=4, use_cache=False,
                           pad_token_id=0)
        ),
        {"input_ids": tokens(WORDS, LENGTH)},
        ("logits",),
    ),
    "patchtst": Entry(
        lambda: t.PatchTSTForPrediction(
            t.PatchTSTConfig(num_input_channels=2, context_length=24, patch_length=4,
                             patch_stride=4, d_model=16, num_hidden_layers=2,
                             num_attention_heads=2, ffn_dim=32, prediction_length=6, loss="mse",
                             scaling=None)
        ),
        {"past_values": noise(24, 2)},
        ("prediction_outputs",),
    ),
    "moonshine": Entry(
        lambda: t.MoonshineForConditionalGeneration(
            t.MoonshineConfig(vocab_size=WORDS, hidden_size=32, intermediate_size=64,
                              encoder_num_hidden_layers=2, decoder_num_hidden_layers=2,
                              encoder_num_attention_heads=4, decoder_num_attention_heads=4,
                              max_position_embeddings=32, use_cache=False, pad_token_id=0,
                              bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
        ),
        {"input_values": noise(1600), "decoder_input_ids": tokens(WORDS, 6)},
        ("logits",),
    ),
    "siglip": Entry(
        lambda: t.SiglipModel(
            t.SiglipConfig(
                text_config={**SMALL, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0,
                             "projection_size": 32},
                vision_config={"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                               "num_attention_heads": 4, "image_size": 16, "patch_size": 4},
            )
        ),
        {**TEXT, "pixel_values": noise(3, 16, 16)},
        ("text_embeds", "image_embeds"),
    ),
}

LANGUAGE = {**ENCODERS, **DECODERS, **PAIRS, **SIGHT, **NEWEST, **SERIES}
