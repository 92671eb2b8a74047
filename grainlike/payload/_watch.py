"""Whether a copied function would still find what it found when it was copied.

A function that travels by value takes its globals and closure along, once. In a notebook, a helper that is run
again is a new function under the old name, and whoever kept the bytes of its caller would go on with the old
one. So the bytes are kept together with what they took, followed by name through all functions that travel
along, and compared by identity. A change inside an object (a list appended to) is not seen: that is what "once
per function" means.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CellType, CodeType, FunctionType, ModuleType

from ._names import importable

__all__ = ["Watch", "unchanged", "watch"]

Held = Callable[[], object]
Watch = tuple[tuple[Callable[[], object], Held], ...]


def watch(function: object) -> Watch:
    """What `function`, and each function that it takes along, finds in its globals and closure now."""
    entries: list[tuple[Callable[[], object], Held]] = []
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        found = _function_behind(waiting.pop())
        if found is None or id(found) in seen or importable(found.__module__ or ""):
            continue
        seen.add(id(found))
        for look in _looks(found):
            value = look()
            if not isinstance(value, ModuleType):
                entries.append((look, _hold(value)))
                waiting.append(value)
    return tuple(entries)


def unchanged(watched: Watch) -> bool:
    """Whether every name and cell still holds the very object that it held."""
    for look, held in watched:
        value = look()
        if held() is not value or (value is None and held is not _nothing):
            return False
    return True


def _looks(function: FunctionType) -> Iterator[Callable[[], object]]:
    space = function.__globals__
    for name in sorted(set(_names(function.__code__)) & space.keys()):
        yield lambda name=name: space.get(name)  # type: ignore[misc]
    for cell in function.__closure__ or ():
        yield lambda cell=cell: _content(cell)  # type: ignore[misc]


def _function_behind(obj: object) -> FunctionType | None:
    """`obj` if it is a plain function; of a decorator's object, the one that it wraps."""
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
    """A way to ask for `value` that does not keep it alive if that can be: it may lead to the function."""
    if value is None:
        return _nothing
    with suppress(TypeError):
        return weakref.ref(value)
    return lambda: value
