"""Connecting to an address, step by step: what a step waits for is yielded, and the caller that drives the steps waits.

So an event loop and a program without one connect, shake hands and fail in the same way.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from grainlike.errors import AuthenticationError, HeadLostError
from grainlike.net._access import Access
from grainlike.net._address import Address, TcpAddress, UnixAddress
from grainlike.net._guard import check_loopback, check_same_user, keep_watch
from grainlike.net._tls import Tls, TlsSession, client_tls

__all__ = [
    "Elapsed",
    "HostLookup",
    "Readable",
    "Step",
    "Steps",
    "TurnTaken",
    "Writable",
    "connecting",
    "naming",
    "one_of",
    "shaking",
    "ways",
]

_BACKLOG_FULL_WAIT_S = 0.01

_HANDSHAKE_READ = 16 * 1024
"""Most bytes in one read of a handshake, whose messages are small."""

_SHAKE_S = 0.001
"""About the seconds of one step of a handshake: a signature made, and another one checked."""

_GOODBYE_S = 0.5
_GOODBYE_READS = 8
"""Number of reads from a refused peer, within `_GOODBYE_S`, so that it receives the reason."""


class Readable(NamedTuple):
    """A socket has something to read. With `until`, on the clock of `time.monotonic`, that is not waited for longer."""

    sock: socket.socket
    until: float | None = None


class Writable(NamedTuple):
    """A socket takes more."""

    sock: socket.socket


class Elapsed(NamedTuple):
    """So many seconds have passed."""

    seconds: float


class TurnTaken(NamedTuple):
    """Others have had their turn; what follows takes about so many seconds of a core."""

    seconds: float


class HostLookup(NamedTuple):
    """A host's addresses are known: the answer is that of `socket.getaddrinfo`."""

    host: str
    port: int


Step = Readable | Writable | Elapsed | TurnTaken | HostLookup
T = TypeVar("T")
Steps = Generator[Step, Any, T]


def connecting(address: Address, tls: Tls | None) -> Steps[tuple[socket.socket, TlsSession | None]]:
    """Connect, and with `tls` shake hands; return the socket, which does not block, and the session.

    Raises:
        HeadLostError: nothing listens there, or it hangs up.
        AuthenticationError: a Unix socket is another user's, or the listener is not the head that it must be.
        PermissionError: TCP beyond loopback without `tls`.
    """
    if tls is None and isinstance(address, TcpAddress):
        check_loopback(address)
    family, target = yield from _target(address)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        try:
            yield from _reach(sock, target)
        except OSError as error:
            raise HeadLostError(f"nobody listens at {address}: {error.strerror}") from error
        if family == socket.AF_UNIX:
            check_same_user(sock)
        keep_watch(sock)
        session = None
        if tls is not None:
            session = yield from _shaken(sock, address, tls)
    except BaseException:
        sock.close()
        raise
    return sock, session


@contextmanager
def naming(address: Address, timeout: float) -> Iterator[None]:
    """Context manager: errors of connecting to `address`, for at most `timeout` seconds, name it."""
    try:
        yield
    except AuthenticationError as error:
        raise AuthenticationError(f"{address}: {error}") from None
    except TimeoutError:
        raise HeadLostError(f"no answer from {address} within {timeout:g} s") from None


def _shaken(sock: socket.socket, address: Address, tls: Tls) -> Steps[TlsSession]:
    try:
        return (yield from shaking(sock, tls))
    except ConnectionError as error:
        raise HeadLostError(f"{address} hung up before it had said who it is: {error}") from None


def _target(address: Address) -> Steps[tuple[socket.AddressFamily, str | tuple[str, int]]]:
    if isinstance(address, UnixAddress):
        return socket.AF_UNIX, str(address.path)
    if not address.is_numeric:
        return (yield from _resolved(address))
    family = socket.AF_INET6 if ":" in address.numeric else socket.AF_INET
    return family, (address.numeric, address.port)


