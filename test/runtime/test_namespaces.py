"""Plans train across hosts with addresses, a bandwidth and a latency of their own: network namespaces of this
machine, with 1 Gbit/s and 1 ms. Needs root, `ip`, `tc` and TAP devices."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from binary import heterplan, needs_binary
from test_signals import marked, wait_for

MODEL = Path(__file__).resolve().parents[1] / "data/small/cnn.onnx"
CLUSTER = """
name: three
device_types:
  fast: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 2MFLOP/s, bandwidth: 2MB/s}
  slow: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 1MFLOP/s, bandwidth: 1MB/s}
nodes:
  - {name: first, devices: {fast: 1}, link: {bandwidth: 1000GB/s, latency: 1ns}}
  - {name: second, devices: {slow: 1}, link: {bandwidth: 1000GB/s, latency: 1ns}}
  - {name: third, devices: {slow: 1}, link: {bandwidth: 1000GB/s, latency: 1ns}}
network: {bandwidth: 1000GB/s, latency: 1ns}
"""
# Runs a command on a host as ssh does: by a shell in the namespace that has the address.
SSH = """#!/bin/bash
while [[ $1 == -o ]]; do shift 2; done
[[ $1 == -- && $# == 3 ]] || exit 255
exec ip netns exec "{prefix}${{2##*.}}" sh -c "$3"
"""
# Two device types on each node.
PAIRS = CLUSTER.replace("{fast: 1}", "{fast: 1, slow: 1}").replace("{slow: 1}", "{slow: 1, fast: 1}")
# A module of the user's: each rank notes the address of its host.
NOTING = """
import os, pathlib, subprocess
from torch.nn import functional
shown = subprocess.run(["ip", "-j", "addr", "show", "dev", "wire"], capture_output=True, text=True, check=True).stdout
pathlib.Path({folder!r}, "rank" + os.environ["RANK"]).write_text(shown)
def loss(outputs, targets):
    return functional.mse_loss(outputs, outputs.new_zeros(()).expand_as(outputs))
"""
PATIENCE, GONE_WITHIN = 120, 40  # seconds on a busy machine; 12 on a quiet one

pytestmark = needs_binary


class Network:
    """Three hosts 10.78.0.1 to 10.78.0.3 on one switch, a millisecond apart."""

    hosts = ("10.78.0.1", "10.78.0.2", "10.78.0.3")

    def __init__(self) -> None:
        self.prefix = f"hp{os.getpid()}-"
        self._switch: subprocess.Popen[str] | None = None

    def make(self) -> None:
        names = [f"{self.prefix}{place}" for place in (1, 2, 3)]
        for name in names:
            self._call("ip", "netns", "add", name)
        self._switch = subprocess.Popen(
            [sys.executable, Path(__file__).parent / "slow_switch.py", "0.001", *names], stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert self._switch.stdout is not None
        if self._switch.stdout.readline() != "ready\n":
            raise OSError("no TAP devices")
        for name, address in zip(names, self.hosts, strict=True):
            self._call("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "wire")
            for device in ("wire", "lo"):
                self._call("ip", "-n", name, "link", "set", device, "up")
            self._call("tc", "-n", name, "qdisc", "add", "dev", "wire", "root", "tbf", "rate", "1gbit", "burst",
                       "256kb", "latency", "50ms")  # fmt: skip

    def cut(self, place: int) -> None:
        """The host loses its network; its addresses stay."""
        self._call("ip", "-n", f"{self.prefix}{place}", "link", "set", "wire", "carrier", "off")

    def join(self, place: int) -> None:
        self._call("ip", "-n", f"{self.prefix}{place}", "link", "set", "wire", "carrier", "on")

    @staticmethod
    def _call(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, text=True)

    def remove(self) -> None:
        if self._switch is not None:
            self._switch.kill()
            self._switch.wait()
        for place in (1, 2, 3):
            subprocess.run(["ip", "netns", "delete", f"{self.prefix}{place}"], capture_output=True)


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    found = Network()
    try:
        try:
            found.make()
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces here: {getattr(error, 'stderr', error)}")
        yield found
    finally:
        found.remove()


@pytest.fixture(scope="module")
def plan(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    (folder / "cluster.yaml").write_text(CLUSTER)
    heterplan(
        "compile", MODEL, "--cluster", folder / "cluster.yaml", "--batch", 24, "--schedule", "data-parallel", "-o",
        folder / "plan",
    )  # fmt: skip
    (folder / "ssh").write_text(SSH.format(prefix=network.prefix))
    (folder / "ssh").chmod(0o755)
    return folder / "plan"


def launch(
    plan: Path, hosts: tuple[str, ...], log: Path, *options: str, mark: str = "", tools: Path | None = None
) -> subprocess.Popen[bytes]:
    """`tools`: the folder of `ssh`, if not that of the plan."""
    environment = {
        **os.environ, "HETERPLAN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "MARK": mark,
        "PATH": f"{tools or plan.parent}:{os.environ['PATH']}",
    }  # fmt: skip
    with log.open("wb") as output:
        return subprocess.Popen(
            [plan / "launch.sh", "--hosts", ",".join(hosts), *options], stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, start_new_session=True, env=environment, cwd=plan.parent,
        )  # fmt: skip


def test_trains_as_one_process(network: Network, plan: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = launch(plan, network.hosts, log, "--steps", "3", "--check", "--no-save")
    assert process.wait(PATIENCE) == 0, log.read_text()
    assert re.search(r"check: 3 losses equal those of one process", log.read_text())


def test_each_rank_starts_on_the_host_of_its_planned_device(network: Network, plan: Path, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(PAIRS)
    (tmp_path / "noting.py").write_text(NOTING.format(folder=str(tmp_path)))
    heterplan(
        "compile", MODEL, "--cluster", tmp_path / "cluster.yaml", "--batch", 48, "--schedule", "data-parallel", "-o",
        tmp_path / "plan",
    )  # fmt: skip
    planned = [json.loads(path.read_text())["device"] for path in sorted((tmp_path / "plan/ranks").iterdir())]
    nodes = list(dict.fromkeys(device["node"] for device in planned))
    assert len(planned) == 6 and {device["type"] for device in planned} == {"fast", "slow"}
    log = tmp_path / "log"
    options = ("--steps", "2", "--check", "--no-save", "--loss", "noting:loss")
    process = launch(tmp_path / "plan", network.hosts, log, *options, tools=plan.parent)
    assert process.wait(PATIENCE) == 0, log.read_text()
    found = [json.loads((tmp_path / f"rank{rank}").read_text())[0]["addr_info"] for rank in range(6)]
    addresses = [next(each["local"] for each in info if each["family"] == "inet") for info in found]
    assert addresses == [network.hosts[nodes.index(device["node"])] for device in planned]
    assert "takes another device" not in log.read_text()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_the_end_of_the_launcher_ends_the_ranks_of_all_hosts(
    network: Network, plan: Path, tmp_path: Path, name: str
) -> None:
    mark, log = str(uuid.uuid4()), tmp_path / "log"
    process = launch(plan, network.hosts, log, "--steps", "1000000", "--no-save", mark=mark)
    try:
        wait_for(lambda: b"step 2 " in log.read_bytes(), PATIENCE, "no step was trained")
        begin = time.monotonic()
        process.send_signal(getattr(signal, name))
        wait_for(lambda: not marked(f"MARK={mark}"), GONE_WITHIN, f"left: {log.read_text()}")
        assert process.wait(5) != 0
        print(f"{name}: gone after {time.monotonic() - begin:.1f} s")
    finally:
        for left in marked(f"MARK={mark}"):
            os.kill(left, signal.SIGKILL)
        process.wait()


def test_a_dead_host_is_named_and_no_rank_is_left(network: Network, plan: Path, tmp_path: Path) -> None:
    """The ranks of the host itself end, too: they cannot reach rank 0."""
    mark, log = str(uuid.uuid4()), tmp_path / "log"
    process = launch(plan, network.hosts, log, "--steps", "1000000", "--no-save", mark=mark)
    try:
        wait_for(lambda: b"step 2 " in log.read_bytes(), PATIENCE, "no step was trained")
        network.cut(3)
        begin = time.monotonic()
        wait_for(lambda: not marked(f"MARK={mark}"), GONE_WITHIN, f"left: {log.read_text()}")
        assert process.wait(5) == 1
        assert "rank 2 on 10.78.0.3 is lost" in log.read_text()
        assert "internal error" not in log.read_text()
        print(f"gone after {time.monotonic() - begin:.1f} s")
    finally:
        network.join(3)
        for left in marked(f"MARK={mark}"):
            os.kill(left, signal.SIGKILL)
        process.wait()


def test_an_unreachable_host_is_named(network: Network, plan: Path, tmp_path: Path) -> None:
    """The second host is started by hand, the first one is dead."""
    log = tmp_path / "log"
    network.cut(1)
    try:
        begin = time.monotonic()
        command = f"exec {plan}/launch.sh --hosts {','.join(network.hosts)} --node-rank 1 --no-save"
        run = subprocess.run(
            ["ip", "netns", "exec", f"{network.prefix}2", "sh", "-c", command], capture_output=True, text=True,
            env={**os.environ, "HETERPLAN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}, timeout=60,
        )  # fmt: skip
        took = time.monotonic() - begin
    finally:
        network.join(1)
    assert run.returncode == 1
    assert "host 10.78.0.1, on which rank 0 runs, cannot be reached at port 29400" in run.stderr, run.stderr
    assert "Traceback" not in run.stderr
    print(f"{took:.1f} s")
