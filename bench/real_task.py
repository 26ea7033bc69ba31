"""Trains a ResNet-18-like CNN and a small GPT on samples that can be learned, as a user does: two ranks of
this machine, interrupted twice, each time resumed on another plan, then exported and judged by onnxruntime.
Each task has a target that was set before it ran. Fails where one is missed. Prints docs/experiments/training.md.

    bench/real_task.py --heterplan build/bin/heterplan --out /tmp/tasks
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import task_data
import torch
from torch import Tensor, nn
from torch.nn import functional

CLUSTER = """
name: two-cores
device_types:
  a: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 20MFLOP/s, bandwidth: 20MB/s}
nodes:
  - {name: one, devices: {a: 1}, link: {bandwidth: 1000GB/s, latency: 1ns}}
  - {name: two, devices: {a: 1}, link: {bandwidth: 1000GB/s, latency: 1ns}}
network: {bandwidth: 1000GB/s, latency: 1ns}
"""
BATCH, EVALUATED = 32, 16  # samples of a step; global batches of an evaluation
ACCURACY = 0.95  # that the CNN has to reach
LEARNED = 0.95  # part of the way from the loss of who knows nothing to that of who knows all: the GPT's
SAME = 1e-3  # apart at most are losses (relative) and accuracies of the runtime and of onnxruntime

INTRODUCTION = """# Real tasks

`bench/real_task.py` printed these results (`make bench-training`), on two virtual cores of an Intel
Xeon at 2.7 GHz. Other programs use the cores too, so that speeds mean little. The two tasks:

- A ResNet with the blocks of ResNet-18, an eighth as wide, learns ten patterns at random places in
  noise. The target is an accuracy of {accuracy:.0%} on unseen samples.
- A GPT of two layers learns a language in which two tokens determine the third nine times out of
  ten. The target is a loss {learned:.0%} of the way from no knowledge of the language to full
  knowledge of it.

