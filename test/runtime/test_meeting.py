"""By which interface the ranks meet."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from heterplan_runtime.meeting import interface_towards
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
