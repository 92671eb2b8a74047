"""Dask's `Callback`s: called in the thread of `compute`, as tasks of a pool become ready and end."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Mapping
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any

from dask.callbacks import unpack_callbacks
from dask.local import finish_task, start_state_from_dask
from dask.order import order

from grainlike.adapters._dask_task import WarningRecord, cautions_of, say_again, without_warnings
from grainlike.adapters._pool import GrainlikePool
from grainlike.graph import Delayed

__all__ = ["Callbacks", "watched"]

Callbacks = Collection[tuple[Callable[..., None] | None, ...]]
"""Callbacks, each as: start, start of the state, before a task, after a task, finish."""


def watched(
    pool: GrainlikePool,
    tasks: Any,
    made: Mapping[Hashable, Delayed[Any]],
    wanted: list[Hashable],
    callbacks: Callbacks,
) -> dict[Hashable, Any]:
    """Run the tasks, and call the callbacks with Dask's own state of the graph, as Dask's schedulers do.

    A task counts as running from when what it needs is there: slots may be free for it only later.

    Raises:
        Whatever a task or a callback raises; the other tasks are cancelled, those that run too.
    """
    _, start_state, before, after, _ = unpack_callbacks(callbacks)  # type: ignore[no-untyped-call]
    begun: list[tuple[Callable[..., None] | None, ...]] = []
    state: Any = {}
    futures: dict[Hashable, Future[Any]] = {}
    cautions: list[WarningRecord] = []
    failed = True
    try:
        for callback in callbacks:
            if callback[0]:
                callback[0](tasks)
            begun.append(callback)
        rank = order(tasks).get
        state = start_state_from_dask(tasks, keys=wanted, sortkey=rank)  # type: ignore[no-untyped-call]
        for call in start_state:
            call(tasks, state)
        ended: SimpleQueue[Hashable] = SimpleQueue()
        came: set[Hashable] = set()
        for key in made:
            if key in state["waiting"] or key in state["ready"]:
                futures[key] = pool.start(made[key])
                futures[key].add_done_callback(partial(_tell, ended, key))
        while state["waiting"] or state["ready"] or state["running"]:
            while state["ready"]:
                key = state["ready"].pop()
                state["running"].add(key)
                for call in before:
                    call(key, tasks, state)
            key = _next_of(state["running"], came, ended)
            come = futures.pop(key).result()
            cautions += cautions_of(come)
            value = state["cache"][key] = without_warnings(come)
            finish_task(tasks, key, state, set(wanted), rank)  # type: ignore[no-untyped-call]
            for call in after:
                call(key, value, tasks, state, os.getpid())
        failed = False
    finally:
        pool.abandon(futures.values())
        for callback in begun:
            if callback[4]:
                callback[4](tasks, state, failed)
    say_again(cautions)
    return {key: state["cache"][key] for key in wanted}


def _tell(ended: SimpleQueue[Hashable], key: Hashable, _: Future[Any]) -> None:
    ended.put(key)


def _next_of(running: set[Hashable], came: set[Hashable], ended: SimpleQueue[Hashable]) -> Hashable:
    """Return a task that runs and has ended. `came` keeps those whose end is reported before that of one they need."""
    while not (both := came & running):
        came.add(ended.get())
    key = next(iter(both))
    came.discard(key)
    return key
