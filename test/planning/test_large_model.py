"""A model of seven billion parameters on eight GPUs of 24 GB: sharded parameters hold it in one stage."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import BINARY

TOKENS, WIDTH, INNER, HEADS, WORDS, BLOCKS = 2048, 4096, 11008, 32, 32000, 32
HIDDEN = TOKENS * WIDTH * 4  # bytes of a tensor between blocks, of a sample
TABLE = WORDS * WIDTH * 4  # bytes of the embedding, and of the head
ATTENTION, MLP = 4 * WIDTH**2 * 4, 3 * WIDTH * INNER * 4  # bytes of the parameters of the halves of a block
SCORES = HEADS * TOKENS**2 * 6  # bytes that are kept of a block
OTHERS = TOKENS * (10 * WIDTH * 4 + 4 * INNER * 2)
WORKSPACE = HEADS * TOKENS**2 * 8


def layer(name: str, parameters: int, activations: int, workspace: int) -> dict:
    flops = 2 * TOKENS * parameters / 4
    return {
        "name": name, "kind": "matmul", "parameterBytes": parameters, "activationBytes": activations,
        "workspaceBytes": workspace, "forwardFlops": flops, "backwardFlops": 2 * flops,
    }  # fmt: skip


def llama() -> dict:
    layers = [layer("embedding", TABLE, HIDDEN, HIDDEN)]
    for block in range(BLOCKS):
        layers.append(layer(f"attention{block}", ATTENTION, SCORES + OTHERS // 2, WORKSPACE))
        layers.append(layer(f"mlp{block}", MLP, OTHERS // 2, HIDDEN))
    layers.append(layer("head", TABLE, HIDDEN, HIDDEN))
    names = [each["name"] for each in layers]
    tensors = [
        {"name": f"t{i}", "producer": a, "consumers": [b], "bytesPerSample": HIDDEN}
        for i, (a, b) in enumerate(zip(names, names[1:]))
    ]
    return {"schemaVersion": "1.0", "model": "llama", "layers": layers, "tensors": tensors}


CLUSTER = """
name: eight
device_types:
  gpu: {kind: gpu, memory: 24GB, fp32: 31TFLOP/s, bf16: 70TFLOP/s, bandwidth: 600GB/s, price_per_hour: 1}
nodes:
  - {name: box, devices: {gpu: 8}, link: {bandwidth: 24GB/s, latency: 10us}}
"""


@pytest.fixture
def planned(tmp_path: Path):
    (tmp_path / "llama.layers.json").write_text(json.dumps(llama()))
    (tmp_path / "eight.yaml").write_text(CLUSTER)

    def run(*options: str) -> dict:
        command = [
            BINARY, "compile", tmp_path / "llama.layers.json", "--cluster", tmp_path / "eight.yaml", "--batch", "8",
            "--optimizer", "adam", "--precision", "bf16", "--objective", "throughput", "--schedule", "data-parallel",
            "--force", "--json", "-o", tmp_path / "out", *options,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode in (0, 2), done.stderr
        return json.loads(done.stdout)

    return run


def test_only_sharded_parameters_hold_it(planned):
    for sharding in ("none", "optimizer", "gradients"):
        assert not planned("--shard-state", sharding)["feasible"], sharding
    plan = planned()
    (stage,) = plan["stages"]
    assert stage["stateSharding"] == "parameters" and len(stage["replicas"]) == 8 and stage["recompute"]
    assert planned("--shard-state", "parameters")["throughput"] == pytest.approx(plan["throughput"])
    assert all(check["holds"] for check in plan["checks"])


def test_memory_is_that_of_a_hand_calculation(planned):
    plan = planned("--shard-state", "parameters")
    (stage,), (process,) = plan["stages"], plan["deviceMemory"]
    starts = stage["recompute"]
    weights = {each["name"]: each["parameterBytes"] for each in llama()["layers"]}
    kept = {each["name"]: each["activationBytes"] for each in llama()["layers"]}
    segments: list[list[str]] = []
    for name in weights:
        segments += [[]] if name in starts else []
        segments[-1].append(name)
    slices = sum(weights.values()) * 4 / 8
    gathered = max(sum(weights[name] for name in segment) for segment in segments) / 2 + TABLE
    gradients = TABLE * 9 / 8
    inputs = (len(segments) - 1) * HIDDEN
    activations = max(sum(kept[name] for name in segment) for segment in segments)
    tensors = slices + gathered + gradients + inputs + activations + WORKSPACE
    assert stage["memoryBytes"] == pytest.approx(process["constantBytes"] + process["factor"] * tensors, rel=0.01)
    assert stage["gatherSeconds"] == pytest.approx(sum(weights.values()) * 7 / 8 / 24e9, rel=0.05)


def shared(degree: int, collectives: bool = True) -> dict:
    """The layers of one of `degree` devices that share every layer: attention and MLP sum their results."""
    model = llama() | {"shardDegree": degree}
    for each in model["layers"]:
        for figure in ("parameterBytes", "activationBytes", "workspaceBytes", "forwardFlops", "backwardFlops"):
            each[figure] = each[figure] // degree
        if collectives and each["name"].startswith(("attention", "mlp")):
            each["shardCollectives"] = [
                {"collective": "all-reduce", "backward": backward, "count": 1, "bytesPerSample": HIDDEN}
                for backward in (False, True)
            ]
    return model


def test_devices_that_share_every_layer_hold_it(planned, tmp_path: Path):
    """Tensor parallelism: one replica of eight devices, and two rings a block in each pass."""
    plans = []
    for collectives in (True, False):
        (tmp_path / "llama.layers.json").write_text(json.dumps(shared(8, collectives)))
        plans.append(planned("--micro-batches", "8", "--recompute", "never"))
    plan, free = plans
    (stage,) = plan["stages"]
    assert stage["shardDegree"] == 8 and [len(each["devices"]) for each in stage["replicas"]] == [8]
    assert all(check["holds"] for check in plan["checks"])
    ring = 2 * 7 / 8 * HIDDEN / 24e9 + 14 * 10e-6
    rings = plan["iterationSeconds"] - free["iterationSeconds"]
    assert rings == pytest.approx(8 * 2 * 2 * BLOCKS * ring, rel=1e-6)
    (process,) = plan["deviceMemory"]
    parameters = sum(each["parameterBytes"] for each in llama()["layers"]) / 8
    activations = sum(each["activationBytes"] for each in llama()["layers"]) / 8
    # Gradients and two moments beside the parameters, rounded parameters, and a new gradient with its square.
    tensors = 4.5 * parameters + activations + WORKSPACE / 8 + 2 * MLP / 8
    assert stage["memoryBytes"] == pytest.approx(process["constantBytes"] + process["factor"] * tensors, rel=0.01)
