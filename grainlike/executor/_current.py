"""Find the executor that an `await` uses.

The innermost one of this event loop that is open in this context; else the one open in this event loop; else, on
asyncio, an implicit one of the loop's own, over this process's cores. So a REPL or a notebook needs no set-up, and two
executors open side by side are an error rather than a guess. Those of other loops in the context are passed over: a
fixture of a module may hold one open in a loop of its own, round tests that have theirs. Inside a job it is one of the
job's own (`nested`), unless the job opens another.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

from grainlike.context import JobView, this_job
from grainlike.eventloop import Home, here
from grainlike.executor._ready import Ready, is_ready
from grainlike.graph import Node
from grainlike.nested import JobExecutor

if TYPE_CHECKING:
    from grainlike.executor._executor import Executor

__all__ = ["AnyExecutor", "alone", "current", "enclosing", "entered", "find", "find_for", "left", "only_open"]

logger = logging.getLogger("grainlike")

AnyExecutor: TypeAlias = "Executor | JobExecutor"

current: ContextVar[AnyExecutor | None] = ContextVar("grainlike_executor", default=None)
"""The innermost executor of this context."""

_open: dict[Home, list[Executor]] = {}
_implicit: dict[Home, Executor] = {}


def entered(executor: Executor, home: Home) -> None:
    """An executor that users see was opened in a loop."""
    _open.setdefault(home, []).append(executor)


def left(executor: object, home: Home) -> None:
    """An executor closed; implicit ones too."""
    others = [one for one in _open.pop(home, ()) if one is not executor]
    if others:
        _open[home] = others
    if _implicit.get(home) is executor:
        del _implicit[home]


def alone(home: Home) -> bool:
    """Return True if no executor is left in an event loop, so that no job can run there."""
    return home not in _open and home not in _implicit


def enclosing() -> AnyExecutor | None:
    """Return the innermost executor of this context that is open, of any loop: the one round an executor that opens."""
    executor = current.get()
    while executor is not None and not executor.is_open:
        executor = executor.enclosing
    return executor


def find() -> AnyExecutor:
    """The executor that an `await` here and now means.

    Raises:
        RuntimeError: outside an event loop; on trio with none open in this loop; with several open side by side in it
            and none in context.
    """
    job = this_job()
    return _innermost(job) or _of_loop(job, here())


def find_for(node: Node) -> AnyExecutor | Ready:
    """Return the resolver of `node` here and now: as `find`; where no executor is open, a ready node needs none.

    Raises:
        RuntimeError: as `find`.
    """
    job, executor = this_job(), current.get()
    if executor is None or not executor.is_open or job is not None or not executor.is_at_home():
        executor = _innermost(job)  # rarely so: each await passes here
    if executor is not None:
        return executor
    home = here()
    if job is None and (home is None or alone(home)) and is_ready(node):
        return Ready()
    return _of_loop(job, home)


def _innermost(job: JobView | None) -> AnyExecutor | None:
    """Return the innermost executor of this context that is open in this loop, and is the job's where one runs."""
    executor = current.get()
    while executor is not None:
        if executor.is_open and (job is None or executor.opened_in is job.job) and executor.is_at_home():
            return executor
        executor = executor.enclosing
    return None


def _of_loop(job: JobView | None, home: Home | None) -> AnyExecutor:
    if home is None:
        raise RuntimeError(
            f"no event loop is running here{_elsewhere()}, and placeholders run inside one: write `async def main():` "
            "around this, and call grainlike.run(main), or asyncio.run(main())"
        )
    if job is not None:
        return _of_job(job, home)
    side_by_side = _open.get(home, [])
    if len(side_by_side) == 1:
        return side_by_side[0]
    if side_by_side:
        raise RuntimeError(
            f"{len(side_by_side)} executors are open in this loop and none in this context: await inside the "
            "`async with` block of the one you mean"
        )
    if home.backend == "trio":
        raise RuntimeError(
            f"no executor is open in this loop{_elsewhere()}, and on trio there is no implicit one: use "
            "grainlike.run(main, backend='trio') or `async with grainlike.Executor():`"
        )
    return _implicitly(home)


def _elsewhere() -> str:
    """Return which executor of this context is open in another loop, in brackets."""
    other = enclosing()
    return "" if other is None else f" ({other!r} lives in the {other.home})"


def only_open() -> Executor:
    """The one executor that is open in this process: for a thread that has no context of any.

    Raises:
        RuntimeError: none is open, or several are.
    """
    found = [executor for executors in _open.values() for executor in executors] or list(_implicit.values())
    if not found:
        raise RuntimeError(
            "result(r_) waits for a program's event loop, and no executor is open in any: write `async def main():` "
            "around this, call it there as `await delayed(fn)(...)`, and call grainlike.run(main)"
        )
    if len(found) > 1:
        raise RuntimeError(
            f"{len(found)} executors are open, and this thread has the context of none: start it with "
            "`await delayed(fn)(...)`, or asyncio.to_thread, in the `async with` block of the one you mean"
        )
    return found[0]


def _of_job(view: JobView, home: Home) -> JobExecutor:
    """The job's own. One that runs a second event loop, after the first has ended, gets another."""
    executor = view.resolver
    if not isinstance(executor, JobExecutor) or executor.home != home or not executor.is_open:
        assert view.job is not None
        executor = view.resolver = JobExecutor(home, view, view.job, current)
    return executor


def _implicitly(home: Home) -> Executor:
    from grainlike.executor._executor import Executor

    executor = _implicit.get(home)
    if executor is None:
        executor = _implicit[home] = Executor.implicit(home)
        logger.info("opened an implicit executor over %s for the %s", executor.offer, home)
    return executor
