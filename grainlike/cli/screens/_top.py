"""`grainlike top`: the screen of a head that stays open, and ends with its terminal."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from grainlike.cli._ask import with_reasons
from grainlike.cli._exits import OK
from grainlike.cli._past import ended_words
from grainlike.cli._words import amounts, escaped, moment_text, seconds
from grainlike.top import Texts, TopApp

__all__ = ["LOOK_S", "show_top"]

LOOK_S = 1.0
"""Seconds between two looks at whether the terminal is there."""


def show_top(head: str | None, insecure: bool, every_s: float) -> int:
    """Show a head until a person quits; return the exit code."""
    app = TopApp(head, Texts(escaped, amounts, seconds, moment_text, ended_words), insecure=insecure, every_s=every_s)

    async def main() -> int:
        with _drawing_on_the_terminal():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_end_without_terminal, app)
                await app.run_async()
                tasks.cancel_scope.cancel()
        if app.failure is not None:
            raise app.failure
        return OK

    return with_reasons(lambda: anyio.run(main))


async def _end_without_terminal(app: TopApp) -> None:
    """Exit once the terminal is gone: not every one sends SIGHUP as it closes, and textual reads nothing for ever."""
    gone = select.poll()
    gone.register(sys.stdin.fileno(), 0)  # a hang-up is told in any case
    while not gone.poll(0):  # noqa: ASYNC110 - there is no event to wait for that textual would not take
        await anyio.sleep(LOOK_S)
    app.exit()


@contextmanager
def _drawing_on_the_terminal() -> Iterator[None]:
    """Context manager: what textual draws goes to the terminal of standard output. It writes to standard error, which
    may lead to a file.
    """
    if sys.stderr.isatty():
        yield
        return
    sys.stderr.flush()
    before = os.dup(sys.stderr.fileno())
    os.dup2(sys.stdout.fileno(), sys.stderr.fileno())
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, sys.stderr.fileno())
        os.close(before)
