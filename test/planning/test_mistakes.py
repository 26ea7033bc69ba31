"""Typical mistakes at the command line: each answer names the mistake and the remedy."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import BINARY, SOURCE

CNN = SOURCE / "test/data/small/cnn.onnx"
COMPILE = "compile net.onnx --cluster mixed-small -o out"
MISTAKES = [
    # what was typed, the mistake, the remedy
    ("plan net.onnx", "'plan' is not a command", "did you mean 'compile'?"),
    ("optimize net.onnx", "'optimize' is not a command", "did you mean 'compile'?"),
    ("compil net.onnx", "'compil' is not a command", "did you mean 'compile'?"),
    ("train out", "'train' is not a command", "did you mean 'run'?"),
    ("launch out", "'launch' is not a command", "did you mean 'run'?"),
    ("show out", "'show' is not a command", "did you mean 'inspect'?"),
    ("check out", "'check' is not a command", "did you mean 'verify'?"),
    ("compare a b", "'compare' is not a command", "did you mean 'diff'?"),
    ("benchmark net.onnx", "'benchmark' is not a command", "did you mean 'profile'?"),
    ("price net.onnx", "'price' is not a command", "did you mean 'evaluate'?"),
    ("", "A subcommand is required", "'heterplan --help' lists what is accepted"),
    ("compile net.onnx -o out", "--cluster is required", "'heterplan compile --help'"),
    ("compile net.onnx --cluster mixed-small", "--output is required", "'heterplan compile --help'"),
    ("compile --cluster mixed-small -o out", "MODEL is required", "'heterplan compile --help'"),
    ("compile --pin a=v100 net.onnx --cluster mixed-small -o out", "--pin' takes several values and took 'net.onnx'", "put MODEL before it"),
    ("compile --max-devices v100=2 net.onnx --cluster mixed-small -o out", "took 'net.onnx' as one of them", "put MODEL before it"),
    ("compile --profile p.json net.onnx --cluster mixed-small -o out", "took 'net.onnx' as one of them", "put MODEL before it"),
    ("compile net.pt --cluster mixed-small -o out", "'net.pt' is neither a .onnx nor a .layers.json file", "heterplan.export("),
    ("compile net.pth --cluster mixed-small -o out", "'net.pth' is neither", "heterplan.export("),
    ("compile net.py --cluster mixed-small -o out", "'net.py' is neither", "heterplan.export("),
    ("compile net.safetensors --cluster mixed-small -o out", "'net.safetensors' is neither", "heterplan.export("),
    ("compile net.h5 --cluster mixed-small -o out", "'net.h5' is neither", "tf2onnx"),
    ("compile net.onnx c.yaml -o out", "'c.yaml' has no option before it", "--cluster c.yaml"),
    ("compile net.onnx net.onnx --cluster mixed-small -o out", "'net.onnx' is one argument too many", "'heterplan compile --help'"),
    (f"{COMPILE} --stages 4", "'--stages' is not an option of compile", "--schedule pipeline"),
    (f"{COMPILE} --max-restarts 4", "'--max-restarts' is not an option of compile", "it is an option of 'heterplan run'"),
    (f"{COMPILE} --learning-rate 0.1", "'--learning-rate' is not an option of compile", "heterplan run DIR --lr X"),
    ("compile folder --cluster mixed-small -o out", "'folder' is neither", "give the .onnx file in it"),
    ("compile c.yaml --cluster mixed-small -o out", "'c.yaml' is neither", "give the model first and the cluster with --cluster"),
    ("compile no.onnx --cluster mixed-small -o out", "no.onnx", "there is no such file"),
    ("import net.pt", "'net.pt' is neither", "heterplan.export("),
    ("inspect net.onnx", "'net.onnx' is a model, not a plan", "heterplan import net.onnx"),
    ("verify net.onnx --model net.onnx --cluster mixed-small", "'net.onnx' is a model, not a plan", "'heterplan compile' makes a plan"),
    ("compile net.onnx --cluster mixed-smal -o out", "there is no such cluster file", "did you mean 'mixed-small'?"),
    ("compile net.onnx --cluster mine -o out", "there is no such cluster file", "bundled clusters, which need no path, are"),
    ("compile net.onnx --cluster c.yaml -o out", "'network' is missing", "network: {bandwidth: 100Gbit/s, latency: 5us}"),
    ("compile net.onnx --cluster free.yaml --objective cost -o out", "the cluster has no prices", "price_per_hour"),
    ("compile net.onnx --cluster mixed-small --profile no.json -o out", "no.json", "there is no such profile file"),
    (f"{COMPILE} --batch-size 8", "'--batch-size' is not an option of compile", "use --batch N"),
    (f"{COMPILE} --batch_size=8", "'--batch_size=8' is not an option of compile", "use --batch N"),
    (f"{COMPILE} --gpus 8", "'--gpus' is not an option of compile", "--max-devices TYPE=N"),
    (f"{COMPILE} --budget 8", "'--budget' is not an option of compile", "--max-cost-per-hour"),
    (f"{COMPILE} --throughput 8", "'--throughput' is not an option of compile", "--min-throughput"),
    (f"{COMPILE} --deadline 8", "'--deadline' is not an option of compile", "--max-iteration-time"),
    (f"{COMPILE} --timeout 8", "'--timeout' is not an option of compile", "--time-limit"),
    (f"{COMPILE} --memory 8GB", "'--memory' is not an option of compile", "--memory-headroom"),
    (f"{COMPILE} --zero-stage 2", "'--zero-stage' is not an option of compile", "--shard-state"),
    (f"{COMPILE} --gradient-checkpointing", "'--gradient-checkpointing' is not an option", "--recompute"),
    (f"{COMPILE} --micro-batch-size 4", "'--micro-batch-size' is not an option", "--micro-batches M"),
    (f"{COMPILE} --pp 4", "'--pp' is not an option of compile", "--schedule pipeline"),
    (f"{COMPILE} --bf16", "'--bf16' is not an option of compile", "--precision bf16"),
    (f"{COMPILE} --adamw", "'--adamw' is not an option of compile", "--optimizer adam"),
    (f"{COMPILE} --lr 0.1", "'--lr' is not an option of compile", "heterplan run DIR --lr X"),
    (f"{COMPILE} --steps 10", "'--steps' is not an option of compile", "heterplan run DIR --steps N"),
    (f"{COMPILE} --seq-len 128", "'--seq-len' is not an option of compile", "--dim NAME=N"),
    (f"{COMPILE} --lora", "'--lora' is not an option of compile", "requires_grad=False"),
    (f"{COMPILE} --overwrite", "'--overwrite' is not an option of compile", "use --force"),
    (f"{COMPILE} --spot", "'--spot' is not an option of compile", "price_per_hour"),
    (f"{COMPILE} --precison bf16", "'--precison' is not an option of compile", "did you mean '--precision'?"),
    (f"{COMPILE} --precision fp8", "'fp8' is not accepted", "give one of fp32, tf32, bf16, fp16"),
    (f"{COMPILE} --optimizer adamw", "'adamw' is not accepted", "did you mean 'adam'?"),
    (f"{COMPILE} --objective speed", "'speed' is not accepted", "give one of throughput, cost"),
    (f"{COMPILE} --max-iteration-time 200mz", "'200mz' is not accepted", "e.g. 200ms"),
    (f"{COMPILE} --time-limit 2m", "'2m' is not accepted", "10min"),
    (f"{COMPILE} --batch 0", "'0' is not accepted", "give a whole number from 1"),
    (f"{COMPILE} --max-devices v100", "'v100' is not accepted", "give NAME=VALUE"),
    (f"{COMPILE} --max-devices h200=2", "no device type 'h200'", "it has xeon, t4, v100, a100"),
    (f"{COMPILE} --pin conv1=v100", "the model has no layer 'conv1'", "did you mean '"),
    (f"{COMPILE} --epochs 3", "--epochs needs --samples", "--samples 1000000"),
    (f"{COMPILE} --strategy labelsetting", "no strategy is called 'labelsetting'", "did you mean 'label-setting'?"),
    ("compile net.onnx --cluster mixed-small -o full", "full", "--force"),
    ("run full", "there is no launcher", "heterplan compile MODEL.onnx"),
    ("profile net.onnx", "--device", "is required"),
    ("completion fish", "'fish' is not accepted", "give one of bash, zsh"),
    ("explain HP1222", "there is no diagnostic 'HP1222'", "did you mean"),
]  # fmt: skip

CLUSTER = """device_types:
  core: {{kind: cpu, memory: 4GiB, {price}fp32: 10GFLOP/s, bandwidth: 10GB/s}}
