"""Screen of one job: where it stands, and the end of what it has printed."""

from __future__ import annotations

import re
from collections import deque
from contextlib import aclosing
from typing import ClassVar, Protocol

import anyio
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Log, Static

from grainlike.client import HeadClient, RefusedQueryError
from grainlike.errors import HeadLostError
from grainlike.top._tables import Texts
from grainlike.wire import AskHistory, AskJob, HistoryIs, JobIs

__all__ = ["TAIL", "HeadConnection", "JobScreen"]

TAIL = 2_000
"""Lines of a job's output that are kept, the last ones: a log of any size takes no more room."""

_FLUSH_S = 0.25
"""Seconds between two moments at which new lines are drawn."""

_COLOURS = re.compile(r"\x1b\[[0-9;]{0,32}m")


class HeadConnection(Protocol):
    """Connection to the head, while there is one."""

    client: HeadClient | None
    connected: anyio.Event


class JobScreen(Screen[None]):
    """Screen of one job."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "leave", "Back"),
        Binding("f", "follow", "Follow"),
    ]
    CSS = """
    #explained, #log { border: round $foreground 50%; border-title-color: $foreground; scrollbar-size: 1 1; }
    #explained { height: auto; max-height: 40%; }
    #log { height: 1fr; overflow: auto auto; background: $background; }
    #log:focus { border: round $accent; }
    """

    def __init__(self, job: int, head: HeadConnection, every_s: float, texts: Texts) -> None:
        super().__init__()
        self._job = job
        self._head = head
        self._every_s = every_s
        self._texts = texts
        self._fresh: deque[str] = deque(maxlen=TAIL)
        self._at = 0
        """Line at the top when its end was last shown: a person who has scrolled up is above it."""

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with VerticalScroll(id="explained"):
            yield Static("...", id="words", markup=False)
        yield Log(max_lines=TAIL, auto_scroll=False, id="log")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Begin to ask."""
        self.query_one("#explained").border_title = f"job {self._job}"
        self.query_one(Log).border_title = f"log, the last {TAIL:,} lines"
        self.query_one(Log).focus()
        self.set_interval(_FLUSH_S, self._flush)
        self.run_worker(self._explain())
        self.run_worker(self._read())

    async def _explain(self) -> None:
        while True:
            try:
                words = (await (await self._client()).ask(AskJob(0, self._job), JobIs)).words
            except RefusedQueryError as error:
                self._say(await self._became(str(error)))
                return
            except HeadLostError as error:
                words = f"no head: {error}"
            self._say(words)
            await anyio.sleep(self._every_s)

    async def _became(self, refusal: str) -> str:
        """Return what became of a job that is there no more; the refusal if the head does not know."""
        try:
            found = await (await self._client()).ask(AskHistory(0, 1, job=self._job), HistoryIs)
        except (RefusedQueryError, HeadLostError):
            return refusal
        return "\n".join(self._texts.ended(found.jobs[0])) if found.jobs else refusal

    def _say(self, words: str) -> None:
        text = "\n".join(map(self._texts.escaped, words.splitlines()))
        self.query_one("#words", Static).update(text)

    async def _read(self) -> None:
        silent = True
        while True:
            client = await self._client()
            try:
                async with aclosing(client.logs(self._job, follow=True)) as lines:
                    async for line in lines:
                        silent = False
                        self._fresh.append(line)
                if silent:
                    self._fresh.append("[it has written nothing]")
                return
            except RefusedQueryError as error:
                self._fresh.append(f"[{error}]")
                return
            except HeadLostError:
                self._fresh.append("[no head; what is kept of its output follows again when there is one]")
                await anyio.sleep(_FLUSH_S)  # what follows the head may hear of its loss later

    async def _client(self) -> HeadClient:
        while self._head.client is None:
            await self._head.connected.wait()
        return self._head.client

    def _flush(self) -> None:
        log = self.query_one(Log)
        if not log.size.height:
            return
        follows = log.scroll_offset.y >= self._at or log.is_vertical_scroll_end
        if self._fresh:
            log.write_lines([self._texts.escaped(_COLOURS.sub("", line).expandtabs()) for line in self._fresh])
            self._fresh.clear()
        # Its end also moves without new lines, as its scroll bars come or the terminal changes its size.
        if follows and log.scroll_offset.y < log.max_scroll_y:
            log.scroll_end(animate=False, immediate=True)
        if follows:
            self._at = log.scroll_offset.y

    def action_follow(self) -> None:
        """Go to the end of the log, and stay there while it grows; a person who scrolls up stays where they are."""
        self.query_one(Log).scroll_end(animate=False)

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(None)
