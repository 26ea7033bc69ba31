"""The parts of the runtime that need no second process."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import heterplan_runtime
import pytest
import torch
from heterplan_runtime.batchnorm import SynchronisedBatchNorm
from heterplan_runtime.communication import _buckets
from heterplan_runtime.data import RandomData
from heterplan_runtime.data_option import make_data
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.losses import make_loss
from heterplan_runtime.model import Model, initial, load_model
from heterplan_runtime.program import SampleRange, TensorSpec
from heterplan_runtime.reference import largest_difference
from heterplan_runtime.tensorfile import read_tensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packages import awkward


RUNTIME = Path(heterplan_runtime.__file__).parents[1]


def header(text: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text.encode() + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)) -> str:
    return json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}})


# Tensor files.


def test_tensor_file_equals_the_library_that_defines_it(tmp_path: Path):
    from safetensors.torch import save_file

    tensors = {
        "a": torch.randn(3, 5),
        "b.c": torch.arange(7),
        "half": torch.randn(2, 2).half(),
        "brain": torch.randn(4).bfloat16(),
        "flag": torch.tensor([True, False, True]),
        "one": torch.tensor(2.5),
        "none": torch.empty(0, 3),
    }
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    read = read_tensors(tmp_path / "x.safetensors")
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b"abc", "cut short"),
        (struct.pack("<Q", 2**63) + b"{}", "cut short"),
        (header("{"), "the header is not JSON"),
        (header("[1]"), "the header is not an object"),
        (header('{"a": 1}'), "not described by an object"),
        (header(entry(dtype="F33"), bytes(8)), "no proper dtype"),
        (header(entry(dtype=["F32"]), bytes(8)), "no proper dtype"),
        (header(entry(shape=[-2]), bytes(8)), "no proper dtype"),
        (header(entry(shape=[True]), bytes(8)), "no proper dtype"),
        (header(entry(offsets=[0, 8, 9]), bytes(8)), "no proper dtype"),
        (header(entry(), bytes(7)), "do not hold"),
        (header(entry(shape=[2**62, 4]), bytes(8)), "do not hold"),
        (header(entry(offsets=[8, 0]), bytes(8)), "do not hold"),
        (header(entry(offsets=[8, 16]), bytes(8)), "do not hold"),
    ],
)
def test_damaged_tensor_file_is_refused(tmp_path: Path, content: bytes, message: str):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(RuntimeFault, match=message):
        read_tensors(path)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 120), st.binary(max_size=6), st.integers(0, 130))
def test_any_damage_gives_tensors_or_a_refusal(tmp_path: Path, at: int, patch: bytes, keep: int):
    whole = bytearray(header(entry(), bytes(range(8))))
    whole[at : at + len(patch)] = patch
    path = tmp_path / "x.safetensors"
    path.write_bytes(whole[:keep])
    try:
        tensors = read_tensors(path)
    except RuntimeFault:
        return
    assert all(tensor.nbytes <= 8 for tensor in tensors.values())


# Tensors split by sample.


def test_slices_follow_the_batch_axis():
    spec = TensorSpec("x", torch.float32, ((0, 3), (2, 0)))  # two columns a sample, on axis 1
    tensor = torch.arange(3 * 8).float().view(3, 8)
    own = SampleRange(4, 4)
    part = spec.slice(tensor, own, SampleRange(5, 2))
    assert torch.equal(part, tensor[:, 2:6])
    assert spec.shape(4) == (3, 8)


def test_tensor_without_samples_is_sent_whole():
    spec = TensorSpec("x", torch.float32, ((0, 3),))
    tensor = torch.arange(3)
    assert spec.slice(tensor, SampleRange(0, 4), SampleRange(2, 2)) is tensor


def test_buckets_hold_one_type_each_and_large_tensors_alone():
    tensors = [torch.zeros(4), torch.zeros(2), torch.zeros(3, dtype=torch.float64), torch.zeros(1)]
    tensors.insert(1, torch.zeros(1 << 18))
    buckets = _buckets(tensors)
    assert buckets == [[1], [0, 2], [3], [4]]
    many = _buckets([torch.zeros((1 << 18) - 1)] * 70)
    assert [len(bucket) for bucket in many] == [64, 6]


# Initial values, data, losses.


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return load_model(awkward([[4], [4], [4]], 1).write(tmp_path / "plan"))


def test_initial_values_depend_on_name_and_seed_alone():
    shape = (64, 32, 3, 3)
    first = initial("conv.weight", shape, "kaiming", 1)
    assert torch.equal(first, initial("conv.weight", shape, "kaiming", 1))
    assert not torch.equal(first, initial("conv.weight", shape, "kaiming", 2))
    assert not torch.equal(first, initial("conv2.weight", shape, "kaiming", 1))
    assert first.abs().max() <= (32 * 9) ** -0.5
    assert first.std() == pytest.approx((3 * 32 * 9) ** -0.5, rel=0.02)
    assert initial("embedding", (100, 100), "normal", 1).std() == pytest.approx(0.02, rel=0.05)
    assert torch.equal(initial("b", (3,), "zeros", 1), torch.zeros(3))
    with pytest.raises(RuntimeFault, match="unknown initialiser 'xavier'"):
        initial("b", (3,), "xavier", 1)


def test_shared_parameters_are_found(model: Model):
    assert model.shared_parameters() == {"tied.scale": (0, 2)}


def test_random_data_does_not_depend_on_the_split(model: Model):
    loss = make_loss("cross_entropy", model.prediction)
    data = make_data("--data", "random", model, loss, 3, 8)
    whole, left, right = (data.load(2, r) for r in (range(5), range(2), range(2, 5)))
    for name in whole.inputs:
        assert torch.equal(whole.inputs[name], torch.cat([left.inputs[name], right.inputs[name]]))
    assert torch.equal(whole.targets, torch.cat([left.targets, right.targets]))
    assert not torch.equal(whole.inputs["image"], data.load(3, range(5)).inputs["image"])


def test_random_integers_stay_below_their_bounds(model: Model):
    loss = make_loss("cross_entropy", model.prediction)
    data = make_data("--data", "random", model, loss, 3, 8)
    batch = data.load(0, range(200))
    assert set(batch.inputs["kind"].tolist()) == set(range(5))
    assert set(batch.targets.tolist()) == set(range(7))


def test_a_mask_without_a_bound_hides_nothing():
    spec = TensorSpec("attention_mask", torch.int64, ((1, 0), (0, 4)))
    output = TensorSpec("y", torch.float32, ((1, 0), (0, 2)))
    model = Model("m", (), {spec.name: spec}, {"y": output}, {})
    data = RandomData(model, make_loss("mse", output), 0)
    assert torch.equal(data.load(0, range(3)).inputs[spec.name], torch.ones(3, 4).long())


TOKENS = TensorSpec("y", torch.float32, ((1, 0), (0, 3), (0, 6)))


def test_losses_are_means_over_their_samples():
    outputs, classes = torch.randn(4, 3, 6), torch.randint(0, 6, (4, 3))
    entropy = make_loss("cross_entropy", TOKENS).function
    picked = outputs.log_softmax(-1).gather(-1, classes[..., None])
    assert entropy((outputs,), classes) == pytest.approx(-picked.mean().item())
    halves = [entropy((outputs[i : i + 2],), classes[i : i + 2]) for i in (0, 2)]
    assert entropy((outputs,), classes) == pytest.approx(sum(halves).item() / 2)
    values = torch.randn(4, 3, 6)
    squared = make_loss("mse", TOKENS).function((outputs,), values)
    assert squared == pytest.approx((outputs - values).square().mean().item())


@pytest.mark.parametrize(
    ("text", "spec", "message"),
    [
        ("hinge", TOKENS, "expected cross_entropy, token_cross_entropy, mse or module:function"),
        ("cross_entropy", TensorSpec("y", torch.float32, ((1, 0), (0, 1))), "two classes"),
        ("cross_entropy", TensorSpec("y", torch.float32, ((1, 0),)), "two classes"),
        ("mse", TensorSpec("y", torch.int64, ((1, 0), (0, 4))), "'y' is not floating-point"),
        ("nowhere:f", TOKENS, "No module named 'nowhere'"),
        ("json:absent", TOKENS, "no attribute 'absent'"),
        ("json:__name__", TOKENS, "not a function"),
    ],
)
def test_unusable_losses_are_refused(text: str, spec: TensorSpec, message: str):
    with pytest.raises(RuntimeFault, match=message):
        make_loss(text, spec)


def test_custom_loss_and_data(model: Model, tmp_path: Path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def loss(outputs, targets): return (outputs - targets).abs().mean()\n"
        "def vector(outputs, targets): return outputs\n"
        "def data(step, samples):\n"
        "    n = len(samples)\n"
        "    ids = torch.tensor(samples)\n"
        "    return {'image': torch.full((n, 3, 6, 6), float(step)), 'kind': ids}, ids\n"
        "def wrong(step, samples): return {'image': torch.zeros(1), 'kind': None}, None\n"
        "def none(step, samples): return {}, None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    loss = make_loss("mine:loss", model.prediction)
    assert loss.function((torch.ones(2, 3),), torch.zeros(2, 3)) == 1
    with pytest.raises(RuntimeFault, match="must return one number"):
        make_loss("mine:vector", model.prediction).function((torch.ones(2, 3),), None)
    batch = make_data("--data", "mine:data", model, loss, 0, 8).load(7, range(3, 5))
    assert batch.targets.tolist() == [3, 4]
    assert batch.inputs["image"].shape == (2, 3, 6, 6)
    with pytest.raises(RuntimeFault, match="tensor 'image' is torch.float32"):
        make_data("--data", "mine:wrong", model, loss, 0, 8).load(0, range(2))
    with pytest.raises(RuntimeFault, match="gives no input 'image'"):
        make_data("--data", "mine:none", model, loss, 0, 8).load(0, range(2))
    with pytest.raises(RuntimeFault, match="expected random, fixed or module:name"):
        make_data("--data", "files", model, loss, 0, 8)


# Memory.


def test_freed_memory_is_used_again_without_page_faults():
    script = (
        "import resource\n"
        "from heterplan_runtime.allocator import keep_freed_memory\n"
        "def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "keep_freed_memory()\n"
        "block = bytearray(64 << 20)\n"
        "del block\n"
        "before = faults()\n"
        "block = bytearray(64 << 20)\n"
        "print(faults() - before)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=RUNTIME, capture_output=True, check=True
    )
    assert int(found.stdout) < 1000  # of 16384 pages


# Batch normalisation and the check.


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 5), (6, 4, 3, 2)])
def test_batch_norm_of_one_replica_equals_that_of_torch(shape):
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mine = [torch.zeros(4).double(), torch.ones(4).double()]
    theirs = [tensor.clone() for tensor in mine]
    norm = SynchronisedBatchNorm(lambda tensor: tensor.clone())
    y = norm(x, weight, bias, *mine, momentum=0.1, eps=1e-5, training=True)
    expected = torch.nn.functional.batch_norm(x, *theirs, weight, bias, True, 0.1, 1e-5)
    slope = torch.randn(shape, dtype=torch.float64)
    gradients = torch.autograd.grad((y * slope).sum(), (x, weight, bias))
    wanted = torch.autograd.grad((expected * slope).sum(), (x, weight, bias))
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(gradients, wanted)
    torch.testing.assert_close(mine, theirs)


def test_difference_of_losses():
    assert largest_difference([1.0, 2.0], [1.0, 2.0]) == 0
    assert largest_difference([1.0, 2.2], [1.0, 2.0]) == pytest.approx(0.1)
    assert largest_difference([float("nan")], [1.0]) == float("inf")
