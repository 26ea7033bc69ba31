"""Published training rows (docs/experiments/published.md), and the types of the catalogue that ran them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

DEVICES = {
    "A100-80-SXM": "a100-sxm4-80gb", "A100-40-SXM": "a100-sxm4-40gb",
    "A100-80-PCIE": "a100-pcie-80gb", "V100-SXM-16": "v100-sxm2-16gb",
    "V100-SXM-32": "v100-sxm2-32gb", "V100-PCIE-32": "v100-pcie-32gb", "3090": "rtx-3090",
    "H100-SXM": "h100-sxm5-80gb", "L4": "l4", "MI100": "mi100", "MI210": "mi210", "MI250": "mi250",
}  # fmt: skip
FAMILIES = {
    "bert": "encoder", "gpt": "decoder", "opt": "decoder", "vit": "vision transformer",
    "swin": "vision transformer", "convnext": "convnext", "unet": "unet", "resnet": "resnet",
    "resnext": "resnet", "wide": "resnet", "vgg": "vgg", "densenet": "densenet",
    "inception": "inception", "efficientnet": "mobile", "mobilenet": "mobile", "regnet": "regnet",
}  # fmt: skip

# Deep Learning Examples bins the sequences of the second phase of BERT by 64 tokens (its scripts
# read "phase2/bin_size_64"), and half of the tokens of the data would be padding at 512 (Krell et
# al., arXiv 2107.02027). The batches are 256 + 64 / 2 tokens long in the mean.
BINNED = {("dle", "bert_large_pre512"): "bert_large_pre288"}
# Rows whose attention was products and a softmax; models with dropout of attention are planned so.
# NeuSight's models are those of transformers with its default dropout. The rows of timm are of PyTorch 1.12, which
# has no fused attention.
UNFUSED = {
    (source, name): f"{name}_dropout"
    for source, names in {
        "neusight": ("gpt2_large_1024", "gpt3_xl_2048", "gpt3_27_2048", "opt_13_2048"),
        "timm": ("vit_base_patch16_224", "vit_base_patch32_224", "vit_large_patch16_224", "swin_tiny_patch4_window7_224"),
    }.items()
    for name in names
}  # fmt: skip
# The example for questions of Deep Learning Examples has BertAdam in fp32 and tf32 (run_squad.py, optimization.py): it
# waits for the norm of all gradients (.item()), and then has 14 kernels for each parameter. In 16 bits it has apex's
# FusedAdam. Lambda ran the same example.
FOR_LOOP = ("bert_base_qa384", "bert_large_qa384")


@dataclass(frozen=True)
class Row:
    source: str
    device: str  # of the catalogue
    model: str
    batch: int
    gpus: int
    micro: int
    precision: str
    optimizer: str
    layout: str  # "nchw", "nhwc" or ""
    link: str
    stages: str  # "", "dp4", "pp4_1"
    kind: str  # "step", "fb" (passes only), "multi"
    seconds: float  # of a step

    @property
    def family(self) -> str:
        return next(value for key, value in FAMILIES.items() if self.model.startswith(key))

    @property
    def optimizer_kernels(self) -> str:
        return "for-loop" if self.model in FOR_LOOP and self.precision in ("fp32", "tf32") else "fused"

    @property
    def name(self) -> str:
        layout = f" {self.layout}" if self.layout else ""
        return f"{self.model}, {self.batch} on {self.gpus}x{self.device}, {self.precision}{layout}"


def read_rows(folder: Path, as_stated: bool = False) -> list[Row]:
    """The rows of a folder; `as_stated`: with the longest sequences of binned ones."""
    rows = []
    for path in sorted(folder.glob("rows_*.csv")):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        for each in csv.DictReader(lines):
            batch, kind = int(each["batch"]), each["kind"]
            passes = float(each["fwd"] or 0) + float(each["bwd"] or 0)
            seconds = passes if kind == "fb" else batch / float(each["ips"])
            model = each["model"]
            if not as_stated:
                model = BINNED.get((each["src"], model), model)
            model = UNFUSED.get((each["src"], model), model)
            rows.append(Row(
                each["src"], DEVICES.get(each["dev"], each["dev"]), model, batch, int(each["gpus"]),
                int(each["micro"]), each["prec"], each["opt"], each["layout"], each["link"],
                each["stages"], kind, seconds,
            ))  # fmt: skip
    return rows
