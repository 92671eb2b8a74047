"""Links beside what they stand on: round trips, small frames in bulk, and large buffers, over a Unix socket pair.

`TLS` is `adopted` with TLS 1.3 on both ends. They share one process here, so both ends' ciphers share one core.

`raw` is the least that asyncio can do: a protocol that sends bytes back, with no frames at all.
"""

import asyncio
import functools
import socket
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import anyio
import anyio.lowlevel
from anyio.abc import UNIXSocketStream

from grainlike.net import (
    Link,
    StreamLink,
    Tls,
    adopt,
    client_tls,
    make_credentials,
    memory_pair,
    server_tls,
    shake_hands,
)
from grainlike.wire import Beat, Frame

ROUNDS = 5
TRIPS = 2_000
SMALL = 50_000
LARGE = 64 * 1024 * 1024

Pair = Callable[[], Awaitable[tuple[Link, Link]]]


async def protocol_pair() -> tuple[Link, Link]:
    near, far = socket.socketpair()
    return await adopt(near), await adopt(far)


async def stream_pair() -> tuple[Link, Link]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    return (
        StreamLink(await UNIXSocketStream.from_socket(near), "near"),
        StreamLink(await UNIXSocketStream.from_socket(far), "far"),
    )


@functools.cache
def sides() -> tuple[Tls, Tls]:
    """The head's side of TLS and a worker's."""
    credentials = make_credentials("bench")
    return server_tls("bench", credentials["head"]), client_tls("bench", credentials["worker"])


async def tls_pair() -> tuple[Link, Link]:
    links: dict[bool, Link] = {}

    async def make(sock: socket.socket, tls: Tls) -> None:
        sock.setblocking(False)
        links[tls.is_server] = await adopt(sock, tls=await shake_hands(sock, tls))

    near, far = socket.socketpair()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make, near, sides()[0])
        tasks.start_soon(make, far, sides()[1])
    return links[True], links[False]


async def memory() -> tuple[Link, Link]:
    return memory_pair()


async def round_trip(pair: Pair) -> float:
    """Microseconds for one frame there and back, one at a time."""
    near, far = await pair()
    left = TRIPS

    def again(frames: list[Frame]) -> None:
        nonlocal left
        left -= 1
        if left:
            near.post(Beat(left))
        else:
            near.close()

    started = time.perf_counter()
    near.post(Beat(left))
    await both(near, again, far, lambda frames: [far.post(*frame) for frame in frames])
    return (time.perf_counter() - started) / TRIPS * 1e6


async def small_frames(pair: Pair) -> float:
    """Frames a second, one way, posted a hundred in each turn of the loop."""
    near, far = await pair()
    left = SMALL

    def count(frames: list[Frame]) -> None:
        nonlocal left
        left -= len(frames)
        if not left:
            far.close()

    async def feed() -> None:
        for start in range(0, SMALL, 100):
            for number in range(start, start + 100):
                near.post(Beat(number))
            await anyio.lowlevel.checkpoint()

    started = time.perf_counter()
    await both(near, lambda frames: None, far, count, feed)
    return SMALL / (time.perf_counter() - started)


async def large_buffer(pair: Pair) -> float:
    """Megabytes a second, one way, in one buffer."""
    near, far = await pair()
    near.trust()
    far.trust()
    data = bytes(LARGE)
    started = time.perf_counter()
    near.post(Beat(1), [data])
    await both(near, lambda frames: None, far, lambda frames: far.close())
    return LARGE / (time.perf_counter() - started) / 1e6


async def both(
    near: Link,
    on_near: Callable[[list[Frame]], object],
    far: Link,
    on_far: Callable[[list[Frame]], object],
    *others: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(near.run, on_near)
        tasks.start_soon(far.run, on_far)
        for other in others:
            tasks.start_soon(other)


async def raw_round_trip() -> float:
    """Microseconds for as many bytes as a small frame has, there and back, through bare asyncio protocols."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    class Echo(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast("asyncio.Transport", transport)

        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

    class Ask(Echo):
        left = TRIPS

        def data_received(self, data: bytes) -> None:
            self.left -= 1
            if self.left:
                self.transport.write(data)
            else:
                done.set_result(None)

    near, far = socket.socketpair()
    for sock in (near, far):
        sock.setblocking(False)
    _, echo = await loop.connect_accepted_socket(Echo, far)
    _, ask = await loop.connect_accepted_socket(Ask, near)
    started = time.perf_counter()
    ask.transport.write(bytes(11))
    await done
    took = time.perf_counter() - started
    ask.transport.close()
    echo.transport.close()
    return took / TRIPS * 1e6


def main() -> None:
    """Print one line for each way and each loop; the systems take turns, and each figure is a median."""
    loops: dict[str, dict[str, object]] = {"asyncio": {}, "uvloop": {"use_uvloop": True}, "trio": {}}
    ways: dict[str, Pair] = {"adopted": protocol_pair, "stream": stream_pair, "TLS": tls_pair, "memory": memory}
    print(f"{'':18}{'round trip µs':>15}{'small frames/s':>18}{'large MB/s':>14}")
    for loop, options in loops.items():
        backend = "trio" if loop == "trio" else "asyncio"
        figures: dict[str, list[list[float]]] = {way: [[], [], []] for way in ways}
        raw: list[float] = []
        for _ in range(ROUNDS):
            for way, pair in ways.items():
                for column, measure in zip(figures[way], (round_trip, small_frames, large_buffer), strict=True):
                    column.append(anyio.run(measure, pair, backend=backend, backend_options=options))
            if backend == "asyncio":
                raw.append(anyio.run(raw_round_trip, backend=backend, backend_options=options))
        for way, (trips, small, large) in figures.items():
            middle = [statistics.median(column) for column in (trips, small, large)]
            print(f"{loop + ' ' + way:18}{middle[0]:15.1f}{middle[1]:18,.0f}{middle[2]:14,.0f}")
        if raw:
            print(f"{loop + ' raw':18}{statistics.median(raw):15.1f}")
