"""docs/schemas/*.schema.json are generated from the proto, and the files that heterplan writes keep to them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BINARY, SOURCE, tower_layers, tower_profile

SCHEMAS = SOURCE / "docs/schemas"
TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float), "integer": (int, float),
}  # fmt: skip


def problems(value: object, schema: dict, root: dict, path: str = "$") -> Iterator[str]:
    """The part of JSON Schema that the files use; a field that no schema names is a problem too."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    fits = any(isinstance(value, TYPES[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in kinds)
    if not fits:
        yield f"{path}: {value!r} is no {kinds}"
        return
    if kinds == ["integer"] and value != int(value):
        yield f"{path}: {value} is not whole"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{path}: {value} is below {schema['minimum']}"
    if len(value if isinstance(value, (str, list)) else "x") < max(schema.get("minLength", 0), schema.get("minItems", 0)):
        yield f"{path}: is empty"
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from problems(item, schema["items"], root, f"{path}[{index}]")
    if isinstance(value, dict):
        yield from (f"{path}: lacks {name}" for name in schema.get("required", []) if name not in value)
        for name, item in value.items():
            if name not in schema["properties"]:
                yield f"{path}: {name} is unknown"
            else:
                yield from problems(item, schema["properties"][name], root, f"{path}.{name}")


def check(kind: str, text: str) -> list[str]:
    schema = json.loads((SCHEMAS / f"{kind}.schema.json").read_text())
    return list(problems(json.loads(text), schema, schema))


def test_schemas_are_those_of_the_proto(tmp_path: Path) -> None:
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


def test_a_wrong_file_is_found() -> None:
    layers = tower_layers()
    layers["layers"][0]["parameterBytes"] = -1
    del layers["layers"][1]["name"]
    layers["tensors"][0]["producr"] = "embed"
    assert len(check("layers", json.dumps(layers))) == 3
