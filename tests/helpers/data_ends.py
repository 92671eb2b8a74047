"""Ends of data servers in this process: a server of files, an end that gets them, scripted peers."""

from __future__ import annotations

import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from limits import LIMIT_S

from grainlike.net import Credentials, TcpAddress, listen_tcp, make_credentials
from grainlike.payload import allocate_replica, replica_name, replica_path, replica_room
from grainlike.wire import Fetched, PullInto, PullReplica, Received, Want, read_data
from grainlike_worker.data._pulling import Puller
from grainlike_worker.data._reading import read_exactly
from grainlike_worker.data._serving import ReplicaServer
from grainlike_worker.data._tls import DataTls

__all__ = ["CREDENTIALS", "KEY", "LIMIT_S", "TLS", "Getter", "named", "scripted", "serving", "want_of"]

CREDENTIALS = make_credentials("c1")
TLS = DataTls("c1", CREDENTIALS["worker"])
KEY = bytes(range(16))


def named(value: int, attempt: int = 1) -> bytes:
    return replica_name(KEY, value, attempt)


@contextmanager
def serving(directory: Path, host: str = "127.0.0.1") -> Iterator[TcpAddress]:
    """Serve the files of a directory."""
    listener = listen_tcp(TcpAddress(host, 0))
    thread = threading.Thread(target=ReplicaServer(listener, TLS, directory, KEY).serve)
    thread.start()
    try:
        yield TcpAddress(host, listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(LIMIT_S)


@contextmanager
def scripted(*peers: Callable[[Any], object], credentials: Credentials | None = None) -> Iterator[TcpAddress]:
    """Give one connection after another to these, as a data server that may do anything."""
    failed: list[BaseException] = []
    tls = TLS if credentials is None else DataTls("c1", credentials)
    with listen_tcp(TcpAddress("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT_S)

        def serve() -> None:
            try:
                for peer in peers:
                    sock = listener.accept()[0]
                    with tls.accept(sock, LIMIT_S) as connection:
                        peer(connection)
            except (ssl.SSLError, ConnectionError):
                pass  # the other end refuses this one
            except BaseException as error:  # noqa: BLE001 - the test's thread raises it
                failed.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield TcpAddress("127.0.0.1", listener.getsockname()[1])
        finally:
            thread.join(LIMIT_S)
    if failed:
        raise failed[0]


def want_of(connection: ssl.SSLSocket) -> Want:
    message = read_data(lambda count: read_exactly(connection, count))
    assert isinstance(message, Want)
    return message


class Getter:
    """An end that gets replicas into a directory, and the daemon of it; `said` is what it says."""

    def __init__(self, directory: Path, patience_s: float = LIMIT_S) -> None:
        self.directory = directory
        self.said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.puller = Puller(TLS, directory, self.said.put, patience_s)
        self._orders: dict[int, PullReplica] = {}

    def room(self, value: int) -> Path:
        return replica_room(self.directory, replica_path(self.directory, value, 1))

    def pull(self, address: object, value: int, size: int, at: int = 0, name: bytes | None = None) -> int:
        number = len(self._orders) + 1
        order = self._orders[number] = PullReplica(number, value, 1, size, at, str(address), name or named(value))
        if not self.room(value).exists():
            allocate_replica(self.room(value), size)
        self.puller.pull(PullInto(order, str(self.room(value))))
        return number

    def answer(self) -> Any:
        said = self.said.get(timeout=LIMIT_S)
        if not isinstance(said, Received):
            return said
        order = self._orders[said.transfer]
        self.room(order.value).rename(replica_path(self.directory, order.value, order.attempt))
        return Fetched(order.transfer, order.value, order.attempt)

    def got(self, value: int) -> bytes:
        return replica_path(self.directory, value, 1).read_bytes()

    def files(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())
