#!/usr/bin/env python3
"""Makes a layers file and a profile of rows that other planners publish: layer, batch, milliseconds.

    profile-rows.py ROWS.csv --device-type v100 [--layers LAYERS.csv] [--model NAME] -o PREFIX

writes PREFIX.layers.json and PREFIX.profile.json, which `heterplan compile PREFIX.layers.json --profile
PREFIX.profile.json --require-measured` plans with. Both tables have a first line with the names of their
columns, in any order; others are skipped.

ROWS.csv     layer, batch, and milliseconds of a forward and backward pass: either both in `milliseconds`,
             of which a third counts as forward, or `forward_ms` and `backward_ms`; optionally `update_ms`.
LAYERS.csv   layer, and optionally parameter_bytes, activation_bytes (kept for the backward pass),
             output_bytes (both of a sample) and inputs: the layers whose outputs it reads, with ';' between
             them. Without inputs a layer reads the one before. Without the file the layers are a chain in
             the order of the rows, and nothing is known of memory and communication: both count as none,
             which is said.

Exit status: 0 done, 1 bad input; then nothing is written.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from pathlib import Path
from typing import NoReturn

FORWARD_SHARE = 1 / 3  # of a pass of which only the whole is known


class BadInput(Exception):
    """One line for the user."""


def fail(path: Path, line: int, why: str) -> NoReturn:
    raise BadInput(f"{path}:{line}: {why}")


def read_table(path: Path, needed: list[str]) -> list[tuple[int, dict[str, str]]]:
    """Its rows with their line numbers."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in needed if name not in (reader.fieldnames or [])]
            if missing:
                fail(path, 1, f"there is no column '{missing[0]}'")
            return [
                (reader.line_num, {key: (value or "").strip() for key, value in row.items() if key})
                for row in reader
            ]
    except (OSError, ValueError, csv.Error) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from error


def number(path: Path, line: int, row: dict[str, str], name: str, default: float | None = None) -> float:
    text = row.get(name, "")
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        fail(path, line, f"'{name}' is '{text}'; expected a number of at least 0")
    return value


def passes(path: Path, line: int, row: dict[str, str]) -> tuple[float, float]:
    """Seconds of a forward and a backward pass."""
    if row.get("forward_ms") or row.get("backward_ms"):
        return (
            number(path, line, row, "forward_ms") / 1e3,
            number(path, line, row, "backward_ms") / 1e3,
        )
    both = number(path, line, row, "milliseconds") / 1e3
    return both * FORWARD_SHARE, both * (1 - FORWARD_SHARE)


def read_rows(path: Path, device_type: str) -> list[dict[str, object]]:
    """Entries of the profile."""
    entries: dict[tuple[str, int], dict[str, object]] = {}
    for line, row in read_table(path, ["layer", "batch"]):
        batch = number(path, line, row, "batch")
        if not row["layer"] or batch != int(batch) or batch < 1:
            fail(path, line, "expected a layer and a whole batch of at least 1")
        key = (row["layer"], int(batch))
        if key in entries:
            fail(path, line, f"layer '{key[0]}' at batch {key[1]} has a row already")
        forward, backward = passes(path, line, row)
        entries[key] = {
            "layer": row["layer"],
            "deviceType": device_type,
            "batch": int(batch),
            "forwardSeconds": forward,
            "backwardSeconds": backward,
            "updateSeconds": number(path, line, row, "update_ms", 0.0) / 1e3,
        }
    if not entries:
        fail(path, 1, "there are no rows")
    return list(entries.values())


def chain(names: list[str]) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Layers and tensors of which only the order is known."""
    layers: list[dict[str, object]] = [{"name": name} for name in names]
    tensors: list[dict[str, object]] = [
        {"name": f"{a}.output", "producer": a, "consumers": [b]} for a, b in zip(names, names[1:])
    ]
    return layers, tensors


def read_layers(path: Path) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    layers: list[dict[str, object]] = []
    consumers: dict[str, list[str]] = {}
    outputs: dict[str, float] = {}
    before = ""
    for line, row in read_table(path, ["layer"]):
        name = row["layer"]
        if not name or name in consumers:
            fail(path, line, f"'{name}' is no new name of a layer")
        inputs = [each.strip() for each in row.get("inputs", "").split(";") if each.strip()]
        for other in inputs or ([before] if before else []):
            if other not in consumers:
                fail(path, line, f"'{name}' reads '{other}', which is no layer above it")
            consumers[other].append(name)
        layers.append(
            {
                "name": name,
                "parameterBytes": number(path, line, row, "parameter_bytes", 0.0),
                "activationBytes": number(path, line, row, "activation_bytes", 0.0),
            }
        )
        consumers[name], outputs[name] = [], number(path, line, row, "output_bytes", 0.0)
        before = name
    tensors: list[dict[str, object]] = [
        {"name": f"{name}.output", "producer": name, "consumers": users, "bytesPerSample": outputs[name]}
        for name, users in consumers.items()
        if users
    ]
    return layers, tensors


def convert(options: argparse.Namespace) -> tuple[dict[str, object], dict[str, object]]:
    """The layers and the profile."""
    entries = read_rows(options.rows, options.device_type)
    measured = list(dict.fromkeys(str(entry["layer"]) for entry in entries))
    if options.layers is None:
        layers, tensors = chain(measured)
    else:
        layers, tensors = read_layers(options.layers)
        names = {layer["name"] for layer in layers}
        if unknown := [name for name in measured if name not in names]:
            raise BadInput(f"{options.rows}: layer '{unknown[0]}' is not in {options.layers}")
        if missing := [layer["name"] for layer in layers if layer["name"] not in measured]:
            raise BadInput(f"{options.rows}: there is no row of layer '{missing[0]}'")
    model = options.model or options.rows.stem
    graph = {"schemaVersion": "1.0", "model": model, "layers": layers, "tensors": tensors}
    if options.layers is None:
        graph["notes"] = ["sizes are not known: memory and communication count as none"]
    return graph, {"schemaVersion": "1.0", "model": model, "engine": "published rows", "entries": entries}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("rows", type=Path, metavar="ROWS.csv")
    parser.add_argument("--device-type", required=True, help="on which they were measured")
    parser.add_argument("--layers", type=Path, metavar="LAYERS.csv", help="sizes and inputs of the layers")
    parser.add_argument("--model", default="", help="name of the model (that of the file)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PREFIX")
    options = parser.parse_args()
    try:
        graph, profile = convert(options)
        for content, ending in ((graph, ".layers.json"), (profile, ".profile.json")):
            path = options.output.with_name(options.output.name + ending)
            path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except BadInput as error:
        print(f"profile-rows: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"profile-rows: error: {error}", file=sys.stderr)
        return 1
    for note in graph.get("notes", []):  # type: ignore[attr-defined]
        print(f"note: {note}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
