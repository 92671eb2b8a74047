"""A program of a session, which tests kill: it names a call with a large argument, and waits for ever."""

from __future__ import annotations

import asyncio
import sys

import numpy as np
from argument_calls import entered
from waiting import until

from grainlike import Cores, connect, delayed_value
from grainlike.client import _held_calls

_held_calls.HELD_S = 1000.0  # however busy the machine is


async def main(address: str, size: int, go_on: str, names: list[str]) -> None:
    async with connect(address, session="s") as client:
        await client.wait_for_workers(1)
        model_ = delayed_value(np.full(size // 8, 1.0))
        for name in names:
            client.name(name, (entered @ Cores(1))(model_, go_on))

        async def accepted() -> bool:
            return len(await client.named("s")) == len(names)

        await until(accepted)  # a head tells nobody of itself
        print("accepted", client.report().sent, flush=True)
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
