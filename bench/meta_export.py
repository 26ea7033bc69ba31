#!/usr/bin/env python3
"""Measures heterplan.export of a Llama with 7 billion parameters on the meta device: seconds,
seconds of the CPU (which other work on the machine does not change much) and peak memory.

usage: .venv/bin/python bench/meta_export.py [LENGTH]      of a sequence (512)
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import heterplan  # noqa: E402


def main() -> int:
    length = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    with torch.device("meta"):
        module = transformers.LlamaForCausalLM(transformers.LlamaConfig())
    count = sum(each.numel() for each in module.parameters())
    begin, work = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        words = torch.zeros(2, length, dtype=torch.long)
        path = heterplan.export(module, {"input_ids": words}, Path(folder) / "llama.onnx")
        size = path.stat().st_size
    seconds, work = time.monotonic() - begin, time.process_time() - work
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{count / 1e9:.2f} billion parameters: {seconds:.1f} s ({work:.1f} s of the CPU), {peak:.2f} GB, a file of {size / 1e6:.1f} MB")
    return 0 if work < 30 and peak < 4 else 1


if __name__ == "__main__":
    sys.exit(main())
