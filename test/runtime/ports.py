"""Ports that a test may listen at a moment later."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Below the ports that the system gives to sockets which name none: other tests, which run at the same
    time, would else get one of them before it is used."""
    draw, ports = random.SystemRandom(), list[int]()
    with ExitStack() as held:
        while len(ports) < count:
            port = draw.randrange(15000, 32000)
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            ports.append(port)
    return ports
