"""Models of torchvision, timm and diffusers, built without their weights."""

from __future__ import annotations

import diffusers as d
import timm
import torchvision.models as tv
from entry import Entry, noise
from torch import Tensor, nn


class First(nn.Module):
    """The first tensor of a dictionary, a list or an object with `sample`."""

    def __init__(self, model: nn.Module, key: str | int) -> None:
        super().__init__()
        self.model, self.key = model, key

    def forward(self, image: Tensor) -> Tensor:
        return self.model(image)[self.key]


def image(model: str, size: int = 64, **settings: object) -> Entry:
    """A model of torchvision, with ten classes."""
    settings = {"num_classes": 10, **settings}
    return Entry(lambda: getattr(tv, model)(weights=None, **settings), {"image": noise(3, size, size)})


def timm_image(model: str, size: int = 64, **settings: object) -> Entry:
    return Entry(
        lambda: timm.create_model(model, pretrained=False, num_classes=10, **settings),
        {"image": noise(3, size, size)},
    )


def segmentation(model: str) -> Entry:
    def build() -> nn.Module:
        settings = {"weights": None, "weights_backbone": None, "num_classes": 4}
        return First(getattr(tv.segmentation, model)(**settings), "out")

    return Entry(build, {"image": noise(3, 64, 64)})


TORCHVISION: dict[str, Entry] = {
    "squeezenet": image("squeezenet1_1"),
    "vgg11-bn": image("vgg11_bn", 32),
    "resnet18": image("resnet18"),
    "shufflenet-v2": image("shufflenet_v2_x0_5"),
    "mobilenet-v2": image("mobilenet_v2"),
    "mobilenet-v3": image("mobilenet_v3_small"),
    "mnasnet": image("mnasnet0_5"),
    "efficientnet": image("efficientnet_b0"),
    "regnet": image("regnet_y_400mf"),
    "googlenet": image("googlenet", aux_logits=False, init_weights=False),
    "swin-v1": Entry(
        lambda: tv.SwinTransformer([4, 4], 16, [1, 1], [2, 4], [4, 4], num_classes=10),
        {"image": noise(3, 32, 32)},
    ),
    "vit-torchvision": Entry(
        lambda: tv.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10),
        {"image": noise(3, 32, 32)},
    ),
    "lraspp": segmentation("lraspp_mobilenet_v3_large"),
    "fcn": segmentation("fcn_resnet50"),
    "deeplab": segmentation("deeplabv3_mobilenet_v3_large"),
    "video-r3d": Entry(
        lambda: tv.video.mc3_18(weights=None, num_classes=5), {"clip": noise(3, 4, 32, 32)}
    ),
}

TIMM: dict[str, Entry] = {
    "timm-resnet10t": timm_image("resnet10t"),
    "timm-ghostnet": timm_image("ghostnet_050"),
    "timm-mixer": timm_image("mixer_s32_224", 64, img_size=64),
    "timm-levit": timm_image("levit_128s", 224),
    "timm-edgenext": timm_image("edgenext_xx_small"),
    "timm-mobilevit": timm_image("mobilevit_xxs"),
    "timm-poolformer": timm_image("poolformer_s12"),
    "timm-nfnet": timm_image("test_nfnet", 96),
    "timm-vit": timm_image("test_vit", 160),
    "timm-efficientnet": timm_image("test_efficientnet", 96),
    "timm-byobnet": timm_image("test_byobnet", 96),
}


def unet() -> nn.Module:
    return d.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1,
        block_out_channels=(8, 16), norm_num_groups=4, attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip


def conditional_unet() -> nn.Module:
    return d.UNet2DConditionModel(
        sample_size=16, in_channels=4, out_channels=4, layers_per_block=1,
        block_out_channels=(8, 16), norm_num_groups=4, attention_head_dim=4,
        cross_attention_dim=16, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip


def dit() -> nn.Module:
    return d.DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8,
        patch_size=2, num_embeds_ada_norm=10,
    )  # fmt: skip


def autoencoder() -> nn.Module:
    return d.AutoencoderKL(
        block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, sample_size=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )


def steps(samples: int) -> Tensor:
    import torch

    return torch.randint(0, 100, (samples,))


class Conditional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = dit()

    def forward(self, image: Tensor, step: Tensor, label: Tensor) -> Tensor:
        return self.model(image, timestep=step, class_labels=label).sample


def labels(samples: int) -> Tensor:
    import torch

    return torch.randint(0, 10, (samples,))


DIFFUSION: dict[str, Entry] = {
    "diffusion-unet": Entry(
        lambda: unet(), {"sample": noise(3, 16, 16), "timestep": steps}, ("sample",)
    ),
    "diffusion-unet-text": Entry(
        lambda: conditional_unet(),
        {"sample": noise(4, 16, 16), "timestep": steps, "encoder_hidden_states": noise(6, 16)},
        ("sample",),
    ),
    "dit": Entry(Conditional, {"image": noise(4, 8, 8), "step": steps, "label": labels}),
    "diffusion-autoencoder": Entry(autoencoder, {"sample": noise(3, 16, 16)}, ("sample",)),
}

VISION = {**TORCHVISION, **TIMM, **DIFFUSION}
