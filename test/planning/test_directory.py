"""One directory, one plan: whatever is changed or mixed in it is rejected, and a kill leaves the old plan
or the new one."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import BINARY, SOURCE

HAND, SMALL = SOURCE / "test/data/hand", SOURCE / "test/data/small"


@dataclass(frozen=True)
class Inputs:
    """The inputs of a plan; `options` are of compile only."""

    model: Path
    cluster: str
    profiles: tuple[Path, ...] = ()
    options: tuple[str, ...] = ()

    def files(self) -> list[str]:
        profile = ["--profile", *map(str, self.profiles)] if self.profiles else []
        return ["--cluster", self.cluster, *profile]


PLANS = {
    "chain": Inputs(
        HAND / "chain.layers.json", str(HAND / "pair.yaml"), (HAND / "chain.profile.json",),
        ("--batch", "16", "--micro-batches", "4", "--epochs", "2", "--samples", "1000"),
    ),
    "cnn": Inputs(SMALL / "cnn.onnx", "local-cpu", (), ("--batch", "64", "--max-cost-per-hour", "9")),
    "mlp": Inputs(SMALL / "mlp.onnx", "mixed-small", (), ("--batch", "32", "--min-throughput", "5")),
}  # fmt: skip

MUTATIONS = int(os.environ.get("HETERPLAN_MUTATIONS", "20"))
# What nobody can check by itself: `verify` says so of `optimality` and `search`.
UNCHECKED = {"searchSpaceLimits", "interrupted", "seed"}


def heterplan(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True)


def compile_into(folder: Path, inputs: Inputs, *options: str) -> None:
    done = heterplan("compile", inputs.model, *inputs.files(), *inputs.options, *options, "-o", folder)
    assert done.returncode == 0, done.stderr + done.stdout


def verify(folder: Path, inputs: Inputs) -> subprocess.CompletedProcess[str]:
    return heterplan("verify", folder, "--model", inputs.model, *inputs.files())


@pytest.fixture(scope="module", params=PLANS)
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    inputs = PLANS[request.param]
    folder = tmp_path_factory.mktemp("planned") / "out"
    compile_into(folder, inputs)
    done = verify(folder, inputs)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, inputs


def digest_anew(folder: Path) -> None:
    """As one would who wants a changed plan to pass."""
    lines = []
    for line in (folder / "manifest.sha256").read_text().splitlines():
        name = line[66:]
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        lines.append(f"{digest}  {name}\n")
    (folder / "manifest.sha256").write_text("".join(lines))


def leaves(value: Any, path: tuple = ()) -> list[tuple]:
    """The paths of all parts of `value` but itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, part in items:
        found += [(*path, key), *leaves(part, (*path, key))]
    return found


def changed(value: Any, path: tuple, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        # figures are held to 1e-6: one byte of some gigabytes is nothing, nor is a slack that is below it
        small = value * 1.001 if value % 1 else value + 1 + abs(value) // 10**5
        if path[:1] == ("checks",):
            small = max(small, value + 1e-5)
        return chance.choice([value * 2 + 3, small])
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list) and value and path != ("checks",):  # whose order claims nothing
        return chance.choice([value[:-1], [*value, value[0]], value[::-1]])
    if isinstance(value, list):
        return value[:-1] if value else [1]
    return {}


def mutate(text: str, chance: random.Random, usable: Callable[[tuple], bool]) -> str:
    whole = json.loads(text)
    path = chance.choice([path for path in leaves(whole) if usable(path)])
    result = copy.deepcopy(whole)
    home = result
    for key in path[:-1]:
        home = home[key]
    home[path[-1]] = changed(home[path[-1]], path, chance)
    return text if result == whole else json.dumps(result, indent=1)


def rejected(folder: Path, inputs: Inputs, what: str) -> None:
    done = verify(folder, inputs)
    assert done.returncode in (1, 2), f"{what} passed:\n{done.stdout}"
    assert done.returncode == 2 or "error: [HP" in done.stderr, done.stderr


@pytest.mark.parametrize("cunning", [False, True], ids=["plain", "digested-anew"])
def test_mutations_are_rejected(planned, cunning: bool, tmp_path: Path) -> None:
    """Changed figures of each plan; 67 are 400 over the three plans."""
    original, inputs = planned
    chance = random.Random(f"{inputs.model.name} {cunning}")
    files = sorted(original.glob("ranks/*.json")) + [original / "plan.json"] * 4
    if (original / "model.py").exists():
        files += [original / "model.py"] * 2
    for number in range(MUTATIONS):
        folder = tmp_path / str(number)
        shutil.copytree(original, folder)
        file = folder / chance.choice(files).relative_to(original)
        text = file.read_text()
        if file.name == "model.py":
            at = chance.randrange(len(text))
            new = text[:at] + chance.choice("x 1#") + text[at:]
        elif file.name == "plan.json":
            new = mutate(text, chance, lambda path: not cunning or path[0] not in UNCHECKED)
        else:
            new = mutate(text, chance, lambda path: True)
        file.write_text(new)
        if cunning:
            digest_anew(folder)
        if new != text:
            rejected(folder, inputs, f"{file.relative_to(folder)} changed")
        shutil.rmtree(folder)


def test_ranks_of_another_plan_are_rejected(planned, tmp_path: Path) -> None:
    original, inputs = planned
    compile_into(tmp_path / "other", inputs, "--optimizer", "adam")
    shutil.copytree(original, tmp_path / "mixed")
    shutil.copytree(tmp_path / "other/ranks", tmp_path / "mixed/ranks", dirs_exist_ok=True)
    rejected(tmp_path / "mixed", inputs, "ranks of another plan")


