#!/usr/bin/env python3
"""The sum of the profiled layers of a model against one whole training step of it in PyTorch, both on
one core: for each engine of `heterplan profile`.

    bench/whole_step.py [--models a.onnx,b.onnx] [--engines torch,native] [--seconds S] [--out FOLDER]

The whole step is a plain loop of PyTorch over the generated module: forward, loss, backward, SGD.
It keeps freed memory as the runtime does; a column says what it takes without. The machine should
be quiet: layers are measured and steps run in turns, and trimmed means count on both sides. The
script keeps its measurements in FOLDER and uses them again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from fidelity import DATA, ROOT, cluster, heterplan
from fidelity_report import trimmed_mean
from fidelity_workloads import Form

MODELS = {  # samples of a step
    "resnet50": 8,
    "vgg16": 4,
    "bert_base": 4,
    "dlrm": 256,
    "mobilenet_v2": 8,
    "inception_v3": 4,
    "gpt2_small": 1,
}


def whole_step(folder: Path, samples: int, loss_name: str, keep: bool, seconds: float) -> float:
    """Runs in a process of its own: seconds of a step after one that warms up."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    sys.path.insert(0, str(folder))
    import torch
    from heterplan_runtime.allocator import keep_freed_memory
    from heterplan_runtime.data_option import make_data
    from heterplan_runtime.losses import make_loss
    from heterplan_runtime.model import build_stage, load_model
    from heterplan_runtime.reference import sparse_tables

    if keep:
        keep_freed_memory()
    torch.set_num_threads(1)
    model = load_model(folder)
    loss = make_loss(loss_name, model.prediction)
    stage = build_stage(model, 0, folder, 0, torch.device("cpu"), whole_tables=True)
    sparse_tables(stage)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
    batch = make_data("--data", "random", model, loss, 0, samples).load(0, range(samples))
    inputs = [batch.inputs[name] for name in stage.inputs]  # type: ignore[union-attr]
    times: list[float] = []
    while len(times) < 4 or sum(times) < seconds:
        begin = time.perf_counter()
        loss.function(stage(*inputs), batch.targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - begin)
    return trimmed_mean(times[1:])


def run_step(folder: Path, samples: int, loss: str, keep: bool, seconds: float) -> float:
    python = os.environ.get("HETERPLAN_PYTHON", sys.executable)
    command = [python, __file__, "--step", folder, "--samples", samples, "--loss", loss,
               "--seconds", seconds, *(["--keep"] if keep else [])]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    output = subprocess.run(
        [str(part) for part in command], check=True, stdout=subprocess.PIPE, env=environment
    )
    return float(output.stdout)


def profile(path: Path, samples: int, engine: str, rounds: int, out: Path) -> Path:
    file = out / f"{path.stem}.{engine}.profile.json"
    heterplan("profile", path, "--device", "cpu", "--engine", engine, "--cores",
              max(os.sched_getaffinity(0)), "--batches", samples, "--rounds", rounds,
              "-o", file)  # fmt: skip
    return file


def predict(path: Path, samples: int, profile: Path, out: Path) -> dict[str, object]:
    return json.loads(  # type: ignore[no-any-return]
        heterplan("compile", path, "--cluster", out / "one.yaml", "--profile", profile,
                  "--batch", samples, "--micro-batches", 1, "--force", "--json",
                  "-o", out / path.stem)
    )  # fmt: skip


def measure(name: str, engines: list[str], rounds: int, seconds: float, out: Path) -> dict[str, object]:
    """Profiles and runs in turns, so that both meet the same moods of the machine."""
    path, samples = DATA / "models" / f"{name}.onnx", MODELS[name]
    (out / "one.yaml").write_text(cluster(Form("1 core")), encoding="utf-8")
    row: dict[str, object] = {"model": name, "samples": samples}
    steps: dict[str, list[float]] = {"step": [], "default allocator": []}
    loss = "mse" if name == "dlrm" else "cross_entropy"
    for done in range(rounds):
        for engine in engines:
            plan = predict(path, samples, profile(path, samples, engine, done + 1, out), out)
            row[engine] = plan["iterationSeconds"]
            row[f"{engine} measured"] = plan["provenance"].get("measured", 0.0)  # type: ignore[attr-defined]
        for what, keep in (("step", True), ("default allocator", False)):
            steps[what].append(run_step(out / name, samples, loss, keep, seconds / rounds))
    return row | {what: trimmed_mean(found) for what, found in steps.items()}


def report(rows: list[dict[str, object]], engines: list[str]) -> str:
    lines = ["| model | samples | PyTorch step ms | with glibc's defaults "
             + "".join(f"| {engine}: sum ms | error | measured " for engine in engines) + "|"]  # fmt: skip
    lines.append("| --- " * (4 + 3 * len(engines)) + "|")
    for row in rows:
        step = float(row["step"])  # type: ignore[arg-type]
        cells = [str(row["model"]), str(row["samples"]), f"{step * 1e3:.1f}",
                 f"{float(row['default allocator']) * 1e3:.1f}"]  # type: ignore[arg-type]  # fmt: skip
        for engine in engines:
            total = row.get(engine)
            share = row.get(f"{engine} measured")
            cells += ["", "", ""] if total is None else [
                f"{float(total) * 1e3:.1f}", f"{float(total) / step - 1:+.1%}", f"{float(share):.0%}"  # type: ignore[arg-type]
            ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="by name (all)")
    parser.add_argument("--engines", default="torch,native")
    parser.add_argument("--seconds", type=float, default=15, help="of the steps of one model")
    parser.add_argument("--rounds", type=int, default=5, help="of profiling and running (5)")
    parser.add_argument("--out", type=Path, default=ROOT / "build/whole-step")
    parser.add_argument("--step", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--samples", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--loss", help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        step = whole_step(
            options.step, options.samples, options.loss, options.keep, options.seconds
        )
        print(step)
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    engines, kept = options.engines.split(","), options.out / "rows.json"
    rows = json.loads(kept.read_text("utf-8")) if kept.exists() else []
    for name in options.models.split(",") if options.models else MODELS:
        if any(row["model"] == name for row in rows):
            continue
        rows.append(measure(name, engines, options.rounds, options.seconds, options.out))
        kept.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print(report(rows, engines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
