"""Make the picture of `grainlike top` that docs/top.md shows: `python tests/helpers/top_picture.py docs/top.svg`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import anyio

from grainlike import Cores, Executor, GPUs, cancel, delayed, gather, start
from grainlike.cli._words import amounts, escaped, moment_text, seconds
from grainlike.top import Texts, TopApp

__all__ = ["draw"]


@delayed
async def fit(seed: int) -> None:
    await anyio.sleep_forever()


@delayed
async def preprocess(part: int) -> None:
    if part % 4 == 3:
        raise ValueError(f"part {part} has no header")


@delayed
async def train(seed: int) -> None:
    await anyio.sleep_forever()


async def draw() -> str:
    """Return a picture of a head with jobs of three functions."""
    async with Executor(local=Cores(32) & GPUs(4), listen="tcp://127.0.0.1:0", on_failure="continue"):
        await gather([(preprocess @ Cores(1))(part) for part in range(40)], return_exceptions=True)
        calls = [
            *((train @ (Cores(2) & GPUs(1)))(seed) for seed in range(9)),
            *((fit @ Cores(4))(seed) for seed in range(200)),
        ]
        waits_ = gather(calls)
        start(waits_)
        app = TopApp(None, Texts(escaped, amounts, seconds, moment_text), every_s=0.1)
        async with app.run_test(size=(130, 30)) as pilot:
            await app.connected.wait()
            await anyio.sleep(3)
            await pilot.pause()
            picture = app.export_screenshot(title="grainlike top")
        cancel(waits_)
    # A page of ours loads nothing from elsewhere: whoever reads it has a font of fixed width.
    return re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(anyio.run(draw) + "\n")
