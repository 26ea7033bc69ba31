"""The manifests of Kubernetes and Kubeflow Trainer keep their schemas, and each pod starts the ranks of its node.

test/data/schemas/kubernetes.json has the schemas of the kinds that are used: the OpenAPI of kubeflow-trainer-api
2.3.0, without descriptions and defaults, and Kueue's ResourceFlavor, by the fields that its reference names."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from binary import heterplan, needs_binary

yaml = pytest.importorskip("yaml")
DATA = Path(__file__).resolve().parents[1] / "data"
SCHEMAS = json.loads((DATA / "schemas/kubernetes.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float)}
CLUSTER = """
name: mixed
device_types:
  p: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 2MFLOP/s, bandwidth: 2MB/s}
  q: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 2MFLOP/s, bandwidth: 2MB/s}
  v100: {kind: gpu, memory: 16GB, price_per_hour: 1, fp32: 1MFLOP/s, bandwidth: 2MB/s}
nodes:
NODES
network: {bandwidth: 1000GB/s, latency: 1ns}
"""
LINK = "link: {bandwidth: 1000GB/s, latency: 1ns}"
pytestmark = needs_binary


def faults(schema: dict[str, Any], value: Any, where: str) -> Iterator[str]:
    """The places at which `value` breaks `schema`. Fields that the schema does not name are faults."""
    if "$ref" in schema:
        schema = SCHEMAS["definitions"][schema["$ref"]]
    if "anyOf" in schema:
        if all(list(faults(each, value, where)) for each in schema["anyOf"]):
            yield f"{where}: {value!r} is none of what is accepted"
        return
    kind = TYPES.get(schema.get("type", ""))
    if kind and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        yield f"{where}: {value!r} is not {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, dict):
        yield from (f"{where}: no {name}" for name in schema.get("required", ()) if name not in value)
        for name, each in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if inner is None and "properties" in schema:
                yield f"{where}: unknown field {name}"
            elif isinstance(inner, dict):
                yield from faults(inner, each, f"{where}.{name}")
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from faults(schema.get("items", {}), each, f"{where}[{index}]")


def compiled(folder: Path, nodes: str) -> Path:
    (folder / "cluster.yaml").write_text(CLUSTER.replace("NODES", nodes))
    used = {name for name in ("p", "q", "v100") if re.search(rf"\b{name}: \d", nodes)}
    text = "\n".join(
        line for line in (folder / "cluster.yaml").read_text().splitlines()
        if not re.match(r"  (p|q|v100): ", line) or line.split(":")[0].strip() in used
    )  # fmt: skip
    (folder / "cluster.yaml").write_text(text)
    heterplan(
        "compile", DATA / "small/cnn.onnx", "--cluster", folder / "cluster.yaml", "--batch", 48, "--schedule",
        "data-parallel", "-o", folder / "plan",
    )  # fmt: skip
    return folder / "plan"


@pytest.fixture(scope="module")
def two_types_each(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nodes of one class between nodes of another, with two device types each."""
    return compiled(
        tmp_path_factory.mktemp("mixed"),
        f"  - {{name: one, devices: {{p: 1, q: 1}}, {LINK}}}\n  - {{name: two, devices: {{p: 1}}, {LINK}}}\n"
        f"  - {{name: three, devices: {{p: 1, q: 1}}, {LINK}}}\n",
    )


def documents(plan: Path, name: str) -> list[dict[str, Any]]:
    found = list(yaml.safe_load_all((plan / name).read_text()))
    assert found
    for each in found:
        assert not list(faults(SCHEMAS["kinds"][each["kind"]], each, each["kind"]))
    return found


def pod_groups(plan: Path, name: str) -> dict[str, dict[str, Any]]:
    """The Job of each group by the prefix of the names of its pods."""
    found = documents(plan, name)
    if name == "launch.k8s.yaml":
        assert [each["kind"] for each in found] == ["Service", *["Job"] * (len(found) - 1)]
        return {each["metadata"]["name"]: each["spec"] for each in found[1:]}
    runtime, job = found
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    replicated = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    return {f"{job['metadata']['name']}-{each['name']}-0": each["template"]["spec"] for each in replicated}


