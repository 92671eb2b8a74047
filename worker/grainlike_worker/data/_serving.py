"""Server of replicas for other data servers: one thread for each connection, with bounds on their number and time."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
import time
from contextlib import closing, suppress
from hmac import compare_digest
from pathlib import Path

from grainlike.errors import GrainlikeError, ProtocolError, SerializationError
from grainlike.net import RateLimitedLog
from grainlike.payload import check_replica, open_replica, replica_name, replica_path
from grainlike.wire import Busy, DataMessage, Gone, Here, Want, encode_data, read_data
from grainlike_worker.data._reading import PART_BYTES, read_exactly
from grainlike_worker.data._tls import DataTls

__all__ = ["ReplicaServer"]

logger = logging.getLogger("grainlike.worker")

HANDSHAKE_S = 10.0
"""Seconds within which a peer must authenticate."""

IDLE_S = 60.0
"""Seconds after which a connection is closed if its peer asks for nothing, or reads nothing."""

MOST_PENDING = 256
"""Most connections of peers that have not authenticated; beyond these, the oldest is closed."""

MOST_CONNECTIONS = 256
"""Most connections of peers that have authenticated."""

MOST_WRONG = 16
"""Number of wrong names after which a connection is closed."""

_SHORTAGE_S = 0.1


class ReplicaServer:
    """Server of the replicas in a directory. Their names follow from `key`; `tls` authenticates the peers.

    Example::

        server = ReplicaServer(listener, tls, directory, key)
        threading.Thread(target=server.serve, daemon=True).start()
    """

    def __init__(self, listener: socket.socket, tls: DataTls, directory: Path, key: bytes) -> None:
        listener.setblocking(True)  # not in `serve`, whose thread may begin when it is closed
        self._listener = listener
        self._tls = tls
        self._directory = directory
        self._key = key
        self._lock = threading.Lock()
        self._pending: dict[socket.socket, None] = {}
        """Connections whose peers have not authenticated, the oldest first."""
        self._admitted = 0
        self._complaints = RateLimitedLog(logger)

    def serve(self) -> None:
        """Accept connections until the listening socket is closed."""
        while True:
            try:
                sock, (host, *_) = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:
                    return
                time.sleep(_SHORTAGE_S)  # there are no descriptors or memory left, or the peer is gone
                continue
            self._await_proof(sock)
            try:
                threading.Thread(target=self._attend, args=(sock, host), daemon=True).start()
            except RuntimeError:  # no thread can be started
                self._leave(sock)
                sock.close()

    def _await_proof(self, sock: socket.socket) -> None:
        with self._lock:
            self._pending[sock] = None
            oldest = next(iter(self._pending)) if len(self._pending) > MOST_PENDING else None
            if oldest is not None:
                del self._pending[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # the thread of this connection closes the socket

    def _leave(self, sock: socket.socket) -> None:
        with self._lock:
            self._pending.pop(sock, None)

    def _attend(self, sock: socket.socket, host: str) -> None:
        # `ssl` takes over the descriptor of a socket. It gets a duplicate, so that `sock` can be cut while pending.
        own = sock.dup()
        try:
            with closing(self._tls.accept(own, HANDSHAKE_S)) as peer:
                self._leave(sock)
                sock.close()
                self._serve_peer(peer)
        except (GrainlikeError, OSError) as error:
            self._complaints.say("connection of data from %s ended: %s", host, error)
        except Exception:
            logger.exception("connection of data from %s ended by an error here", host)
        finally:
            own.close()
            self._leave(sock)
            sock.close()

    def _serve_peer(self, peer: ssl.SSLSocket) -> None:
        with self._lock:
            admitted = self._admitted < MOST_CONNECTIONS
            self._admitted += admitted
        if not admitted:
            peer.sendall(encode_data(Busy()))
            return
        try:
            peer.settimeout(IDLE_S)
            wrong = 0
            while wrong < MOST_WRONG and (want := self._next(peer)) is not None:
                wrong += not self._answer(peer, want)
        finally:
            with self._lock:
                self._admitted -= 1

    def _next(self, peer: ssl.SSLSocket) -> Want | None:
        """Return the next request of a peer; None if the peer has closed the connection or asks for nothing."""
        try:
            message: DataMessage = read_data(lambda count: read_exactly(peer, count))
        except (ConnectionError, TimeoutError, ssl.SSLEOFError):
            return None
        if not isinstance(message, Want):
            raise ProtocolError(f"{type(message).__name__} is nothing that is asked of a data server")
        return message

    def _answer(self, peer: ssl.SSLSocket, want: Want) -> bool:
        """Answer a peer; return False if the name in its request is wrong."""
        if not compare_digest(want.name, replica_name(self._key, want.value, want.attempt)):
            peer.sendall(encode_data(Gone()))
            return False
        try:
            fd, crc = open_replica(replica_path(self._directory, want.value, want.attempt))
        except OSError:
            peer.sendall(encode_data(Gone()))
            return True
        try:
            check_replica(fd, crc)
            size = os.fstat(fd).st_size
            if 0 <= want.at <= size:
                peer.sendall(encode_data(Here(size)))
                _send_file(peer, fd, want.at, size)
            else:
                peer.sendall(encode_data(Gone()))
        except SerializationError:  # the replica is on disk, and damaged
            peer.sendall(encode_data(Gone()))
        finally:
            os.close(fd)
        return True


def _send_file(peer: ssl.SSLSocket, fd: int, at: int, size: int) -> None:
    # Read, not mapped: if the disk fails, a read raises an error, while a mapping would kill the process.
    part = memoryview(bytearray(min(PART_BYTES, size - at)))
    while at < size:
        count = os.preadv(fd, [part], at)
        if not count:
            raise OSError(f"a replica ends at byte {at} of {size}")
        peer.sendall(part[:count])
        at += count
