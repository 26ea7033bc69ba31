"""How the ranks of a training, or of a measurement, find each other."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from datetime import timedelta

import torch.distributed as dist

from .device_classes import CPU

SIOCGIFADDR = 0x8915  # asks Linux for the IPv4 address of an interface


def join(timeout: timedelta) -> None:
    """The ranks meet. torchrun may start them again with the store of the time before, in which the
    addresses of processes that are gone still are: each start has names of its own."""
    if interface := interface_towards(os.environ.get("MASTER_ADDR", "")):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    store, rank, world_size = next(dist.rendezvous("env://", timeout=timeout))
    store.set_timeout(timeout)
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    dist.init_process_group(
        CPU.backend, store=dist.PrefixStore(f"start {start}", store), rank=rank,
        world_size=world_size, timeout=timeout,
    )  # fmt: skip


def interface_towards(host: str) -> str | None:
    """The interface by which `host` is reached; on `host` itself that with its address. Without this gloo
    takes the address that the machine's own name has, which on many systems is one of loopback. None: it
    cannot be told, or it is loopback."""
    try:
        address = socket.gethostbyname(host)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # a datagram socket sends nothing by this
            own = probe.getsockname()[0]
            if own.startswith("127."):
                return None
            for _, name in socket.if_nameindex():
                if _address_of(name, probe) == own:
                    return name
    except OSError:
        pass
    return None


def _address_of(interface: str, any_socket: socket.socket) -> str | None:
    request = struct.pack("256s", interface.encode()[:15])
    try:
        answer = fcntl.ioctl(any_socket.fileno(), SIOCGIFADDR, request)
    except OSError:
        return None  # it has no IPv4 address
    return socket.inet_ntoa(answer[20:24])
