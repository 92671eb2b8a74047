"""Listings that are shown again when they change: `--watch`.

A listing prints as it does once. What it has printed is drawn on the screen of a terminal, or else written out again
below what was there before.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager, redirect_stdout, suppress
from datetime import datetime
from enum import Enum
from textwrap import wrap
from types import FrameType
from typing import TYPE_CHECKING, Any

import anyio

from grainlike.cli._ask import asking, with_reasons
from grainlike.cli._exits import OK
from grainlike.cli._words import escaped
from grainlike.client import Asker
from grainlike.errors import GrainlikeError
from grainlike.wire import LiveIs

if TYPE_CHECKING:
    from grainlike.client import HeadClient

__all__ = ["Listing", "RedrawOn", "list_or_watch"]

Listing = Callable[[Asker, int | None], Coroutine[Any, Any, int]]
"""Asks a head, and prints what it tells: to people so many rows at most."""

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""To a second screen, without cursor and without wrapping, and back."""

_SHARE = 0.008
"""Largest part of a core that goes into listings in which nothing but times has changed."""


class RedrawOn(Enum):
    """Moments at which a listing is made again: what it shows can have changed then, and at no others."""

    ALWAYS = "as often as was asked for"
    JOBS = "when jobs come, begin or end, and as often as was asked for while some run"
    ENDS = "when jobs end"


def list_or_watch(
    head: str | None,
    insecure: bool,
    listing: Listing,
    every_s: float | None,
    *,
    as_json: bool,
    changes: RedrawOn = RedrawOn.ALWAYS,
) -> int:
    """Make a listing once, or, with `every_s`, at most every so many seconds until Ctrl-C; return the exit code."""
    if every_s is None:
        return asking(head, insecure, lambda caller: listing(caller, None))
    from grainlike.client import view  # loads an event loop, which a listing that is made once does without

    output = _Documents() if as_json else _Screen(every_s) if sys.stdout.isatty() else _Snapshots()
    watch = _Watch(listing, every_s, output, changes)

    async def view_listing() -> int:
        return await view(head, watch.follow, insecure=insecure, lost=output.lose)

    with _sigterm_as_ctrl_c() as signals, suppress(KeyboardInterrupt), output.open():
        return with_reasons(lambda: anyio.run(view_listing))
    return 128 + signals[0] if signals else OK


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[list[int]]:
    """Let SIGTERM end the program in order, so that the terminal is left as it was; yield the signals that came."""
    signals: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler of signals
        signals.append(number)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGTERM, before)


class _Watch:
    """A listing that is made again when it may have changed."""

    def __init__(self, listing: Listing, every_s: float, output: _Output, changes: RedrawOn) -> None:
        self._listing = listing
        self._every_s = every_s
        self._output = output
        self._changes = changes
        self._due = anyio.Event()
        self._timed = True
        """True while times of the listing pass, as those of jobs that run."""
        self._took_s = 0.0
        """Seconds of a core that the last listing took; 0.0 after the first one, which loads modules."""
        self._totals: tuple[int, ...] = ()

    async def follow(self, caller: HeadClient) -> int:
        """Make the listing again and again until the head is lost. Raises as the listing."""
        self._due, self._timed, self._totals = anyio.Event(), self._changes is RedrawOn.ALWAYS, ()
        if self._timed:
            self._due.set()
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            if self._changes is not RedrawOn.ALWAYS:
                tasks.start_soon(self._hear, caller)
            try:
                await self._show(caller)
                self._took_s = 0.0
                while True:
                    await self._show(caller)
            except Exception as error:  # noqa: BLE001 - raised below, outside the group, which would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        assert failure is not None
        raise failure

    async def _show(self, caller: HeadClient) -> None:
        await self._until_due()
        begun = time.process_time()
        await self._output.show(caller, self._listing)
        self._took_s = time.process_time() - begun

    async def _until_due(self) -> None:
        """Wait for a change, or, where times pass, for as long as leaves this below `_SHARE` of a core."""
        pause_s = max(self._every_s, self._took_s / _SHARE)
        with anyio.move_on_after(pause_s) as pause:
            await self._due.wait()
        while pause.cancelled_caught and not (self._timed or self._output.is_resized()):
            with anyio.move_on_after(pause_s) as pause:
                await self._due.wait()
        self._due = anyio.Event()

    async def _hear(self, caller: HeadClient) -> None:
        """Note what the head tells; that it is gone the next question finds, and says why."""
        with suppress(GrainlikeError):
            async with aclosing(caller.live(self._every_s)) as updates:
                async for told in updates:
                    if not told.more:
                        self._take(told)
        self._due.set()

    def _take(self, told: LiveIs) -> None:
        if self._changes is RedrawOn.JOBS:
            self._timed = bool(told.jobs.get("running") or told.jobs.get("stopping"))
            self._due.set()
            return
        counts = told.totals.counts
        if self._totals != counts:
            self._totals = counts
            self._due.set()


