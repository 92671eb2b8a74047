"""`progress`: shows how far the calls of a program are, while they run.

The engine says which nodes it has bound, and from then on a node tells by its state what becomes of it, wherever it
runs. So the calls themselves cost nothing more: they are counted when they are shown, a few times a second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

import anyio
from anyio.lowlevel import checkpoint

from grainlike.engine import BaseResolver
from grainlike.eventloop import here, spawn_detached
from grainlike.executor._current import find
from grainlike.executor._displays import Display, display_here
from grainlike.graph import Function, Node, RunsIn, State
from grainlike.observe import CallCounts, ProgressCounter

__all__ = ["Progress", "progress"]

logger = logging.getLogger("grainlike")

_SHARE = 0.02
"""Largest share of the event loop's time for counting and showing."""

_RAREST_S = 5.0
"""Longest time between two updates; with it the share may be exceeded."""

_STEP = 8192
"""Nodes that are counted before others get a turn: some 0.5 ms."""

_OURS = ("grainlike.calls.", "grainlike.maps.")
"""Modules whose functions are no calls of the user's: jobs that carry calls, and readers of sources."""

_RUNNING = State.RUNNING

_shown: list[Progress] = []
"""The one that is shown in this process, if there is one."""


def progress(*, lines_every: float | None = None) -> Progress:
    """Show the progress of the calls that begin in a `with` block: a bar for each function.

    It counts the calls of the executor that an `await` at the beginning of the block would use: jobs, calls without
    resources, and the calls that they depend on, whichever task awaits them, from the moment at which they are
    submitted; of `connect(session=...)` also the named calls that had begun before and have not ended, whichever
    program began them, and those that had ended, if `executor.name(..., exist_ok=True)` has found them. Operators are
    no calls, and calls that jobs submit are not counted. `done` is the number of calls with a value, and `left` the
    time until all known calls have ended, `-` if that is unknown; the pace is that of calls that were not found ended.
    The bars are below the output of the program and its jobs on the terminal, or in the output of a notebook's cell. At
    the end they keep the last figures.

    Without a terminal or a notebook it does nothing, unless `lines_every` is given. Inside another `progress` it does
    nothing, because that one shows the calls already.

    Args:
        lines_every: seconds between two lines of text on standard error, if there is neither terminal nor notebook.

    Raises:
        RuntimeError: no event loop is running here (write `run(main, progress=True)`); or as an `await` here would.
        ValueError: `lines_every` is no positive number.

    Example::

        with progress():
            print(sum(await gather(simulate(seed) for seed in range(1000))))
    """
    return Progress(lines_every)


class Progress:
    """Context manager, for `with` and `async with`, that shows the progress of calls; made by `progress`.

    Args:
        lines_every: seconds between two lines of text, if there is neither terminal nor notebook; None for no lines.
    """

    def __init__(self, lines_every: float | None = None) -> None:
        if lines_every is not None and not lines_every > 0:
            raise ValueError(f"lines_every= takes a positive number of seconds, not {lines_every!r}")
        self._lines_every = lines_every
        self._display: Display | None = None

    def __enter__(self) -> Self:
        if here() is None:
            raise RuntimeError("no event loop is running here: write `run(main, progress=True)`")
        executor = find()
        display = None if _shown else display_here(self._lines_every)
        if display is not None:
            self._open(executor, display)
        return self

    def _open(self, executor: BaseResolver, display: Display) -> None:
        self._executor = executor
        self._calls = CallsUnderWay()
        self._counter = ProgressCounter(time.monotonic())
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        self._every_s = display.every_s
        display.open()
        self._display = display
        _shown.append(self)
        self._calls.add(executor.under_way())
        executor.report_bound(self._calls.add)
        executor.report_found(self._calls.find)
        self._task = spawn_detached(executor.loop_id, "grainlike progress", self._show_on)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is None:
            return
        self._scope.cancel()
        try:
            for _ in self._calls.count():
                pass
            self._show()
        except Exception as failure:  # noqa: BLE001 - the program's work does not depend on its display
            _log(failure)
        finally:
            self._stop()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shown = self._display is not None
        self.__exit__(kind, error, trace)
        if shown:  # the loop may end next, and its tasks are to have ended; that takes a turn or two
            with anyio.move_on_after(1.0, shield=True):
                await self._over.wait()

    async def _show_on(self) -> None:
        """Count and show until the block ends; what goes wrong ends the display alone."""
        try:
            with self._scope:
                await self._show_again_and_again()
        except Exception as error:  # noqa: BLE001 - the program's work does not depend on its display
            _log(error)
            self._stop()
        finally:
            self._over.set()

    async def _show_again_and_again(self) -> None:
        await anyio.sleep(self._every_s)
        while self._display is not None:
            spent = 0.0
            began = time.thread_time()
            for _ in self._calls.count():
                spent += time.thread_time() - began
                await checkpoint()
                began = time.thread_time()
            self._show()
            spent += time.thread_time() - began
            await anyio.sleep(max(self._every_s, min(spent / _SHARE, _RAREST_S)))

    def _show(self) -> None:
        now = time.monotonic()
        if self._display is None:
            return
        self._counter.take(now, self._calls.counts, self._calls.found)
        rows = self._counter.rows(now, self._display.most)
        if rows:
            self._display.show(rows)

    def _stop(self) -> None:
        display, self._display = self._display, None
        if display is None:
            return
        self._executor.report_bound(None)
        self._executor.report_found(None)
        _shown.remove(self)
        with suppress(OSError, ValueError):  # the terminal is gone
            display.close()


