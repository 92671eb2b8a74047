"""Find the executor that an `await` uses.

The innermost one of this event loop that is open in this context: the last that was opened there, with a block or
without; else the one that was opened last in this event loop without a block, in whatever task; else the one open in
this event loop; else, on asyncio, an implicit one of the loop's own, over this process's cores. So a REPL or a notebook
needs no set-up, and two executors whose blocks are open side by side are an error rather than a guess. Those of other
loops in the context are passed over: a fixture of a module may hold one open in a loop of its own, round tests that
have theirs. Inside a job it is one of the job's own (`nested`), unless the job opens another.
"""

from __future__ import annotations

import logging

from grainlike.context import JobView, this_job
from grainlike.engine import BaseResolver
from grainlike.eventloop import EventLoopId, here
from grainlike.executor._executor import Executor
from grainlike.executor._ready import ReadyResolver, is_ready
from grainlike.executor._registry import (
    alone,
    closed_in,
    current,
    enclosing,
    implicit_of,
    made_implicit,
    opened,
    opened_in,
    standing_in,
    warn_of_fallback,
)
from grainlike.graph import Node, unfinished_nodes
from grainlike.nested import JobExecutor

__all__ = ["find", "find_for", "only_open"]

logger = logging.getLogger("grainlike")


def find() -> BaseResolver:
    """Return the executor that an `await` here and now means.

    Raises:
        RuntimeError: outside an event loop; on trio with none open in this loop; with several open side by side in it
            and none in context.
    """
    job = this_job()
    return _innermost(job) or _of_loop(job, here())


def find_for(node: Node) -> BaseResolver | ReadyResolver:
    """Return the resolver of `node` here and now: as `find`; where no executor is open, a ready node needs none.

    Raises:
        RuntimeError: as `find`.
    """
    job, executor = this_job(), current.get()
    if executor is None or not executor.is_open or job is not None or not executor.is_own_process():
        executor = _innermost(job)  # rarely so: each await passes here
    if executor is not None:
        return executor
    loop_id = here()
    if job is None and (loop_id is None or alone(loop_id)) and is_ready(node):
        return ReadyResolver()
    return _of_loop(job, loop_id, node)


def _innermost(job: JobView | None) -> BaseResolver | None:
    """Return the innermost executor of this context that is open in this loop, and is the job's where one runs."""
    executor = current.get()
    while executor is not None:
        if executor.is_open and (job is None or executor.opened_in is job.job) and executor.is_own_process():
            return executor
        executor = executor.enclosing
    return None


def _of_loop(job: JobView | None, loop_id: EventLoopId | None, node: Node | None = None) -> BaseResolver:
    if loop_id is None:
        raise RuntimeError(
            f"no event loop is running here{_elsewhere()}, and placeholders run inside one: write `async def main():` "
            "around this, and call grainlike.run(main), or asyncio.run(main())"
        )
    if job is not None:
        return _of_job(job, loop_id)
    standing = standing_in(loop_id)
    if standing is not None:
        return standing
    side_by_side = opened_in(loop_id)
    if len(side_by_side) == 1:
        return side_by_side[0]
    if side_by_side:
        raise RuntimeError(
            f"{len(side_by_side)} executors are open in this loop and none in this context: await inside the "
            "`async with` block of the one you mean"
        )
    if loop_id.backend == "trio":
        raise RuntimeError(
            f"no executor is open in this loop{_elsewhere()}, and on trio there is no implicit one: use "
            "grainlike.run(main, backend='trio') or `async with grainlike.Executor():`"
        )
    if node is None or any(one.request is not None for one in unfinished_nodes([node])):
        warn_of_fallback()
    return _implicitly(loop_id)


def _elsewhere() -> str:
    """Return which executor of this context is open in another loop, in brackets."""
    other = enclosing()
    return "" if other is None else f" ({other!r} lives in the {other.loop_id})"


def only_open() -> BaseResolver:
    """Return the one executor that is open in this process: for a thread that has no context of any.

    Raises:
        RuntimeError: none is open, or several are.
    """
    found = opened()
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


def _of_job(view: JobView, loop_id: EventLoopId) -> JobExecutor:
    """Return the job's own. One that runs a second event loop, after the first has ended, gets another."""
    executor = view.resolver
    if not isinstance(executor, JobExecutor) or executor.loop_id != loop_id or not executor.is_open:
        assert view.job is not None
        executor = view.resolver = JobExecutor(loop_id, view, view.job, current)
    return executor


def _implicitly(loop_id: EventLoopId) -> BaseResolver:
    executor = implicit_of(loop_id)
    if executor is None:
        executor = made = Executor.implicit(loop_id)
        made_implicit(made, loop_id)
        closed = current.get()
        if closed is not None and closed.is_own_process():
            words = "%r, of whose block this is, is closed: opened an implicit executor over %s for the %s"
            logger.warning(words, closed, made.offer, loop_id)
        elif closed_in(loop_id):
            words = "a call runs on this machine, on an implicit executor over %s: that of the %s has been closed"
            logger.warning(words, made.offer, loop_id)
        else:
            logger.info("opened an implicit executor over %s for the %s", made.offer, loop_id)
    return executor
