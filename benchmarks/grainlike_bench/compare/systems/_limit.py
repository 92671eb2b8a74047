"""Upper bound of asyncio: one process sends length-prefixed pickles over TCP, another runs a task for each.

Without slots, records, serialized functions and errors these are no systems, but a bound for systems in pure Python.
With a relay in between, the processes are those of a system: head, daemon, runner. Each is there on asyncio's own loop
and on uvloop's, so that systems are compared on the same loop.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import anyio

from grainlike_bench.compare._system import Drive, Session, System

__all__ = ["Hops", "HopsUvloop", "Limit", "LimitSession", "LimitUvloop"]

_LENGTH = struct.Struct(">Q")
_BATCH = 256
_SCRATCH = 1 << 18
_SLICE = 1 << 20
_APART = 1 << 13
"""Size in bytes from which a part of a frame is read straight into memory of its own."""

_GONE = "the other process is gone"


class _Frames(asyncio.BufferedProtocol):
    """Frames of several parts, in both directions: the number of parts, the length of each, and the parts."""

    def __init__(self, take: Callable[[list[Any]], None], lost: Callable[[], None]) -> None:
        self._take = take
        self._lost = lost
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._data = bytearray()
        self._lengths: list[int] = []
        self._parts: list[Any] = []
        self._apart: memoryview | None = None
        self._unsent: deque[memoryview] = deque()
        self._paused = False
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: Any) -> None:
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()

    def send(self, parts: Sequence[Any]) -> None:
        raw = [memoryview(part) for part in parts]
        head = b"".join(map(_LENGTH.pack, (len(raw), *(part.nbytes for part in raw))))
        if len(raw) == 1 and not self._unsent:
            self._transport.write(head + parts[0])
            return
        self._unsent.append(memoryview(head))
        self._unsent.extend(part[at : at + _SLICE] for part in raw for at in range(0, part.nbytes, _SLICE))
        self._pump()

    def _pump(self) -> None:
        """Write what the transport sends at once: it would copy what it has to keep."""
        while self._unsent and not self._paused:
            self._transport.write(self._unsent.popleft())

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pump()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._scratch if self._apart is None else self._apart

    def buffer_updated(self, nbytes: int) -> None:
        if self._apart is None:
            self._data += self._scratch[:nbytes]
        else:
            self._apart = self._apart[nbytes:]
            if self._apart:
                return
            self._apart = None
        while self._step():
            pass

    def _step(self) -> bool:
        """Take the next item from the received bytes: the lengths of a frame, or its next part."""
        if not self._lengths:
            return self._begin()
        if len(self._parts) == len(self._lengths):
            parts, self._parts, self._lengths = self._parts, [], []
            self._take(parts)
            return True
        size = self._lengths[len(self._parts)]
        if size < _APART and len(self._data) < size:
            return False
        part = bytearray(self._data[:size])
        del self._data[:size]
        if len(part) < size:
            came, part = part, bytearray(size)
            part[: len(came)] = came
            self._apart = memoryview(part)[len(came) :]
        self._parts.append(part)
        return self._apart is None

    def _begin(self) -> bool:
        if len(self._data) < _LENGTH.size:
            return False
        (count,) = _LENGTH.unpack_from(self._data)
        end = _LENGTH.size * (count + 1)
        if len(self._data) < end:
            return False
        self._lengths = [length for (length,) in _LENGTH.iter_unpack(self._data[_LENGTH.size : end])]
        del self._data[:end]
        return True


def _packed(batch: Any) -> list[Any]:
    """Return a pickle and its large buffers, which are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(batch, 5, buffer_callback=buffers.append)
    return [stream, *(buffer.raw() for buffer in buffers)]


def _unpacked(parts: list[Any]) -> Any:
    return pickle.loads(parts[0], buffers=parts[1:])


