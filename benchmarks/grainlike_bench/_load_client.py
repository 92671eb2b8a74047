"""A program that submits many tiny jobs to a head and waits for them; it says when each of both is done."""

from __future__ import annotations

import argparse
import asyncio
import time

from grainlike import Cores, connect, delayed, gather, start


def short(number: int) -> None:
    """What the jobs are: light workers do not call it."""


def long(number: int) -> None:
    """The same by another name, for a head remembers how long jobs of a function take."""


async def submit(access: str, function: str, count: int) -> None:
    async with connect(access) as executor:
        job = delayed(long if function == "long" else short) @ Cores(1)
        begun = time.monotonic()
        all_of_them = start(gather(job(number) for number in range(count)))
        print(f"started {time.monotonic() - begun:.3f}", flush=True)
        await all_of_them
        print(f"done {time.monotonic() - begun:.3f} of {executor.report().succeeded}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("access", help="the path of client.json")
    parser.add_argument("function", choices=["short", "long"])
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    asyncio.run(submit(options.access, options.function, options.count))


if __name__ == "__main__":
    main()
