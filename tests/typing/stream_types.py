"""What type checkers say of streams and `amap`. Checked by `make check`, never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import assert_type

from grainlike.graph import Delayed, Stream, StreamFn, cancel, delayed, graph, info, start
from grainlike.maps import amap
from grainlike.resources import Cores


@delayed
async def lines(path: str, *, skip: int = 0) -> AsyncIterator[bytes]:
    yield f"{path}{skip}".encode()


@delayed(retries=1, timeout=2.0, isolate=True)
async def frames(path: str) -> AsyncIterator[int]:
    yield len(path)


@delayed
def length(text: bytes) -> int:
    return len(text)


@delayed
async def fetch(url: str, tries: int = 3) -> bytes:
    return f"{url}{tries}".encode()


class Camera:
    @delayed
    async def shots(self, n: int) -> AsyncIterator[float]:
        yield float(n)


async def strings() -> AsyncIterator[str]:
    yield "a"


def calls_are_checked_exactly(path_: Delayed[str]) -> None:
    assert_type(lines("a"), Stream[bytes])
    assert_type(lines("a", skip=2), Stream[bytes])
    assert_type((lines @ Cores(1))("a"), Stream[bytes])
    assert_type((frames @ Cores(1))("a"), Stream[int])
    assert_type(lines(path_, skip=2), Stream[bytes])
    assert_type(Camera().shots(3), Stream[float])
    lines(3)  # type: ignore[call-overload]
    lines("a", 3)  # type: ignore[call-overload]


def functions_keep_their_types(make: Callable[[int], AsyncIterator[str]]) -> None:
    assert_type(delayed(make), StreamFn[[int], str])
    assert_type(delayed(partial(make, 3))(), Stream[str])


def questions_take_streams() -> None:
    stream = lines("a")
    assert_type(start(stream), Stream[bytes])
    assert_type(cancel(stream), bool)
    assert_type(info(stream).state, str)
    graph(stream)


async def items_have_their_type() -> None:
    async for line in (lines @ Cores(1))("a"):
        assert_type(line, bytes)
    assert_type([item async for item in frames("a")], list[int])
    await lines("a")  # type: ignore[misc]


async def amap_gives_what_the_function_gives() -> None:
    async for n in amap(length @ Cores(1), [b"a"], in_flight=3, ordered=False):
        assert_type(n, int)
    async for page in amap(fetch @ Cores(1), strings()):
        assert_type(page, bytes)
    async with aclosing(amap(length, lines("a"))) as lengths:
        assert_type([n async for n in lengths], list[int])
    amap(lines @ Cores(1), ["a"])  # type: ignore[arg-type]
    amap(len, ["a"])  # type: ignore[arg-type]
