"""Conversion of a socket, or an address, to a link."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import anyio
from anyio.abc import SocketStream, UNIXSocketStream

from grainlike.errors import AuthenticationError, GrainlikeError, HeadLostError
from grainlike.eventloop import on_asyncio
from grainlike.net._address import Address, TcpAddress, UnixAddress, parse_address
from grainlike.net._guard import check_loopback, check_same_user, keep_watch, name_peer
from grainlike.net._link import Link
from grainlike.net._protocol import ProtocolLink
from grainlike.net._stream import StreamLink
from grainlike.net._tls import Tls, TlsSession, shake_hands

__all__ = ["adopt", "connect"]

_BACKLOG_FULL_WAIT_S = 0.01


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
    if tls is None and isinstance(address, TcpAddress):
        check_loopback(address)
    try:
        with anyio.fail_after(timeout):
            return await _connect(address, tls)
    except AuthenticationError as error:
        raise AuthenticationError(f"{address}: {error}") from None
    except TimeoutError:
        raise HeadLostError(f"no answer from {address} within {timeout:g} s") from None


async def _connect(address: Address, tls: Tls | None) -> Link:
    family, target = await _target(address)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        try:
            await _dial(sock, target)
        except OSError as error:
            raise HeadLostError(f"nobody listens at {address}: {error.strerror}") from error
        if family == socket.AF_UNIX:
            check_same_user(sock)
        keep_watch(sock)
        session = None
        if tls is not None:
            session = await _shake(sock, address, tls)
        return await _adopt(sock, address, session)
    except BaseException:
        sock.close()
        raise


async def _adopt(sock: socket.socket, address: Address, session: TlsSession | None) -> Link:
    try:
        return await adopt(sock, str(address), session)
    except GrainlikeError:
        raise
    except OSError as error:  # a reset since the connect leaves a socket without a peer: ENOTCONN
        raise HeadLostError(f"{address} hung up as soon as it was reached: {error.strerror}") from error


async def _shake(sock: socket.socket, address: Address, tls: Tls) -> TlsSession:
    try:
        return await shake_hands(sock, tls)
    except ConnectionError as error:
        raise HeadLostError(f"{address} hung up before it had said who it is: {error}") from None


async def _target(address: Address) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    if isinstance(address, UnixAddress):
        return socket.AF_UNIX, str(address.path)
    if not address.is_numeric:
        return await _resolve(address)
    family = socket.AF_INET6 if ":" in address.numeric else socket.AF_INET
    return family, (address.numeric, address.port)


async def _resolve(address: TcpAddress) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        found = await anyio.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise HeadLostError(f"there is no host {address.host!r} for {address}: {error.strerror}") from None
    family, _, _, _, target = found[0]
    return family, target[:2]


async def _dial(sock: socket.socket, target: str | tuple[str, int]) -> None:
    # A Unix listener whose queue is full says EAGAIN at once, and there is nothing to wait on.
    while (code := sock.connect_ex(target)) == errno.EAGAIN:  # noqa: ASYNC110
        await anyio.sleep(_BACKLOG_FULL_WAIT_S)
    if code == errno.EINPROGRESS:
        await anyio.wait_writable(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    # Dialling a free port of our own machine may get that very port for our end, and reach itself.
    if code == 0 and sock.family != socket.AF_UNIX and sock.getsockname() == sock.getpeername():
        code = errno.ECONNREFUSED
    if code:
        raise OSError(code, os.strerror(code))
