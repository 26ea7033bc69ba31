"""A switch between network namespaces that delays each frame: `slow_switch.py SECONDS NAMESPACE...`.

Each namespace gets a network device `wire`. The delay of tc (netem) is a module that many kernels lack."""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
NEW_NETWORK = 0x40000000
BROADCAST = 1  # bit of the first byte of an address


def _open(namespace: str) -> int:
    """The other end of a device in `namespace`."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/var/run/netns/{namespace}", os.O_RDONLY)
    setns = ctypes.CDLL(None, use_errno=True).setns
    try:
        if setns(there, NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "setns")
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", b"wire", IFF_TAP | IFF_NO_PI))
        return device
    finally:
        setns(home, NEW_NETWORK)
        os.close(home)
        os.close(there)


def main(delay: float, namespaces: list[str]) -> None:
    ports = [_open(name) for name in namespaces]
    print("ready", flush=True)
    places: dict[bytes, int] = {}
    waiting: deque[tuple[float, int, bytes]] = deque()  # when, from which port, frame
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for port in select.select(ports, [], [], left)[0]:
            try:
                while True:
                    frame = os.read(port, 1 << 16)
                    places[frame[6:12]] = port
                    waiting.append((time.monotonic() + delay, port, frame))
            except OSError:
                pass  # no more, or the device is down
        while waiting and waiting[0][0] <= time.monotonic():
            _, source, frame = waiting.popleft()
            known = None if frame[0] & BROADCAST else places.get(frame[:6])
            for port in ports if known is None else [known]:
                if port != source:
                    try:
                        os.write(port, frame)
                    except OSError:
                        pass  # the device is down, or full: the frame is lost


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
