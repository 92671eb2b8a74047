"""A door that others knock at: it outlives what happens behind it."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio

from grainlike.errors import GrainlikeError
from grainlike.net._address import Address, TcpAddress, UnixAddress, parse_address
from grainlike.net._dial import adopt
from grainlike.net._guard import check_loopback, check_same_user, name_peer
from grainlike.net._link import Link
from grainlike.net._unix import UnixDoor

__all__ = ["Handler", "Listener", "listen"]

Handler = Callable[[Link], Awaitable[object]]
"""Owns one connection: it runs the link, and when it returns the link is closed."""

logger = logging.getLogger("grainlike.net")

_BACKLOG = 1024
_STRANGERS = 256
"""The most connections that have not proved who they are."""

_SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SHORTAGE_PAUSE_S = 0.1


def listen(address: Address | str) -> Listener:
    """Open `address` for connections; they wait in the kernel until `Listener.serve` takes them.

    A Unix socket's directory is made with mode 0700, or must be ours and private; its socket has mode 0600. A socket
    file that nobody answers at is replaced.

    Raises `OSError` naming the address when it is in use; `PermissionError` for TCP beyond loopback or a directory open
    to others; `ValueError` for what is no address.

    Example::

        with listen("tcp://127.0.0.1:0") as listener:
            print(listener.address)
            await listener.serve(handler)
    """
    address = parse_address(address) if isinstance(address, str) else address
    if isinstance(address, UnixAddress):
        door = UnixDoor.open(address, _BACKLOG)
        return Listener(door.socket, address, door.remove)
    sock = _listen_tcp(address)
    return Listener(sock, TcpAddress(address.host, sock.getsockname()[1]), lambda: None)


def _listen_tcp(address: TcpAddress) -> socket.socket:
    check_loopback(address)
    sock = socket.socket(socket.AF_INET6 if ":" in address.numeric else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address.numeric, address.port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen at {address}: {error.strerror}") from None
    sock.setblocking(False)
    return sock


class Listener:
    """Takes connections at `address`, where port 0 has become the real one. A context manager that closes it."""

    def __init__(self, sock: socket.socket, address: Address, remove: Callable[[], None]) -> None:
        self.address = address
        self._socket = sock
        self._remove = remove
        self._closed = False
        self._serving = False
        self._short = False
        self._strangers: list[Link] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take no more connections and remove the socket's file; open ones go on. The second time does nothing."""
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
        pauses, and goes on when there are some. Cancelled, it cancels the handlers and closes the door.
        """
        self._serving = True
        try:
            async with anyio.create_task_group() as tasks:
                while (sock := await self._accept()) is not None:
                    tasks.start_soon(self._attend, sock, handler)
        finally:
            self.close()
            self._serving = False

    async def _accept(self) -> socket.socket | None:
        while not self._closed:
            try:
                await anyio.wait_readable(self._socket)
                sock, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue
            except anyio.ClosedResourceError:
                break
            except OSError as error:
                if error.errno not in _SHORTAGE:
                    raise
                await self._pause(error)
            else:
                self._short = False
                return sock
        return None

    async def _pause(self, error: OSError) -> None:
        if not self._short:
            logger.warning("%s takes no connections for now: %s", self.address, error.strerror)
            self._short = True
        await anyio.sleep(_SHORTAGE_PAUSE_S)

    async def _attend(self, sock: socket.socket, handler: Handler) -> None:
        peer = "a peer that is already gone"
        try:
            try:
                peer = name_peer(sock)
                self._check_entry(sock)
            except BaseException:
                sock.close()
                raise
            link = await adopt(sock, peer)
            self._strangers.append(link)
            try:
                await handler(link)
            finally:
                await link.aclose()
        except (GrainlikeError, OSError) as error:
            logger.warning("connection from %s at %s ended: %s", peer, self.address, error)
        except Exception:
            logger.exception("connection from %s at %s ended by an error in its handler", peer, self.address)

    def _check_entry(self, sock: socket.socket) -> None:
        if sock.family == socket.AF_UNIX:
            check_same_user(sock)
        self._strangers = [link for link in self._strangers if not (link.trusted or link.closed)]
        if len(self._strangers) >= _STRANGERS:
            raise ConnectionRefusedError(f"{_STRANGERS} others have yet to say who they are")
