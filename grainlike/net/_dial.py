"""Conversion of a socket, or an address, to a link."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any, TypeVar, cast

import anyio
from anyio.abc import SocketStream, UNIXSocketStream

from grainlike.errors import GrainlikeError, HeadLostError
from grainlike.eventloop import on_asyncio, yield_turn
from grainlike.net._address import Address, parse_address
from grainlike.net._guard import name_peer
from grainlike.net._link import Link
from grainlike.net._protocol import ProtocolLink
from grainlike.net._steps import (
    Elapsed,
    HostLookup,
    Readable,
    Step,
    Steps,
    TurnTaken,
    Writable,
    connecting,
    naming,
    shaking,
)
from grainlike.net._stream import StreamLink
from grainlike.net._tls import Tls, TlsSession

__all__ = ["adopt", "connect", "shake_hands"]

T = TypeVar("T")


async def adopt(sock: socket.socket, peer: str | None = None, tls: TlsSession | None = None) -> Link:
    """Make a link of a connected stream socket (one of a `socketpair`, an inherited one), which it owns from now on."""
    try:
        name = name_peer(sock) if peer is None else peer
        host = None if sock.family == socket.AF_UNIX else sock.getpeername()[0]
        sock.setblocking(False)
        link = await _link(sock, name, tls)
    except BaseException:
        sock.close()
        raise
    link.host = host or link.host
    return link


async def _link(sock: socket.socket, name: str, tls: TlsSession | None) -> Link:
    if on_asyncio():
        _, link = await asyncio.get_running_loop().connect_accepted_socket(lambda: ProtocolLink(name, tls), sock)
        return link
    if sock.family == socket.AF_UNIX:
        return StreamLink(await UNIXSocketStream.from_socket(sock), name, tls)
    return StreamLink(await SocketStream.from_socket(sock), name, tls)


async def connect(address: Address | str, timeout: float = 10.0, *, tls: Tls | None = None) -> Link:
    """Connect to `address`, for at most `timeout` seconds, and return a link that does not run yet.

    With `tls` the listener has proved who it is when this returns. Without it, only a Unix socket or this machine's
    own loopback is allowed.

    Raises:
        HeadLostError: nothing listens or answers there; the message names the address.
        AuthenticationError: a Unix socket is another user's, or the listener is not the head that it must be.
        PermissionError: TCP beyond loopback without `tls`.
        ValueError: `address` is none.

    Cancelled, it leaves no socket behind.

    Example::

        link = await connect("tcp://node17:7777", tls=client_tls(access.cluster, credentials))
    """
    address = parse_address(address) if isinstance(address, str) else address
    with naming(address, timeout):
        with anyio.fail_after(timeout):
            sock, session = await _follow(connecting(address, tls))
            return await _adopt(sock, address, session)


async def shake_hands(sock: socket.socket, tls: Tls) -> TlsSession:
    """Do the handshake on a connected socket; the caller bounds the time, and owns the socket.

    Raises `AuthenticationError` when the peer is not who it must be, `ConnectionError` when it hangs up.
    """
    return await _follow(shaking(sock, tls))


async def _adopt(sock: socket.socket, address: Address, session: TlsSession | None) -> Link:
    try:
        return await adopt(sock, str(address), session)
    except GrainlikeError:
        raise
    except OSError as error:  # a reset since the connect leaves a socket without a peer: ENOTCONN
        raise HeadLostError(f"{address} hung up as soon as it was reached: {error.strerror}") from error


async def _follow(steps: Steps[T]) -> T:
    """Follow the steps in the event loop."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await _done(step)
            except OSError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        return cast("T", end.value)
    finally:
        steps.close()


async def _done(step: Step) -> Any:
    match step:
        case Readable(sock, None):
            await anyio.wait_readable(sock)
        case Readable(sock, float(until)):
            with anyio.move_on_after(until - time.monotonic()):
                await anyio.wait_readable(sock)
        case Writable(sock):
            await anyio.wait_writable(sock)
        case Elapsed(seconds):
            await anyio.sleep(seconds)
        case TurnTaken(seconds):
            await yield_turn(seconds)
        case HostLookup(host, port):
            return await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return None
