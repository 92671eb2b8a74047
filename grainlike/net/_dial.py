"""From a socket to a link, and from an address to a socket."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import anyio
from anyio.abc import SocketStream, UNIXSocketStream

from grainlike.net._address import Address, UnixAddress, parse_address
from grainlike.net._guard import check_loopback, check_same_user, name_peer
from grainlike.net._link import Link
from grainlike.net._loop import on_asyncio
from grainlike.net._protocol import ProtocolLink
from grainlike.net._stream import StreamLink

__all__ = ["adopt", "connect"]

_BACKLOG_FULL_WAIT_S = 0.01


async def adopt(sock: socket.socket, peer: str | None = None) -> Link:
    """Make a link of a connected stream socket (one of a `socketpair`, an inherited one), which it owns from now on."""
    try:
        name = name_peer(sock) if peer is None else peer
        sock.setblocking(False)
        if on_asyncio():
            _, link = await asyncio.get_running_loop().connect_accepted_socket(lambda: ProtocolLink(name), sock)
            return link
        if sock.family == socket.AF_UNIX:
            return StreamLink(await UNIXSocketStream.from_socket(sock), name)
        return StreamLink(await SocketStream.from_socket(sock), name)
    except BaseException:
        sock.close()
        raise


async def connect(address: Address | str, timeout: float = 10.0) -> Link:
    """Dial `address`, for at most `timeout` seconds, and return a link that nobody runs yet.

    Raises `ConnectionError`, naming the address, when nobody listens or answers there; `AuthenticationError` when a
    Unix socket is another user's; `PermissionError` for TCP beyond loopback; `ValueError` for what is no address.
    Cancelled, it leaves no socket behind.

    Example::

        link = await connect("tcp://127.0.0.1:7777")
    """
    address = parse_address(address) if isinstance(address, str) else address
    sock, target = _socket_for(address)
    try:
        with anyio.fail_after(timeout):
            await _dial(sock, target)
        if isinstance(address, UnixAddress):
            check_same_user(sock)
        return await adopt(sock, str(address))
    except TimeoutError:
        sock.close()
        raise ConnectionError(f"no answer from {address} within {timeout:g} s") from None
    except OSError as error:
        sock.close()
        if error.errno is None:
            raise
        raise ConnectionError(f"nobody listens at {address}: {error.strerror}") from error
    except BaseException:
        sock.close()
        raise


def _socket_for(address: Address) -> tuple[socket.socket, str | tuple[str, int]]:
    if isinstance(address, UnixAddress):
        return _free_socket(socket.AF_UNIX), str(address.path)
    check_loopback(address)
    family = socket.AF_INET6 if ":" in address.numeric else socket.AF_INET
    return _free_socket(family), (address.numeric, address.port)


def _free_socket(family: socket.AddressFamily) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    return sock


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