def _log(error: Exception) -> None:
    logger.warning("progress is shown no more: %r", error)


class CallsUnderWay:
    """Calls of an engine by the names of their functions, and their `counts` as of the last time that they were
    counted. Those that were `found` had ended before, and are counted apart.
    """

    def __init__(self) -> None:
        self.counts: dict[str, CallCounts] = {}
        self.found: dict[str, CallCounts] = {}
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[Function, _Group | None] = {}

    def add(self, nodes: Sequence[Node]) -> None:
        """Add the calls among nodes that were just bound."""
        group_of, last, group = self._group_of, None, None
        for node in nodes:
            if node.place is RunsIn.INLINE:
                continue
            function = node.function
            if function is not last:
                last = function
                group = group_of[function] if function in group_of else self._new_group(function)
            if group is None:
                continue
            if function.many:
                group.add_many(node)
            else:
                group.alone.append(node)

    def find(self, node: Node) -> None:
        """Count a call that had ended before."""
        name = node.function.name
        self.found[name] = self.found.get(name, CallCounts()) + replace(_ended_alone([node.state]), known=1)

    def _new_group(self, function: Function) -> _Group | None:
        """Return the group of a function's name; None for a function of ours."""
        module = getattr(function.callable, "__module__", None)
        group = None
        if not (isinstance(module, str) and module.startswith(_OURS)):
            group = self._groups.setdefault(function.name, _Group())
        self._group_of[function] = group
        return group

    def count(self) -> Iterator[None]:
        """Count again what has not ended; yields now and then, for others to get a turn."""
        for name, group in list(self._groups.items()):
            yield from group.count()
            self.counts[name] = group.counts


class _Group:
    """Calls of functions of one name. Those that have ended are counted, and let go of."""

    def __init__(self) -> None:
        self.counts = CallCounts()
        self.alone: list[Node] = []
        """Nodes of one call that had not ended when they were last counted."""
        self._together: list[tuple[Node, int]] = []
        """Nodes of several calls, with how many they are."""
        self._ended = CallCounts()

    def add_many(self, node: Node) -> None:
        """Add a node whose one argument is a list of calls; it is asked now, for the node will let go of it."""
        args, _ = node.given
        self._together.append((node, len(args[0])))

    def count(self) -> Iterator[None]:
        """Count the calls; yields now and then. One that is left in the middle has counted nothing."""
        calls = len(self.alone)
        running, ended = 0, self._ended
        left: list[Node] = []
        for at in range(0, calls, _STEP):
            part = self.alone[at : min(calls, at + _STEP)]
            unfinished = [node for node in part if not node.finished]
            running += len([node for node in unfinished if node.state is _RUNNING])
            if len(unfinished) < len(part):
                ended += _ended_alone([node.state for node in part if node.finished])
            left += unfinished
            yield
        self.alone = left + self.alone[calls:]
        self._ended = ended
        running += self._count_together()
        ended = self._ended
        known = ended.ended + len(self.alone) + sum(calls for _, calls in self._together)
        self.counts = CallCounts(known, running, ended.succeeded, ended.failed, ended.cancelled)

    def _count_together(self) -> int:
        """Count nodes of several calls, of which few are under way at a time; return how many calls run."""
        together, self._together = self._together, []
        running = 0
        for node, calls in together:
            if not node.finished:
                self._together.append((node, calls))
                running += calls if node.state is _RUNNING else 0
            else:
                self._ended += _ended_together(node, calls)
        return running


def _ended_alone(states: Sequence[State]) -> CallCounts:
    succeeded = states.count(State.SUCCEEDED)
    failed, cancelled = states.count(State.FAILED), states.count(State.CANCELLED)
    return CallCounts(0, 0, succeeded, failed, cancelled)


def _ended_together(node: Node, calls: int) -> CallCounts:
    """Return what became of the calls of one node: values up to the first failure, and nothing of those after it."""
    if node.state is State.FAILED:
        return CallCounts(failed=calls)
    if node.state is State.CANCELLED:
        return CallCounts(cancelled=calls)
    values, failure = node.value
    failed = 0 if failure is None else 1
    return CallCounts(0, 0, len(values), failed, calls - len(values) - failed)
