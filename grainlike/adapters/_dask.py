"""A scheduler function for Dask's graphs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import nullcontext
from graphlib import TopologicalSorter
from os import PathLike
from typing import Any

from grainlike.adapters._dask_task import cautions_of, fulfil, say_again, without_warnings
from grainlike.adapters._kept import borrowed
from grainlike.adapters._pool import GrainlikePool
from grainlike.graph import Delayed, Retry, delayed, delayed_value
from grainlike.resources import Cores, Request, as_request

try:
    from dask._task_spec import Alias, DataNode, GraphNode, convert_legacy_graph
    from dask.callbacks import local_callbacks
    from dask.core import flatten
    from dask.utils import key_split

    from grainlike.adapters._dask_callbacks import watched
except ImportError as error:
    raise ImportError("this adapter needs Dask, 2024.12 or newer: pip install 'grainlike[dask]'") from error

__all__ = ["dask_get"]

_ONCE = Retry(0, losses=0)
"""A task is run once, as Dask's own schedulers of one machine run it."""


def dask_get(
    dsk: Any,
    keys: Any,
    *,
    request: Request | None = None,
    pool: GrainlikePool | None = None,
    num_workers: int | None = None,
    head: str | PathLike[str] | None = None,
    **_: Any,
) -> Any:
    """Compute `keys` of a Dask graph, each task of which is a job; for `dask.compute(..., scheduler=dask_get)`.

    Tasks start as soon as those that they need have ended and there are slots. A task that was made under
    `dask.annotate(resources={"GPU": 1})` asks for that too, in place of `request`'s amount of the same name. Other
    annotations do nothing, nor do those that Dask itself drops when it optimizes a collection.

    All keyword arguments can be given to `dask.compute` and to `.compute`; others that Dask passes on are not for this
    scheduler, and do nothing.

    Args:
        dsk: a graph, or an expression that has one, as Dask makes it: of `dask.delayed`, bags, arrays or data frames.
        keys: a key, or keys in lists of lists.
        request: request of each task; by default the pool's request, or `Cores(1)`.
        pool: a `GrainlikePool` to run them in. Without one, it is opened over this process's own cores, and the next
            call with the same `num_workers` or `head` uses it, too; it is closed when it was idle for five minutes.
        num_workers: number of cores of such a pool.
        head: the address of a running head, or the path of its `client.json`: tasks run on its workers.

    `Callback`s of Dask, its `ProgressBar` among them, are called in this thread; with them all values come to this
    process. Warnings of tasks come to the caller when the values do, under its filters; those of a task that fails
    are shown as they are raised.

    Returns:
        Values in the places of their keys; lists of keys give tuples.

    Raises:
        Exception: what a task raises, as its own type; the others are cancelled, those that run too.
        TypeError: `pool` is some other pool, or comes with `head`.
        ValueError: tasks need each other in a circle.
        KeyError: there is no such key.

    Example::

        total = dask.delayed(sum)([dask.delayed(square)(n) for n in range(10)])
        total.compute(scheduler=dask_get)
        dask.config.set(scheduler=dask_get)     # from now on
    """
    if pool is not None and not isinstance(pool, GrainlikePool):
        raise TypeError(f"pool= takes a GrainlikePool, not {pool!r}")
    asked = as_request(request) if request is not None else Cores(1) if pool is None else pool.request
    wanted: list[Hashable] = list(dict.fromkeys(flatten([keys])))  # type: ignore[no-untyped-call]
    if pool is not None and head is not None:
        raise TypeError("a pool that is open takes no head=")
    options: dict[str, Any] = {} if num_workers is None or head is not None else {"local": Cores(num_workers)}
    with borrowed({"head": head, **options}) if pool is None else nullcontext(pool) as runs:
        graph = dict(dsk.__dask_graph__() if hasattr(dsk, "__dask_graph__") else dsk)
        tasks = convert_legacy_graph(graph)
        made = _placeholders(tasks, wanted, asked, _resources(dsk))
        with local_callbacks() as callbacks:
            if callbacks:
                values = watched(runs, tasks, made, wanted, callbacks)
            else:
                values = _values(runs, {key: runs.start(made[key]) for key in wanted})
    return _arranged(keys, values)


def _resources(dsk: Any) -> Mapping[Hashable, Mapping[str, float]]:
    """Return the resources of tasks from annotations, by key."""
    annotations = dsk.__dask_annotations__() if hasattr(dsk, "__dask_annotations__") else {}
    found: Mapping[Hashable, Mapping[str, float]] = annotations.get("resources", {})
    return found


def _with(request: Request, resources: Mapping[str, float]) -> Request:
    """Return the request of a task with these resources, in which Dask's names are allowed."""
    ours = {"gpus" if name == "GPU" else name: amount for name, amount in resources.items()}
    replaced = Request({name: request[name] for name in ours if name in request})
    return (request - replaced if replaced else request) & Request(ours)


def _placeholders(
    tasks: Mapping[Hashable, GraphNode],
    wanted: Iterable[Hashable],
    request: Request,
    resources: Mapping[Hashable, Mapping[str, float]],
) -> dict[Hashable, Delayed[Any]]:
    """Placeholders for the tasks that are wanted, and all that they need."""
    named: dict[str, Callable[..., Delayed[Any]]] = {}
    made: dict[Hashable, Delayed[Any]] = {}
    for key in TopologicalSorter(_needed(tasks, wanted)).static_order():
        task = tasks[key]
        needs = list(task.dependencies)
        if isinstance(task, DataNode):
            made[key] = delayed_value(task.value)
        elif isinstance(task, Alias):
            made[key] = made[needs[0]]
        else:
            name = key_split(key)
            run: Callable[..., Delayed[Any]] | None = None if key in resources else named.get(name)
            if run is None:
                asked = _with(request, resources[key]) if key in resources else request
                run = delayed(fulfil, retries=_ONCE, name=name) @ asked
                if key not in resources:
                    named[name] = run
            made[key] = run(task, needs, *(made[need] for need in needs))
    return made


def _needed(tasks: Mapping[Hashable, GraphNode], wanted: Iterable[Hashable]) -> dict[Hashable, Iterable[Hashable]]:
    """Return the dependencies of each task, of those that are wanted and all behind them."""
    found: dict[Hashable, Iterable[Hashable]] = {}
    waiting = list(wanted)
    while waiting:
        key = waiting.pop()
        if key not in found:
            found[key] = tasks[key].dependencies
            waiting.extend(found[key])
    return found


def _values(pool: GrainlikePool, futures: Mapping[Hashable, Future[Any]]) -> dict[Hashable, Any]:
    """Return the values of the tasks; raises the error of the first that fails, whichever it is."""
    try:
        done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        values = {key: future.result() for key, future in futures.items()}
    finally:
        pool.abandon(futures.values())
    say_again(one for value in values.values() for one in cautions_of(value))
    return {key: without_warnings(value) for key, value in values.items()}


def _arranged(keys: Any, values: Mapping[Hashable, Any]) -> Any:
    return tuple(_arranged(key, values) for key in keys) if isinstance(keys, list) else values[keys]
