#!/usr/bin/env python3
"""Training steps of torch modules on this machine's GPU, in the columns of published rows.

    bench/gpu_rows.py --device H100-SXM [--models NAMES] [--seconds S] [--tuned] > rows_own_h100.csv

The models are those of bench/published_models.py, which bench/published.py and bench/published_fit.py read the rows of.
A row is the median of the steps of S seconds after three others. A model that does not fit is left out, with a word on
standard error. Needs timm and transformers.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from published_models import builder
from published_rows import DEVICES
from torch import Tensor, nn

COLUMNS = "src,file,dev,model,batch,gpus,micro,prec,opt,layout,link,stages,ips,kind,fwd,bwd".split(",")
LANGUAGE = ("bert", "gpt", "opt")
BATCHES = {  # of one step; others: VISION
    "bert_large_pre128": (64, 16), "bert_large_pre512": (16,), "bert_large_qa384": (32,), "gpt2_large_1024": (8,),
    "opt_13_2048": (4,), "gpt3_27_2048": (2,), "unet_tf572": (16,),
}  # fmt: skip
VISION = (256, 64)
MODELS = (
    "resnet50", "bert_large_pre128", "vit_base_patch16_224", "gpt2_large_1024", "efficientnet_b0", "convnext_tiny", "vgg16",
    "bert_large_qa384", "resnet18", "mobilenetv3_large_100", "densenet121", "opt_13_2048", "swin_tiny_patch4_window7_224",
    "resnext50_32x4d", "regnety_016", "unet_tf572", "bert_large_pre512", "inception_v3", "resnet152", "efficientnet_b4",
    "gpt3_27_2048",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    precision: str
    layout: str  # "nchw", "nhwc"; "": no images

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        for part in (torch.backends.cuda.matmul, torch.backends.cudnn):
            part.allow_tf32 = self.precision == "tf32"
        with torch.autocast("cuda", torch.bfloat16, enabled=self.precision == "bf16"):
            yield


def settings(model: str) -> list[Setting]:
    if model.startswith(LANGUAGE):
        return [Setting(each, "") for each in ("fp32", "tf32", "bf16")]
    return [Setting("fp32", "nchw"), Setting("tf32", "nchw"), Setting("bf16", "nchw"), Setting("bf16", "nhwc")]


class Training:
    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        with torch.device("cuda"):
            self.model, example = builder(name)()
        self.model.train()
        [self.example] = example.values()
        momentum = {} if name.startswith(LANGUAGE) else {"momentum": 0.9}
        kind = torch.optim.SGD if momentum else torch.optim.Adam
        self.optimizer = kind(self.model.parameters(), lr=1e-4, **momentum)

    def inputs(self, batch: int, layout: str) -> Tensor:
        shape = (batch, *self.example.shape[1:])
        if not self.example.is_floating_point():
            return torch.randint(1000, shape, device="cuda")
        last = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        self.model.to(memory_format=last)
        return torch.randn(shape, device="cuda").contiguous(memory_format=last)

    def step(self, inputs: Tensor, targets: Tensor | None, setting: Setting) -> Tensor:
        with setting.entered():
            logits = self.model(inputs)
        scores = logits.float().flatten(0, -2)
        if targets is None:
            targets = torch.randint(scores.shape[-1], scores.shape[:-1], device="cuda")
        nn.functional.cross_entropy(scores, targets).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return targets

    def seconds(self, batch: int, setting: Setting, enough: float) -> float:
        """Median time of a step."""
        inputs, targets = self.inputs(batch, setting.layout), None
        for _ in range(3):
            targets = self.step(inputs, targets, setting)
        torch.cuda.synchronize()
        times: list[float] = []
        while sum(times) < enough or len(times) < 5:
            begin = time.perf_counter()
            self.step(inputs, targets, setting)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        return statistics.median(times)


def measure(name: str, device: str, enough: float, out: csv.DictWriter) -> None:
    training = Training(name)
    for batch in BATCHES.get(name, VISION):
        for setting in settings(name):
            if setting.precision == "fp32" and batch != max(BATCHES.get(name, VISION)):
                continue  # fp32 keeps the GPU busy at any batch
            torch.cuda.empty_cache()
            try:
                seconds = training.seconds(batch, setting, enough)
            except torch.OutOfMemoryError:
                print(f"{name}, {batch}, {setting.precision}: out of memory", file=sys.stderr)
                continue
            out.writerow({
                "src": "own", "file": "bench/gpu_rows.py", "dev": device, "model": name, "batch": batch, "gpus": 1,
                "micro": 1, "prec": setting.precision, "opt": "adam" if name.startswith(LANGUAGE) else "momentum",
                "layout": setting.layout, "ips": f"{batch / seconds:.6g}", "kind": "step",
            })  # fmt: skip
            sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=sorted(DEVICES), required=True, help="what the rows call this GPU")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--tuned", action="store_true", help="cuDNN tries its algorithms first (cudnn.benchmark)")
    parser.add_argument("--seconds", type=float, default=0.7, help="of each row (0.7)")
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = arguments.tuned
    print(f"# PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, {time.strftime('%Y-%m-%d')}")
    print("# ips = samples/s; batch = of a step")
    out = csv.DictWriter(sys.stdout, COLUMNS, restval="")
    out.writeheader()
    for name in arguments.models.split(","):
        begin = time.perf_counter()
        try:
            measure(name, arguments.device, arguments.seconds, out)
        except Exception as error:  # the other models are measured all the same
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        print(f"{name}: {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
