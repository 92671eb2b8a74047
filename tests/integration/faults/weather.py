"""A TCP proxy on loopback that does to connections what networks do: delays, cuts, resets, black holes.

It stands between a head and those who dial it: `async with Weather(port) as weather:` and they dial `weather.port`, as
`way_through` writes it into an access file. What it does is done to all connections that it carries, at once, and when
the test says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from limits import LIMIT_S
from msgspec.structs import replace

from grainlike.net import TcpAddress, find_access, write_access

if TYPE_CHECKING:
    from grainlike import Executor
    from grainlike.net import Role

__all__ = ["Weather", "port", "way_through"]


def port(executor: Executor) -> int:
    """Where a head listens."""
    return int(str(executor.address).rpartition(":")[2])


def way_through(weather: Weather, executor: Executor, folder: Path, role: Role = "worker") -> Path:
    """An access file by which a worker, or a client, dials the proxy."""
    access = find_access(executor.address, role)
    path = folder / "through" / f"{role}.json"
    write_access(replace(access, addresses=(TcpAddress("127.0.0.1", weather.port),)), path)
    return path


_AT_ONCE = struct.pack("ii", 1, 0)


class Weather:
    """Carries connections to a port of this machine.

    Attributes:
        port: where to dial.
        made: how many connections were ever made.
        delay_s: how long each piece is held before it goes on, from now on.
        closed: whether who dials is turned away, by RST.
        held: set when what the head says is held, after `hold_down`.
        swallowed: set when something has come that does not come through, after `swallow`.
        passed: how many bytes have come through.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._pairs: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._clear = asyncio.Event()
        self._clear.set()
        self._down = asyncio.Event()
        self._down_left: int | None = None
        self.held = asyncio.Event()
        self.swallowed = asyncio.Event()
        self._changed = asyncio.Event()
        self.made = 0
        self.passed = 0
        self.delay_s = 0.0
        self.closed = False
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.reset()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def carried(self) -> int:
        """How many connections there are now."""
        return len(self._pairs)

    async def until_made(self, count: int) -> None:
        """Wait until so many connections have been made in all."""
        await self._until(lambda: self.made >= count)

    async def until_carried(self, count: int = 1) -> None:
        """Wait until so many connections are there at once."""
        await self._until(lambda: self.carried == count)

    async def until_passed(self, count: int) -> None:
        """Wait until so many bytes more have come through: what breaks then breaks in the middle of something."""
        end = self.passed + count
        await self._until(lambda: self.passed >= end)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                await self._changed.wait()

    def _change(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # --- what can befall connections ---------------------------------------------------------------------------------

    def reset(self) -> None:
        """RST to both ends of all: what was on the way is lost."""
        self._end_all(by_reset=True)

    def cut(self) -> None:
        """The end of the stream to both ends of all, as of a process that has ended; what was on the way is lost."""
        self._end_all(by_reset=False)

    def swallow(self) -> None:
        """A black hole: nothing comes through any more, and nobody is told."""
        self.swallowed.clear()
        self._clear.clear()

    def clear_up(self) -> None:
        """What was swallowed, or held, comes through now."""
        self._clear.set()
        self._down_left = None
        self._down.set()

    def hold_down(self, after: int) -> None:
        """When so many more bytes have come from the head, hold what follows. What goes to the head comes through."""
        self._down_left = after
        self._down.clear()

    def _end_all(self, *, by_reset: bool) -> None:
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for writer in pair:
                _end(writer, by_reset=by_reset)
        self._change()

    # --- carrying ----------------------------------------------------------------------------------------------------

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.closed:
            _end(writer, by_reset=True)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except ConnectionError:  # nobody listens there just now
            _end(writer, by_reset=True)
            return
        pair = (writer, far_writer)
        self._pairs.append(pair)
        self.made += 1
        self._change()
        try:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):  # it is cancelled to end, and then ends
                async with asyncio.TaskGroup() as ways:
                    ways.create_task(self._one_way(reader, far_writer))
                    ways.create_task(self._one_way(far_reader, writer, down=True))
        except* ConnectionError:
            pass
        finally:
            for end in pair:
                end.close()
            if pair in self._pairs:
                self._pairs.remove(pair)
                self._change()

    async def _one_way(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, down: bool = False) -> None:
        while data := await reader.read(65536):
            if down and self._down_left is not None:
                self._down_left -= len(data)
                if self._down_left < 0:
                    self.held.set()
                    await self._down.wait()
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if not self._clear.is_set():
                self.swallowed.set()
                await self._clear.wait()
            writer.write(data)
            self.passed += len(data)
            self._change()
            await writer.drain()
        writer.close()


def _end(writer: asyncio.StreamWriter, *, by_reset: bool) -> None:
    if by_reset:
        sock = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()
