"""Connection to a head without an event loop: for a program that asks a few questions and ends."""

from __future__ import annotations

import select
import socket
import time
from math import inf
from typing import Any, TypeVar, cast

from grainlike.errors import AuthenticationError, HeadLostError
from grainlike.net._access import Access
from grainlike.net._steps import Elapsed, HostLookup, Readable, Step, Steps, Writable, connecting, naming, one_of, ways
from grainlike.net._tls import TlsSession
from grainlike.wire import LOST_S, TRUSTED, Frame, FrameDecoder, Message, encode_frame

__all__ = ["BlockingConnection", "dial_blocking"]

T = TypeVar("T")

_READ_SIZE = 64 * 1024


class BlockingConnection:
    """Frames over a connected socket, which it owns; each call waits until it is done.

    Example::

        with closing(dial_blocking(find_access(role="client"))) as connection:
            connection.post(hello)
            [welcome] = connection.receive()
    """

    def __init__(self, sock: socket.socket, peer: str, tls: TlsSession | None) -> None:
        self.peer: str = peer
        self._sock = sock
        self._tls = tls
        self._decoder = FrameDecoder(TRUSTED)
        self._plain = memoryview(bytearray(_READ_SIZE))

    def post(self, message: Message) -> None:
        """Send a message. Raises `HeadLostError` when the peer is gone."""
        data = b"".join(encode_frame(message))
        self._sock.settimeout(LOST_S)
        try:
            self._sock.sendall(data if self._tls is None else self._tls.seal(data))
        except OSError as error:
            raise self._gone(f"connection lost: {error}") from None

    def receive(self, within_s: float = LOST_S) -> list[Frame]:
        """Wait for one read of the socket, for at most so many seconds; return the frames that it completes.

        Raises:
            HeadLostError: the peer has closed the connection, or sends nothing for so long.
            ProtocolError: what came is no frame.
            AuthenticationError: the peer has refused our certificate, which TLS 1.3 reports only now.
        """
        self._sock.settimeout(within_s)
        try:
            data = self._sock.recv(_READ_SIZE)
        except TimeoutError:
            raise self._gone(f"silent for {within_s:g} s") from None
        except OSError as error:
            raise self._gone(f"connection lost: {error}") from None
        if not data:
            raise self._gone("closed by the peer")
        if self._tls is None:
            return self._decoder.feed(data)
        frames: list[Frame] = []
        self._tls.take(data)
        while count := self._tls.read(self._plain):
            frames += self._decoder.feed(self._plain[:count])
        if self._tls.ended and not frames:
            raise self._gone("closed by the peer")
        return frames

    def wait(self, seconds: float) -> bool:
        """Wait until something comes, for at most so many seconds; return True if something has."""
        return _wait(self._sock, select.POLLIN, time.monotonic() + seconds)

    def _gone(self, reason: str) -> HeadLostError:
        return HeadLostError(f"the head at {self.peer} is gone: {reason}")

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


def dial_blocking(
    access: Access, *, insecure: bool = False, timeout: float = 10.0, within: float = inf
) -> BlockingConnection:
    """Connect to the head that `access` is for, as `dial` does, and wait until that is done: for at most `timeout`
    seconds at each address, and `within` seconds at all of them. The lookup of a host's name has limits of its own.

    Raises as `dial`.
    """
    failures: list[OSError] = []
    end = time.monotonic() + within
    for address, tls in ways(access, insecure=insecure):
        try:
            with naming(address, min(timeout, within)):
                sock, session = _follow(connecting(address, tls), min(time.monotonic() + timeout, end))
        except (AuthenticationError, ConnectionError) as error:
            failures.append(error)
        else:
            return BlockingConnection(sock, str(address), session)
    raise one_of(failures)


def _follow(steps: Steps[T], until: float) -> T:
    """Follow the steps; raise `TimeoutError` at `until`."""
    try:
        step = next(steps)
        while True:
            try:
                answer = _done(step, until)
            except socket.gaierror as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        return cast("T", end.value)
    finally:
        steps.close()


def _done(step: Step, until: float) -> Any:
    match step:
        case Readable(sock, earlier):
            _wait(sock, select.POLLIN, until if earlier is None else min(until, earlier))
        case Writable(sock):
            _wait(sock, select.POLLOUT, until)
        case Elapsed(seconds):
            time.sleep(min(seconds, max(0.0, until - time.monotonic())))
        case HostLookup(host, port):
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if time.monotonic() >= until:
        raise TimeoutError
    return None


def _wait(sock: socket.socket, event: int, until: float) -> bool:
    poll = select.poll()
    poll.register(sock, event)
    return bool(poll.poll(max(0.0, until - time.monotonic()) * 1000))
