#!/usr/bin/env python3
"""Writes docs/schemas/*.schema.json from lib/ir/heterplan.proto: scripts/json-schemas.py. A test holds the files to
this."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
PROTO = SOURCE / "lib/ir/heterplan.proto"
# The root message of each kind of file.
FILES = {
    "layers": ("LayerGraph", "*.layers.json: the layers of a model"),
    "profile": ("Profile", "*.profile.json: measured times, links and memory"),
    "plan": ("Plan", "plan.json: the decision and its prediction"),
    "rank": ("RankProgram", "ranks/NNNN.json: the instructions of a rank"),
    "trace": ("Trace", "*.trace.json: a timeline"),
}
NUMBERS = {"double", "float"}
INTEGERS = {"int32", "uint32", "sint32", "fixed32", "sfixed32"}
LARGE = {"int64", "uint64", "sint64"}  # strings in the JSON mapping
FIELD = re.compile(
    r"^\s*(?P<label>optional|repeated)?\s*(?P<type>[\w.]+)\s+(?P<name>\w+)\s*=\s*\d+\s*(?:\[(?P<options>[^\]]*)\])?;\s*(?://\s*(?P<comment>.*))?$"
)
Json = dict[str, object]


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def scalar(kind: str, options: str) -> Json:
    if kind in NUMBERS or kind in INTEGERS:
        whole = kind in INTEGERS or "is_count" in options or "is_whole" in options
        schema: Json = {"type": "integer" if whole else "number"}
        return schema if "may_be_negative" in options or kind.startswith(("int", "sint")) else {**schema, "minimum": 0}
    if kind in LARGE:
        return {"type": ["string", "integer"]}
    if kind == "bool":
        return {"type": "boolean"}
    if kind in ("string", "bytes"):
        return {"type": "string"}
    return {"$ref": f"#/$defs/{kind}"}


def messages(text: str) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for match in re.finditer(r"^message (\w+) \{\n(.*?)^\}", text, re.M | re.S):
        properties: dict[str, Json] = {}
        required = []
        for line in match[2].splitlines():
            field = FIELD.match(line)
            if not field:
                continue
            options = field["options"] or ""
            schema = scalar(field["type"], options)
            if field["label"] == "repeated":
                schema = {"type": "array", "items": schema}
            if field["comment"]:
                schema = {**schema, "description": field["comment"]}
            name = camel(field["name"])
            json_name = re.search(r'json_name\s*=\s*"([^"]*)"', options)
            name = json_name[1] if json_name else name
            properties[name] = schema
            if "(required) = true" in options:
                required.append(name)
                if schema.get("type") == "string":
                    schema["minLength"] = 1
                if schema.get("type") == "array":
                    schema["minItems"] = 1
        found[match[1]] = {"type": "object", "properties": properties, **({"required": required} if required else {})}
    return found


def references(schema: object) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(references, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"].removeprefix("#/$defs/")} if isinstance(schema.get("$ref"), str) else set()
    return own.union(*map(references, schema.values()))


def schema_of(root: str, title: str, known: dict[str, Json]) -> Json:
    needed: set[str] = set()
    pending = references(known[root])
    while pending:
        name = pending.pop()
        if name in known and name not in needed:
            needed.add(name)
            pending |= references(known[name])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **known[root],
        "$defs": {name: known[name] for name in sorted(needed)},
    }


def schemas() -> dict[str, str]:
    """The text of each schema, by the name of its file."""
    known = messages(PROTO.read_text(encoding="utf-8"))
    return {
        f"{name}.schema.json": json.dumps(schema_of(root, title, known), indent=2, ensure_ascii=False) + "\n"
        for name, (root, title) in FILES.items()
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=SOURCE / "docs/schemas")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    for file, text in schemas().items():
        (output / file).write_text(text, encoding="utf-8")
