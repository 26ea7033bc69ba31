"""docs/schemas/*.schema.json are generated from the proto and the readers; files that heterplan writes or reads keep
to them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from conftest import BINARY, SOURCE, tower_layers, tower_profile

SCHEMAS = SOURCE / "docs/schemas"
TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float), "integer": (int, float),
    "null": type(None),
}  # fmt: skip


def problems(value: object, schema: dict, root: dict, path: str = "$") -> Iterator[str]:
    """The part of JSON Schema that the files use; a field that no schema names is a problem too."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in schema:
        found = [list(problems(value, each, root, path)) for each in schema["anyOf"]]
        if all(found):
            yield min(found, key=len)[0]
        return
    if "enum" in schema:
        if value not in schema["enum"]:
            yield f"{path}: {value!r} is none of {schema['enum']}"
        return
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    fits = any(isinstance(value, TYPES[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in kinds)
    if not fits:
        yield f"{path}: {value!r} is no {kinds}"
        return
    if kinds == ["integer"] and value != int(value):
        yield f"{path}: {value} is not whole"
    if value is not None and "minimum" in schema and value < schema["minimum"]:
        yield f"{path}: {value} is below {schema['minimum']}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{path}: {value} is not above {schema['exclusiveMinimum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"
    if len(value if isinstance(value, (str, list)) else "x") < max(schema.get("minLength", 0), schema.get("minItems", 0)):
        yield f"{path}: is empty"
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from problems(item, schema["items"], root, f"{path}[{index}]")
    if isinstance(value, dict):
        yield from (f"{path}: lacks {name}" for name in schema.get("required", []) if name not in value)
        for name, item in value.items():
            known = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            if known:
                yield from problems(item, known, root, f"{path}.{name}")
            else:
                yield f"{path}: {name} is unknown"


class Yaml(yaml.SafeLoader):
    """YAML 1.2 as far as heterplan reads it: 1e9 is a number."""


Yaml.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[0-9]+[eE][0-9]+$"), list("0123456789"))


def check(kind: str, text: str) -> list[str]:
    schema = json.loads((SCHEMAS / f"{kind}.schema.json").read_text())
    value = yaml.load(text, Yaml) if kind in ("cluster", "jobs") else json.loads(text)  # noqa: S506
    return list(problems(value, schema, schema))


def test_schemas_are_those_of_the_sources(tmp_path: Path) -> None:
    subprocess.run([sys.executable, SOURCE / "scripts/json-schemas.py", "-o", tmp_path], check=True)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text() for path in SCHEMAS.iterdir()}


@pytest.fixture(scope="module", params=["pipeline", "burst"])
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    options = ("--batch", "64", "--schedule", request.param, "-o", folder / "out")
    subprocess.run([BINARY, "compile", SOURCE / "test/data/small/cnn.onnx", "--cluster", "mixed-small", *options],
                   check=True, capture_output=True)  # fmt: skip
    return folder / "out"


def test_plans_ranks_and_traces_keep_to_their_schemas(plan: Path) -> None:
    assert check("plan", (plan / "plan.json").read_text()) == []
    for rank in (plan / "ranks").iterdir():
        assert check("rank", rank.read_text()) == []
    trace = subprocess.run([BINARY, "inspect", plan, "--format", "trace"], check=True, capture_output=True, text=True)
    assert check("trace", trace.stdout) == []


def test_layers_and_profiles_keep_to_their_schemas() -> None:
    printed = subprocess.run([BINARY, "import", SOURCE / "test/data/small/cnn.onnx", "--format", "json"], check=True,
                             capture_output=True, text=True)  # fmt: skip
    for layers in (printed.stdout, json.dumps(tower_layers())):
        assert check("layers", layers) == []
    profiles = [path.read_text() for path in (SOURCE / "profiles/measured").glob("resnet50*.profile.json")]
    assert profiles
    for profile in (*profiles, json.dumps(tower_profile())):
        assert check("profile", profile) == []


CLUSTERS = [*SOURCE.glob("profiles/clusters/*.yaml"), *SOURCE.glob("test/golden/Inputs/*.yaml")]
JOBS = [*SOURCE.glob("test/golden/Inputs/schedule/*.yaml"), *SOURCE.glob("test/fuzz/corpus/jobs/*.yaml")]


@pytest.mark.parametrize("kind, key, files", [("cluster", "device_types", CLUSTERS), ("jobs", "jobs", JOBS)])
def test_clusters_and_jobs_keep_to_their_schemas(kind: str, key: str, files: list[Path]) -> None:
    texts = {file: file.read_text() for file in files}
    checked = {file: check(kind, text) for file, text in texts.items() if f"\n{key}:" in f"\n{text}"}
    assert len(checked) >= 3
    assert {file.name: found for file, found in checked.items() if found} == {}


@pytest.mark.parametrize("name", ["count", "no-nodes", "speed-text", "speed-zero", "unknown-field"])
def test_wrong_clusters_are_found(name: str) -> None:
    assert check("cluster", (SOURCE / f"test/golden/Inputs/errors/{name}.yaml").read_text())


@pytest.mark.parametrize("policy", ["pd-ors", "fifo", "auto"])
def test_schedules_keep_to_their_schema(policy: str, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.yaml"
    job = ("arrival: 0, epochs: 1, batch: 128, sample_time: 4ms, gradient: 1MB, worker: {cpu: 1}, server: {cpu: 1}, "
           "workers_per_server: 4, utility: {kind: constant, value: 10}")  # fmt: skip
    jobs.write_text(f"slot: 60s\nslots: 8\njobs:\n  - {{name: a, samples: 20000, {job}}}\n"
                    f"  - {{name: never, samples: 100000000, {job}}}\n")  # fmt: skip
    assert check("jobs", jobs.read_text()) == []
    subprocess.run([BINARY, "schedule", jobs, "--cluster", "mixed-small", "--policy", policy, "-o", tmp_path / "out"],
                   check=True, capture_output=True)  # fmt: skip
    assert check("schedule", (tmp_path / "out/schedule.json").read_text()) == []


def test_limits_that_were_not_given_are_absent(plan: Path) -> None:
    stated = json.loads((plan / "plan.json").read_text())
    assert [name for name in stated if name.startswith(("max", "min"))] == []
    assert ("amplificationLimit" in stated) == (stated["schedule"] == "burst")


def test_counts_are_whole_numbers(tmp_path: Path) -> None:
    options = ("--cluster", "mixed-small", "--batch", "1048576", "--seed", "9007199254740992", "--epochs", "3")
    subprocess.run([BINARY, "compile", SOURCE / "test/data/small/mlp.onnx", *options, "--samples", "4000000000000",
                    "--max-devices", "v100=8", "-o", tmp_path / "out"], check=True, capture_output=True)  # fmt: skip
    text = (tmp_path / "out/plan.json").read_text()
    counts = re.findall(r'"(globalBatch|microBatches|seed|share|mostSamples|most|epochs|samples)": ([^,\s]+)', text)
    assert {name for name, _ in counts} >= {"globalBatch", "microBatches", "seed", "share", "most", "epochs", "samples"}
    assert [count for count in counts if not re.fullmatch(r"-?\d+", count[1])] == []


def test_a_wrong_file_is_found() -> None:
    layers = tower_layers()
    layers["layers"][0]["parameterBytes"] = -1
    del layers["layers"][1]["name"]
    layers["tensors"][0]["producr"] = "embed"
    assert len(check("layers", json.dumps(layers))) == 3
