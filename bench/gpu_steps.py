#!/usr/bin/env python3
"""Steps of a plan on one GPU against steps of the module: how long they take, how long the host needs to enqueue
them, and what the GPU computes meanwhile.

    bench/gpu_steps.py [--models NAMES] [--precisions NAMES] [--steps N] [--device-type NAME] [--out FOLDER]

Plan and module train in turns in one process, on samples of the same shapes from pinned memory, with the same
optimizer, precision and layout of images; with several micro-batches, the module accumulates gradients. "ratio" is the
median over the steps of plan against module; "host" the time until the last kernel is enqueued; "busy" the sum of the
times of a step's kernels, and "kernels" their number, by torch.profiler. "predicted" is the catalogue's step. FOLDER
keeps the kernels by name. Needs transformers. --device cpu tries the script where there is no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from ddp import CASES, HETERPLAN, ROOT, call, made
from gpu import CLUSTER
from torch import Tensor, nn

SAMPLES = {"resnet-18": 256, "vit": 128, "bert-small": 128, "gpt2-small": 32, "lstm": 256}  # of a step
MICRO_BATCHES = (1, 4)
WARMUP, PROFILED = 5, 1  # steps that do not count; steps behind the others
PORT = 29411
HEAD = (
    "| model, samples | precision | micro-batches | plan ms | module ms | ratio | host ms | host of module ms "
    "| busy ms | busy of module ms | kernels | kernels of module | predicted ms |\n"
    "| --- | --- " + "| ---: " * 11 + "|"
)


@dataclass(frozen=True)
class Workload:
    model: str
    precision: str
    micro_batches: int

    @property
    def name(self) -> str:
        return f"{self.model}-{self.precision}-{self.micro_batches}"


# In the process of one workload.


class Alone:
    """Steps of the module."""

    def __init__(self, workload: Workload, device: torch.device, is_channels_last: bool) -> None:
        case = CASES[workload.model]
        layout = {"memory_format": torch.channels_last} if is_channels_last else {}
        self.model = made(case).to(device, **layout)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.device = device
        self.inputs = case.inputs(SAMPLES[workload.model])
        if self.inputs.dim() == 4:
            self.inputs = self.inputs.contiguous(**layout)
        with torch.no_grad():
            shape = self.model(self.inputs[:1].to(device)).shape
        self.targets = torch.randint(0, shape[-1], (len(self.inputs), *shape[1:-1]))
        if device.type == "cuda":
            self.inputs, self.targets = self.inputs.pin_memory(), self.targets.pin_memory()
        self.count = workload.micro_batches
        half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(workload.precision)
        self.autocast = torch.autocast(device.type, half) if half else contextlib.nullcontext()

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        with self.autocast:
            logits = self.model(inputs)
        return nn.functional.cross_entropy(logits.float().flatten(0, -2), targets.flatten())

    def step(self) -> None:
        for inputs, targets in zip(self.inputs.chunk(self.count), self.targets.chunk(self.count)):
            inputs, targets = (each.to(self.device, non_blocking=True) for each in (inputs, targets))
            (self.loss(inputs, targets) / self.count).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def timed(step: Callable[[], object], device: torch.device) -> tuple[float, float]:
    """Seconds of the step, and until it was enqueued."""
    synchronise(device)
    begin = time.perf_counter()
    step()
    enqueued = time.perf_counter()
    synchronise(device)
    return time.perf_counter() - begin, enqueued - begin


def kernels(step: Callable[[], object], device: torch.device) -> dict[str, list[float]]:
    """Name -> number and microseconds of the kernels of one step."""
    found: dict[str, list[float]] = {}
    if device.type != "cuda":
        return found
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        synchronise(device)
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            entry = found.setdefault(event.name, [0, 0.0])
            entry[0] += 1
            entry[1] += event.time_range.elapsed_us()
    return found


def measure(plan: Path, workload: Workload, steps: int, device: torch.device, out: Path) -> None:
    sys.path.insert(0, str(plan))
    from heterplan_runtime.assembly import make_interpreter, prepare
    from heterplan_runtime.main import parse

    options = [
        str(plan), "--steps", str(steps + PROFILED), "--loss", CASES[workload.model].loss, "--data", "fixed", "--no-save",
    ]  # fmt: skip
    run = prepare(parse([*options, "--device", "cpu"] if device.type == "cpu" else options))
    interpreter = make_interpreter(run)
    run.data.begin(range(steps + PROFILED), interpreter.sample_ranges())
    alone = Alone(workload, device, run.plan.channels_last)
    times = []
    for step in range(steps):
        interpreter.prepare(step, run.data)
        turns: list[Callable[[], object]] = [lambda: interpreter.run_step(step), alone.step]
        order = (0, 1) if step % 2 else (1, 0)
        taken = {turn: timed(turns[turn], device) for turn in order}
        times.append([*taken[0], *taken[1]])
    interpreter.prepare(steps, run.data)
    of_plan = kernels(lambda: interpreter.run_step(steps), device)
    of_module = kernels(alone.step, device)
    facts = {"workload": asdict(workload), "times": times[WARMUP:], "plan": of_plan, "module": of_module}
    out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    interpreter.close()
    run.communicator.close()


# Over all workloads.


def export_model(name: str, out: Path) -> None:
    import heterplan

    if not (out / name / "model.onnx").exists():
        (out / name).mkdir(exist_ok=True)
        heterplan.export(made(CASES[name]), CASES[name].inputs(2), out / name / "model.onnx")


def compiled(workload: Workload, out: Path) -> Path:
    plan = out / workload.name
    call(
        HETERPLAN, "compile", "--tensor-parallel", "1", out / workload.model / "model.onnx",
        "--cluster", out / "cluster.yaml",
        "--batch", SAMPLES[workload.model], "--micro-batches", workload.micro_batches, "--batch-norm", "local",
        "--precision", workload.precision, "--recompute", "never", "-o", plan, "--force",
    )  # fmt: skip
    return plan


def measured(workload: Workload, arguments: argparse.Namespace) -> dict[str, Any]:
    plan, result = compiled(workload, arguments.out), arguments.out / f"{workload.name}.json"
    environment = {
        **os.environ, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT),
    }  # fmt: skip
    command = [
        sys.executable, __file__, "--of", plan, "--models", workload.model, "--precisions", workload.precision,
        "--micro-batches", workload.micro_batches, "--steps", arguments.steps, "--device", arguments.device,
        "--out", result,
    ]  # fmt: skip
    done = subprocess.run([str(each) for each in command], env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"workload": asdict(workload), "error": done.stderr.strip().splitlines()[-1:]}
    facts: dict[str, Any] = json.loads(result.read_text("utf-8"))
    facts["predicted"] = json.loads((plan / "plan.json").read_text("utf-8"))["iterationSeconds"]
    return facts


def line(facts: dict[str, Any]) -> str:
    workload = Workload(**facts["workload"])
    first = f"| {workload.model}, {SAMPLES[workload.model]} | {workload.precision} | {workload.micro_batches} |"
    if "error" in facts:
        return f"{first} {facts['error']}"
    plan, host, module, module_host = (1e3 * statistics.median(column) for column in zip(*facts["times"]))
    ratio = statistics.median(each[0] / each[2] for each in facts["times"])
    busy = [sum(time for _, time in facts[kind].values()) / 1e3 for kind in ("plan", "module")]
    number = [sum(count for count, _ in facts[kind].values()) for kind in ("plan", "module")]
    return (
        f"{first} {plan:.2f} | {module:.2f} | {ratio:.3f} | {host:.2f} | {module_host:.2f} | {busy[0]:.2f} "
        f"| {busy[1]:.2f} | {number[0]} | {number[1]} | {1e3 * facts['predicted']:.2f} |"
    )


def arguments_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(CASES), help="names, separated by commas")
    parser.add_argument("--precisions", default="fp32,bf16", help="names, separated by commas")
    parser.add_argument("--micro-batches", help=f"numbers, separated by commas ({','.join(map(str, MICRO_BATCHES))})")
    parser.add_argument("--steps", type=int, default=35, help=f"of each, the first {WARMUP} left out (35)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--device-type", default="h100-sxm5-80gb", help="of the catalogue")
    parser.add_argument("--out", type=Path, default=ROOT / "build/gpu-steps")
    parser.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = arguments_of()
    counts = [int(each) for each in (arguments.micro_batches or ",".join(map(str, MICRO_BATCHES))).split(",")]
    workloads = [
        Workload(model, precision, count)
        for model in arguments.models.split(",")
        for precision in arguments.precisions.split(",")
        for count in counts
    ]
    if arguments.of:
        measure(arguments.of, workloads[0], arguments.steps, torch.device(arguments.device), arguments.out)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "cluster.yaml").write_text(CLUSTER.format(type=arguments.device_type), encoding="utf-8")
    for name in dict.fromkeys(workload.model for workload in workloads):
        export_model(name, arguments.out)
    print(HEAD, flush=True)
    for workload in workloads:
        print(line(measured(workload, arguments)), flush=True)


if __name__ == "__main__":
    main()
