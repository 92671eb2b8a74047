"""Replicas that are got from other data servers: over a few connections to each, one after another."""

from __future__ import annotations

import ssl
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from grainlike.errors import GrainlikeError, ProtocolError
from grainlike.net import TcpAddress, parse_address
from grainlike.payload import is_on_disk, replica_path
from grainlike.wire import (
    Busy,
    Gone,
    Here,
    Pulled,
    PullInto,
    PullReplica,
    Received,
    Unsent,
    Want,
    encode_data,
    read_data,
)
from grainlike_worker.data._part_files import PartFile
from grainlike_worker.data._reading import PART_BYTES, read_exactly
from grainlike_worker.data._tls import DataTls

__all__ = ["Puller"]

MOST_CONNECTIONS = 4
"""Connections to one data server at most: so a small replica need not wait for a large one."""

IDLE_S = 10.0
"""Seconds for which a connection is kept of which nothing is wanted; less than the other end keeps it."""

BUSY_S = 0.2
"""Seconds after which a server that is busy is asked again."""


class Puller:
    """Gets the replicas of `directory` into rooms that are allocated for them. What comes of each pull goes to `post`,
    from whatever thread: `Received` or `Unsent`. A source that sends nothing for `patience_s` is unreachable.

    Example::

        puller = Puller(tls, directory, print, patience_s=10.0)
        puller.pull(PullInto(PullReplica(1, 7, 1, size, 0, "tcp://n2:7777", name), room))
        puller.progress()                                   # Pulled([1], [65536]), or None
    """

    def __init__(
        self, tls: DataTls, directory: Path, post: Callable[[Received | Unsent], object], patience_s: float
    ) -> None:
        self._tls = tls
        self._directory = directory
        self._post = post
        self._patience_s = patience_s
        self._sources: dict[str, _Source] = {}
        self._pulls: dict[int, _Pull] = {}
        self._lock = threading.Lock()
        """Held while a pull is begun, stopped or finished."""

    def pull(self, into: PullInto) -> None:
        """Begin a pull. It takes the place of one of the same number."""
        order = into.order
        self.stop(order.transfer)
        pull = _Pull(order, Path(into.room))
        with self._lock:
            self._pulls[order.transfer] = pull
        source = self._sources.setdefault(order.address, _Source())
        with source.more:
            source.waiting.append(pull)
            source.more.notify()
            if source.idle >= len(source.waiting) or source.threads >= MOST_CONNECTIONS:
                return
            source.threads += 1
        try:
            threading.Thread(target=self._serve_source, args=(source, order.address), daemon=True).start()
        except RuntimeError:  # no thread to be had: another takes it, or there is none
            with source.more:
                source.threads -= 1
                taken = source.threads > 0 or pull not in source.waiting
                if not taken:
                    source.waiting.remove(pull)
            if not taken:
                self._end(pull, Unsent(order.transfer, "this machine has no thread for it"))

    def stop(self, transfer: int) -> None:
        """End a pull, of which nothing is said any more. What has come of it stays, for another to go on with."""
        with self._lock:
            pull = self._pulls.pop(transfer, None)
            if pull is not None:
                pull.stopped = True
                if pull.connection is not None:
                    with suppress(OSError):
                        pull.connection.shutdown(2)

    def progress(self) -> Pulled | None:
        """Return how far the pulls are that have come on since the last call; None if there are none."""
        with self._lock:
            moved = [pull for pull in self._pulls.values() if pull.at > pull.told]
        for pull in moved:
            pull.told = pull.at
        return Pulled([pull.order.transfer for pull in moved], [pull.told for pull in moved]) if moved else None

    @property
    def busy(self) -> bool:
        """True while there are pulls."""
        return bool(self._pulls)

    # --- in the thread of a connection -------------------------------------------------------------------------------

    def _serve_source(self, source: _Source, address: str) -> None:
        connection: ssl.SSLSocket | None = None
        try:
            while (pull := source.next()) is not None:
                connection = self._perform(pull, source, address, connection)
        finally:
            if connection is not None:
                connection.close()

    def _perform(
        self, pull: _Pull, source: _Source, address: str, connection: ssl.SSLSocket | None
    ) -> ssl.SSLSocket | None:
        """Do all that a pull takes; return the connection if it can serve another."""
        order = pull.order
        try:
            part = PartFile(pull.room, self._file(order), order.size, order.at)
        except OSError as error:
            self._end(pull, Unsent(order.transfer, f"it cannot be written: {error.strerror or error}"))
            return connection
        pull.at = part.at
        try:
            return self._receive(pull, part, address, connection)
        except _UnwritableError as error:
            self._end(pull, Unsent(order.transfer, f"it cannot be written: {error.__cause__}"))
        except (OSError, ValueError) as error:
            self._unreachable(
                pull, source, part.at, f"{address} cannot be reached: {str(error) or type(error).__name__}"
            )
        except GrainlikeError as error:
            self._unreachable(pull, source, part.at, f"{address}: {error}")
        finally:
            part.close()
        return None

    def _receive(
        self, pull: _Pull, part: PartFile, address: str, connection: ssl.SSLSocket | None
    ) -> ssl.SSLSocket | None:
        """Get what is missing of a replica; return the connection if it can serve another. One that breaks is made anew
        as long as that brings bytes.

        Raises:
            OSError, ProtocolError: nothing came for too long, or what came was none of a data server's.
        """
        used = connection is not None
        try:
            while not pull.stopped:
                before = part.at
                try:
                    connection = connection or self._dial(address)
                    if self._hold(pull, connection):
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

    def _hold(self, pull: _Pull, connection: ssl.SSLSocket) -> bool:
        """Let `stop` cut the connection from now on; return False if it was called before."""
        with self._lock:
            pull.connection = None if pull.stopped else connection
            return not pull.stopped

    def _get(self, pull: _Pull, part: PartFile, connection: ssl.SSLSocket) -> None:
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

    def _take(self, pull: _Pull, part: PartFile, connection: ssl.SSLSocket) -> None:
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
            raise _UnwritableError from error
        self._end(pull, Received(pull.order.transfer, crc))

    def _file(self, order: PullReplica) -> Path:
        return replica_path(self._directory, order.value, order.attempt)

    def _write(self, part: PartFile, data: memoryview) -> None:
        try:
            part.write(data)
        except OSError as error:
            raise _UnwritableError from error

    def _unreachable(self, pull: _Pull, source: _Source, at: int, why: str) -> None:
        """End a pull whose source did not answer, and those that wait for it: it would hold up each as long."""
        if pull.stopped:
            return  # cut by the stop itself
        self._end(pull, Unsent(pull.order.transfer, why, at=at, unreachable=True))
        for other in source.take_all():
            self._end(other, Unsent(other.order.transfer, why, at=other.order.at, unreachable=True))

    def _end(self, pull: _Pull, message: Unsent | Received) -> None:
        with self._lock:
            if self._pulls.get(pull.order.transfer) is not pull:
                return  # it was stopped
            del self._pulls[pull.order.transfer]
        self._post(message)


class _UnwritableError(Exception):
    """A file here cannot be written; its cause says why."""


class _Pull:
    """Replica that is to be got, and how far it has come."""

    def __init__(self, order: PullReplica, room: Path) -> None:
        self.order = order
        self.room = room
        self.at = self.told = order.at
        self.stopped = False
        self.wake = threading.Event()
        self.connection: ssl.SSLSocket | None = None


class _Source:
    """Pulls that wait for one data server, and the threads that perform them."""

    def __init__(self) -> None:
        self.more = threading.Condition()
        self.waiting: deque[_Pull] = deque()
        self.threads = self.idle = 0
        """Threads, each with a connection; and those of them that wait for a pull."""

    def next(self) -> _Pull | None:
        """Return the next pull, for a thread that has done one; None when it is to end."""
        with self.more:
            self.idle += 1
            came = self.more.wait_for(lambda: self.waiting, IDLE_S)
            self.idle -= 1
            if not came:
                self.threads -= 1
                return None
            return self.waiting.popleft()

    def take_all(self) -> list[_Pull]:
        """Return the pulls that wait, and have none wait any more."""
        with self.more:
            waiting = list(self.waiting)
            self.waiting.clear()
            return waiting
