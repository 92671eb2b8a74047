"""Socket and process of a worker's data server (`data`), as its daemon handles them.

The daemon binds the socket, so that the address is known before the worker joins. While there is no process, the daemon
watches the socket. The first connection, or the first replica to pull, starts a process. If the process is killed, the
next connection or pull starts another.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Protocol

import anyio

from grainlike.errors import GrainlikeError
from grainlike.net import Access, ByteLink, ReconnectingLink, TcpAddress, adopt, can_serve, parse_address
from grainlike.wire import DataSetup, Frame, Message
from grainlike_worker.daemon._child import describe_exit, start_module
from grainlike_worker.daemon._keeper_watch import DYING_S, go_on, gone, state_of

__all__ = ["OFF", "DataProcess", "check_data_option", "open_data_process"]

logger = logging.getLogger("grainlike.worker")

PATIENCE_S = 10.0
"""Seconds without a byte after which another worker's data server counts as unreachable."""

AGAIN_S = 0.5
"""Seconds before the next start, if the last process lived less long than that."""

LOOK_S = 5.0
"""Seconds between two looks at whether the process is stopped."""

MOST_LOOKS = 4
"""Looks in a row at which it is stopped, though it was told to go on at the second, before it is killed."""

OFF = "off"


class Orders(Protocol):
    """Orders for a data server."""

    @property
    def busy(self) -> bool:
        """True while any order is pending."""
        ...

    def pending(self) -> Iterable[Message]:
        """Return the orders for a process that begins."""
        ...

    def hear(self, frames: list[Frame]) -> None:
        """Take a message of the process."""


class DataProcess:
    """Data server of a worker, at `address`. `setup` is the first message to each process.

    Example::

        with open_data_process(access, link, "", replicas.directory, key) as data:
            tasks.start_soon(data.run, orders)
            data.post(PullReplica(...))
    """

    def __init__(self, listener: socket.socket, address: str, setup: DataSetup) -> None:
        self.address = address
        self._listener = listener
        self._setup = setup
        self._link: ByteLink | None = None
        self._called = anyio.Event()

    def post(self, message: Message) -> None:
        """Send the process a message, or start a process, which gets all pending orders."""
        if self._link is None:
            self._called.set()
        else:
            self._link.post(message)

    async def run(self, orders: Orders) -> None:
        """Run a process whenever one is needed, until cancelled."""
        while True:
            await self._await_call()
            begun = anyio.current_time()
            try:
                await self._serve(orders)
            except OSError as error:
                logger.warning("the data server of this worker cannot be started: %s", error)
                orders.pending()  # each call counts a start, so that a pull is not tried for ever
            if orders.busy:
                self._called.set()
            if anyio.current_time() - begun < AGAIN_S:
                await anyio.sleep(AGAIN_S)

    async def _await_call(self) -> None:
        """Return when a connection waits to be accepted, or a message waits to be sent."""
        async with anyio.create_task_group() as tasks:

            async def connection() -> None:
                await anyio.wait_readable(self._listener)
                tasks.cancel_scope.cancel()

            tasks.start_soon(connection)
            await self._called.wait()
            tasks.cancel_scope.cancel()
        self._called = anyio.Event()

    async def _serve(self, orders: Orders) -> None:
        near, far = socket.socketpair()
        with closing(far):
            try:
                fds = {"--fd": far.fileno(), "--listen": self._listener.fileno()}
                process = start_module("grainlike_worker.data", [], dict(os.environ), fds)
            except BaseException:
                near.close()
                raise
        logger.debug("the data server is process %d", process.pid)
        try:
            link = await adopt(near, "the data server")
            assert isinstance(link, ByteLink)
            link.trust()
            link.post(self._setup)
            for message in orders.pending():
                link.post(message)
            self._link = link
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_watch, process)
                try:
                    await link.run(orders.hear)
                except GrainlikeError as error:
                    logger.warning("the data server said what cannot be: %s", error)
                tasks.cancel_scope.cancel()
        finally:
            self._link = None
            await _end(process)
        words = "the data server of this worker has ended (%s); another is started when it is called for"
        logger.warning(words, describe_exit(process.wait()))


async def _watch(process: subprocess.Popen[bytes]) -> None:
    """Let a process that was stopped go on, and kill one that stays so: its pulls would wait for it for ever."""
    looks = 0
    while looks < MOST_LOOKS:
        await anyio.sleep(LOOK_S)
        looks = looks + 1 if state_of(process.pid) in ("T", "t") else 0
        if looks == 2:
            logger.warning("the data server of this worker is stopped: it is told to go on")
            go_on(process)
    logger.warning("the data server of this worker stays stopped, and is killed")
    process.kill()


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process whose link has ended; all its data is in files."""
    process.kill()
    with anyio.move_on_after(DYING_S, shield=True):
        await gone(process)


@contextmanager
def open_data_process(
    access: Access | None, link: object, option: str, directory: str, key: bytes
) -> Iterator[DataProcess | None]:
    """Bind the socket of a worker's data server; None if the worker has none.

    A data server needs `access` to a head over TLS, with a certificate that allows listening, and a `directory` of
    replicas. `option` is `HOST:PORT`, `off`, or empty for any port of the address by which `link` reaches the head.

    Raises:
        OSError: it is not possible to listen at the address of the option.
    """
    credentials = None if access is None or option == OFF or not directory else access.credentials
    host = "" if credentials is None else _own_host(link)
    if access is None or credentials is None or not host:
        yield None
        return
    if not can_serve(credentials):
        words = "the access file of this worker was made before workers sent values to each other: theirs pass the head"
        logger.warning("%s; begin a new cluster to change that", words)
        yield None
        return
    from grainlike.net import listen_tcp  # workers without a port do not load this

    wanted = _address(option) if option else TcpAddress(host, 0)
    try:
        listener = listen_tcp(wanted)
    except OSError as error:
        if option:
            raise
        logger.warning("this worker has no data server, and its values pass the head: %s", error)
        yield None
        return
    with closing(listener):
        reached = TcpAddress(host if wanted.is_wildcard else wanted.host, listener.getsockname()[1])
        setup = DataSetup(
            access.cluster, credentials.authority, credentials.certificate, credentials.key, directory, key, PATIENCE_S
        )
        yield DataProcess(listener, str(reached), setup)


def check_data_option(text: str) -> str:
    """Return the option `--data` if it is `off` or `HOST:PORT`. Raises `ValueError` otherwise."""
    if text != OFF:
        _address(text)
    return text


def _address(text: str) -> TcpAddress:
    try:
        address = parse_address(f"tcp://{text.removeprefix('tcp://')}")
    except ValueError:
        raise ValueError(f"{text!r} is neither HOST:PORT nor {OFF!r}") from None
    assert isinstance(address, TcpAddress)
    return address


def _own_host(link: object) -> str:
    """Return the address of this machine by which a link reaches the head; empty if other machines cannot use it."""
    fd = link.fileno() if isinstance(link, ByteLink | ReconnectingLink) else -1
    if fd < 0:
        return ""
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as sock:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            host = str(sock.getsockname()[0])
            return "" if "%" in host else host  # a link-local address is another machine's elsewhere
    return ""
