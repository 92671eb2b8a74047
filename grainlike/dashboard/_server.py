"""Server of a dashboard, in the running event loop: its socket, its links, and its end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskStatus

from grainlike.dashboard._address import DEFAULT_ADDRESS, hosts_of, is_loopback, shown_host
from grainlike.eventloop import on_asyncio

try:
    import uvicorn

    from grainlike.dashboard._access_control import AccessControl
    from grainlike.dashboard._app import make_app
    from grainlike.dashboard._connections import BoundedConnection, be_quiet_here
except ImportError as error:
    raise ImportError("the dashboard needs more packages: pip install 'grainlike[dashboard]'") from error

from grainlike.dashboard._feed import HeadFeed

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from grainlike.client import HeadClient

__all__ = ["Dashboard"]

logger = logging.getLogger("grainlike")

_BACKLOG = 16
"""Connections that may wait in the kernel. Out of file descriptors, asyncio of Python 3.11 logs an error for each that
might, every second.
"""

_END_S = 2
"""Seconds for which answers that are under way may go on when the dashboard ends."""


class Dashboard:
    """Dashboard at `address`, host and port, of the head whose clients `connect` opens. Port 0 is any free one.

    It listens from when it is made; `serve` then answers. See `make_app` for `extra` and `without_cookie`.

    Raises:
        OSError: the address is in use, or is none of this machine.

    Example::

        dashboard = Dashboard(lambda: call(None))
        print(dashboard.link())
        await dashboard.serve()
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[HeadClient]],
        address: tuple[str, int] = DEFAULT_ADDRESS,
        *,
        extra: Sequence[BaseRoute] = (),
        without_cookie: Collection[str] = (),
    ) -> None:
        host, port = address
        self._socket = _listening(host, port)
        port = self._socket.getsockname()[1]
        self.url: str = f"http://{shown_host(host)}:{port}/"
        """Address of its first page, for browsers that have opened a link."""
        self.beyond_loopback: bool = not is_loopback(host)
        """True if other machines reach it: what they see goes over the network in plain text."""
        self._access_control = AccessControl(hosts_of(host), port)
        self.feed: HeadFeed = HeadFeed(connect)
        self._app = make_app(self.feed, self._access_control, extra=extra, without_cookie=without_cookie)

    def link(self) -> str:
        """Return a new link, which opens the dashboard in one browser, once."""
        return f"{self.url}?token={self._access_control.new_token()}"

    def close(self) -> None:
        """Stop listening, where it was never served."""
        self._socket.close()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Answer until cancelled; pages that are open are then closed.

        Raises:
            RuntimeError: the event loop is not asyncio's.
        """
        if not on_asyncio():
            self.close()
            raise RuntimeError(NEEDS_ASYNCIO)
        server = _Server(
            uvicorn.Config(
                self._app,
                http=BoundedConnection,
                backlog=_BACKLOG,
                ws="none",
                lifespan="off",
                loop="none",
                log_config=None,
                access_log=False,
                date_header=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_END_S,
            )
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.feed.run)
            tasks.start_soon(self._answer, server)
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self.feed.closed.set()
                server.stop.set()

    async def _answer(self, server: _Server) -> None:
        be_quiet_here()
        with anyio.CancelScope(shield=True):  # cancelled, it would leave its connections open
            await server.serve([self._socket])


NEEDS_ASYNCIO = (
    "a dashboard is served by asyncio, and this is another event loop: leave out dashboard=, open the executor with "
    "listen=, and run `grainlike dashboard` beside it"
)


class _Server(uvicorn.Server):
    """Server that leaves signals to the program in which it runs, and does nothing while no browser asks: uvicorn's own
    would look at the clock ten times a second, for the date in its answers. `stop` ends it.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stop = anyio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.stop.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listening(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    made.setblocking(False)
    return made
