"""A rank that fails or hangs ends the run with its place; bad input is refused before a step."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packages import awkward, linear


OF_A_PART = (
    "stage", "replica", "shard", "samples", "receives", "sends", "tables", "recompute", "stateSharding",
)  # fmt: skip


def edit(folder: Path, number: int, fields: dict) -> None:
    """Edits the program of a rank, or its only part."""
    path = folder / "ranks" / f"{number:04d}.json"
    program = json.loads(path.read_text())
    for name, value in fields.items():
        (program["parts"][0] if name in OF_A_PART else program)[name] = value
    path.write_text(json.dumps(program))


def group(*ranges: dict[str, int], world: int = 1, **fields: Any) -> dict[str, Any]:
    """A rank that takes part in a collective."""
    return {"worldSize": world, "instructions": [{"op": "allReduce", "ranges": list(ranges), **fields}]}


def patch_model(folder: Path, old: str, new: str) -> None:
    path = folder / "model.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_failing_rank_names_its_instruction(fail, tmp_path: Path):
    folder = awkward([[2], [2], [2]], micro_batches=2).write(tmp_path / "plan")
    patch_model(folder, "c = F.conv2d(b,", "raise ValueError('boom'); c = F.conv2d(b,")
    outcomes = fail(folder, 3)
    assert outcomes[1].status == 1
    assert "rank 1: error: stage 1, replica 0, step 1: instruction 1 'forward'" in outcomes[1].err
    assert "of micro-batch 0 failed: ValueError: boom" in outcomes[1].err
    assert 0 not in [outcome.status for outcome in outcomes]


def test_hung_rank_is_reported_by_the_one_that_waits(fail, tmp_path: Path):
    folder = awkward([[2], [2], [2]], micro_batches=2).write(tmp_path / "plan")
    patch_model(folder, "c = F.conv2d(b,", "import time; time.sleep(90); c = F.conv2d(b,")
    outcomes = fail(folder, 3, "--timeout", "8", seconds=60)
    assert outcomes[1].status is None, "the hung rank was stopped by the test"
    reports = [outcome.err for outcome in (outcomes[0], outcomes[2]) if outcome.status == 1]
    assert reports
    for report in reports:
        assert "of micro-batch 0 from rank 1 failed" in report
        assert "Timed out waiting 8000ms" in report


def test_output_unlike_the_plan_is_refused(fail, tmp_path: Path):
    folder = awkward([[2], [2], [2]], micro_batches=1).write(tmp_path / "plan")
    patch_model(folder, "self.tied.scale * 2, kind", "self.tied.scale[:3] * 2, kind")
    (outcome, *_) = fail(folder, 3)
    assert outcome.status == 1
    assert "tensor 's' is torch.float32 [3]; the plan says torch.float32 [4]" in outcome.err


def test_failed_check_exits_2(fail, tmp_path: Path):
    folder = linear([2, 1], micro_batches=1).write(tmp_path / "plan")
    patch_model(folder, "torch.tanh(", "(1 + int(__import__('os').environ['RANK'])) * torch.tanh(")
    result = tmp_path / "result.json"
    outcomes = fail(
        folder, 2, "--check", "--loss", "mse", "--json", str(result), stop_on_failure=False
    )
    assert [outcome.status for outcome in outcomes] == [2, 2]
    assert "check failed: losses differ from those of one process by" in outcomes[0].err
    assert "check: step 1:" in outcomes[0].out
    assert json.loads(result.read_text())["checkPassed"] is False


def test_launcher_passes_the_status_on(tmp_path: Path):
    """Through torchrun, from the plan directory, as a user starts it."""
    folder = linear([2, 1], micro_batches=1).write(tmp_path / "plan")
    patch_model(folder, "torch.tanh(", "(1 + int(__import__('os').environ['RANK'])) * torch.tanh(")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, "-m", "heterplan_runtime", ".", "--loss", "mse", "--check"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 2, run.stderr
    assert "step 3  loss" in run.stdout


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"schemaVersion": "2.0"}, "schemaVersion 2.x is not known; this runtime reads 1.x"),
        ({"schemaVersion": 1}, "field 'schemaVersion' is 1; expected a text"),
        ({"rank": 1}, "holds the program of rank 1"),
        ({"worldSize": 0}, "field 'worldSize' is 0; expected a whole number of at least 1"),
        ({"worldSize": 3}, "launched as rank 0 of 1; the plan is for 3 ranks"),
        ({"globalBatch": 2.5}, "field 'globalBatch' is 2.5"),
        ({"globalBatch": float("inf")}, "field 'globalBatch' is Infinity; expected a finite"),
        ({"microBatches": 5}, "5 microBatches of a globalBatch of 4"),
        ({"optimizer": "lbfgs"}, "expected one of sgd, momentum, adam"),
        ({"stage": 4}, "stage 4 of 1"),
        ({"shard": 1}, "shard 1 of 1 in model.py"),
        ({"parts": []}, "the rank has no part of any stage"),
        (
            {"parts": [{"samples": {"count": 4}}, {"samples": {"count": 4}}]},
            "the parts are of stages [0, 0], which do not ascend",
        ),
        (
            {"instructions": [{"op": "step", "part": 1}]},
            "instructions[0]: part 1 of 1",
        ),
        (
            {
                "instructions": [
                    {"op": "send", "microBatch": 0, "peer": 0, "boundary": 1, "samples": {"count": 1}}
                ]
            },
            "'send' of stage 0 names boundary 1",
        ),
        ({"stages": 2, "links": [{"from": 1, "to": 1}]}, "links[0] leads to no later stage"),
        ({"samples": {"begin": 1, "count": 4}}, "samples 1..5 do not lie in a micro-batch of 4"),
        ({"samples": 7}, "samples: expected an object, found 7"),
        ({"instructions": 1}, "field 'instructions' is 1; expected a list"),
        ({"instructions": [{"op": "jump"}]}, "instructions[0]: field 'op' is \"jump\""),
        ({"instructions": [{"op": "forward"}]}, "'forward' needs a micro-batch below 1"),
        ({"instructions": [{"op": "send", "microBatch": 0}]}, "'send' needs a peer below 1"),
        (
            {"instructions": [{"op": "send", "microBatch": 0, "peer": 0, "samples": {"count": 9}}]},
            "samples 0..9 are not part of those of the rank",
        ),
        ({"instructions": [{"op": "allReduce", "group": [5]}]}, "expected ranks below 1"),
        (group(ranges=1), "instructions[0]: field 'ranges' is 1; expected a list"),
        (group({"stride": 1}), "instructions[0]: ranges[0]: field 'count' is null; expected"),
        (group({"count": 0, "stride": 1}), "field 'count' is 0; expected a whole number of at least 1"),
        (group({"count": 1, "stride": 0}), "field 'stride' is 0; expected a whole number of at least 1"),
        (group({"first": -1, "count": 1, "stride": 1}), "field 'first' is -1; expected"),
        (group({"first": 3, "count": 2, "stride": 1}, world=4), "2 ranks from 3 on, 1 apart; expected"),
        (group({"count": 2**53, "stride": 2**53}, world=2**53), "expected ranks above -1 and below"),
        (group(*2 * [{"count": 2, "stride": 2}], world=4), "ranges[1]: 2 ranks from 0 on, 2 apart"),
        (group({"count": 1, "stride": 1}, group=[0]), "has both 'group' and 'ranges'"),
        (group({"count": 2**53, "stride": 1}, world=2**53), "the plan is for 9007199254740992 ranks"),
        ({"receives": [{"name": "x", "type": "string"}]}, "type 'string' are not supported"),
        (
            {"sends": [{"name": "x", "shape": [{"perSample": 1}, {"perSample": 2}]}]},
            "tensor 'x' cannot be split by sample",
        ),
        ({"stages": 2}, "model.py has 1 stages; the plan 2"),
        ({"stateSharding": "all"}, "expected one of none, optimizer, gradients"),
        (
            {"instructions": [{"op": "allGather", "group": [0]}]},
            "instructions[0]: 'allGather' needs stateSharding optimizer or gradients or parameters, not none",
        ),
        (
            {"stateSharding": "gradients", "instructions": [{"op": "reduceScatter", "group": [0]}]},
            "'reduceScatter' needs stateSharding optimizer, not gradients",
        ),
        ({"recompute": [1]}, "field 'recompute' is [1]; expected a list of texts"),
        ({"recompute": ["fc"]}, "stage 0 has other segments in model.py than in the plan"),
        ({"receives": [{"name": "x"}]}, "stage 0 receives 0 tensors in model.py, 1 in the plan"),
    ],
)
def test_bad_rank_file(monkeypatch, tmp_path: Path, fields, message):
    from heterplan_runtime.errors import RuntimeFault
    from heterplan_runtime.main import parse
    from heterplan_runtime.assembly import prepare

    folder = linear([4], micro_batches=1).write(tmp_path / "plan")
    edit(folder, 0, fields)
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_PORT", "0")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(RuntimeFault) as error:
        prepare(parse([str(folder), "--loss", "mse"]))
    _close_process_group()
    assert message in str(error.value)


def _close_process_group() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ranks/0000.json", None, "ranks/0000.json: No such file"),
        ("ranks/0000.json", "{", "not JSON"),
        ("ranks/0000.json", "[" * 100000, "not JSON"),
        ("ranks/0000.json", "[]", "expected an object"),
        ("plan.json", "{]", "plan.json: not JSON"),
        ("model.py", None, "model.py: no such file"),
        ("model.py", "x = 1 /", "model.py: cannot be imported: SyntaxError"),
        ("model.py", "MODEL = 'x'", "cannot be imported: AttributeError"),
    ],
)
def test_bad_files(tmp_path: Path, name, text, message):
    from heterplan_runtime.errors import RuntimeFault
    from heterplan_runtime.model import load_model
    from heterplan_runtime.program import read_plan, read_rank_program

    folder = linear([4], micro_batches=1).write(tmp_path / "plan")
    (folder / name).unlink() if text is None else (folder / name).write_text(text)
    with pytest.raises(RuntimeFault) as error:
        read_rank_program(folder, 0)
        read_plan(folder)
        load_model(folder)
    assert message in str(error.value)


def test_python_without_torch_is_told_so(tmp_path: Path):
    folder = linear([4], micro_batches=1).write(tmp_path / "plan")
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c",
         f"import sys; sys.path.insert(0, {str(folder)!r}); "
         f"from heterplan_runtime.main import main; sys.exit(main([{str(folder)!r}]))"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 1
    assert "has no PyTorch" in run.stderr and "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "--steps: expected a whole number of at least 1"),
        (["--steps", "many"], "--steps: expected a whole number of at least 1"),
        (["--frobnicate"], "unrecognized arguments"),
        ([], "are required: DIR"),
    ],
)
def test_wrong_usage_exits_1(capsys, arguments, message):
    from heterplan_runtime.main import parse

    with pytest.raises(SystemExit) as error:
        parse([*(["plan"] if arguments else []), *arguments])
    assert error.value.code == 1
    assert message in capsys.readouterr().err


def test_weights_are_used_and_checked(fail, tmp_path: Path):
    """The first loss of zero weights is that of no knowledge; other shapes are refused."""
    folder = linear([4], micro_batches=1).write(tmp_path / "plan")
    (folder / "weights").mkdir()
    weights = folder / "weights" / "stage-0000.safetensors"
    weights.write_bytes(tensor_file({"down.weight": ("F32", [3, 8], bytes(96))}))
    (outcome,) = fail(folder, 1, "--steps", "1")
    assert outcome.status == 0, outcome.err
    assert "loss 1.098612" in outcome.out  # ln 3
    weights.write_bytes(tensor_file({"down.weight": ("F32", [8, 3], bytes(96))}))
    (outcome,) = fail(folder, 1)
    assert outcome.status == 1
    assert (
        "'down.weight' is torch.float32 [8, 3]; the model has torch.float32 [3, 8]" in outcome.err
    )


def tensor_file(tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data

ENVIRONMENT = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "29400"}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"MASTER_ADDR": None}, "RANK is set, but MASTER_ADDR is not; start the ranks with torchrun"),
        ({"MASTER_PORT": None, "WORLD_SIZE": ""}, "RANK is set, but WORLD_SIZE, MASTER_PORT are not"),
        ({"RANK": "first"}, "RANK is 'first'; expected a number"),
        ({"MASTER_PORT": "-1"}, "MASTER_PORT is '-1'; expected a number"),
        ({"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}, "launched as rank 0 of 3; the plan is for 2 ranks"),
        ({"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "RANK": "2", "LOCAL_RANK": "2"}, "--nproc-per-node"),
    ],
)  # fmt: skip
def test_wrong_launches_are_refused(tmp_path: Path, changes: dict[str, str | None], message: str):
    folder = linear([2, 1], micro_batches=1).write(tmp_path / "plan")
    environment = {**os.environ, **{key: text for key, text in {**ENVIRONMENT, **changes}.items() if text is not None}}
    run = subprocess.run(
        [sys.executable, "-m", "heterplan_runtime", folder, "--loss", "mse"],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 1
    assert message in run.stderr
    assert "Traceback" not in run.stderr
