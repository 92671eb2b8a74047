"""Receipt of one replica over a connection to the data server that has it, into the room that is allocated for it."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from grainlike.errors import ProtocolError
from grainlike.net import TcpAddress, parse_address
from grainlike.payload import is_on_disk, replica_path
from grainlike.wire import Busy, Gone, Here, PullReplica, Received, Unsent, Want, encode_data, read_data
from grainlike_worker.data._part_files import PartFile
from grainlike_worker.data._reading import PART_BYTES, read_exactly
from grainlike_worker.data._tls import DataTls

__all__ = ["Pull", "Receiver", "UnwritableError"]

BUSY_S = 0.2
"""Seconds after which a server that is busy is asked again."""


class UnwritableError(Exception):
    """A file here cannot be written; its cause says why."""


class Pull:
    """Replica that is to be got, and how far it has come."""

    def __init__(self, order: PullReplica, room: Path) -> None:
        self.order = order
        self.room = room
        self.at = self.told = order.at
        self.stopped = False
        self.wake = threading.Event()
        self.connection: ssl.SSLSocket | None = None
        self._lock = threading.Lock()
        """Held while it gets a connection, or is stopped."""

    def hold(self, connection: ssl.SSLSocket) -> bool:
        """Let `stop` cut a connection from now on; return False if it was called before."""
        with self._lock:
            self.connection = None if self.stopped else connection
            return not self.stopped

    def stop(self) -> None:
        """Have nothing more come of it."""
        with self._lock:
            self.stopped = True
            if self.connection is not None:
                with suppress(OSError):
                    self.connection.shutdown(2)


class Receiver:
    """Gets replicas of `directory`, each in the thread of its connection. `end` takes what came of a pull: `Received`
    or `Unsent`. A source that sends nothing for `patience_s` is given up.

    Example::

        part = receiver.open(pull)
        connection = receiver.receive(pull, part, "tcp://n2:7777", None)    # None, or one that can serve another pull
    """

    def __init__(
        self, tls: DataTls, directory: Path, patience_s: float, end: Callable[[Pull, Received | Unsent], object]
    ) -> None:
        self._tls = tls
        self._directory = directory
        self._patience_s = patience_s
        self._end = end

    def open(self, pull: Pull) -> PartFile:
        """Open the file that a pull fills, where the last one has left off.

        Raises:
            OSError: it cannot be written.
        """
        return PartFile(pull.room, self._file(pull.order), pull.order.size, pull.order.at)

    def receive(
        self, pull: Pull, part: PartFile, address: str, connection: ssl.SSLSocket | None
    ) -> ssl.SSLSocket | None:
        """Get what is missing of a replica; return the connection if it can serve another. One that breaks is made
        again as long as that brings bytes.

        Raises:
            OSError, ProtocolError: nothing came for too long, or what came was none of a data server's.
        """
        used = connection is not None
        try:
            while not pull.stopped:
                before = part.at
                try:
                    connection = connection or self._dial(address)
                    if pull.hold(connection):
                        self._get(pull, part, connection)
                        return connection
                except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
                    if not (used or part.at > before) or pull.stopped:
                        raise
                except TimeoutError:
                    raise TimeoutError(f"no byte came for {self._patience_s:g} s") from None
                if connection is not None:
                    connection.close()
                connection, used = None, False
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        finally:
            pull.connection = None
        return None

    def _dial(self, address: str) -> ssl.SSLSocket:
        parsed = parse_address(address)
        if not isinstance(parsed, TcpAddress):
            raise ProtocolError("a data server is reached by TCP")
        return self._tls.dial(parsed, self._patience_s)

    def _get(self, pull: Pull, part: PartFile, connection: ssl.SSLSocket) -> None:
        order = pull.order
        waited = 0.0
        while True:
            connection.sendall(encode_data(Want(order.name, order.value, order.attempt, part.at)))
            answer = read_data(lambda count: read_exactly(connection, count))
            if not isinstance(answer, Busy):
                break
            if waited >= self._patience_s:
                raise TimeoutError
            waited += BUSY_S
            pull.wake.wait(BUSY_S)
        match answer:
            case Gone():
                self._end(pull, Unsent(order.transfer, "it is not there", gone=True))
            case Here(size=size) if size == order.size:
                self._take(pull, part, connection)
            case Here(size=size):
                self._end(pull, Unsent(order.transfer, f"it has {size} bytes there, of {order.size}", gone=True))
                raise ConnectionAbortedError  # its bytes come
            case _:
                raise ProtocolError(f"{type(answer).__name__} is no answer")

    def _take(self, pull: Pull, part: PartFile, connection: ssl.SSLSocket) -> None:
        room = memoryview(bytearray(min(PART_BYTES, part.size - part.at)))
        while part.at < part.size:
            filled, most = 0, min(room.nbytes, part.size - part.at)
            try:
                while filled < most:
                    count = connection.recv_into(room[filled:most])
                    if not count:
                        raise ConnectionAbortedError("the other data server closed the connection")
                    filled += count
            finally:
                self._write(part, room[:filled])
                pull.at = part.at  # not before it is in the file: another process may go on there
        try:
            crc = part.crc() if is_on_disk(pull.room, self._file(pull.order)) else 0
        except OSError as error:
            raise UnwritableError from error
        self._end(pull, Received(pull.order.transfer, crc))

    def _file(self, order: PullReplica) -> Path:
        return replica_path(self._directory, order.value, order.attempt)

    def _write(self, part: PartFile, data: memoryview) -> None:
        try:
            part.write(data)
        except OSError as error:
            raise UnwritableError from error
