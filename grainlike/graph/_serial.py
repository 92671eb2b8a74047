"""A hint at loops that await the placeholders of a list one by one: each call starts when the last has ended."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from inspect import CO_OPTIMIZED
from itertools import islice
from types import FrameType
from typing import Any

from grainlike.graph._placeholder import Placeholder
from grainlike.graph._state import RunsIn, State

__all__ = ["hint_at_serial_loop"]

_FAR = 1000
"""How many placeholders of a list are looked at."""

_LIST_ITERATOR: type = type(iter([]))


class _AwaitSite:
    """Place where calls that were not started were awaited last, and how often in a row. `done` once the hint was
    given.
    """

    __slots__ = ("done", "frame", "instruction", "times")

    def __init__(self) -> None:
        self.done = False
        self.frame = self.instruction = self.times = 0


_site = _AwaitSite()


def hint_at_serial_loop(placeholder: Placeholder, frame: FrameType) -> None:
    """Warn, once in this process, if `frame` awaits placeholders of one of its lists in turn, and none was started.

    It is called for each await of a call that was not started, and costs a microsecond at most. Lists are looked at
    at the second such await in one place, and then ever more rarely.
    """
    site = _site
    if site.done:
        return
    if site.frame != id(frame) or site.instruction != frame.f_lasti:
        site.frame, site.instruction, site.times = id(frame), frame.f_lasti, 0
        return
    site.times += 1
    if site.times & (site.times - 1) or not _has_more(placeholder, frame):
        return
    site.done = True
    warnings.warn_explicit(
        "placeholders are awaited one by one, and each starts only when it is awaited: write `await gather(list)`, or "
        "start(r_) for each of them before the loop, and they run at the same time",
        UserWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
    )


def _has_more(placeholder: Placeholder, frame: FrameType) -> bool:
    """Return whether a list of the frame has a call behind this one that could run beside it, and was not started."""
    for items in _lists(_locals_of(frame)):
        found = False
        for item in islice(items, _FAR):
            if found and isinstance(item, Placeholder) and _could_run(item):
                return True
            found = found or item is placeholder
    return False


def _locals_of(frame: FrameType) -> list[object]:
    """Return what the variables of a frame hold, and leave no other reference to it."""
    names = frame.f_locals
    values = list(names.values())
    # Before Python 3.13 a function's frame keeps this dict, a copy of its variables: what it deletes would live on.
    if frame.f_code.co_flags & CO_OPTIMIZED and type(names) is dict:
        names.clear()
    return values


def _could_run(placeholder: Placeholder) -> bool:
    node = placeholder._node
    return node.state is State.LAZY and node.place is not RunsIn.INLINE and all(dep.finished for dep in node.deps)


def _lists(values: Iterable[Any]) -> Iterator[Iterable[Any]]:
    """Give the lists among some variables that begin with a placeholder, and those that a comprehension reads."""
    for value in values:
        items = value.__reduce__()[1][0] if type(value) is _LIST_ITERATOR else value
        if type(items) is dict:
            items = items.values()
        elif type(items) not in (list, tuple):
            continue
        if isinstance(next(iter(items), None), Placeholder):
            yield items
