"""How the ranks of a training, or of a measurement, find each other."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import struct
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from .device_classes import CPU, DEVICE_CLASSES, cpu_name, local_rank
from .errors import LaunchFault, RuntimeFault
from .host_match import Process, planned_ranks
from .launched import check_environment, host_counts, host_name
from .program import read_planned_device

SIOCGIFADDR = 0x8915  # asks Linux for the IPv4 address of an interface
UNREACHABLE = 8.0  # seconds without an answer of a host, after which it counts as unreachable
REFUSED = (errno.ECONNREFUSED, errno.ECONNRESET)  # the host answers: nobody listens yet


def join(timeout: timedelta, store: dist.Store | None = None) -> None:
    """Makes the process group, over the store of meet() if there is one."""
    if interface := interface_towards(os.environ.get("MASTER_ADDR", "")):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    dist.init_process_group(
        CPU.backend, store=meet(timeout) if store is None else store, rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]), timeout=timeout,
    )  # fmt: skip


def meet(timeout: timedelta, directory: Path | None = None, node: str = "") -> dist.Store:
    """Waits for all started processes and returns their common store. If a plan is given, RANK becomes the
    rank of the plan for the host: launchers number hosts in orders of their own. `node`: the planned node that
    this host is, if the user has named it."""
    check_environment()
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = _connect(rank, world_size, timeout)
    process = _process(node)
    store.set(f"process {rank}", json.dumps(process.__dict__))
    if rank == 0:
        store.set("ranks", json.dumps(_settle(store, world_size, timeout, directory)))
    answer = json.loads(_value(store, "ranks", timeout + timedelta(seconds=UNREACHABLE), "rank 0 has not answered"))
    _await_readers(store, rank, world_size)
    if "fault" in answer:
        raise LaunchFault(answer["fault"])
    os.environ["RANK"] = str(answer["ranks"][rank])
    return dist.PrefixStore("training", store)


def _await_readers(store: dist.Store, rank: int, world_size: int) -> None:
    """Rank 0 may end, and the store with it, when all have read its answer."""
    readers = store.add("readers", 1)
    end = time.monotonic() + UNREACHABLE / 2
    while rank == 0 and readers < world_size and time.monotonic() < end:
        time.sleep(0.02)
        readers = store.add("readers", 0)


def _process(node: str) -> Process:
    gpus = [name for each in DEVICE_CLASSES if each is not CPU for name in each.names()]
    types = os.environ.get("HETERPLAN_DEVICE_TYPES", "")
    key = next((os.environ[name] for name in ("HETERPLAN_HOST_INDEX", "GROUP_RANK") if name in os.environ), "")
    return Process(
        host_name(), key, local_rank(), node or os.environ.get("HETERPLAN_NODE", ""),
        tuple(each for each in types.split(",") if each), tuple(gpus), cpu_name(),
    )  # fmt: skip


def _settle(store: dist.Store, world_size: int, timeout: timedelta, directory: Path | None) -> dict[str, Any]:
    """The rank of each process, or what is wrong with the launch."""
    try:
        processes = _all_processes(store, world_size, timeout)
        if directory is None:
            return {"ranks": list(range(world_size))}
        devices = [read_planned_device(directory, rank) for rank in range(world_size)]
        return {"ranks": planned_ranks(processes, devices)}
    except RuntimeFault as fault:
        return {"fault": str(fault)}


def _all_processes(store: dist.Store, world_size: int, timeout: timedelta) -> list[Process]:
    end = time.monotonic() + timeout.total_seconds()
    found: list[Process] = []
    missing: list[int] = []
    for rank in range(world_size):
        left = timedelta(seconds=max(0.01, end - time.monotonic()))
        try:
            store.wait([f"process {rank}"], left)
        except (dist.DistStoreError, RuntimeError):
            missing.append(rank)
            continue
        fields = json.loads(store.get(f"process {rank}"))
        found.append(Process(**{key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()}))
    if missing:
        hosts = sorted({host for rank in missing if (host := _host_of(rank))})
        where = f" (host {', '.join(hosts)})" if hosts else ""
        noun = "rank" if len(missing) == 1 else "ranks"
        raise LaunchFault(
            f"{noun} {', '.join(map(str, missing))}{where} did not join within {timeout.total_seconds():.0f} s "
            "(--timeout)"
        )
    return found


def _host_of(rank: int) -> str:
    """The host on which launch.sh starts a rank; "" if nobody says."""
    first = 0
    for host, count in host_counts(os.environ.get("HETERPLAN_HOSTS", "")):
        if rank < first + count:
            return host
        first += count
    return ""


def _value(store: dist.Store, key: str, timeout: timedelta, fault: str) -> bytes:
    try:
        store.wait([key], timeout)
        return bytes(store.get(key))
    except (dist.DistStoreError, RuntimeError) as error:
        raise LaunchFault(f"{fault} at {os.environ['MASTER_ADDR']} within {timeout.total_seconds():.0f} s") from error


def _connect(rank: int, world_size: int, timeout: timedelta) -> dist.Store:
    """The store of rank 0, or of the agent of torchrun. After a restart, addresses of the processes before are
    still in the agent's store: each start has keys of its own."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    listener = os.environ.pop("HETERPLAN_LISTENER", None)  # of rank 0, made by its launcher
    try:
        if serves and listener is None:
            check_port(port)
        elif not serves:
            await_server(host, port, timeout.total_seconds())
        store = dist.TCPStore(
            host, port, world_size, serves, timeout, wait_for_workers=False,
            master_listen_fd=None if listener is None else int(listener),
        )  # fmt: skip
    except (dist.DistNetworkError, dist.DistStoreError) as error:
        raise LaunchFault(f"rank 0 at {host}, port {port}, cannot be reached: {str(error).splitlines()[0]}") from error
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"start {start}", store)