class LimitSession(Session):
    """A connection to a server that runs the calls."""

    def __init__(self) -> None:
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._gone = False
        self._frames = _Frames(self._answered, self._given_up)

    async def open(self, address: tuple[str, int]) -> None:
        """Connect."""
        await asyncio.get_running_loop().create_connection(lambda: self._frames, *address)

    async def at_once(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Send batches, with a future for each item."""
        if self._gone:
            raise ConnectionError(_GONE)
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in items]
        numbered = list(enumerate(items))
        self._futures = dict(enumerate(futures))
        for first in range(0, len(numbered), _BATCH):
            self._frames.send(_packed((function, numbered[first : first + _BATCH])))
        return await asyncio.gather(*futures)

    def _answered(self, parts: list[Any]) -> None:
        for number, value in _unpacked(parts):
            self._futures[number].set_result(value)

    def _given_up(self) -> None:
        self._gone = True
        for future in self._futures.values():
            if not future.done():
                future.set_exception(ConnectionError(_GONE))


class Limit(System):
    name = "bare asyncio over TCP (limit)"
    loop: ClassVar[dict[str, Any]] = {}
    """anyio's options for the loop of all its processes."""

    def run(self, drive: Drive) -> None:
        """Start a server process, and measure here."""
        with _process(_serve, self.loop) as address:
            anyio.run(_measure, drive, address, backend_options=self.loop)


class Hops(System):
    name = "bare asyncio, over a relay (two hops)"
    loop: ClassVar[dict[str, Any]] = {}
    """As for `Limit`."""

    def run(self, drive: Drive) -> None:
        """Start a server process and one that passes frames on, and measure here."""
        with _process(_serve, self.loop) as beyond, _process(_relay, self.loop, beyond) as address:
            anyio.run(_measure, drive, address, backend_options=self.loop)


class LimitUvloop(Limit):
    name = "bare uvloop over TCP (limit)"
    package = module = "uvloop"
    loop: ClassVar[dict[str, Any]] = {"use_uvloop": True}


class HopsUvloop(Hops):
    name = "bare uvloop, over a relay (two hops)"
    package = module = "uvloop"
    loop: ClassVar[dict[str, Any]] = {"use_uvloop": True}


async def _measure(drive: Drive, address: tuple[str, int]) -> None:
    session = LimitSession()
    await session.open(address)
    await drive(session)


@contextmanager
def _process(target: Callable[..., None], *args: Any) -> Any:
    """Run a process for as long as the block runs; yield the address at which it listens."""
    context = multiprocessing.get_context("spawn")
    near, far = context.Pipe()
    process = context.Process(target=target, args=(far, *args), daemon=True)
    process.start()
    far.close()
    try:
        yield near.recv()
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Any, loop: dict[str, Any]) -> None:
    anyio.run(_listen, pipe, _Server, backend_options=loop)


def _relay(pipe: Any, loop: dict[str, Any], beyond: tuple[str, int]) -> None:
    anyio.run(_listen, pipe, partial(_Relay, beyond), backend_options=loop)


async def _listen(pipe: Any, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname())
    await server.serve_forever()


class _Server(_Frames):
    """Runs each item as a task of its own; tasks that have ended by the next turn of the loop are answered in one
    batch.
    """

    def __init__(self) -> None:
        super().__init__(self._run, lambda: None)
        self._done: list[tuple[int, Any]] = []

    def _run(self, parts: list[Any]) -> None:
        function, items = _unpacked(parts)
        for number, item in items:
            task = asyncio.get_running_loop().create_task(_call(function, item))
            task.add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, task: asyncio.Task[Any]) -> None:
        if not self._done:
            asyncio.get_running_loop().call_soon(self._flush)
        self._done.append((number, task.result()))

    def _flush(self) -> None:
        done, self._done = self._done, []
        self.send(_packed(done))


class _Relay(_Frames):
    """Passes frames to a server, and its answers back, unchanged."""

    def __init__(self, beyond: tuple[str, int]) -> None:
        super().__init__(self._pass_on, self._close)
        self._beyond = beyond
        self._early: list[list[Any]] = []
        self._far = _Frames(self.send, self._close)
        self._dialling: asyncio.Task[None]
        self._open = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._dialling = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self._far, *self._beyond)
        self._open = True
        for parts in self._early:
            self._far.send(parts)

    def _pass_on(self, parts: list[Any]) -> None:
        if self._open:
            self._far.send(parts)
        else:
            self._early.append(parts)

    def _close(self) -> None:
        self._transport.close()


async def _call(function: Callable[..., Any], item: Any) -> Any:
    return function(item)
