"""Application of `grainlike top`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import ClassVar

import anyio
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from grainlike.client import HeadClient, view
from grainlike.live import LiveState
from grainlike.resources import MEMORY, UNIT, amount_text
from grainlike.top import _tables as tables
from grainlike.top._core_map import CoreMap
from grainlike.top._cores import DETAILED
from grainlike.top._job_screen import JobScreen
from grainlike.top._lists import JobList
from grainlike.top._marks import Marks
from grainlike.top._tables import Texts
from grainlike.wire import AskHistory, AskQueue, EndedJob, HistoryIs, QueueIs

__all__ = ["TopApp"]

_GROUPS, _ENDED, _FAILED = 20, 500, 100
"""Groups of waiting jobs, jobs that have ended, and failures, that are asked for at most."""

_MAP = 0.4
"""Largest part of the screen that the map has."""

_LISTS = ("jobs", "queue", "functions", "failures")

_HELP = """grainlike top: what a head does now.

 1        map: a cell is a core, after | a GPU; letters are functions,
          . is free, ~ is held by a function that the filter leaves out
 2 3 4 5  jobs that run, jobs that wait, functions, failures
 Tab      the next of them
 Enter    the job of the chosen row: explain, and its log
 /        show functions with such a part in their names; empty: all
 m        a cell a core, or a cell a worker: filled in if none is free
 p        pause, and go on
 q        quit

Done, failed and mean are of the last 500 jobs that have ended.

Esc closes this."""


class _HelpScreen(ModalScreen[None]):
    """Screen with the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "app.pop_screen", "Close")]
    CSS: ClassVar[str] = """
    _HelpScreen { align: center middle; }
    #help { width: auto; max-width: 100%; height: auto; border: round $primary; padding: 0 1; }
    _HelpScreen VerticalScroll { width: auto; max-width: 100%; height: auto; max-height: 100%; }
    """

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with VerticalScroll():  # on a low screen
            yield Static(_HELP, id="help", markup=False)


