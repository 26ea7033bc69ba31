"""Cases that people have met: more devices, or a search over more, gave a worse plan or a proof that was false."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import BINARY, MODELS, bundled

CATALOGUE = {"a100": "a100-sxm4-80gb", "v100": "v100-sxm2-16gb", "h100": "h100-sxm5-80gb"}


@pytest.fixture
def compile(tmp_path: Path):
    def run(model: Path, machines: dict, *options: str) -> dict:
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(machines, sort_keys=False))
        done = subprocess.run(
            [BINARY, "compile", model, "--cluster", tmp_path / "c.yaml", "-o", tmp_path / "out", "--force", "--json",
             *options],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def nodes(**counts: int) -> dict:
    """A node of each type with so many devices."""
    return {
        "name": "c",
        "device_types": {name: {"catalogue": CATALOGUE[name]} for name in counts},
        "nodes": [{"name": f"n-{name}", "devices": {name: count}, "link": "nvlink2"} for name, count in counts.items()],
        "network": {"bandwidth": "100Gbit/s", "latency": "5us"},
    }


def test_a_device_more_of_each_type(compile):
    """Groups of both types were listed for 7 and 7, and not for 8 and 8."""
    options = ["--batch", "256", "--optimizer", "adam"]
    seven = compile(MODELS / "vgg16.onnx", nodes(a100=7, v100=7), *options)
    eight = compile(MODELS / "vgg16.onnx", nodes(a100=8, v100=8), *options)
    assert eight["lowerBound"] >= seven["throughput"] * (1 - 1e-9), "what is said to be the best there is"
    assert eight["throughput"] >= seven["throughput"] * (1 - eight["gap"] - 1e-9)


@pytest.mark.parametrize("model", ["dlrm", pytest.param("vgg16", marks=pytest.mark.sweep)])
def test_another_type_beside_it(compile, model: str):
    options = ["--batch", "256"]
    alone = compile(MODELS / f"{model}.onnx", nodes(a100=8, v100=8), *options)
    more = compile(MODELS / f"{model}.onnx", nodes(a100=8, v100=8, h100=8), *options)
    assert more["throughput"] >= alone["throughput"] * (1 - more["gap"] - 1e-9)


def chain(folder: Path) -> Path:
    layers = [
        {
            "name": f"l{i}", "kind": "matmul", "forwardFlops": 2e10 * (1 + i % 3), "backwardFlops": 4e10 * (1 + i % 3),
            "forwardBytes": 1e7, "backwardBytes": 2e7, "parameterBytes": 4e8, "activationBytes": 1e7,
        }
        for i in range(48)
    ]  # fmt: skip
    tensors = [
        {"name": f"t{i}", "producer": f"l{i}", "consumers": [f"l{i + 1}"], "bytesPerSample": 4e6} for i in range(47)
    ]
    path = folder / "chain.layers.json"
    path.write_text(json.dumps({"schemaVersion": "1.0", "model": "chain", "layers": layers, "tensors": tensors}))
    return path


def test_all_numbers_of_micro_batches_are_as_good_as_one_and_auto_as_any_strategy(compile, tmp_path: Path):
    machines = nodes(v100=8)
    machines["nodes"][0]["count"] = 64
    model, options = chain(tmp_path), ["--batch", "512"]
    whole = compile(model, machines, *options)
    for more in (["--micro-batches", "32"], ["--strategy", "local-search"], ["--strategy", "genetic"]):
        assert compile(model, machines, *options, *more)["throughput"] <= whole["throughput"] * (1 + 1e-9), more
    assert whole["gap"] <= 0.01


def test_the_cheapest_plan_at_half_the_speed_is_proven(compile):
    """With a bound of prices alone the gap was 56 %."""
    machines, model, options = bundled("cloud-large"), MODELS / "resnet50.onnx", ["--batch", "256"]
    fastest = compile(model, machines, *options)
    floor = ["--objective", "cost", "--min-throughput", repr(fastest["throughput"] / 2)]
    assert compile(model, machines, *options, *floor)["gap"] <= 0.01


@pytest.mark.parametrize(
    "model", ["bert_base", *(pytest.param(name, marks=pytest.mark.sweep) for name in ("gpt2_small", "vit_b_16"))]
)
def test_the_fastest_plans_on_five_types_are_proven(compile, model: str):
    """Gaps of 4 to 14 % were left if other steps had used the work of the bounds."""
    plan = compile(MODELS / f"{model}.onnx", bundled("cloud-large"), "--batch", "256")
    assert plan["objective"] == "throughput"
    assert plan["gap"] <= 0.01