class _CapturedOutput(io.StringIO):
    """Output of a listing, as for a terminal or as for a pipe."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class _Output:
    """Output of listings, each only where it differs from the one before."""

    def __init__(self) -> None:
        self._last: object = None
        self._lost = ""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Prepare for listings, and clean up in the end."""
        yield

    async def show(self, caller: HeadClient, listing: Listing) -> None:
        """Make a listing, and show it if it is another than the last one. Raises as the listing."""
        text = await self._printed(caller, listing, None, terminal=False)
        if text != self._last or self._lost:
            self._last, self._lost = text, ""
            self._write(text)

    async def _printed(self, caller: HeadClient, listing: Listing, most: int | None, *, terminal: bool) -> str:
        printed = _CapturedOutput(terminal=terminal)
        with redirect_stdout(printed):
            await listing(caller, most)
        return printed.getvalue()

    def lose(self, why: str) -> None:
        """Tell once that there is no head, and why."""
        if not self._lost:
            print(f"grainlike: {escaped(why)}; waiting until it is there again", file=sys.stderr, flush=True)  # noqa: T201
        self._lost = why

    def is_resized(self) -> bool:
        """Return True if there is more or less room than for the last listing."""
        return False

    def _write(self, text: str) -> None:
        raise NotImplementedError


class _Documents(_Output):
    """Documents of JSON, one a line."""

    def _write(self, text: str) -> None:
        print(json.dumps(json.loads(text)), flush=True)  # noqa: T201 - a command line speaks


class _Snapshots(_Output):
    """Listings one after another, each with its time, for files and pipes."""

    def _write(self, text: str) -> None:
        print(f"# {datetime.now().astimezone().isoformat(timespec='seconds')}\n{text}", flush=True)  # noqa: T201


class _Screen(_Output):
    """Listing on a terminal, drawn over the one before and cut to the screen."""

    def __init__(self, every_s: float) -> None:
        super().__init__()
        self._every_s = every_s
        self._size = shutil.get_terminal_size()
        self._most = self._room
        """Rows of the listing that have room: fewer than lines where rows are of several."""
        self._lines: list[str] = []
        self._head = ""
        self._changed = ""

    @property
    def _room(self) -> int:
        """Lines below ours."""
        return max(1, self._size.lines - 1)

    @contextmanager
    def open(self) -> Iterator[None]:
        entered = False
        try:
            self._put(_ENTER)
            entered = True
            yield
        finally:
            if entered:
                self._put(_LEAVE)

    def is_resized(self) -> bool:
        return shutil.get_terminal_size() != self._size

    async def show(self, caller: HeadClient, listing: Listing) -> None:
        if self.is_resized():
            self._size, self._last = shutil.get_terminal_size(), None
            self._most = self._room
        self._head = caller.link.peer
        lines = await self._lines_of(caller, listing)
        spare = self._room - len(lines)
        while spare < 0 and self._most > 1:
            self._most = max(1, self._most - max(1, -spare * self._most // len(lines)))
            lines = await self._lines_of(caller, listing)
            spare = self._room - len(lines)
        if spare > 2:
            self._most = min(self._room, self._most + spare // 2)
        if lines != self._last or self._lost:
            self._last, self._lost, self._lines = lines, "", lines
            self._changed = datetime.now().astimezone().strftime("%H:%M:%S")
            self._draw()

    async def _lines_of(self, caller: HeadClient, listing: Listing) -> list[str]:
        text = await self._printed(caller, listing, self._most, terminal=True)
        return [part for line in _without_margins(text.splitlines()) for part in self._fitting(line)]

    def _fitting(self, line: str) -> list[str]:
        """Return a line in parts that fit; one with colours is of a table, which fits."""
        return [line] if "\x1b" in line else wrap(line, self._size.columns) or [""]

    def lose(self, why: str) -> None:
        self._lost = why
        self._draw()

    def _draw(self) -> None:
        if self._lost:
            top = [f"no head, waiting until it is there again; this was so at {self._changed}"]
            top += wrap(escaped(self._lost), self._size.columns, max_lines=2)
        else:
            top = [f"{escaped(self._head)}  as of {self._changed}, looked at every {self._every_s:g} s; Ctrl-C ends"]
        lines = [*top, *self._lines]
        if len(lines) > self._size.lines:
            lines = [*lines[: self._size.lines - 1], f"... {len(lines) - self._size.lines + 1} more lines"]
        self._put("\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")

    def _put(self, text: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.flush()
        data = text.encode(encoding, "replace")
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]


def _without_margins(lines: list[str]) -> list[str]:
    """Return lines without empty ones at the beginning and the end."""
    full = [at for at, line in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []
