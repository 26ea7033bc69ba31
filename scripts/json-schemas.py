#!/usr/bin/env python3
"""Writes docs/schemas/*.schema.json: scripts/json-schemas.py. A test holds the files to this.

Schemas of JSON files come from lib/ir/heterplan.proto. Schemas of clusters and jobs, which are YAML,
come from the keys that their readers accept. The schema of schedule.json states types for the keys
that lib/search/jobs/ScheduleForm.cpp writes; a key without a type is an error.
"""

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
    "certificate": ("Certificate", "certificate.json: what the bound of a plan rests on"),
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


# ---- YAML files, from their readers

READERS = ("ir/ClusterReader.cpp", "ir/MemoryOverhead.cpp", "search/jobs/read/JobFields.cpp", "search/jobs/read/JobsReader.cpp",
           "search/jobs/read/QueueFields.cpp")  # fmt: skip
# A key of a mapping and the reader of its value: {"key", required, [&](...) { return readX(...); }}.
ENTRY = re.compile(
    r'\{"(?P<key>\w+)",\s*(?:Presence::)?(?P<presence>[rR]equired|[oO]ptional)\b'
    r'|\b(?P<helper>rateField|rate|number|count)\("(?P<helped>\w+)"'
    r"|\b(?P<overhead>memoryOverheadField)\("
)
TEXT: Json = {"type": "string"}
POSITIVE: Json = {"type": "number", "exclusiveMinimum": 0}
NUMBER: Json = {"type": "number", "minimum": 0}
WHOLE: Json = {"type": "integer", "minimum": 1}


def quantity(example: str) -> Json:
    return {"type": "string", "pattern": "^ *[0-9.]", "description": f"such as {example}"}


def mapping_of(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


def names_in(file: str) -> list[str]:
    """The second argument of each line of a .def table: the names that files use."""
    return re.findall(r'^HETERPLAN_\w+\(\w+, "([^"]+)"', (SOURCE / "lib" / file).read_text(encoding="utf-8"), re.M)


SIZE, DURATION, RATE = quantity("16GiB"), quantity("5us"), quantity("15.7TFLOP/s")
VALUES: dict[str, Json] = {
    "readText": TEXT, "readNumber": NUMBER, "readAtLeast": POSITIVE, "readCores": NUMBER, "readSpeed": POSITIVE, "readFactor": {"type": "number", "minimum": 1},
    "readBytes": SIZE, "readBytesOrNone": SIZE, "readBandwidth": quantity("100Gbit/s"), "readLatency": DURATION,
    "readDuration": DURATION, "readFlopRate": RATE, "readFlag": {"type": "boolean"}, "readDevices": mapping_of(WHOLE),
    "readNames": {"type": "array", "items": TEXT}, "readKind": {"enum": names_in("ir/DeviceClasses.def")},
    "readBetween": {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2},
    "readUtilityKind": {"enum": ["sigmoid", "linear", "deadline", "constant"]},
    "readSpeeds": {"anyOf": [POSITIVE, mapping_of({"anyOf": [POSITIVE, {"type": "array", "items": POSITIVE}]})]},
    "readSampleTime": {"anyOf": [DURATION, mapping_of(DURATION)]},
    "readAmounts": {"type": "object", "properties": {"cpu": NUMBER, "memory": SIZE}, "minProperties": 1,
                    "additionalProperties": {"type": "integer", "minimum": 0}},
    "readShare": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "readWeight": POSITIVE,
}  # fmt: skip
# Readers that take a scalar as well as a mapping.
SCALARS = {"readLink": TEXT, "readOverhead": SIZE, "readRestart": DURATION}
# Values whose entry names no reader of its own, or too wide a one.
SPECIAL: dict[tuple[str, str], Json] = {
    ("readNode", "speed"): VALUES["readSpeeds"],
    ("readDeadline", "class"): {"enum": ["hard", "soft"]},
}


def integer(arguments: str) -> Json:
    """Whole numbers from the first bound of a call: readInteger(value, what, least, most, result)."""
    least = re.search(r",\s*(-?\w+),\s*\w+,\s*(?:\w|\.|\[|\]|\*)+\)", arguments)
    return {"type": "integer", "minimum": int(least[1])} if least and least[1].isdigit() else {"type": "integer"}


class YamlSchemas:
    """Schemas of the mappings that C++ readers accept."""

    def __init__(self) -> None:
        self.text = "\n".join((SOURCE / "lib" / file).read_text(encoding="utf-8") for file in READERS)

    def body(self, reader: str) -> str:
        found = re.search(rf"^\S*(?:Error|Expected<\w+>) {reader}\(.*?^\}}", self.text, re.M | re.S)
        if not found:
            raise SystemExit(f"error: no reader '{reader}' in {', '.join(READERS)}")
        return found[0]

    def value(self, owner: str, key: str, rest: str) -> Json:
        if (owner, key) in SPECIAL:
            return SPECIAL[owner, key]
        call = re.search(r"\b(read[A-Z]\w+)\((?!const YamlNode)", rest)
        if not call:
            return TEXT
        reader = call[1]
        if reader in ("readInteger", "readCount"):
            return integer(rest[call.start() :])
        if reader == "readList":
            items = re.search(r"\b(read[A-Z]\w+)\b", rest[call.end() :])
            return {"type": "array", "items": self.mapping(items[1] if items else "")}
        if reader == "readJobs":
            return {"type": "array", "items": self.mapping("readJob")}
        if reader == "readQueues":
            return {"type": "array", "items": self.mapping("readQueue")}
        if reader == "readDeviceTypes":
            return mapping_of(self.mapping("readDeviceType"))
        if reader == "readWorker":  # readDemand(), with several numbers of GPUs
            demand = self.mapping("readDemand")
            counts = {"type": "array", "items": WHOLE, "minItems": 1, "maxItems": 8, "uniqueItems": True}
            return demand | {"properties": demand["properties"] | {"gpu": {"anyOf": [demand["properties"]["gpu"], counts]}}}
        if reader in VALUES:
            return VALUES[reader]
        return self.mapping(reader)

    def mapping(self, reader: str) -> Json:
        body = self.body(reader)
        entries = list(ENTRY.finditer(body))
        if not entries:
            raise SystemExit(f"error: '{reader}' reads no mapping that this script knows")
        properties: dict[str, Json] = {}
        required = re.findall(r'YamlField (\w+) = \w+\("\w+".*?^\s*\1\.presence = required', body, re.M | re.S)
        for entry, end in zip(entries, [*(each.start() for each in entries[1:]), len(body)], strict=True):
            key = entry["key"] or entry["helped"] or "memory_overhead"
            if entry["overhead"]:
                schema = self.mapping("readOverhead")
            elif entry["helper"]:
                schema = {"number": NUMBER, "count": WHOLE}.get(entry["helper"], RATE)
            else:
                schema = self.value(reader, key, body[entry.end() : end])
            properties[key] = schema
            if entry["helper"] == "count" or (entry["presence"] or "").lower() == "required":
                required.append(key)
        result: Json = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            result["required"] = required
        return {"anyOf": [SCALARS[reader], result]} if reader in SCALARS else result


def yaml_schema(reader: str, title: str) -> Json:
    schema = YamlSchemas().mapping(reader)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **schema}