def _resolved(address: TcpAddress) -> Steps[tuple[socket.AddressFamily, tuple[str, int]]]:
    try:
        found = yield HostLookup(address.host, address.port)
    except OSError as error:
        raise HeadLostError(f"there is no host {address.host!r} for {address}: {error.strerror}") from None
    family, _, _, _, target = found[0]
    return family, target[:2]


def _reach(sock: socket.socket, target: str | tuple[str, int]) -> Steps[None]:
    # A Unix listener whose queue is full says EAGAIN at once, and there is nothing to wait on.
    while (code := sock.connect_ex(target)) == errno.EAGAIN:
        yield Elapsed(_BACKLOG_FULL_WAIT_S)
    if code == errno.EINPROGRESS:
        yield Writable(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    # Connecting to a free port of our own machine may get that very port for our end, and reach itself.
    if code == 0 and sock.family != socket.AF_UNIX and sock.getsockname() == sock.getpeername():
        code = errno.ECONNREFUSED
    if code:
        raise OSError(code, os.strerror(code))


def shaking(sock: socket.socket, tls: Tls) -> Steps[TlsSession]:
    """Do the handshake of TLS on a connected socket; the caller bounds the time, and owns the socket.

    Raises `AuthenticationError` when the peer is not who it must be, `ConnectionError` when it hangs up.
    """
    session = tls.session()
    data = b""
    try:
        while not session.shake(data):
            yield from _send(sock, session.take_outgoing())
            data = yield from _receive(sock)
            yield TurnTaken(_SHAKE_S)
    except AuthenticationError:
        with suppress(OSError):
            yield from _say_goodbye(sock, session.take_outgoing())
        raise
    yield from _send(sock, session.take_outgoing())
    return session


def _say_goodbye(sock: socket.socket, alert: bytes) -> Steps[None]:
    """Send the alert to the peer. What it has sent meanwhile is read, for to close over it would drop the alert."""
    sock.send(alert)
    sock.shutdown(socket.SHUT_WR)
    until = time.monotonic() + _GOODBYE_S
    for _ in range(_GOODBYE_READS):
        yield from _receive(sock, until)


def _send(sock: socket.socket, data: bytes) -> Steps[None]:
    while data:
        try:
            data = data[sock.send(data) :]
        except BlockingIOError:
            yield Writable(sock)


def _receive(sock: socket.socket, until: float | None = None) -> Steps[bytes]:
    while True:
        yield Readable(sock, until)
        try:
            data = sock.recv(_HANDSHAKE_READ)
        except BlockingIOError:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError from None
            continue
        if not data:
            raise ConnectionAbortedError("the other end hung up in the TLS handshake")
        return data


def ways(access: Access, *, insecure: bool) -> Iterator[tuple[Address, Tls | None]]:
    """Iterate over the addresses of `access` in order, each with the TLS to use there; None for a Unix socket, and, on
    loopback, where there is no certificate and `insecure` allows that.

    Raises:
        HeadLostError: the access file has no address yet.
        AuthenticationError: an address is without TLS, and `insecure` is not set.
    """
    if not access.addresses:
        raise HeadLostError(
            f"the head of cluster {access.cluster} has not listened yet: its access file has no address"
        )
    tls = None if access.credentials is None else client_tls(access.cluster, access.credentials)
    for address in access.addresses:
        is_tcp = isinstance(address, TcpAddress)
        if is_tcp and tls is None and not insecure:
            raise AuthenticationError(
                f"the head at {address} listens without TLS, so nobody can know who it is; "
                "if that is meant, say --insecure"
            )
        yield address, tls if is_tcp else None


def one_of(failures: Sequence[OSError]) -> OSError:
    """Return one error for all addresses: a wrong head outweighs one that was not there. It says what each answered."""
    worst = next((error for error in failures if isinstance(error, AuthenticationError)), failures[0])
    if len(failures) == 1:
        return worst
    said = "; ".join(str(error) for error in (worst, *(error for error in failures if error is not worst)))
    found = AuthenticationError(said) if isinstance(worst, AuthenticationError) else HeadLostError(said)
    found.__cause__ = worst.__cause__
    return found
