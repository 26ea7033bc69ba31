"""By which interface the ranks meet."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from datetime import timedelta

import pytest
from heterplan_runtime import meeting
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.meeting import await_server, interface_towards, meet
from packages import RUNTIME


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "", "no.such.host.invalid"])
def test_gloo_chooses_where_nothing_is_reached_from_elsewhere(host: str) -> None:
    assert interface_towards(host) is None


LOOKUP = "import sys; from heterplan_runtime.meeting import interface_towards as f; print(*map(f, sys.argv[1:]))"


def test_the_interface_of_the_way_to_the_host() -> None:
    """Two interfaces with networks of their own, in a namespace: that of the host's network is taken, on the
    host itself too, whatever name the machine has."""
    commands = [command for i in (0, 1) for command in (
        f"ip link add hp{i} type veth peer name peer{i}",
        f"ip addr add 10.8{i}.0.1/24 dev hp{i}", f"ip link set hp{i} up", f"ip link set peer{i} up",
    )]  # fmt: skip
    commands.append(f"{sys.executable} -c '{LOOKUP}' 10.80.0.1 10.80.0.9 10.81.0.9")
    done = subprocess.run(
        ["unshare", "-rn", "/bin/sh", "-ec", "\n".join(commands)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(RUNTIME)},
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no network namespaces here: {done.stderr}")
    assert done.stdout.split() == ["hp0", "hp0", "hp1"], done.stderr


def rank_of_two(monkeypatch: pytest.MonkeyPatch, rank: int, port: int, address: str = "127.0.0.1") -> None:
    for name, text in (("RANK", rank), ("WORLD_SIZE", 2), ("MASTER_ADDR", address), ("MASTER_PORT", port),
                       ("HETERPLAN_HOSTS", "alpha=1,beta=1")):  # fmt: skip
        monkeypatch.setenv(name, str(text))
    monkeypatch.delenv("HETERPLAN_LISTENER", raising=False)


def test_ranks_that_do_not_come_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    rank_of_two(monkeypatch, 0, port)
    monkeypatch.setattr(meeting, "UNREACHABLE", 0.2)
    with pytest.raises(RuntimeFault, match=r"rank 1 \(host beta\) did not join within 1 s \(--timeout\)"):
        meet(timedelta(seconds=1))


def test_a_port_in_use_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        rank_of_two(monkeypatch, 0, used.getsockname()[1])
        with pytest.raises(RuntimeFault, match=f"port {used.getsockname()[1]} of .* Address already in use; choose"):
            meet(timedelta(seconds=300))


def test_an_unreachable_host_is_named_before_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "UNREACHABLE", 0.4)
    with pytest.raises(RuntimeFault, match="host no.such.host.invalid, on which rank 0 runs, cannot be reached"):
        await_server("no.such.host.invalid", 29400, 300)


def test_a_host_that_answers_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "UNREACHABLE", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(RuntimeFault, match=r"nobody listens \(waited 1 s\)"):
        await_server("127.0.0.1", port, 1)
