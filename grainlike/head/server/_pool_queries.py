"""Answers to clients about pools of workers and their blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from grainlike.errors import GrainlikeError, LaunchError
from grainlike.head.server._client import ClientConnection
from grainlike.wire import (
    AskBlockFile,
    AskDown,
    AskEndBlock,
    AskFleet,
    AskPause,
    AskScale,
    AskUp,
    BlockFileIs,
    Done,
    FleetIs,
    LaunchRefused,
    Matched,
    Message,
    Unable,
    UpIs,
)

if TYPE_CHECKING:
    from grainlike.head.fleet import FleetDriver

__all__ = ["PoolQueries", "PoolQuestion"]

PoolQuestion = AskScale | AskDown | AskPause | AskEndBlock | AskFleet


class PoolQueries:
    """Answers about the pools of one head, which may have none yet."""

    def __init__(self) -> None:
        self.make: Callable[[], FleetDriver] | None = None
        """Function that returns the driver of the pools, a new one where there was none; None: there can be none."""
        self.driver: FleetDriver | None = None
        """Driver of the pools, once there is one."""

    async def ask(self, connection: ClientConnection, question: AskUp | AskBlockFile, tasks: TaskGroup) -> None:
        """Answer a question that waits for a batch system or a machine, in `tasks` of the link over which it came."""
        if isinstance(question, AskUp):
            await self._up(connection, question, tasks)
        else:
            connection.post(await self._read(question))

    async def _read(self, question: AskBlockFile) -> Message:
        """Return what a file of a block has from a place on."""
        try:
            if self.driver is None:
                raise LookupError("no pool is up")
            file = "script" if question.script else "log"
            part = await self.driver.read_file(question.label, file, question.start)
        except LookupError as error:
            return Unable(question.ask, str(error))
        if part.why:
            return Unable(question.ask, part.why)
        return BlockFileIs(question.ask, part.text, part.start, part.end)

    async def _up(self, connection: ClientConnection, question: AskUp, tasks: TaskGroup) -> None:
        """Set a pool, and answer when its first block was taken or refused. A client that is back over another link
        asks again, so a pool does not go down with the link that broke.
        """
        import json

        from grainlike.launch import pool_from

        try:
            if self.make is None:
                raise ValueError("this head has no pools")
            pool = pool_from(json.loads(question.pool), question.name)
            first = await self.make().up(question.name, pool, stays=lambda: connection.tasks is not tasks)
        except LaunchError as error:
            answer: Message = LaunchRefused(question.ask, error.words, list(error.command), error.script)
        except (GrainlikeError, OSError, ValueError, TypeError) as error:
            answer = Unable(question.ask, str(error))
        else:
            answer = UpIs(question.ask, *first)
        connection.post(answer)

    def answer(self, question: PoolQuestion) -> Message:
        """Return the answer to any other question."""
        ask, driver = question.ask, self.driver
        if isinstance(question, AskFleet):
            return FleetIs(ask, [], []) if driver is None else _about(ask, driver, ended=question.ended)
        try:
            if driver is None:
                raise LookupError("no pool is up")
            match question:
                case AskScale():
                    driver.scale(question.name, question.least, question.most)
                case AskDown():
                    return Matched(ask, driver.down(question.names, at_once=question.at_once))
                case AskPause():
                    driver.pause(question.name, on=question.on)
                case AskEndBlock():
                    driver.end_block(question.label, at_once=question.at_once)
        except (LookupError, ValueError) as error:
            return Unable(ask, str(error))
        return Done(ask)

    def tell(self, connection: ClientConnection) -> None:
        """Send pools and blocks to a client, if there are any."""
        if self.driver is not None:
            connection.post(_about(0, self.driver, ended=False))

    def explain(self, job: int) -> str:
        """Return which pool would help a job that is queued; empty if there is nothing to say."""
        return "" if self.driver is None else self.driver.view.explain(job)


def _about(ask: int, driver: FleetDriver, *, ended: bool) -> FleetIs:
    return FleetIs(ask, driver.view.pool_rows(), driver.view.block_rows(ended=ended))
