"""Rows that other planners publish, made into layers and a profile that plans are made with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("HETERPLAN_BINARY", str(SOURCE / "build/bin/heterplan"))
POOL = """name: pool
device_types:
  v100: {kind: gpu, memory: 16GiB, price_per_hour: 1, fp32: 15TFLOP/s, bandwidth: 900GB/s}
nodes:
  - {name: here, devices: {v100: 4}, link: {bandwidth: 100GB/s, latency: 5us}}
"""
BATCHES = (1, 2, 4, 8, 16)


def rows(milliseconds: str = "milliseconds") -> str:
    lines = [f"batch,layer,{milliseconds},remark"]
    for layer, fixed, each in (("conv", 0.2, 1.0), ("left", 0.1, 0.5), ("right", 0.1, 0.25), ("fc", 3.0, 0.1)):
        lines += [f"{batch},{layer},{fixed + each * batch},x" for batch in BATCHES]
    return "\n".join(lines) + "\n"


LAYERS = """layer,inputs,parameter_bytes,output_bytes,activation_bytes
conv,,1e6,2e5,4e5
left,conv,1e5,1e5,1e5
right,conv,1e5,1e5,1e5
fc,left; right,4e8,4e3,2e5
"""


def convert(folder: Path, table: str, *options: object) -> subprocess.CompletedProcess[str]:
    (folder / "rows.csv").write_text(table)
    return subprocess.run(
        [
            sys.executable, str(SOURCE / "scripts/profile-rows.py"), str(folder / "rows.csv"),
            "--device-type", "v100", "-o", str(folder / "net"), *map(str, options),
        ],
        capture_output=True, text=True,
    )  # fmt: skip


def planned(folder: Path) -> dict:
    (folder / "pool.yaml").write_text(POOL)
    run = subprocess.run(
        [
            BINARY, "compile", str(folder / "net.layers.json"), "--profile", str(folder / "net.profile.json"),
            "--require-measured", "--cluster", str(folder / "pool.yaml"), "--batch", "16", "--schedule", "burst",
            "--json", "-o", str(folder / "out"),
        ],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_rows_with_sizes_are_planned(tmp_path: Path):
    (tmp_path / "layers.csv").write_text(LAYERS)
    run = convert(tmp_path, rows(), "--layers", tmp_path / "layers.csv")
    assert run.returncode == 0 and run.stderr == "", run.stderr
    graph = json.loads((tmp_path / "net.layers.json").read_text())
    assert [tensor["consumers"] for tensor in graph["tensors"]] == [["left", "right"], ["fc"], ["fc"]]
    plan = planned(tmp_path)
    widths = {layer: len(stage["replicas"]) for stage in plan["stages"] for layer in stage["layers"]}
    assert widths["conv"] == 4 > widths["fc"], "one has work, the other parameters"
    alone = sum(fixed + each * 16 for fixed, each in ((0.2, 1.0), (0.1, 0.5), (0.1, 0.25), (3.0, 0.1))) / 1e3
    assert plan["iterationSeconds"] < alone


def test_a_chain_without_sizes_says_so(tmp_path: Path):
    run = convert(tmp_path, rows())
    assert run.returncode == 0 and "memory and communication count as none" in run.stderr
    plan = planned(tmp_path)
    expected = sum(fixed + each * 4 for fixed, each in ((0.2, 1.0), (0.1, 0.5), (0.1, 0.25), (3.0, 0.1))) / 1e3
    assert plan["iterationSeconds"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("table", "layers", "message"),
    [
        ("layer,milliseconds\na,1\n", "", "rows.csv:1: there is no column 'batch'"),
        ("layer,batch,milliseconds\n", "", "there are no rows"),
        ("layer,batch,milliseconds\na,1,-3\n", "", "rows.csv:2: 'milliseconds' is '-3'"),
        ("layer,batch,milliseconds\na,1,nan\n", "", "'milliseconds' is 'nan'"),
        ("layer,batch,milliseconds\na,1.5,3\n", "", "a whole batch"),
        ("layer,batch,milliseconds\na,1,3\na,1,4\n", "", "rows.csv:3: layer 'a' at batch 1 has a row already"),
        ("layer,batch,forward_ms\na,1,3\n", "", "'backward_ms' is ''"),
        ("layer,batch,milliseconds\na,1,3\n", "layer\nb\n", "layer 'a' is not in"),
        ("layer,batch,milliseconds\na,1,3\n", "layer\na\nb\n", "there is no row of layer 'b'"),
        ("layer,batch,milliseconds\na,1,3\n", "layer,inputs\na,z\n", "layers.csv:2: 'a' reads 'z'"),
        ("layer,batch,milliseconds\na,1,3\n", "layer\na\na\n", "'a' is no new name"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, table: str, layers: str, message: str):
    options: list[object] = []
    if layers:
        (tmp_path / "layers.csv").write_text(layers)
        options = ["--layers", tmp_path / "layers.csv"]
    run = convert(tmp_path, table, *options)
    assert run.returncode == 1
    assert message in run.stderr, run.stderr
    assert not (tmp_path / "net.layers.json").exists()