def check_port(port: int) -> None:
    """Raises RuntimeFault if another process of this host listens at the port of rank 0."""
    try:
        listen(port).close()
    except OSError as error:
        raise LaunchFault(
            f"port {port} of {host_name()}, at which the ranks meet, cannot be used: {os.strerror(error.errno or 0)}; "
            "choose another (launch.sh --port, MASTER_PORT)"
        ) from error


def listen(port: int, address: str = "") -> socket.socket:
    """A socket that ranks connect to; of any address if none is given."""
    if not address and socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=2048)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
    return socket.create_server((address, port), backlog=2048)


def await_server(host: str, port: int, seconds: float) -> None:
    """Waits until rank 0 listens. Raises RuntimeFault after `seconds`, and after UNREACHABLE seconds if the
    host does not answer at all."""
    begin = time.monotonic()
    while True:
        try:
            socket.create_connection((host, port), timeout=UNREACHABLE / 2).close()
            return
        except OSError as error:
            waited = time.monotonic() - begin
            answers = error.errno in REFUSED
            if waited >= (seconds if answers else min(seconds, UNREACHABLE)):
                why = "nobody listens" if answers else (error.strerror or str(error) or "no answer")
                raise LaunchFault(
                    f"host {host}, on which rank 0 runs, cannot be reached at port {port}: {why} (waited {waited:.0f} s)"
                ) from error
            time.sleep(0.2)


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


def own_address() -> str:
    """The address of this host for the other ranks, of which all reach the host of MASTER_ADDR."""
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE"):
        return "127.0.0.1"
    meeting_place = os.environ.get("MASTER_ADDR", "127.0.0.1")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((socket.gethostbyname(meeting_place), 9))
            own = str(probe.getsockname()[0])
    except OSError:
        return meeting_place
    return meeting_place if own.startswith("127.") else own


def _address_of(interface: str, any_socket: socket.socket) -> str | None:
    request = struct.pack("256s", interface.encode()[:15])
    try:
        answer = fcntl.ioctl(any_socket.fileno(), SIOCGIFADDR, request)
    except OSError:
        return None  # it has no IPv4 address
    return socket.inet_ntoa(answer[20:24])
