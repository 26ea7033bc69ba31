#!/usr/bin/env python3
"""Steps of a plan against steps of DistributedDataParallel on the same model and samples.

    bench/ddp.py [--models NAMES] [--ranks N] [--steps N] [--network] [--json FILE]

Two replicas of one thread each (--ranks 1: one, against the module itself) train in turns: a step of the plan, a step of
DDP, in the same processes. The plan is data-parallel with statistics of batch normalisation by replica, as DDP has
them. It is compiled without and with --overlap-grad-reduce; one rank sums nothing. --network puts the ranks on two
hosts, network namespaces with 1 Gbit/s and 1 ms between them (as root; see test/runtime/test_namespaces.py), and
compares the predicted steps with the measured ones, too: layers and the link are profiled first. "ratio" is the
median over the steps of plan against DDP. Needs transformers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[1]
HETERPLAN = os.environ.get("HETERPLAN_BINARY", str(ROOT / "build/bin/heterplan"))
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test/runtime")]
CLASSES = 10
LINK = "link.profile.json"
NODE = "  - {{name: {name}, devices: {{core: 1}}, link: {{bandwidth: 10GB/s, latency: 10us}}}}\n"
CLUSTER = """name: pair
device_types:
  core: {{kind: cpu, memory: 8GiB, price_per_hour: 1, fp32: 50GFLOP/s, bandwidth: 8GB/s}}
nodes:
{nodes}network: {network}
"""


class Logits(nn.Module):
    """Only the logits of a model of Hugging Face."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x, return_dict=True).logits


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 256)
        self.lstm = nn.LSTM(256, 512, num_layers=2, batch_first=True)
        self.head = nn.Linear(512, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(self.words(x))[0][:, -1])


def resnet18() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=CLASSES
    )
    return Logits(ResNetForImageClassification(config))


def vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, num_labels=CLASSES)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return Logits(ViTForImageClassification(config))


def bert_small() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048, num_labels=CLASSES,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return Logits(BertForSequenceClassification(config))


def gpt2_small() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return Logits(GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)))


@dataclass(frozen=True)
class Case:
    make: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]  # of so many samples
    samples: int  # of one replica in a step
    loss: str = "cross_entropy"


def images(samples: int) -> Tensor:
    return torch.randn(samples, 3, 224, 224)


def words(bound: int, length: int) -> Callable[[int], Tensor]:
    return lambda samples: torch.randint(2, bound, (samples, length))


CASES = {
    "resnet-18": Case(resnet18, images, 8),
    "vit": Case(vit, images, 16),
    "bert-small": Case(bert_small, words(1000, 128), 16),
    "gpt2-small": Case(gpt2_small, words(1000, 128), 8, "token_cross_entropy"),
    "lstm": Case(Recurrent, words(1000, 64), 32),
}


def made(case: Case) -> nn.Module:
    torch.manual_seed(0)
    return case.make().train()


# One rank: the plan and DDP in turns.


class Alone:
    """Steps of the module, in DistributedDataParallel where there are several ranks."""

    def __init__(self, case: Case, ranks: int) -> None:
        from torch.nn.parallel import DistributedDataParallel

        module = made(case)
        self.model = DistributedDataParallel(module, forward_sync_buffers=False) if ranks > 1 else module
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.inputs = case.inputs(case.samples)
        with torch.no_grad():
            shape = module(self.inputs).shape
        self.targets = torch.randint(0, shape[-1], shape[:-1])

    def step(self) -> None:
        logits = self.model(self.inputs)
        nn.functional.cross_entropy(logits.flatten(0, -2), self.targets.flatten()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def run_rank(folder: Path, name: str, steps: int, out: Path) -> None:
    sys.path.insert(0, str(folder))
    from heterplan_runtime.assembly import make_interpreter, prepare
    from heterplan_runtime.main import parse

    torch.set_num_threads(1)
    case = CASES[name]
    options = [str(folder), "--steps", str(steps), "--loss", case.loss, "--data", "fixed", "--threads", "1", "--no-save"]
    run = prepare(parse(options))
    interpreter = make_interpreter(run)
    run.data.begin(range(steps), interpreter.sample_ranges())
    alone = Alone(case, run.program.world_size)
    times: list[list[float]] = []
    for step in range(steps):
        interpreter.prepare(step, run.data)
        turns = [lambda: interpreter.run_step(step), alone.step]
        taken = [0.0, 0.0]
        for turn in (0, 1) if step % 2 else (1, 0):
            run.communicator.barrier()
            begin = time.perf_counter()
            turns[turn]()
            taken[turn] = time.perf_counter() - begin
        times.append(run.communicator.largest_of(taken))
    if run.leads:
        out.write_text(json.dumps(times[2:]))
    interpreter.close()
    run.communicator.close()


# All ranks.


def call(*command: object) -> str:
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def compile_plan(case: Case, folder: Path, ranks: int, options: tuple[str, ...]) -> Path:
    profiles = [path for path in (folder / "profile.json", folder.parent / LINK) if path.exists()]
    nodes = "".join(NODE.format(name=f"host-{rank}") for rank in range(ranks))
    network = "ethernet-1g" if (folder.parent / LINK).exists() else "{bandwidth: 10GB/s, latency: 10us}"
    (folder / "cluster.yaml").write_text(CLUSTER.format(nodes=nodes, network=network))
    plan = folder / ("plan" + "".join(options))
    call(
        HETERPLAN, "compile", folder / "model.onnx", "--cluster", folder / "cluster.yaml", "--batch",
        case.samples * ranks, "--micro-batches", 1, "--schedule", "data-parallel", "--batch-norm", "local",
        "--recompute", "never", "--shard-state", "none", "--objective", "throughput", *options,
        *(word for path in profiles for word in ("--profile", path)),
        "-o", plan, "--force",
    )  # fmt: skip
    if len(list((plan / "ranks").iterdir())) != ranks:
        raise SystemExit(f"{plan.parent.name}: one replica is faster than {ranks}; there is nothing to compare")
    return plan


def profile_layers(case: Case, folder: Path) -> None:
    call(
        HETERPLAN, "profile", folder / "model.onnx", "--device", "cpu", "--device-type", "core", "--engine", "torch", "--cores", 0,
        "--batches", case.samples, "--loss", case.loss, "-o", folder / "profile.json",
    )  # fmt: skip


def profile_link(network: Any, out: Path) -> None:
    """Between the first two hosts."""
    hosts = network.hosts[:2]
    processes = []
    for index in range(2):
        command = [
            "ip", "netns", "exec", f"{network.prefix}{index + 1}", HETERPLAN, "profile", "--link", "ethernet-1g",
            "--hosts", ",".join(hosts), "--node-rank", str(index),
        ]  # fmt: skip
        command += ["-o", str(out)] if index == 0 else []
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "wire", "HETERPLAN_PYTHON": sys.executable}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
    if any(process.wait() for process in processes):
        raise SystemExit("the link cannot be measured")