Each is planned twice for two devices, as a pipeline and data-parallel with synchronised batch
normalisation. The training is interrupted twice and continues with the other plan each time. Targets
were set before the runs.
"""


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """The blocks of ResNet-18, an eighth as wide."""

    def __init__(self) -> None:
        super().__init__()
        widths = (8, 16, 32, 64)
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        blocks, before = [], 8
        for index, width in enumerate(widths):
            blocks += [Block(before, width, 1 if index == 0 else 2), Block(width, width, 1)]
            before = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, task_data.CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.back = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.05)
        length = task_data.LENGTH
        self.register_buffer("future", torch.full((length, length), -1e9).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        length, width = x.shape[1], x.shape[2]
        parts = self.mix(self.norm1(x)).reshape(-1, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads) + self.future
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(-1, length, width)
        x = x + self.drop(self.back(mixed))
        return x + self.drop(self.down(functional.gelu(self.up(self.norm2(x)))))


class Gpt(nn.Module):
    def __init__(self, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.token = nn.Embedding(task_data.TOKENS, width)
        self.place = nn.Parameter(torch.randn(task_data.LENGTH, width) * 0.02)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, task_data.TOKENS)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(self.token(tokens) + self.place)))


@dataclass(frozen=True)
class Task:
    name: str
    model: nn.Module
    input: str
    data: str
    loss: str
    steps: int
    optimizer: str
    rate: float
    best_loss: float = 0.0  # of whoever knows how samples are made
    most_loss: float = math.inf  # targets, set before the run: of samples that are not trained
    least_accuracy: float = 0.0

    def missed(self, loss: float, accuracy: float) -> bool:
        return not (loss <= self.most_loss and accuracy >= self.least_accuracy)

    @property
    def target(self) -> str:
        if self.least_accuracy:
            return f"an accuracy of at least {self.least_accuracy}"
        return f"a loss of at most {self.most_loss:.4f}"


def best_sentence_loss() -> float:
    other = (1 - task_data.SURE) / task_data.TOKENS
    right = task_data.SURE + other
    return -right * math.log(right) - (task_data.TOKENS - 1) * other * math.log(other)


def tasks(scale: float) -> list[Task]:
    torch.manual_seed(0)
    best, worst = best_sentence_loss(), math.log(task_data.TOKENS)
    return [
        Task(
            "resnet", ResNet(), "image", "images", "cross_entropy", int(300 * scale), "momentum", 0.05,
            least_accuracy=ACCURACY,
        ),
        Task(
            "gpt", Gpt(), "tokens", "sentences", "token_cross_entropy", int(900 * scale), "adam", 3e-3,
            best_loss=best, most_loss=worst - LEARNED * (worst - best),
        ),
    ]  # fmt: skip


class Trial:
    def __init__(self, task: Task, heterplan: Path, folder: Path) -> None:
        self.task, self.heterplan, self.folder = task, heterplan, folder
        self.model = folder / "model.onnx"
        self.environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "HETERPLAN_PYTHON": sys.executable,
            "PYTHONPATH": str(Path(__file__).parent),
        }  # fmt: skip
        self.interruptions: list[str] = []

    def export(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        inputs, _ = getattr(task_data, self.task.data)(0, [0, 1])
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                self.task.model, tuple(inputs.values()), self.model, input_names=[self.task.input],
                output_names=["logits"], opset_version=17, dynamo=False, do_constant_folding=False,
                training=torch.onnx.TrainingMode.TRAINING,
                dynamic_axes={self.task.input: {0: "batch"}, "logits": {0: "batch"}},
            )  # fmt: skip

    def compile(self, schedule: str) -> Path:
        cluster, plan = self.folder / "cluster.yaml", self.folder / schedule
        cluster.write_text(CLUSTER)
        self.call(
            "compile", "--tensor-parallel", 1, self.model, "--cluster", cluster, "--batch", BATCH,
            "--schedule", schedule,
            "--optimizer", self.task.optimizer, "--force", "-o", plan,
        )  # fmt: skip
        return plan

    def call(self, *arguments: Any) -> str:
        run = subprocess.run(
            [self.heterplan, *map(str, arguments)], env=self.environment, capture_output=True, text=True
        )
        if run.returncode:
            raise SystemExit(f"heterplan {arguments[0]}: {run.stderr}{run.stdout}")
        return run.stdout

    def run(self, plan: Path, *options: Any) -> subprocess.Popen[str]:
        task = self.task
        arguments = [
            "run", plan, "--steps", task.steps, "--loss", task.loss, "--data", f"task_data:{task.data}",
            "--evaluation-data", f"task_data:other_{task.data}", "--evaluate-every", 10**6,
            "--evaluation-steps", EVALUATED, "--metric", "accuracy", "--lr", task.rate,
            "--lr-schedule", "cosine,warmup=20", "--checkpoint-every", 25, "--resume",
            "--checkpoint-dir", self.folder / "checkpoints", "--log-file", self.folder / "log.jsonl", *options,
        ]  # fmt: skip
        return subprocess.Popen(
            [self.heterplan, *map(str, arguments)], env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def until(self, process: subprocess.Popen[str], step: int) -> None:
        """Reads what the run tells until this step is done."""
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line)
            if line.startswith(f"step {step} "):
                return
        raise SystemExit(f"the run ended before step {step}:\n{''.join(told[-20:])}")

    def interrupt(self, plan: Path, step: int, how: str) -> None:
        """SIGTERM for the whole run, or SIGKILL for rank 1."""
        process = self.run(plan)
        self.until(process, step)
        if how == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            os.kill(rank_process(str(self.folder / "checkpoints"), 1), signal.SIGKILL)
        assert process.stdout is not None
        rest = process.stdout.read()
        status = process.wait(timeout=60)
        done = max(int(p.name.removeprefix("step-")) for p in (self.folder / "checkpoints").glob("step-*"))
        self.interruptions.append(f"{how} at step {step} of '{plan.name}': status {status}, {done} steps kept")
        if how == "SIGTERM" and done < step:
            raise SystemExit(f"SIGTERM at step {step} saved nothing: {rest}")
        if not status:
            raise SystemExit(f"the run was not interrupted: {rest}")


def rank_process(word: str, rank: int) -> int:
    """The process of a rank, whose command has this word; its workers are its children."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            ranked = f"RANK={rank}".encode() in (folder / "environ").read_bytes().split(b"\0")
            if ranked and word.encode() in (folder / "cmdline").read_bytes():
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                found[int(folder.name)] = parent
        except OSError:
            continue
    own = [process for process, parent in found.items() if parent not in found]
    if len(own) != 1:
        raise SystemExit(f"{len(own)} processes are rank {rank}")
    return own[0]


