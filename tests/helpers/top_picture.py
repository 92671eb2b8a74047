"""Picture of `grainlike top` that docs/top.md shows."""

from __future__ import annotations

import re

import anyio
from textual.pilot import Pilot
from waiting import until

from grainlike import Cores, Executor, GPUs, cancel, delayed, gather, start
from grainlike.cli._past import ended_words
from grainlike.cli._words import amounts, escaped, moment_text, seconds
from grainlike.top import Texts, TopApp

__all__ = ["draw"]

_THERE = ("10 running", "194", "waits for room", "train", "preprocess", "ValueError: part 39")
"""Texts on the screen once it knows all of the scene."""


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
        app = TopApp(None, Texts(escaped, amounts, seconds, moment_text, ended_words), every_s=0.1)
        async with app.run_test(size=(130, 30)) as pilot:
            await app.connected.wait()
            picture = await until(lambda: _complete(pilot))
        cancel(waits_)
    # A page of ours loads nothing from elsewhere: whoever reads it has a font of fixed width.
    return re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL) + "\n"


async def _complete(pilot: Pilot[None]) -> str:
    await pilot.pause()
    picture = pilot.app.export_screenshot(title="grainlike top")
    plain = picture.replace("&#160;", " ")
    return picture if all(text in plain for text in _THERE) else ""
