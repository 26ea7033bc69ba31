#!/usr/bin/env python3
"""Fuzzes the code that is written for a model with names and types: renames tensors and nodes to
what no programmer would write, and changes element types; whatever emit-model writes for it is
parsed by Python, and emit-model may not crash.

usage: rename_models.py SECONDS MODEL.onnx... (or folders)   --keep FOLDER gets what fails
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import onnx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "runtime"))

import generated  # noqa: E402

NAMES = [
    "class", "None", "self", "torch", "forward", "lambda", "__init__", "_", "0", "1e5", "-", "a b",
    "'", '"', '"""', "'''", "\\", "\\n", "\n", "\r", "\r\n", "\t", "#", "# type: ignore", "{x}", "%s",
    "\u2028", "\x0b", "\x0c", "\x85", "é", "名前", "\U0001f600", "ªº", "ﬁ", "²", "x\n    import os",
    "x'); import os", 'x"); import os', "return 0", "async", "match", "print", "self.weight", "a.b.c",
    "/a/b/c/", "a::b", "onnx::MatMul_1", "ops", "math", "Stage0", "STAGES", "x" * 98, "x" * 99,
    "x" * 100, "x " * 60, "é" * 120, "y" * 3000, "." * 110, " ", "$", "`", "a\\", "__debug__",
]  # fmt: skip
TYPES = [1, 2, 3, 5, 6, 7, 9, 10, 11, 16]
LARGEST = 300_000  # bytes of a model
BATCH = 40  # models of one run of emit-model


def seeds_of(paths: list[Path]) -> list[bytes]:
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*.onnx"))]
    return [file.read_bytes() for file in sorted(files) if file.stat().st_size <= LARGEST]


def fresh(rng: random.Random, taken: set[str]) -> str:
    """At times the name of another tensor, which makes the model wrong, or nearly that of one."""
    name = rng.choice(NAMES)
    if taken and rng.random() < 0.1:
        name = rng.choice(sorted(taken)) + rng.choice(["", "_", " ", "\n", ".", "1"])
    while rng.random() < 0.3:
        name += rng.choice(NAMES)
    return name


def rename(graph: onnx.GraphProto, rng: random.Random) -> None:
    """Some tensors everywhere, so that the graph stays whole, and some nodes."""
    names = {name for node in graph.node for name in [*node.input, *node.output] if name}
    chosen = {name for name in sorted(names) if rng.random() < rng.choice([0.05, 0.5, 1])}
    table: dict[str, str] = {}
    for name in sorted(chosen):
        new = fresh(rng, names)
        table[name] = new if new not in table.values() else f"{new}{len(table)}"
    for node in graph.node:
        node.input[:] = [table.get(name, name) for name in node.input]
        node.output[:] = [table.get(name, name) for name in node.output]
        if rng.random() < 0.5:
            node.name = fresh(rng, names)
    for value in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        value.name = table.get(value.name, value.name)
    if rng.random() < 0.1:
        graph.name = fresh(rng, names)


def retype(graph: onnx.GraphProto, rng: random.Random) -> None:
    """The types of an input, of all inputs, or of the result of a Cast."""
    inputs = [value.type.tensor_type for value in graph.input if value.type.HasField("tensor_type")]
    for type_ in inputs if rng.random() < 0.5 else inputs[:1]:
        type_.elem_type = rng.choice(TYPES)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and rng.random() < 0.5:
                attribute.i = rng.choice(TYPES)


def mutated(seed: bytes, rng: random.Random) -> bytes:
    model = onnx.load_from_string(seed)
    rename(model.graph, rng)
    if rng.random() < 0.3:
        retype(model.graph, rng)
    return model.SerializeToString()


def fault_of(emitted: generated.Emitted, folder: Path) -> str:
    if emitted.state == "crashed" or "is no Python" in emitted.error:
        return emitted.error[-500:] or "crashed"
    code = folder / "model.py"
    if emitted.state != "generated":
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile(code.read_bytes(), str(code), "exec")
    except (SyntaxError, ValueError, Warning) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    seeds = seeds_of(options.models)
    states: Counter[str] = Counter()
    faults = 0
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as scratch:
            jobs: list[generated.Job] = []
            for i in range(BATCH):
                path = Path(scratch, f"{i}.onnx")
                path.write_bytes(mutated(rng.choice(seeds), rng))
                jobs.append((path, Path(scratch, str(i)), rng.randint(1, 3), rng.randint(0, 2)))
            for job, emitted in zip(jobs, generated.emit_all(jobs)):
                states[emitted.state] += 1
                fault = fault_of(emitted, job[1])
                if not fault:
                    continue
                faults += 1
                print(f"FAULT {fault}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{options.seed}-{sum(states.values())}.onnx").write_bytes(
                        job[0].read_bytes()
                    )
    print(f"{len(seeds)} models, {sum(states.values())} inputs: {dict(states)}; {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