# ---- schedule.json

COUNT: Json = {"type": "integer", "minimum": 0}
SLOT: Json = {"type": ["integer", "null"], "minimum": 0}
FIGURE: Json = {"type": ["number", "null"]}
SCHEDULE: dict[str, Json] = {
    "policy": TEXT, "chosen": TEXT, "seed": COUNT, "totalUtility": NUMBER, "utilityUpperBound": FIGURE,
    "optimal": {"type": "boolean"}, "makespan": COUNT, "slotSeconds": POSITIVE, "slots": WHOLE,
}  # fmt: skip
MEASURES: dict[str, Json] = {
    "admitted": COUNT, "meanCompletion": FIGURE, "medianCompletion": FIGURE, "p99Completion": FIGURE,
    "meanFairness": FIGURE, "worstFairness": FIGURE, "deadlineMisses": COUNT, "cost": FIGURE,
}  # fmt: skip
JOB: dict[str, Json] = {
    "name": TEXT, "admitted": {"type": "boolean"}, "arrival": COUNT, "start": SLOT, "completion": SLOT,
    "utility": NUMBER, "sampleSeconds": {"anyOf": [NUMBER, mapping_of(NUMBER)]}, "gradientBytes": NUMBER,
    "minWorkers": COUNT, "sameType": {"type": "boolean"}, "queue": TEXT, "reason": TEXT, "workerGpus": WHOLE,
    "plans": {},  # by device type: PLAN
}  # fmt: skip
PLAN: dict[str, Json] = {"schedule": TEXT, "stages": WHOLE, "iterationSeconds": NUMBER}
ALLOCATION: dict[str, Json] = {
    "job": TEXT, "slot": COUNT, "node": TEXT, "deviceType": TEXT, "workers": COUNT, "servers": COUNT,
}  # fmt: skip


def closed(properties: dict[str, Json], optional: tuple[str, ...] = ()) -> Json:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def schedule_schema() -> Json:
    text = (SOURCE / "lib/search/jobs/ScheduleForm.cpp").read_text(encoding="utf-8")
    written = set(re.findall(r'\b(?:attribute(?:Object|Array)?\(|writeSlot\(json, )"(\w+)"', text))
    stated = {*SCHEDULE, *MEASURES, *JOB, *PLAN, *ALLOCATION, "utilisation", "measures", "jobs", "allocations"}
    if written != stated:
        raise SystemExit(f"error: state types for the keys of schedule.json: {sorted(written ^ stated)}")
    properties = {
        **SCHEDULE,
        "utilisation": mapping_of({"type": ["number", "null"], "minimum": 0}),
        "measures": closed(MEASURES),
        "jobs": {"type": "array", "items": closed({**JOB, "plans": mapping_of(closed(PLAN))}, optional=("queue", "plans", "workerGpus"))},
        "allocations": {"type": "array", "items": closed(ALLOCATION, optional=("deviceType",))},
    }
    schema = closed(properties, optional=("chosen",))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "schedule.json: who trains when", **schema}


def schemas() -> dict[str, str]:
    """The text of each schema, by the name of its file."""
    known = messages(PROTO.read_text(encoding="utf-8"))
    found = {name: schema_of(root, title, known) for name, (root, title) in FILES.items()}
    found["cluster"] = yaml_schema("readRoot", "cluster files (YAML): devices, nodes and links")
    found["jobs"] = yaml_schema("parseWorkload", "jobs files (YAML): the jobs of `heterplan schedule`")
    found["schedule"] = schedule_schema()
    return {f"{name}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in found.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=SOURCE / "docs/schemas")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    for file, text in schemas().items():
        (output / file).write_text(text, encoding="utf-8")
