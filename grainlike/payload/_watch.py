"""Whether a copied function would still find what it found when it was copied.

A function that travels by value takes its globals and closure along, once. In a notebook, a helper that is run
again is a new function under the old name, and whoever kept the bytes of its caller would go on with the old
one. So the bytes are kept together with what they took, followed by name through all functions that travel
along, and compared by identity. A change inside an object (a list appended to) is not seen: that is what "once
per function" means.

Nothing here keeps a function alive: functions, and whatever else can be, are held weakly. Only built-in values
and containers are held firmly, because a new one at the old address must not pass for the old one.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import CellType, CodeType, FunctionType, ModuleType
from typing import NamedTuple

from grainlike.payload._names import reference_to

__all__ = ["Watch", "unchanged", "watch"]

Held = Callable[[], object]


class _Watched(NamedTuple):
    function: Callable[[], FunctionType | None]
    variables: tuple[tuple[str, Held], ...]
    cells: tuple[Held, ...]


Watch = tuple[_Watched, ...]


def watch(function: object) -> Watch:
    """What `function`, and each function that it takes along, finds in its globals and closure now."""
    watched: list[_Watched] = []
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        found = _function_behind(waiting.pop())
        if found is not None and id(found) not in seen and reference_to(found) is None:
            seen.add(id(found))
            variables, contents = _variables(found), [_content(cell) for cell in found.__closure__ or ()]
            waiting += [*variables.values(), *contents]
            held = tuple((name, _hold(value)) for name, value in variables.items())
            if held or contents:
                watched.append(_Watched(weakref.ref(found), held, tuple(map(_hold, contents))))
    return tuple(watched)


def unchanged(watched: Watch) -> bool:
    """Whether every name and cell still holds the very object that it held."""
    for ref, variables, cells in watched:
        function = ref()
        if function is None:
            return False
        space = function.__globals__
        for name, held in variables:
            value = space.get(name)
            if held() is not value or (value is None and held is not _nothing):  # what is gone reads None too
                return False
        if cells and not _same_contents(function, cells):
            return False
    return True


def _same_contents(function: FunctionType, cells: tuple[Held, ...]) -> bool:
    try:
        for cell, held in zip(function.__closure__ or (), cells, strict=True):
            value = cell.cell_contents
            if held() is not value or (value is None and held is not _nothing):
                return False
    except ValueError:  # emptied since, or still empty: whatever it was then, it can hardly run now
        return False
    return True


def _variables(function: FunctionType) -> dict[str, object]:
    """Globals that the function's code mentions; modules apart, which nobody rebinds."""
    space = function.__globals__
    found = {name: space[name] for name in sorted(set(_names(function.__code__))) if name in space}
    return {name: value for name, value in found.items() if not isinstance(value, ModuleType)}


def _function_behind(obj: object) -> FunctionType | None:
    """`obj` if it is a plain function; of a partial or a decorator's object, the one inside."""
    while isinstance(obj, partial):
        obj = obj.func
    if not isinstance(obj, FunctionType):
        with suppress(Exception):  # a user's object may do anything when asked for an attribute
            obj = getattr(obj, "__wrapped__", None)
    return obj if isinstance(obj, FunctionType) else None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _nothing() -> None:
    return None


def _hold(value: object) -> Held:
    if value is None:
        return _nothing
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