def started(plan: Path, job: dict[str, Any], index: int, folder: Path) -> str:
    """The command that a pod becomes."""
    (container,) = job["template"]["spec"]["containers"]
    (folder / "getent").write_text("#!/bin/sh\nexit 0\n")
    (folder / "getent").chmod(0o755)
    command = [word.replace("/plan/launch.sh", str(plan / "launch.sh")) for word in container["command"]]
    run = subprocess.run(
        [*command, *container["args"], "--dry-run"], capture_output=True, text=True, check=True,
        env={**os.environ, "JOB_COMPLETION_INDEX": str(index), "PATH": f"{folder}:{os.environ['PATH']}"},
    )  # fmt: skip
    return run.stdout


@pytest.mark.parametrize("name", ["launch.k8s.yaml", "launch.trainjob.yaml"])
def test_each_pod_starts_the_ranks_of_its_node(two_types_each: Path, name: str, tmp_path: Path):
    groups = pod_groups(two_types_each, name)
    programs = [json.loads(path.read_text()) for path in sorted((two_types_each / "ranks").iterdir())]
    types: dict[str, set[str]] = {}
    for program in programs:
        types.setdefault(program["device"]["node"], set()).add(program["device"]["type"])
    assert len(groups) == 2, "a group for each kind of node"
    nodes = []
    for prefix, job in groups.items():
        assert job["completions"] == job["parallelism"] and job["completionMode"] == "Indexed"
        selected = job["template"]["spec"]["nodeSelector"]["heterplan/device-type"]
        for index in range(job["completions"]):
            command = started(two_types_each, job, index, tmp_path)
            (node,) = re.findall(r"HETERPLAN_NODE=(\S+)", command)
            (hosts,) = re.findall(r"HETERPLAN_HOSTS=(\S+)", command)
            (place,) = re.findall(r"HETERPLAN_HOST_INDEX=(\d+)", command)
            own = hosts.replace("\\", "").split(",")[int(place)]
            assert own.startswith(f"{prefix}-{index}."), (own, prefix)
            assert "-".join(sorted(types[node])) == selected
            nodes.append(node)
    assert sorted(nodes) == sorted(types)


def test_one_component_for_each_device_type(tmp_path: Path):
    plan = compiled(
        tmp_path,
        f"  - {{name: a, count: 2, devices: {{v100: 4}}, {LINK}}}\n  - {{name: b, count: 2, devices: {{p: 1}}, {LINK}}}\n",
    )
    types = {json.loads(path.read_text())["device"]["type"] for path in (plan / "ranks").iterdir()}
    assert types == {"v100", "p"}
    assert len(pod_groups(plan, "launch.k8s.yaml")) == len(pod_groups(plan, "launch.trainjob.yaml")) == 2
    limits = [
        job["template"]["spec"]["containers"][0].get("resources", {}) for job in pod_groups(plan, "launch.k8s.yaml").values()
    ]
    assert sorted(map(str, limits)) == ["{'limits': {'nvidia.com/gpu': '4'}}", "{}"]
    script = (plan / "launch.sbatch").read_text()
    assert script.count("#SBATCH hetjob") == 1
    assert "--ntasks-per-node=4 --gres=gpu:v100:4\n" in script and "--ntasks-per-node=1 --constraint=p\n" in script


def test_the_schema_finds_faults(two_types_each: Path):
    job = documents(two_types_each, "launch.k8s.yaml")[1]
    job["spec"]["completions"] = "2"
    job["spec"]["template"]["spec"]["container"] = job["spec"]["template"]["spec"].pop("containers")
    found = list(faults(SCHEMAS["kinds"]["Job"], job, "Job"))
    assert found == [
        "Job.spec.completions: '2' is not integer", "Job.spec.template.spec: no containers",
        "Job.spec.template.spec: unknown field container",
    ]  # fmt: skip
