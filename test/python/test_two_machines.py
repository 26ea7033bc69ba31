"""The commands of docs/two-machines.md, on two network namespaces with a link of 1 Gbit/s, a core each, of
which one is shared with another program. Needs root, `ip` and `tc`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import SOURCE

DOCUMENT = SOURCE / "docs/two-machines.md"
TUTORIAL = SOURCE / "docs/tutorial.md"
BUSY = "import os, sys\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(10**6))\n"


@dataclass(frozen=True)
class Machine:
    namespace: str
    core: int

    def start(self, command: str, folder: Path, path: str) -> subprocess.Popen[str]:
        environment = {"PATH": path, "OMP_NUM_THREADS": "1", "HOME": str(folder)}
        return subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, "taskset", "-c", str(self.core), "/bin/sh", "-c", command],
            cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


def call(*arguments: object) -> None:
    subprocess.run([str(each) for each in arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def machines() -> Iterator[dict[str, Machine]]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    found = {name: Machine(f"hp-{name}-{os.getpid()}", core) for name, core in zip("ab", cores)}
    try:
        try:
            for each in found.values():
                call("ip", "netns", "add", each.namespace)
            call("ip", "link", "add", "wire", "netns", found["a"].namespace, "type", "veth",
                 "peer", "name", "wire", "netns", found["b"].namespace)  # fmt: skip
            for place, each in enumerate(found.values(), 1):
                inside = ("ip", "-n", each.namespace)
                call(*inside, "addr", "add", f"10.79.0.{place}/24", "dev", "wire")
                call(*inside, "link", "set", "wire", "up")
                call(*inside, "link", "set", "lo", "up")
                call("tc", "-n", each.namespace, "qdisc", "add", "dev", "wire", "root",
                     "tbf", "rate", "1gbit", "burst", "256kb", "latency", "50ms")  # fmt: skip
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces here: {getattr(error, 'stderr', error)}")
        yield found
    finally:
        for each in found.values():
            subprocess.run(["ip", "netns", "delete", each.namespace], capture_output=True)


@pytest.fixture
def busy(machines: dict[str, Machine]) -> Iterator[None]:
    """Another program computes on the core of `b`."""
    with subprocess.Popen(["taskset", "-c", str(machines["b"].core), sys.executable, "-c", BUSY]) as program:
        yield
        program.kill()


def blocks_of(text: str) -> list[list[tuple[str, str]]]:
    """The commands of each block, with the machines that they are for."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)
    return [re.findall(r"^([ab])\$ (.*)$", block, re.M) for language, block in fenced if not language]


def measured(profile: Path, batch: int) -> float:
    """Seconds of both passes of all layers of `batch` samples."""
    entries = json.loads(profile.read_text())["entries"]
    return sum(each["forwardSeconds"] + each["backwardSeconds"] for each in entries if each["batch"] == batch)


@pytest.mark.sweep
def test_commands_train_on_both(
    machines: dict[str, Machine], busy: None, environment: Path, tmp_path: Path
) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    (tmp_path / "both.yaml").write_text(re.search(r"^```yaml\n(.*?)^```", text, re.M | re.S)[1])
    net = re.search(r"^```python\n(.*?)^```", TUTORIAL.read_text(encoding="utf-8"), re.M | re.S)[1]
    (tmp_path / "net.py").write_text(net)
    path = f"{environment}:/usr/sbin:/usr/bin:/sbin:/bin"
    printed: dict[str, str] = {}
    blocks = blocks_of(text)
    assert [len(block) for block in blocks] == [2, 2, 1, 2]
    for block in [[("a", "python net.py")], *blocks]:
        # Few measurements: beside another program each of them takes long.
        instead = {
            "--cores 0": f"--cores {machines['a'].core}", "--cores 1": f"--cores {machines['b'].core}",
            "--batches 16,32,64,128": "--batches 16,128", "--link ethernet-1g": "--link ethernet-1g --time-budget 10",
        }  # fmt: skip
        started = []
        for name, command in block:
            for shown, here in instead.items():
                command = re.sub(rf"{shown}\b", here, command)
            started.append((command, machines[name].start(command, tmp_path, path)))
        for command, program in started:
            printed[command], _ = program.communicate(timeout=600)
            assert program.returncode == 0, f"{command}\n{printed[command]}"
            print(f"$ {command}\n{printed[command]}")
    plan = json.loads((tmp_path / "plan/plan.json").read_text())
    shares = {each["devices"][0]["type"]: each["share"] for each in plan["stages"][0]["replicas"]}
    times = {f"core-{name}": measured(tmp_path / f"{name}.profile.json", 128) for name in "ab"}
    assert sum(shares.values()) == 1024
    slower, faster = sorted(times, key=times.__getitem__, reverse=True)
    assert shares[slower] <= 1.05 * shares[faster], "the machine that was measured to be slower has less to do"
    losses = [float(loss) for loss in re.findall(r"^step \d+  loss (\S+)", "".join(printed.values()), re.M)]
    assert losses[-1] < 0.7 * losses[0]
