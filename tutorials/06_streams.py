"""Streams: values that come one after another, from a job and through jobs.

An `async def` with `yield` becomes a stream when it is delayed. `async for` reads it: the generator runs where its
request says, and its items are sent here as they are made. It runs at most 16 items (or 4 MiB) ahead, so a slow reader
slows it down, and items do not pile up in between. It holds its slots until it has ended.

A reader that stops reading ends the stream: by `break`, by an exception, by cancellation. The generator's `finally`
runs where the generator is. An exception in the generator is raised here, after the items before it.

`amap` sends the items of a source through jobs: it calls a function for each. The source may be a list, a generator, a
stream or another `amap`, and may be endless. At most `in_flight` items are taken and not yet given on. So memory stays
flat for any number of them. Calls that take microseconds are sent together, many in one job.

A stream is read once, and no item of it is kept. It is tried again, by `retries` or because its worker was lost, only
while no item has arrived. After that a loss is a `WorkerLostError`.

It prints::

    readings: [20, 21, 22, 23]
    the generator: closed on 1 core
    smoothed: [20.5, 21.5, 22.5, 23.5]
    the first ten squares are there, and at most 74 numbers were taken: True
    100000 tiny calls gave 9999900000
    before it failed: 1.0
    before it failed: 0.5
    it failed: 1 / 0
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory

from grainlike import GVAR, Cores, amap, delayed, run


def close(log: str) -> None:
    Path(log).write_text(f"closed on {GVAR.res.N} core")


@delayed
async def sensor(log: str, first: int) -> AsyncIterator[int]:
    """An endless stream. Its `finally` closes what it holds open, also when the reader stops."""
    reading = first
    try:
        while True:
            yield reading
            reading += 1
    finally:
        close(log)


@delayed
def smooth(reading: int) -> float:
    """A plain function: its calls run in pinned processes."""
    return reading + 0.5


@delayed
def double(number: int) -> int:
    return 2 * number


@delayed
async def square(number: int) -> int:
    await asyncio.sleep(0)
    return number * number


@delayed
async def halves(divisors: list[int]) -> AsyncIterator[float]:
    for divisor in divisors:
        if divisor == 0:
            raise ZeroDivisionError("1 / 0")
        yield 1 / divisor


class Counted:
    """A source that counts what is taken from it."""

    def __init__(self) -> None:
        self.taken = 0

    def __iter__(self) -> Iterator[int]:
        for number in itertools.count():
            self.taken += 1
            yield number


async def main() -> None:
    with TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        readings = []
        async for reading in (sensor @ Cores(1))(str(log), 20):
            readings.append(reading)
            if len(readings) == 4:
                break  # the generator is cancelled
        print("readings:", readings)
        while not (log.exists() and log.read_text()):
            await asyncio.sleep(0.01)
        print("the generator:", log.read_text())

        # A stream may be the source of an amap. `aclosing` ends both at a place of your choice.
        async with aclosing(amap(smooth @ Cores(1), (sensor @ Cores(1))(str(log), 20))) as smoothed:
            print("smoothed:", [await anext(smoothed) for _ in range(4)])

    source, squares = Counted(), []
    async for value in amap(square @ Cores(1), source, in_flight=64, ordered=False):
        squares.append(value)
        if len(squares) == 10:
            break
    print("the first ten squares are there, and at most 74 numbers were taken:", source.taken <= 74)

    total = 0
    async for value in amap(double @ Cores(1), range(100_000), in_flight=2000):
        total += value
    print("100000 tiny calls gave", total)

    try:
        async for value in (halves @ Cores(1))([1, 2, 0, 8]):
            print("before it failed:", value)
    except ZeroDivisionError as error:
        print("it failed:", error)


if __name__ == "__main__":
    run(main, local=Cores(2))
