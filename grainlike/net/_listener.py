"""Listening sockets: a listener survives all that happens on its connections.

Rate-limited log of rejected connections: logged while they are few, counted when they are many, so that they fill
no log.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio

from grainlike.errors import GrainlikeError
from grainlike.net._accept_errors import AcceptErrors
from grainlike.net._address import Address, TcpAddress, UnixAddress, parse_address
from grainlike.net._dial import adopt, shake_hands
from grainlike.net._guard import check_loopback, check_same_user, keep_watch, name_peer
from grainlike.net._link import Link
from grainlike.net._pending import PendingConnection, PendingConnections
from grainlike.net._tls import Tls, TlsSession
from grainlike.net._unix import UnixListener

__all__ = ["Handler", "Listener", "RateLimitedLog", "listen", "listen_tcp"]


Handler = Callable[[Link], Awaitable[object]]
"""Owns one connection: it runs the link, and when it returns the link is closed."""

logger = logging.getLogger("grainlike.net")

_BACKLOG = 1024
_HANDSHAKE_S = 10.0
"""Seconds that TLS may take to authenticate a peer."""


def listen(address: Address | str, *, tls: Tls | None = None) -> Listener:
    """Open `address` for connections; they wait in the kernel until `Listener.serve` takes them.

    With `tls`, a link exists only once the peer has proved who it is. Without it, TCP is for loopback alone. A Unix
    socket's directory is made with mode 0700, or must be ours and private; its socket has mode 0600. A stale socket
    file is replaced.

    Raises `OSError` naming the address when it is in use, or not of this machine; `PermissionError` for TCP beyond
    loopback without `tls`, or a directory open to others; `ValueError` for what is no address.

    Example::

        with listen("tcp://0.0.0.0:0", tls=server_tls("c1", credentials)) as listener:
            print(listener.address)
            await listener.serve(handler)
    """
    address = parse_address(address) if isinstance(address, str) else address
    if isinstance(address, UnixAddress):
        unix = UnixListener.open(address, _BACKLOG)
        return Listener(unix.socket, address, unix.remove)
    if tls is None:
        check_loopback(address)
    sock = listen_tcp(address)
    return Listener(sock, TcpAddress(address.host, sock.getsockname()[1]), lambda: None, tls)


def listen_tcp(address: TcpAddress) -> socket.socket:
    """Return a socket that listens at an address, and does not block. Raises `OSError` naming the address."""
    try:
        found = socket.getaddrinfo(address.numeric, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, target = found[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen at {address}: {error.strerror}") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(target)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen at {address}: {error.strerror}") from None
    sock.setblocking(False)
    return sock


class Listener:
    """Takes connections at `address`, where port 0 has become the real one. A context manager that closes it."""

    def __init__(
        self, sock: socket.socket, address: Address, remove: Callable[[], None], tls: Tls | None = None
    ) -> None:
        self.address = address
        self._socket = sock
        self._tls = tls
        self._remove = remove
        self._closed = False
        self._serving = False
        self._errors = AcceptErrors(address, logger)
        self._pending = PendingConnections(address)
        self._complaints = RateLimitedLog(logger)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take no more connections and remove the socket's file; open ones continue. The second time does nothing."""
        if self._closed:
            return
        self._closed = True
        self._remove()
        if self._serving:
            anyio.notify_closing(self._socket)
        self._socket.close()

    async def serve(self, handler: Handler) -> None:
        """Give each connection to a `handler` in a task of its own; after `close`, return when the last one has.

        Whatever a handler raises is logged once and ends that connection alone. Out of file descriptors, accepting
        pauses, and resumes when there are some. Cancelled, it cancels the handlers and closes the listener.
        """
        self._serving = True
        try:
            async with anyio.create_task_group() as tasks:
                while (sock := await self._accept()) is not None:
                    tasks.start_soon(self._attend, sock, self._pending.enter(), handler)
        finally:
            self.close()
            self._serving = False

    async def _accept(self) -> socket.socket | None:
        while not self._closed:
            try:
                if not _connection_waits(self._socket):  # else many may come in one turn of a busy loop
                    await anyio.wait_readable(self._socket)
                await self._pending.room()
                sock, _ = self._socket.accept()
            except BlockingIOError:
                continue
            except anyio.ClosedResourceError:
                break
            except OSError as error:
                await self._errors.survive(error)
            else:
                self._errors.over()
                return sock
        return None

    async def _attend(self, sock: socket.socket, pending: PendingConnection, handler: Handler) -> None:
        peer = "a peer that is already gone"
        try:
            try:
                peer = name_peer(sock)
                if sock.family == socket.AF_UNIX:
                    check_same_user(sock)
                keep_watch(sock)
                session = await self._shake(sock, pending)
            except BaseException:
                sock.close()
                raise
            pending.link = link = await adopt(sock, peer, session)
            try:
                await handler(link)
            finally:
                await link.aclose()
        except (GrainlikeError, OSError) as error:
            if not pending.pushed_out:
                self._complaints.say("connection from %s at %s ended: %s", peer, self.address, error)
        except Exception:
            logger.exception("connection from %s at %s ended by an error in its handler", peer, self.address)
        finally:
            self._pending.leave(pending)

    async def _shake(self, sock: socket.socket, pending: PendingConnection) -> TlsSession | None:
        if self._tls is None:
            return None
        with pending.shaking as scope:
            scope.deadline = anyio.current_time() + _HANDSHAKE_S
            sock.setblocking(False)
            return await shake_hands(sock, self._tls)
        raise ConnectionAbortedError(f"no TLS handshake within {_HANDSHAKE_S:g} s")


def _connection_waits(sock: socket.socket) -> bool:
    """Return True if a connection waits to be accepted."""
    look = select.poll()
    look.register(sock, select.POLLIN)
    return bool(look.poll(0))


_MOST = 20
"""The most in one period."""

_PERIOD_S = 60.0


class RateLimitedLog:
    """Warns through `logger`, up to a number in each minute; what is more goes to level debug, and is counted."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._since = time.monotonic()
        self._count = 0

    def say(self, text: str, *arguments: object) -> None:
        """Log one, as `logger.warning` would."""
        now = time.monotonic()
        if now - self._since >= _PERIOD_S:
            if self._count > _MOST:
                self._logger.warning("%d more connections ended like those before", self._count - _MOST)
            self._since, self._count = now, 0
        self._count += 1
        self._logger.log(logging.WARNING if self._count <= _MOST else logging.DEBUG, text, *arguments)
        if self._count == _MOST:
            self._logger.warning("for a minute, more of these are told at level debug alone")
