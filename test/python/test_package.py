"""heterplan.compile, Plan and their exceptions."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import get_type_hints

import networks
import pytest
import torch
from conftest import BINARY, SOURCE
from torch import nn

import heterplan
from heterplan.options import CompileOptions, RunOptions

CNN = SOURCE / "test/data/small/cnn.onnx"
CHAIN = SOURCE / "test/data/hand/chain.layers.json"
PROFILE = SOURCE / "test/data/hand/chain.profile.json"
PAIR = SOURCE / "test/data/hand/pair.yaml"


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)
    )


TWO_STAGES = """
name: two
device_types:
  core: {kind: cpu, memory: 1GiB, price_per_hour: 1, catalogue: cpu-core}
nodes:
  - {name: here, count: 1, devices: {core: 2}, host: {cpu: 2, memory: 2GiB}}
network: {bandwidth: 100Gbit/s, latency: 1us}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> heterplan.Plan:
    """Of small(), on two devices."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "two.yaml").write_text(TWO_STAGES)
    return heterplan.compile(
        small(), folder / "two.yaml", inputs=torch.randn(2, 3, 8, 8), batch=8, output=folder / "out",
        separate=[("/0/Conv", "/4/Gemm")],
    )  # fmt: skip


def test_stages_are_those_of_the_file(plan: heterplan.Plan) -> None:
    assert [stage.layers for stage in plan.stages] == [("/0/Conv",), ("/4/Gemm",)]
    for stage in plan.stages:
        assert sum(replica.share for replica in stage.replicas) == plan.global_batch == 8
        assert stage.forward_seconds > 0 and stage.memory_bytes > 0
        assert {device.node for replica in stage.replicas for device in replica.devices} == {"here"}
    assert all(check.holds for check in plan.checks)
    assert plan.report().is_file() and plan.model == plan.directory.with_name("out.onnx")


def test_whole_model_computes_what_the_module_does(plan: heterplan.Plan) -> None:
    images, labels = torch.randn(4, 3, 8, 8), torch.randint(10, (4,))
    expected = networks.train(small().train(), images, labels, 3)
    found = networks.train(plan.module(), images, labels, 3)
    assert found == pytest.approx(expected, rel=1e-5)


def test_stages_as_modules_make_a_chain(plan: heterplan.Plan) -> None:
    images = torch.randn(4, 3, 8, 8)
    first, second = plan.module(0), plan.module(1)
    assert first.receives == () and first.inputs == ("input",)
    (logits,) = second(*first(images))
    assert torch.allclose(logits, plan.module()(images), atol=1e-6)
    with pytest.raises(IndexError, match="stage 2 of a plan with 2 stages"):
        plan.module(2)


def test_whole_model_names_the_inputs_that_it_takes(plan: heterplan.Plan) -> None:
    with pytest.raises(TypeError, match="takes input, not"):
        plan.module()()


def test_a_parameter_of_two_stages_is_one(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO_STAGES)
    module = networks.Tied()
    inputs = {"tokens": torch.randint(50, (2, 7)), "scale": torch.rand(2, 7)}
    plan = heterplan.compile(module, tmp_path / "two.yaml", inputs=inputs, batch=4)
    model = plan.module()
    assert model.inputs == ("tokens", "scale")
    expected, found = module(**inputs), model(**inputs)
    assert torch.allclose(found[0], expected[0], atol=1e-6)
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in module.parameters())


def test_run_trains_and_brings_the_weights_back(plan: heterplan.Plan, tmp_path: Path) -> None:
    with pytest.raises(heterplan.HeterplanError, match=r"Plan.run\(\) writes it"):
        plan.weights()
    result = plan.run(2, data="fixed")
    assert len(result["losses"]) == 2
    module = small()
    trained = plan.weights()
    missing, unexpected = module.load_state_dict(trained, strict=False)
    assert missing == [] and unexpected == []
    assert not torch.equal(trained["0.weight"], small().state_dict()["0.weight"])
    assert plan.export(tmp_path / "trained.onnx").is_file()
    plan.verify(plan.directory.parent / "two.yaml")


def test_verify_says_what_does_not_hold(plan: heterplan.Plan) -> None:
    with pytest.raises(heterplan.HeterplanError):
        plan.verify("local-cpu")


def test_diagnostics_become_exceptions() -> None:
    with pytest.raises(heterplan.HeterplanError, match="did you mean '--batch'") as usage:
        heterplan.compile(CNN, "local-cpu", batchs=4)
    assert usage.value.code == "HP1801" and usage.value.status == 1
    with pytest.raises(heterplan.HeterplanError) as absent:
        heterplan.compile(CNN, "local-cpo")
    first = absent.value.diagnostics[0]
    assert (first.severity, first.code, first.place) == ("error", "HP1001", "local-cpo")
    assert str(first) in str(absent.value)


def test_infeasible_is_an_answer() -> None:
    with pytest.raises(heterplan.Infeasible, match="throughput of at least") as answer:
        heterplan.compile(CNN, "local-cpu", min_throughput=1e15)
    assert answer.value.proven and answer.value.status == 2
    assert answer.value.relaxations[0]["option"] in str(answer.value)


def test_options_are_those_of_the_command_line(tmp_path: Path) -> None:
    options = {
        "batch": 32, "profile": [PROFILE], "require_measured": True, "force": False, "seed": None,
        "max_devices": {"left": 1}, "output": tmp_path / "out",
    }  # fmt: skip
    plan = heterplan.compile(CHAIN, PAIR, **options)
    assert plan.json["deviceLimits"] == [{"type": "left", "most": 1}]
    with pytest.raises(heterplan.HeterplanError, match="model.py: no such file"):
        plan.module()
    with pytest.raises(heterplan.HeterplanError, match="HP1702"):
        (tmp_path / "full").mkdir()
        (tmp_path / "full/mine").touch()
        heterplan.compile(CHAIN, PAIR, **{**options, "output": tmp_path / "full"})


def test_what_is_no_model_is_told_so() -> None:
    with pytest.raises(ValueError, match="needs an example of its inputs"):
        heterplan.compile(small(), "local-cpu")
    with pytest.raises(TypeError, match="a list is neither a torch module nor"):
        heterplan.compile([], "local-cpu")
    with pytest.raises(ValueError, match="a file has its own"):
        heterplan.compile(CNN, "local-cpu", inputs=torch.zeros(2, 3))


def test_a_plan_without_output_goes_with_its_folder() -> None:
    plan = heterplan.compile(CNN, "local-cpu", batch=8)
    folder = plan.directory
    assert folder.is_dir()
    del plan
    assert not folder.exists()


@pytest.mark.parametrize(
    "command, options, own",
    [("compile", CompileOptions, {"help", "cluster", "output", "json"}), ("run", RunOptions, {"help", "json", "steps"})],
)
def test_typed_options_are_those_of_the_program(command: str, options: type, own: set[str]) -> None:
    done = subprocess.run([BINARY, command, "--help"], check=True, capture_output=True, text=True)
    names = set(re.findall(r"^  (?:-\w,)?--([a-z-]+)", done.stdout, re.M))
    assert {name.replace("_", "-") for name in get_type_hints(options)} == names - own


def test_plan_reads_as_a_table(plan: heterplan.Plan) -> None:
    lines = repr(plan).splitlines()
    assert "samples/s" in lines[0] and "optimal" in lines[0] and "8 samples" in lines[1]
    assert lines[2].split() == ["stage", "layers", "devices", "samples", "forward", "backward", "memory"]
    assert [line.split()[:4] for line in lines[3:5]] == [["0", "/0/Conv", "1", "core"], ["1", "/4/Gemm", "1", "core"]]
    page = plan._repr_html_()
    assert page.count("<tr>") == 3 and "<td>/0/Conv</td>" in page


def test_a_folder_without_a_plan_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(heterplan.HeterplanError, match="No such file"):
        heterplan.Plan(tmp_path)
    for text, message in (("{", "is not JSON"), ("[]", "lacks 'stages'"), ('{"stages": []}', "lacks 'globalBatch'")):
        (tmp_path / "plan.json").write_text(text)
        with pytest.raises(heterplan.HeterplanError, match=message):
            heterplan.Plan(tmp_path)


@pytest.mark.parametrize(
    "output, error",
    [('{"feasible": false}', "Infeasible"), ('{"stages": []}', "CheckFailed"), ("", "HeterplanError")],
)
def test_any_answer_of_status_2_is_an_exception_of_the_package(
    output: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho '{output}'\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("HETERPLAN_BINARY", str(program))
    with pytest.raises(heterplan.HeterplanError) as answer:
        heterplan.compile(CNN, "local-cpu")
    assert type(answer.value).__name__ == error and answer.value.status == 2


def test_errors_inside_the_exporter_are_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("prim::unknown")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(heterplan.HeterplanError, match="cannot be exported: the exporter failed with KeyError"):
        heterplan.compile(small(), "local-cpu", inputs=torch.randn(2, 3, 8, 8))