def measured(plan: Path, name: str, ranks: int, steps: int, network: Any) -> list[list[float]]:
    out = plan.parent / "times.json"
    first = "127.0.0.1" if network is None else network.hosts[0]
    processes = []
    for rank in range(ranks):
        environment = {
            **os.environ, "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": first, "MASTER_PORT": "29411", "OMP_NUM_THREADS": "1", "HETERPLAN_NODE": f"host-{rank}",
        }  # fmt: skip
        place = [] if network is None else ["ip", "netns", "exec", f"{network.prefix}{rank + 1}"]
        if network is not None:
            environment["GLOO_SOCKET_IFNAME"] = "wire"
        command = [*place, sys.executable, __file__, "--rank-of", plan, "--models", name, "--steps", steps, "--json", out]
        processes.append(subprocess.Popen([str(each) for each in command], env=environment))
    if any([process.wait() for process in processes]):
        raise SystemExit(f"{name}: a rank failed")
    return json.loads(out.read_text())


def compare(name: str, ranks: int, steps: int, network: Any, folder: Path) -> list[dict[str, Any]]:
    import heterplan

    case = CASES[name]
    heterplan.export(made(case), case.inputs(2), folder / "model.onnx")
    if network is not None:
        profile_layers(case, folder)
    rows = []
    for options in ((), ("--overlap-grad-reduce",)) if ranks > 1 else ((),):
        plan = compile_plan(case, folder, ranks, options)
        times = measured(plan, name, ranks, steps, network)
        own, other = (statistics.median(column) for column in zip(*times))
        rows.append({
            "model": name, "overlap": bool(options), "plan": own, "ddp": other,
            "ratio": statistics.median(a / b for a, b in times),
            "predicted": json.loads((plan / "plan.json").read_text())["iterationSeconds"],
        })  # fmt: skip
        print(line(rows[-1], network is not None), flush=True)
    return rows


def line(row: dict[str, Any], is_predicted: bool) -> str:
    overlap = "yes" if row["overlap"] else "no"
    text = f"| {row['model']} | {overlap} | {row['plan'] * 1e3:.0f} | {row['ddp'] * 1e3:.0f} | {row['ratio']:.3f} |"
    return text + (f" {row['predicted'] * 1e3:.0f} |" if is_predicted else "")


def arguments_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(CASES), help="names, separated by commas")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=22, help="of each, the first two left out (22)")
    parser.add_argument("--network", action="store_true", help="between the ranks")
    parser.add_argument("--json", type=Path, help="write what was seen to FILE")
    parser.add_argument("--rank-of", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for name in arguments.models.split(","):
        if name not in CASES:
            parser.error(f"--models: there is no {name!r}; there are {', '.join(CASES)}")
    return arguments


def main() -> None:
    arguments = arguments_of()
    if arguments.rank_of:
        run_rank(arguments.rank_of, arguments.models, arguments.steps, arguments.json)
        return
    network: Any = None
    if arguments.network:
        from test_namespaces import Network

        network = Network()
    predicted = " predicted ms |" if network else ""
    print(f"| model | overlap | plan ms | DDP ms | ratio |{predicted}\n| --- | --- | --- | --- | --- |" + " --- |" * bool(network))
    rows = []
    try:
        with tempfile.TemporaryDirectory() as scratch:
            if network is not None:
                network.make()
                profile_link(network, Path(scratch) / LINK)
            for name in arguments.models.split(","):
                folder = Path(scratch) / name
                folder.mkdir()
                rows += compare(name, arguments.ranks, arguments.steps, network, folder)
    finally:
        if network is not None:
            network.remove()
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