def test_claims_are_said_not_to_be_checked(planned) -> None:
    folder, inputs = planned
    done = heterplan("verify", folder, "--model", inputs.model, *inputs.files(), "--json")
    answer = json.loads(done.stdout)
    stated = {"training"} & set(json.loads((folder / "plan.json").read_text()))
    assert {claim["name"] for claim in answer["notChecked"]} == {"optimality", "search"} | stated
    assert {check["name"] for check in answer["checks"]} >= {"statements", "files", "instructions"}


def test_a_bad_statement_is_named(planned, tmp_path: Path) -> None:
    folder, inputs = planned
    for key, value, complaint in (
        ("strategy", "guessing", "no strategy is called 'guessing'"),
        ("cluster", "other", "is said to be for a cluster 'other'"),
        ("profileFingerprints", ["0" * 64], "made with 1 profiles that are not the"),
        ("searchSpace", "everything", "calls what was searched 'everything'"),
        ("provenance", {"assumed": 1}, "% of its time is "),
        ("provenance", {"measured": 0.3}, "sum to 30 %"),
        ("iterationInterval", {"leastSeconds": 0, "mostSeconds": 1e9, "confidence": 0.9}, "times may be off by a factor"),
        ("checks", [{"name": "memory", "holds": False}], "states that its check 'memory' does not hold"),
    ):
        plan = json.loads((folder / "plan.json").read_text())
        plan[key] = value
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        done = verify(tmp_path / "plan.json", inputs)
        assert done.returncode == 2 and complaint in done.stdout, done.stdout


def test_a_wrong_time_of_a_run_is_named(planned, tmp_path: Path) -> None:
    folder, inputs = planned
    plan = json.loads((folder / "plan.json").read_text())
    plan["expectedSeconds"] *= 0.9999
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = verify(tmp_path / "plan.json", inputs)
    assert done.returncode == 2 and "expectedSeconds is stated as" in done.stdout, done.stdout


def test_intervals_are_of_synchronous_plans(tmp_path: Path) -> None:
    """The error of predictions was measured for synchronous plans alone."""
    inputs = PLANS["chain"]
    for schedule, states in (("pipeline", True), ("burst", False)):
        files = (inputs.model, *inputs.files(), "--batch", "16", "--schedule", schedule)
        done = heterplan("compile", *files, "-o", tmp_path / schedule)
        assert done.returncode == 0, done.stderr
        plan = json.loads((tmp_path / schedule / "plan.json").read_text())
        assert ("iterationInterval" in plan) == ("expectedSeconds" in plan) == states
        assert ("90 % interval" in done.stdout) == states


def test_false_training_figures_are_refused(tmp_path: Path) -> None:
    inputs = PLANS["chain"]
    compile_into(tmp_path / "out", inputs)
    plan = json.loads((tmp_path / "out/plan.json").read_text())
    plan["training"]["dollars"] *= 2
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = verify(tmp_path / "plan.json", inputs)
    assert done.returncode == 1
    assert "error: [HP1304]" in done.stderr and "training.dollars" in done.stderr


def test_tables_that_the_model_lacks_are_rejected(tmp_path: Path) -> None:
    inputs = PLANS["chain"]
    compile_into(tmp_path / "out", inputs)
    plan = json.loads((tmp_path / "out/plan.json").read_text())
    plan["stages"][0]["tables"] = [{"table": "words", "rows": [7]}]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = verify(tmp_path / "plan.json", inputs)
    assert done.returncode == 2 and "no layer has a table 'words'" in done.stdout, done.stdout


def test_another_model_is_named(planned) -> None:
    folder, inputs = planned
    other = SMALL / ("mlp.onnx" if inputs.model.name != "mlp.onnx" else "cnn.onnx")
    done = heterplan("verify", folder, "--model", other, *inputs.files())
    assert done.returncode == 2
    name = json.loads((folder / "plan.json").read_text())["model"]
    assert f"the plan is for the model '{name}', and {other} is the model" in done.stdout
    assert "layers" not in done.stdout


def test_a_kill_leaves_the_old_plan_or_the_new_one(tmp_path: Path) -> None:
    """At moments drawn at random; PackageTest kills before each single step."""
    inputs, folder = PLANS["cnn"], tmp_path / "out"
    compile_into(folder, inputs)
    (folder / "weights").mkdir(exist_ok=True)
    (folder / "weights/mine.safetensors").write_text("mine")
    command = [str(BINARY), "compile", str(inputs.model), *inputs.files(), "--batch", "32", "-o", str(folder)]
    begin = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    takes = time.monotonic() - begin
    chance = random.Random(0)
    for _ in range(20):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(takes * chance.random() * 1.1)
        process.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        process.wait()
        done = verify(folder, inputs)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (folder / "weights/mine.safetensors").read_text() == "mine"
    subprocess.run(command, check=True, capture_output=True)
    assert os.listdir(tmp_path) == ["out"], "what killed writers left is gone"


def test_the_directory_is_looked_at_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    model = ["compile", SOURCE / "test/data/models/bert_base.onnx", "--cluster", "cloud-large"]
    begin = time.monotonic()
    done = heterplan(*model, "--work-limit", 10**15, "--strategy", "genetic", "-o", tmp_path / "mine")
    assert done.returncode == 1 and "[HP1702] is not empty" in done.stderr
    done = heterplan(*model, "--work-limit", 10**15, "--strategy", "genetic", "-o", tmp_path / "mine/notes.txt/x")
    assert done.returncode == 1 and "error: [HP1002]" in done.stderr
    assert time.monotonic() - begin < 300, "the search would take days"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_plan_that_cannot_be_shown_is_an_error(tmp_path: Path) -> None:
    inputs = PLANS["cnn"]
    command = [str(BINARY), "compile", str(inputs.model), *inputs.files(), "-o", str(tmp_path / "out")]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "standard output: error: [HP1002] cannot write" in done.stderr
