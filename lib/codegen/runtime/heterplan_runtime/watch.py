"""Notices that a rank is gone.

Each rank holds a connection to rank 0 and says by it what it is doing. A process that ends, however,
closes its connection, and the keep-alive of TCP ends that of a host that is gone, so that a rank that
only takes long is never taken for lost. Rank 0 tells the others, and all end.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from .communication import Communicator
from .launched import host_name
from .meeting import own_address

HEARTBEAT = 0.25  # seconds between words of a rank
GRACE = 2.0  # seconds that a rank has to end by itself when another is gone
NEWS = 0.3  # seconds that a failing rank waits for the loss of another, which may be the reason
HOST_GONE = 8  # seconds without an answer of a host
LONGEST_LINE = 1 << 16


@dataclass
class _Peer:
    """The other end of a connection."""

    rank: int
    host: str
    socket: socket.socket
    unread: bytes = b""
    where: str = "before its first instruction"
    ended: bool = False

    def receive(self) -> list[dict[str, Any]] | None:
        """Messages since the last call; None if the process is gone."""
        try:
            data = self.socket.recv(LONGEST_LINE)
        except OSError:
            return None
        if not data or len(self.unread) > LONGEST_LINE:
            return None
        *lines, self.unread = (self.unread + data).split(b"\n")
        try:
            messages = [json.loads(line) for line in lines]
        except ValueError:
            return None
        return messages if all(isinstance(message, dict) for message in messages) else None

    def send(self, **message: Any) -> bool:
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return False
        return True


@dataclass
class _State:
    cause: str = ""  # why this rank is to end: the loss or the failure of another
    since: float = 0.0  # of the cause
    known: threading.Event = field(default_factory=threading.Event)
    closing: bool = False


class Watch:
    """Made by all ranks together; `position` says what this rank is doing. Ends the process with status 1
    when another rank is gone."""

    def __init__(self, communicator: Communicator, position: Callable[[], str]) -> None:
        self._rank, self._position = communicator.rank, position
        self._state = _State()
        self._peers: list[_Peer] = []
        self._thread: threading.Thread | None = None
        self._wakes, self._wake = socket.socketpair()  # the thread, when this side is closed
        self.unwatched: list[int] = []  # ranks that cannot reach rank 0
        if communicator.world_size > 1:
            self._connect(communicator)
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _connect(self, communicator: Communicator) -> None:
        server, token = None, secrets.token_hex(16)
        if self._rank == 0:
            server = _listen(communicator.world_size)
        port = server.getsockname()[1] if server is not None else 0
        place = own_address()
        place, port, token = communicator.wait_for_rank0((place, port, token))
        reached = True
        if server is None:
            reached = self._reach(place, port, token)
        told = communicator.gather(reached)
        self.unwatched = [rank for rank, each in enumerate(told) if not each]
        if server is not None:
            self._accept(server, token, sum(told) - 1)

    def _reach(self, place: str, port: int, token: str) -> bool:
        try:
            connection = socket.create_connection((place, port), timeout=10)
            connection.settimeout(None)
        except OSError:
            return False
        _keep_alive(connection)
        peer = _Peer(0, place, connection)
        self._peers.append(peer)
        return peer.send(token=token, rank=self._rank, host=host_name())

    def _accept(self, server: socket.socket, token: str, count: int) -> None:
        """Connections that do not know the token are closed."""
        server.settimeout(10)
        try:
            while len(self._peers) < count:
                connection, _ = server.accept()
                peer = _greeted(connection, token)
                if peer is not None:
                    self._peers.append(peer)
        except OSError:
            seen = {peer.rank for peer in self._peers}
            self.unwatched = [rank for rank in range(1, count + 1) if rank not in seen]
        server.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for peer in self._peers:
                selector.register(peer.socket, selectors.EVENT_READ, peer)
            selector.register(self._wakes, selectors.EVENT_READ)
            said, spoken = 0.0, ""
            while not self._state.closing:
                now = time.monotonic()
                if self._rank and now - said >= HEARTBEAT:
                    said, where = now, self._position()
                    if where != spoken:
                        spoken = where
                        self._peers[0].send(at=where)
                for key, _ in selector.select(HEARTBEAT):
                    if key.data is not None and not self._hear(key.data):
                        selector.unregister(key.fileobj)

    def _hear(self, peer: _Peer) -> bool:
        """Returns whether the peer is still there."""
        messages = peer.receive()
        for message in messages or ():
            if "at" in message:
                peer.where = str(message["at"])
            elif "failed" in message:
                peer.ended = True
                self._end(f"rank {peer.rank} has failed", loud=False)
            elif "stop" in message:
                peer.ended = True
                self._end(str(message["stop"]), loud=False)
            elif "end" in message:
                peer.ended = True
        if messages is None and not peer.ended and not self._state.closing:
            last = f"; last heard of at {peer.where}" if self._rank == 0 else ""
            cause = (
                f"rank {peer.rank} on {peer.host} is lost: its process or its host is gone, which "
                f"has not said why (a kill? no memory left?){last}"
            )
            self._end(cause, loud=self._rank == 0 or self._rank == 1)
        return messages is not None and not peer.ended

    def _end(self, cause: str, loud: bool) -> None:
        """Ends this rank, after a grace in which it may say what it fails by. A loss is told also when
        the failures that follow from it were faster; not the ends that follow later."""
        first, now = not self._state.cause, time.monotonic()
        if loud and (first or now - self._state.since < 0.8 * NEWS):
            print(f"heterplan: {cause}; all ranks stop", file=sys.stderr, flush=True)
        if not first:
            return
        self._state.cause, self._state.since = cause, now
        if self._rank == 0:
            for peer in self._peers:
                peer.send(stop=cause)
        self._state.known.set()
        threading.Thread(target=self._leave_later, daemon=True).start()

    def _leave_later(self) -> NoReturn:
        time.sleep(GRACE)
        for peer in self._peers:
            peer.send(end=True)
        os._exit(1)

    def failed(self) -> bool:
        """Before this rank ends with an error of its own: the others end too. Returns whether the loss of
        another rank, which may be the reason, has been said."""
        for peer in self._peers:
            if self._rank == 0:
                peer.send(stop="rank 0 has failed")
            else:
                peer.send(failed=True)
        if self._peers:
            self._state.known.wait(NEWS)
        return bool(self._state.cause)

    def close(self) -> None:
        """At an orderly end."""
        self._state.closing = True
        for peer in self._peers:
            peer.send(end=True)
        self._wake.close()
        if self._thread is not None:
            self._thread.join()


def _local() -> bool:
    return os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")


def _listen(world_size: int) -> socket.socket:
    """On this machine alone where all ranks are here."""
    if _local():
        return socket.create_server(("127.0.0.1", 0), backlog=world_size)
    if socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=world_size
        )
    return socket.create_server(("", 0), backlog=world_size)


def _greeted(connection: socket.socket, token: str) -> _Peer | None:
    connection.settimeout(5)
    peer = _Peer(-1, "", connection)
    data = b""
    try:
        while not data.endswith(b"\n") and len(data) < LONGEST_LINE:
            if not (more := connection.recv(1)):
                break
            data += more
        greeting = json.loads(data)
        if not secrets.compare_digest(str(greeting["token"]), token):
            raise ValueError
        peer.rank, peer.host = int(greeting["rank"]), str(greeting["host"])
    except (OSError, ValueError, KeyError, TypeError):
        connection.close()
        return None
    connection.settimeout(None)
    _keep_alive(connection)
    return peer


def _keep_alive(connection: socket.socket) -> None:
    """The kernel of a host that is there answers, whatever its processes do."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", HOST_GONE // 2 - 1),
        ("TCP_USER_TIMEOUT", HOST_GONE * 1000), ("TCP_NODELAY", 1),
    ):  # fmt: skip
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