def judged(path: Path, task: Task) -> tuple[float, float]:
    """Loss and accuracy of the ONNX model in onnxruntime, on the samples of the evaluations."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    losses, hits, count = 0.0, 0, 0
    for step in range(EVALUATED):
        inputs, targets = getattr(task_data, f"other_{task.data}")(step, list(range(BATCH)))
        (logits,) = session.run(None, {name: value.numpy() for name, value in inputs.items()})
        wanted = targets.numpy().reshape(-1)
        flat = np.asarray(logits, np.float64).reshape(-1, logits.shape[-1])[wanted != task_data.IGNORED]
        wanted = wanted[wanted != task_data.IGNORED]
        shifted = flat - flat.max(1, keepdims=True)
        chosen = shifted[np.arange(len(wanted)), wanted] - np.log(np.exp(shifted).sum(1))
        losses, hits, count = losses - chosen.sum(), hits + int((flat.argmax(1) == wanted).sum()), count + len(wanted)
    return losses / count, hits / count


def trial(task: Task, heterplan: Path, folder: Path) -> tuple[str, bool]:
    """The result, and whether the target was reached."""
    own = Trial(task, heterplan, folder)
    own.export()
    pipeline, parallel = own.compile("pipeline"), own.compile("data-parallel")
    begin = time.perf_counter()
    own.interrupt(pipeline, task.steps // 3, "SIGTERM")
    own.interrupt(parallel, task.steps * 2 // 3, "SIGKILL of rank 1")
    result = folder / "result.json"
    process = own.run(pipeline, "--json", result)
    told = process.communicate()[0]
    if process.returncode:
        raise SystemExit(told)
    seconds = time.perf_counter() - begin
    found = json.loads(result.read_text())
    evaluation = found["evaluations"][-1]
    exported = folder / "trained.onnx"
    own.call("export", pipeline, "--model", own.model, "-o", exported)
    loss, accuracy = judged(exported, task)
    same = math.isclose(loss, evaluation["loss"], rel_tol=SAME)
    same &= math.isclose(accuracy, evaluation["accuracy"], abs_tol=SAME)
    reached = same and not task.missed(loss, accuracy)
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["loss"] for line in lines if "loss" in line}
    first, last = losses[1], sum(losses[s] for s in range(task.steps - 19, task.steps + 1)) / 20
    count = sum(p.numel() for p in task.model.parameters())
    text = f"""## {task.name}

{count} parameters, {task.steps} steps of {BATCH} samples, {task.optimizer} at {task.rate}, two ranks of one thread.
Interrupted: {"; ".join(own.interruptions)}.
{seconds:.0f} s in all, {found["samplesPerSecond"]:.0f} samples/s in the last piece. Target: {task.target}. It was {"reached" if reached else "**missed**"}.

| | loss | accuracy |
| --- | --- | --- |
| first step (training) | {first:.4f} | |
| last 20 steps (training) | {last:.4f} | |
| evaluation of the runtime, {EVALUATED * BATCH} other samples | {evaluation["loss"]:.5f} | {evaluation["accuracy"]:.4f} |
| exported model in onnxruntime, the same samples | {loss:.5f} | {accuracy:.4f} |
"""
    if task.best_loss:
        text += f"\nThe best loss that anyone can reach is {task.best_loss:.4f}, with an accuracy of "
        text += f"{task_data.SURE + (1 - task_data.SURE) / task_data.TOKENS:.4f}.\n"
    return text, reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heterplan", type=Path, default=Path("build/bin/heterplan"))
    parser.add_argument("--out", type=Path, required=True, help="a folder for plans and checkpoints")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of steps")
    parser.add_argument("--only", help="one of the tasks")
    options = parser.parse_args()
    print(INTRODUCTION.format(accuracy=ACCURACY, learned=LEARNED), flush=True)
    missed = []
    for task in tasks(options.scale):
        if options.only in (None, task.name):
            folder = options.out / task.name
            if folder.exists():
                raise SystemExit(f"{folder} is there already")
            text, reached = trial(task, options.heterplan.resolve(), folder)
            print(text, flush=True)
            missed += [] if reached else [task.name]
    if missed:
        raise SystemExit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