class TopApp(App[None]):
    """Screen of a head: the map of cores, jobs, what waits and why, functions, failures; and one job.

    `head` and `insecure` are as of `view`; `every_s` is the shortest time in seconds between two updates. `failure` is
    the error for which there never was a head.

    Example::

        await TopApp(None, texts).run_async()
    """

    ENABLE_COMMAND_PALETTE: ClassVar[bool] = False
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 - textual's
    CSS: ClassVar[str] = """
    #head { height: 2; }
    #lost { height: auto; max-height: 3; display: none; text-style: reverse; }
    #lists { height: 1fr; }
    #cores, .list {
        border: round $foreground 50%; border-title-color: $foreground; overflow-x: hidden; overflow-y: auto;
        scrollbar-size-vertical: 1;
    }
    #cores:focus, .list:focus { border: round $accent; border-title-style: bold; }
    .-narrow .list { display: none; height: 100%; }
    .-narrow .list.-current { display: block; }
    .-wide #lists { layout: grid; grid-size: 2 2; }
    #filter { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "pane('cores')", "Parts", key_display="1-5"),
        *(Binding(str(number), f"pane('{pane}')", pane, show=False) for number, pane in enumerate(_LISTS, 2)),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "leave_filter", "Back", show=False),
        Binding("m", "map", "Map"),
        Binding("p", "pause", "Pause"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, head: str | Path | None, texts: Texts, *, insecure: bool = False, every_s: float = 1.0) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.client: HeadClient | None = None
        self.connected: anyio.Event = anyio.Event()
        self._head = head
        self._insecure = insecure
        self._every_s = every_s
        self._texts = texts
        self._marks = Marks()
        self._state = LiveState()
        self._queue: QueueIs | None = None
        self._ended: Sequence[EndedJob] = ()
        self._failed: Sequence[EndedJob] = ()
        self._counted = -1, -1
        """Numbers of ended and of failed jobs for which those were asked."""
        self._told_at = time.monotonic()
        self._peer = ""
        self._lost = ""
        self._filter = ""
        self._paused = False
        self._by_worker: bool | None = None
        """True if a person wants a cell a worker; None for what fits."""

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield Static("looking for the head ...", id="head", markup=False)
        yield Static("", id="lost", markup=False)
        yield CoreMap(self._marks, self._texts.escaped, id="cores")
        with Container(id="lists"):
            yield JobList("2 · running", id="jobs", classes="list -current")
            yield JobList("3 · waiting, and why", id="queue", classes="list")
            yield JobList("4 · functions, of the last 500 that ended", id="functions", classes="list")
            yield JobList("5 · failures, the latest first", id="failures", classes="list")
        yield Input(placeholder="part of a function's name", id="filter", compact=True)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Begin to follow the head."""
        self.query_one("#jobs").focus()
        self.set_interval(1.0, self._draw)
        self.run_worker(self._run())

    async def _run(self) -> None:
        try:
            await view(self._head, self._follow, insecure=self._insecure, lost=self._lose)
        except Exception as error:  # noqa: BLE001 - told by the code that runs the application
            self.failure = error
            self.exit()

    async def _follow(self, client: HeadClient) -> None:
        try:
            async with aclosing(client.live(self._every_s)) as updates:
                async for told in updates:
                    if not self._state.take(told):
                        continue
                    self._told_at = time.monotonic()
                    await self._ask(client)
                    if self.client is None:
                        self._peer, self._lost = client.link.peer, ""
                        self.client = client
                        self.connected.set()
                    self._draw()
        finally:
            self.client, self.connected = None, anyio.Event()

    async def _ask(self, client: HeadClient) -> None:
        """Ask for what has changed beside the live state. Raises as `HeadClient.ask`."""
        state, totals = self._state, self._state.totals
        assert totals is not None
        waits = state.jobs.get("queued", 0) + state.jobs.get("backoff", 0)
        self._queue = await client.ask(AskQueue(0, _GROUPS), QueueIs) if waits else None
        failed = totals.failed + totals.timed_out
        ended = totals.succeeded + totals.cancelled + totals.skipped + failed
        before, self._counted = self._counted, (ended, failed)
        if ended != before[0]:
            self._ended = (await client.ask(AskHistory(0, _ENDED), HistoryIs)).jobs
        if failed != before[1]:
            question = AskHistory(0, _FAILED, outcomes=["failed", "timed_out"])
            self._failed = (await client.ask(question, HistoryIs)).jobs

    def _lose(self, why: str) -> None:
        self._lost, self._counted = why, (-1, -1)
        self._draw()

    # --- what is drawn -----------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Draw what has changed, if there is something to draw on."""
        if self._paused or not self.is_running or self.screen is not self.screen_stack[0] or not self._peer:
            return
        state, wanted, texts = self._state, self._wanted, self._texts
        now = state.at + (0.0 if self._lost else time.monotonic() - self._told_at)
        self.query_one("#head", Static).update(self._words(now), layout=False)  # of two lines always
        lost = self.query_one("#lost", Static)
        if lost.display or self._lost:
            lost.display = bool(self._lost)
            lost.update(texts.escaped(f"no head, waiting until it is there again: {self._lost}"))
        functions = tables.functions(state, self._ended, self._marks, wanted, texts)
        self.query_one("#jobs", JobList).show(tables.running(state, now, wanted, texts))
        self.query_one("#queue", JobList).show(tables.queue(self._queue, wanted, texts))
        self.query_one("#functions", JobList).show(functions)
        self.query_one("#failures", JobList).show(tables.failures(self._failed, wanted, texts))
        by_worker = len(state.workers) > DETAILED if self._by_worker is None else self._by_worker
        cores = self.query_one(CoreMap)
        title = "1 · workers" if by_worker else "1 · cores"
        if title != cores.border_title:  # to set it draws all of it again
            cores.border_title = title
        names = list(dict.fromkeys(job.name for job in state.all_running() if wanted(job.name)))
        cores.show(state, by_worker=by_worker, wanted=wanted, legend=names)
        height = max(4, min(cores.virtual_size.height + 2, int(self.size.height * _MAP)))
        if height != cores.outer_size.height:  # to set it arranges all again
            cores.styles.height = height

    def _words(self, now: float) -> str:
        state, texts = self._state, self._texts
        jobs = ", ".join(f"{count:,} {name}" for name, count in state.jobs.items()) or "no jobs"
        totals = state.totals
        assert totals is not None
        marks = [f"filter: {self._filter}"] if self._filter else []
        first = [f"head {self._peer}", f"up {texts.seconds(state.up_s + now - state.at)}"]
        first += [f"workers {len(state.workers):,}", f"clients {state.clients:,}", *_values(state), *marks]
        pace = f"{state.throughput.rate(now):.1f} jobs/s, {state.throughput.failures(now):.1f} failures/s"
        ended = f"{totals.failed + totals.timed_out:,} failed, {totals.succeeded:,} done"
        # A narrow screen cuts it at the right: what has failed stands first.
        return f"{texts.escaped('  '.join(first))}\n{ended}  {jobs}  {pace}"

    def _wanted(self, name: str) -> bool:
        return self._filter.casefold() in name.casefold()

    # --- what a person does ------------------------------------------------------------------------------------------

    def action_pane(self, pane: str) -> None:
        """Go to a part of the screen, and show it where there is room for one list alone."""
        self.query_one(f"#{pane}").focus()
        if pane in _LISTS:
            for other in _LISTS:
                self.query_one(f"#{other}").set_class(other == pane, "-current")

    def action_filter(self) -> None:
        """Ask for a part of a name."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Show functions with such names alone."""
        self._filter = event.value
        self.action_leave_filter()
        self._draw()

    def action_leave_filter(self) -> None:
        """Go back to the lists."""
        self.query_one("#filter").display = False
        self.query_one(".-current").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Return True for what can be done now: on the screen of a job, and over the help, that is to quit."""
        mine = action in ("pane", "filter", "leave_filter", "map", "pause", "help")
        return not mine or len(self.screen_stack) == 1

    def action_map(self) -> None:
        """Change between a cell a core and a cell a worker."""
        now = len(self._state.workers) > DETAILED if self._by_worker is None else self._by_worker
        self._by_worker = not now
        self._draw()

    def action_pause(self) -> None:
        """Draw nothing any more, or go on."""
        self._paused = not self._paused
        self.query_one("#head", Static).update("paused; p goes on") if self._paused else self._draw()

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(_HelpScreen())

    def on_job_list_opened(self, event: JobList.Opened) -> None:
        """Show a job."""
        self.push_screen(JobScreen(event.job, self, self._every_s, self._texts))

    def on_resize(self) -> None:
        """Draw again once the parts have their places."""
        self.call_after_refresh(self._draw)


def _values(state: LiveState) -> list[str]:
    """Return how many bytes of large values are at workers, and moved between them; nothing where there are none."""
    stored, spilled = (sum(getattr(row, name) for row in state.workers.values()) for name in ("stored", "spilled"))
    moved = 0 if state.totals is None else state.totals.moved
    named = {"stored": stored, "on disk": spilled, "moved": moved}
    return [f"{name} {amount_text(MEMORY, size * UNIT)}" for name, size in named.items() if size]
