"""Functions that are sent to workers in place of the user's own. Only this module is loaded there."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from grainlike.adapters._dask_task import fulfil
from grainlike.context import use_up_process

__all__ = [
    "InitializerFailedError",
    "call_after",
    "call_after_async",
    "call_batch",
    "call_counted",
    "call_each",
    "name_of_called",
]

_initialized = threading.local()
"""State of the running thread, by the token of each pool: the globals that its initializer set, or the error it
raised.
"""

_counts: dict[str, int] = {}
"""The calls that this process has made, by the token of each pool that limits them."""


class InitializerFailedError(Exception):
    """The `initializer=` of a pool raised: nothing can be called in its processes."""


def call_after(
    token: str,
    initializer: Callable[..., Any],
    initargs: tuple[Any, ...],
    fn: Callable[..., Any],
    /,
    *args: Any,
    **kw: Any,
) -> Any:
    """Call `fn` in a process, or a thread of a `ThreadBackend`, in which the initializer ran first, once."""
    _initialize(token, initializer, initargs, _called(fn, args))
    return fn(*args, **kw)


async def call_after_async(
    token: str,
    initializer: Callable[..., Any],
    initargs: tuple[Any, ...],
    fn: Callable[..., Awaitable[Any]],
    /,
    *args: Any,
    **kw: Any,
) -> Any:
    """Await a coroutine function; else as `call_after`."""
    _initialize(token, initializer, initargs, [fn])
    return await fn(*args, **kw)


def call_counted(token: str, most: int, fn: Callable[..., Any], /, *args: Any, **kw: Any) -> Any:
    """Call `fn`; the `most`th call of a pool in a process is the last that it makes."""
    _counts[token] = _counts.get(token, 0) + 1
    if _counts[token] >= most:
        use_up_process()
    return fn(*args, **kw)


def _initialize(
    token: str, initializer: Callable[..., Any], initargs: tuple[Any, ...], called: Iterable[Callable[..., Any]]
) -> None:
    known: dict[str, dict[str, Any] | Exception] = _initialized.__dict__
    if token not in known:
        try:
            known[token] = _set_by(initializer, initargs)
        except Exception as error:  # the user's own: it breaks the pool, which says so
            logging.getLogger("concurrent.futures").critical("Exception in initializer:", exc_info=True)
            known[token] = error
    found = known[token]
    if isinstance(found, Exception):
        raise InitializerFailedError(f"{type(found).__name__}: {found}") from found
    for fn in called if found else ():
        if _module(fn) == _module(initializer):
            _globals(fn).update(found)


def _set_by(initializer: Callable[..., Any], initargs: tuple[Any, ...]) -> dict[str, Any]:
    """Call the initializer, and return the globals that it has set.

    Functions of `__main__` travel by value, each with globals of its own: what this one sets is carried to the others.
    """
    names = _globals(initializer)
    before = dict(names)
    initializer(*initargs)
    return {name: value for name, value in names.items() if before.get(name, _NOTHING) is not value}


def _called(fn: Callable[..., Any], args: tuple[Any, ...]) -> Iterable[Callable[..., Any]]:
    """Return the user's own functions that `fn` calls, where it is one of those below."""
    if isinstance(fn, partial) and fn.func is call_each:
        return fn.args[:1]
    if fn is call_batch:
        return [function for function, *_ in getattr(args[0], "items", ())]
    return [fn]


def name_of_called(fn: Callable[..., Any], args: tuple[Any, ...]) -> str | None:
    """Return the name of the user's function that `fn` calls, where it is one of those below; None for any other."""
    called = next(iter(_called(fn, args)), fn)
    return None if called is fn else getattr(_plain(called), "__name__", None)


def _plain(fn: Callable[..., Any]) -> Any:
    """Return the function behind a partial or a bound method."""
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__func__", fn)


def _globals(fn: Callable[..., Any]) -> dict[str, Any]:
    names: dict[str, Any] = getattr(_plain(fn), "__globals__", {})
    return names


def _module(fn: Callable[..., Any]) -> object:
    return getattr(_plain(fn), "__module__", None)


_NOTHING = object()


def call_batch(work: Callable[[], Any]) -> Any:
    """Call a batch of joblib's, which is sent as an argument: it is large, and used once, which functions are not.
    Return its values, with its warnings if there were any.
    """
    parallel = sys.modules.get("joblib.parallel")
    if parallel is not None:  # a `Parallel` in the call may name the backend
        parallel.EXTERNAL_BACKENDS.setdefault("grainlike", _register_joblib)
    return fulfil(lambda _: work(), ())


def _register_joblib() -> None:
    import_module("grainlike.adapters").register_joblib()


def call_each(function: Callable[..., Any], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Make the calls of one piece of a `map`."""
    return [function(*row) for row in rows]
