"""What asyncio itself can do: one process sends length-prefixed pickles over TCP, another runs a task for each.

No slots, no books, no functions that travel, no errors: not a system, but what a system in pure Python can be held
against.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from grainlike.bench._system import Drive, Session, System
from grainlike.payload import Payload, dump_value, load_value

__all__ = ["Limit"]

_HEADER = struct.Struct(">Q")
_BATCH = 256


class _Batches(asyncio.Protocol):
    """Length-prefixed objects, both ways, on an asyncio transport."""

    def __init__(self, take: Callable[[Any], None]) -> None:
        self._take = take
        self._data = bytearray()
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: Any) -> None:
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= _HEADER.size:
            (size,) = _HEADER.unpack_from(self._data)
            end = _HEADER.size + size
            if len(self._data) < end:
                return
            body = bytes(self._data[_HEADER.size : end])
            del self._data[:end]
            self._take(load_value(Payload(body, ())))

    def send(self, batch: Any) -> None:
        body = bytes(dump_value(batch, what="a batch").data)
        self._transport.write(_HEADER.pack(len(body)) + body)


class _LimitSession(Session):
    def __init__(self) -> None:
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._protocol = _Batches(self._answered)

    async def open(self, address: tuple[str, int]) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self._protocol, *address)

    async def at_once(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Batches, and a future for each item."""
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in items]
        numbered = list(enumerate(items))
        self._futures = dict(enumerate(futures))
        for first in range(0, len(numbered), _BATCH):
            self._protocol.send((function, numbered[first : first + _BATCH]))
        return await asyncio.gather(*futures)

    def _answered(self, batch: list[tuple[int, Any]]) -> None:
        for number, value in batch:
            self._futures[number].set_result(value)


class Limit(System):
    name = "bare asyncio over TCP (limit)"

    def run(self, drive: Drive) -> None:
        """A server process, and the measurement here."""
        asyncio.run(_measure(drive))


async def _measure(drive: Drive) -> None:
    context = multiprocessing.get_context("spawn")
    near, far = context.Pipe()
    server = context.Process(target=_serve, args=(far,), daemon=True)
    server.start()
    session = _LimitSession()
    await session.open(near.recv())
    await drive(session)
    server.terminate()
    server.join()


def _serve(pipe: Any) -> None:
    asyncio.run(_served(pipe))


async def _served(pipe: Any) -> None:
    server = await asyncio.get_running_loop().create_server(_Server, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname())
    await server.serve_forever()


class _Server(_Batches):
    """Runs each item as a task of its own; what has ended by the next turn goes back in one batch."""

    def __init__(self) -> None:
        super().__init__(self._run)
        self._done: list[tuple[int, Any]] = []

    def _run(self, batch: tuple[Callable[..., Any], list[tuple[int, Any]]]) -> None:
        function, items = batch
        for number, item in items:
            task = asyncio.get_running_loop().create_task(_call(function, item))
            task.add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, task: asyncio.Task[Any]) -> None:
        if not self._done:
            asyncio.get_running_loop().call_soon(self._flush)
        self._done.append((number, task.result()))

    def _flush(self) -> None:
        done, self._done = self._done, []
        self.send(done)


async def _call(function: Callable[..., Any], item: Any) -> Any:
    return function(item)
