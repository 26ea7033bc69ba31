"""The classes of devices that Python knows are those of lib/ir/DeviceClasses.def."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from heterplan_runtime import device_classes
from heterplan_runtime.device_classes import CPU, DEVICE_CLASSES, class_named, class_of

SOURCE = Path(__file__).resolve().parents[2]
LINE = re.compile(r'^HETERPLAN_DEVICE_CLASS\(\w+, "(\w+)", "(\w+)", "(\w+)", \d+\)$', re.MULTILINE)


def test_each_line_of_the_table_has_a_class():
    table = (SOURCE / "lib/ir/DeviceClasses.def").read_text(encoding="utf-8")
    assert LINE.findall(table) == [(c.name, c.torch_device, c.backend) for c in DEVICE_CLASSES]


def test_nothing_else_asks_for_a_class_by_name():
    runtime = SOURCE / "lib/codegen/runtime/heterplan_runtime"
    for path in sorted(runtime.glob("*.py")):
        if path.name != "device_classes.py":
            asked = re.search(r"[!=]= ?[\"'](cuda|gpu|nccl|gloo)|startswith\([\"']cuda", path.read_text("utf-8"))
            assert asked is None, f"{path.name}: {asked}"


def test_names_lead_to_classes():
    assert class_of(torch.device("cpu")) is CPU
    assert class_named("cuda:3").name == "gpu"
    with pytest.raises(ValueError, match="'tpu'; known are cpu, gpu"):
        class_named("tpu")


def test_a_cpu_is_described_measured_and_shared():
    device = CPU.device(1)
    assert CPU.describe(device, 2).threads == 2
    assert CPU.describe(device, 2).device
    assert 0 < CPU.reference_kernel(device) < 1
    assert CPU.peak_memory(device) >= CPU.used_memory(device) > 0
    assert CPU.place(device) is None


@pytest.mark.parametrize(("flags", "has"), [("avx512f avx512_bf16", True), ("avx2 avx512f", False), ("", True)])
def test_a_cpu_says_whether_it_multiplies_in_bf16(monkeypatch: pytest.MonkeyPatch, flags: str, has: bool):
    monkeypatch.setattr(device_classes, "_cpu_field", {"flags": flags}.get)
    assert CPU.has_bf16(CPU.device(0)) is has