nodes:
  - {{name: a, count: 2, devices: {{core: 1}}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mistakes")
    (made / "net.onnx").symlink_to(CNN)
    for name in ("net.pt", "net.pth", "net.py", "net.safetensors", "net.h5"):
        (made / name).touch()
    (made / "folder").mkdir()
    (made / "full").mkdir()
    (made / "full/letter.txt").touch()
    (made / "c.yaml").write_text(CLUSTER.format(price="price_per_hour: 1, "))
    (made / "free.yaml").write_text(CLUSTER.format(price="") + "network: {bandwidth: 1GB/s, latency: 5us}\n")
    return made


def heterplan(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BINARY, *arguments], cwd=folder, capture_output=True, text=True)


def test_sixty_mistakes_are_tried() -> None:
    assert len(MISTAKES) >= 60 and len({typed for typed, _, _ in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize(("typed", "mistake", "remedy"), MISTAKES)
def test_the_answer_names_mistake_and_remedy(folder: Path, typed: str, mistake: str, remedy: str) -> None:
    done = heterplan(folder, *shlex.split(typed))
    assert done.returncode == 1, done.stdout + done.stderr
    assert mistake in done.stderr and remedy in done.stderr, done.stderr
    assert not (folder / "out").exists()


def test_durations_have_units(folder: Path, tmp_path: Path) -> None:
    times = []
    for text in ("0.2", "200ms"):
        out = tmp_path / text
        options = ("--batch", "16", "--max-iteration-time", text, "-o", str(out))
        done = heterplan(folder, "compile", "net.onnx", "--cluster", "mixed-small", *options)
        assert done.returncode == 0, done.stderr
        times.append((out / "plan.json").read_text())
    assert times[0] == times[1] and '"maxIterationSeconds": 0.2' in times[0]


@pytest.mark.parametrize(
    "options",
    [(), ("--min-throughput", "100"), ("--samples", "1000000", "--epochs", "2"), ("--schedule", "burst")],
    ids=["default", "floor", "training", "burst"],
)
def test_a_summary_has_at_most_twelve_lines_besides_the_table(folder: Path, tmp_path: Path, options) -> None:
    done = heterplan(folder, "compile", "net.onnx", "--cluster", "mixed-small", "--batch", "64", *options,
                     "-o", str(tmp_path / "out"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    before, table = done.stdout.split("\n\n")[:2]
    assert table.startswith("stage ")
    lines = done.stdout.replace(table, "").splitlines()
    assert len([line for line in lines if line]) <= 12, done.stdout
    assert all(len(line) <= 110 for line in before.splitlines()), before
