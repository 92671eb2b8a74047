"""Spellings that Python takes for something else, and what to write instead."""

from __future__ import annotations

import warnings
from types import FrameType
from typing import NoReturn

from grainlike.graph._node import Node
from grainlike.graph._state import RunsIn
from grainlike.resources import KINDS, Request

__all__ = [
    "attribute_hint",
    "coroutine_hint",
    "hint_at_future",
    "refuse_attribute",
    "refuse_called_request",
    "refuse_options",
    "refuse_request",
]

_TAKES_COROUTINES = {
    ("asyncio.tasks", "create_task"),
    ("asyncio.base_events", "create_task"),
    ("asyncio.taskgroups", "create_task"),
    ("asyncio.runners", "run"),
}
"""Functions of asyncio that refuse everything but a coroutine, and show the repr of what they refuse."""


def coroutine_hint(caller: FrameType) -> str:
    """Return what to write instead, where asyncio shows a placeholder as no coroutine; else nothing.

    asyncio's own message, "a coroutine was expected, got <repr>", has no other place for it.
    """
    if (caller.f_globals.get("__name__"), caller.f_code.co_name) not in _TAKES_COROUTINES:
        return ""
    if caller.f_code.co_name == "run":
        return ", which is no coroutine: write grainlike.run(main), with `await r_` in main"
    above = (frame for frame in (caller, caller.f_back) if frame is not None)
    if any(frame.f_globals.get("__name__") == "asyncio.taskgroups" for frame in above):
        # The group would not wait for a task of ensure_future.
        return (
            ", which is no coroutine: write `async def job(): return await r_` and create_task(job()), "
            "so that the group waits for it"
        )
    return ", which is no coroutine: write asyncio.ensure_future(r_) for a task, or start(r_)"


_OF_FUTURES = {
    "result": "`await r_`, or result(r_) in a thread",
    "exception": "`await r_`, or info(r_).error",
    "done": "info(r_).state",
    "compute": "`await r_`",
    "persist": "start(r_)",
    "status": "info(r_).state",
    "key": "info(r_).job",
    "cancel": "cancel(r_)",
}
"""Methods of futures, and of Dask's collections, with what to write for a placeholder."""

_ATTRIBUTES = ("status", "key")
"""Those that are attributes of Dask's futures."""

_hinted: set[str] = set()
"""The names of which the hint was given."""


def hint_at_future(node: Node) -> None:
    """Warn, the first time of each in this process, if what is called is `r_.result`, `r_.done` and so on.

    The value may have a method of that name, so the call is made a placeholder all the same.
    """
    name = _name_of_futures(node)
    if not name or name in _hinted:
        return
    _hinted.add(name)
    warnings.warn(
        f"r_.{name}() on a placeholder is a call of the value's own method {name}(), and gives a further placeholder: "
        f"if you meant the placeholder, write {_OF_FUTURES[name]}",
        UserWarning,
        stacklevel=3,
    )


def attribute_hint(node: Node) -> str:
    """Return what to write instead, where what is shown is `r_.status` or `r_.key` of a placeholder; else nothing.

    A warning would come with each value that has such an attribute, as the answers of web services have.
    """
    name = _name_of_futures(node)
    return f", the value's own attribute: for the placeholder write {_OF_FUTURES[name]}" if name in _ATTRIBUTES else ""


def _name_of_futures(node: Node) -> str:
    """Return the attribute that a node gets from a value, if it is a name of futures; else an empty text."""
    if node.finished or node.function.callable is not getattr:
        return ""
    args, _ = node.given
    return args[1] if len(args) == 2 and args[1] in _OF_FUTURES else ""


def refuse_called_request(node: Node) -> None:
    """Refuse a call of `node` if it is a call of a delayed function with nothing but a request: `f(Cores(1))(3)`.

    Raises:
        TypeError: it is; the message has the right spelling.
    """
    if node.finished or node.place is RunsIn.INLINE:
        return
    args, kwargs = node.given
    if len(args) == 1 and not kwargs and type(args[0]) is Request:
        name = node.function.name
        raise TypeError(f"`{name}({args[0]!r})(...)` calls {name} with a request: write `({name} @ {args[0]!r})(...)`")


_ELSEWHERE = {
    "map": "await gather({fn}(x) for x in xs)`, or `amap({fn}, xs)",
    "starmap": "await gather({fn}(*x) for x in xs)",
    "remote": "{fn}(x)",
    "delay": "{fn}(x)",
    "submit": "start({fn}(x))",
}
"""Methods that call a function in other libraries, and the spelling here for a delayed function."""


def refuse_attribute(kind: str, name: str, fn: str) -> NoReturn:
    """Refuse `fn.map(xs)`, `fn.remote(x)` and every other attribute that there is not.

    Raises:
        AttributeError: always; with the right spelling where a call was meant.
    """
    meant = _ELSEWHERE.get(name)
    hint = f": write `{meant.format(fn=fn)}`" if meant else ""
    raise AttributeError(f"{kind!r} object has no attribute {name!r}{hint}")


def refuse_request(request: Request) -> NoReturn:
    """Refuse `@delayed(Cores(4))`.

    Raises:
        TypeError: always, with the right spelling.
    """
    raise TypeError(
        "@delayed takes no request: resources are given at the call; write `@delayed` above the function, and "
        f"`(fn @ {request!r})(x)`"
    )


_OPTIONS = ("nout", "name", "retries", "timeout", "priority", "keep", "isolate", "cache")
"""Options of `delayed`."""

_TERMS = {"walltime": "WallTime", "nodes": "Nodes"}
"""Requests that are no amounts, by the name that an option for them would have."""


def refuse_options(unknown: dict[str, object]) -> NoReturn:
    """Refuse `@delayed(cores=4)`, and every other option that there is not.

    Raises:
        TypeError: always; with the right spelling where a request was meant.
    """
    name, value = next(iter(unknown.items()))
    if type(value) is Request:
        raise TypeError(
            f"@delayed takes no {name}=: resources are given at the call; write `@delayed` above the function, and "
            f"`(fn @ {value!r})(x)`"
        )
    kind = KINDS.get(name.lower())
    request = _TERMS.get(name.lower()) if kind is None else kind.word
    if not request:
        from difflib import get_close_matches  # few programs are wrong

        near = get_close_matches(name, _OPTIONS, 1)
        hint = f": write {near[0]}=" if near else ""
        raise TypeError(f"delayed() got an unexpected keyword argument {name!r}{hint}")
    raise TypeError(
        f"@delayed takes no {name}=: resources are given at the call; write `@delayed` above the function, and "
        f"`(fn @ {request}({value!r}))(x)`"
    )
