"""Feed of a head for all pages of a dashboard: its client, which is replaced when the head is lost, and the picture.

The head is followed while a page is open, and else only held on to.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from grainlike.client import HeadClient
from grainlike.dashboard._picture import ClusterPicture
from grainlike.errors import GrainlikeError, HeadLostError
from grainlike.wire import Answer, AskHead, HeadIs, Question, RunningRow

__all__ = ["EVERY_S", "HeadFeed", "in_process"]

A = TypeVar("A", bound=Answer)

logger = logging.getLogger("grainlike")

EVERY_S = 0.25
"""Seconds between two updates of a head."""

_AGAIN_S = 1.0
"""Seconds between two attempts to reach a head that is lost."""


def in_process(
    connect_viewer: Callable[[TaskGroup], Awaitable[HeadClient]],
) -> Callable[[], AbstractAsyncContextManager[HeadClient]]:
    """Return what opens a client of a head of this process, for a feed; `connect_viewer` is the head's."""

    @asynccontextmanager
    async def connect() -> AsyncIterator[HeadClient]:
        failure: BaseException | None = None
        async with anyio.create_task_group() as tasks:
            try:
                yield await connect_viewer(tasks)
            except Exception as error:  # noqa: BLE001 - raised below, outside the group, which would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    return connect


class HeadFeed:
    """Connection to a head, for as long as `run` runs. `connect` opens a client, and is called again when it is lost.

    Attributes:
        picture: what the head has told so far; it stays while the head is away.
        identity: the head's name and version; None before it has been reached.
        lost: why there is no head now; empty while there is one.
        closed: set when the dashboard ends: streams to pages end then.
        pages: number of pages that are open.

    Example::

        feed = HeadFeed(lambda: call(head))
        tasks.start_soon(feed.run)
        with feed.page():
            print(await feed.ask(AskHead(0), HeadIs))
    """

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[HeadClient]]) -> None:
        self._connect = connect
        self._client: HeadClient | None = None
        self._there = anyio.Event()
        self._looked_at = anyio.Event()
        self.picture: ClusterPicture = ClusterPicture()
        self.identity: HeadIs | None = None
        self.lost: str = "the head has not answered yet"
        self.closed: anyio.Event = anyio.Event()
        self.pages: int = 0
        self._told_at = 0.0
        self._following = False

    @property
    def client(self) -> HeadClient:
        """The client of the head that is there.

        Raises:
            HeadLostError: none is.
        """
        if self._client is None:
            raise HeadLostError(self.lost)
        return self._client

    async def ask(self, question: Question, answer: type[A]) -> A:
        """Ask the head.

        Raises:
            RefusedQueryError: it refuses.
            HeadLostError: it is not there, or was lost meanwhile.
        """
        return await self.client.ask(question, answer)

    async def back(self) -> None:
        """Wait until there is a head."""
        await self._there.wait()

    @contextmanager
    def page(self) -> Iterator[None]:
        """Context manager: an open page, for which the head is followed."""
        self.pages += 1
        self._looked_at.set()
        try:
            yield
        finally:
            self.pages -= 1
            if not self.pages:
                self._looked_at = anyio.Event()

    def age(self) -> float:
        """Return the head's clock now, as `picture.state.at`, from its last update and this machine's clock."""
        return self.picture.state.at + (time.monotonic() - self._told_at) if self.picture.state.at else 0.0

    def running(self) -> Iterator[RunningRow]:
        """Iterate over the jobs that hold slots now; none while no page is open, when no page follows them."""
        return self.picture.state.all_running() if self._following and self.pages else iter(())

    # --- with the head -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Hold on to the head, and reach it again when it is lost, until cancelled."""
        while True:
            try:
                async with self._connect() as client:
                    self.identity = await client.ask(AskHead(0), HeadIs)
                    self._client, self.lost = client, ""
                    self._there.set()
                    await self._follow(client)
            except (GrainlikeError, OSError, ValueError) as error:
                if not self.lost:
                    logger.info("the dashboard has lost the head: %s", error)
                self.lost = str(error) or type(error).__name__
            finally:
                self._client = None
                self._there = anyio.Event()
            await anyio.sleep(_AGAIN_S)

    async def _follow(self, client: HeadClient) -> None:
        """Take updates until the head is lost, which is raised.

        Raises:
            HeadLostError: it is.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._take_updates, client)
            await client.gone()
            tasks.cancel_scope.cancel()
        raise client.lost

    async def _take_updates(self, client: HeadClient) -> None:
        try:
            while True:
                await self._looked_at.wait()
                async with aclosing(client.live(EVERY_S)) as updates:
                    async for told in updates:
                        self._told_at = time.monotonic()
                        self.picture.take(told)
                        self._following = bool(self.pages) and not told.more
                        if not self.pages:
                            break
        except HeadLostError:
            return  # `_follow` hears of it, too
        finally:
            self._following = False
