"""Watch over copied functions: has anything changed that they took along when they were copied?

A function that travels by value takes its globals and closure along, once. In a notebook, a helper that is run again is
a new function under the old name, and kept bytes of its caller would still have the old helper. So the bytes are kept
with the objects that they took, by name, through all functions that travel along. These objects, and the attributes of
classes that travel by value, are compared by identity. Identity does not show a change inside an object, such as an
appended list, so objects that may change in place are returned separately.

Nothing here keeps a function alive: functions, and all other objects that can be, are held weakly. Only built-in values
and containers are held firmly, because a new one at the old address must not pass for the old one.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import CellType, CodeType, FunctionType, ModuleType
from typing import NamedTuple

from grainlike.payload._constants import parts_of_constant
from grainlike.payload._names import reference_to

__all__ = ["Held", "Watch", "names_in", "unchanged", "watch"]

Held = Callable[[], object]
"""Function that returns a held object; None once the object is gone."""


class _Watched(NamedTuple):
    owner: Callable[[], FunctionType | type | None]
    variables: tuple[tuple[str, Held], ...]
    cells: tuple[Held, ...]
    is_class: bool


Watch = tuple[_Watched, ...]


def watch(function: object) -> tuple[Watch, tuple[Held, ...]]:
    """Return what `function`, and each function and class that it takes along, finds by its names now.

    The second result has the objects among these that may change in place.
    """
    walk = _Walk()
    seen: dict[int, object] = {}  # holds temporary objects too, because otherwise another could get the same id
    waiting = [function]
    while waiting:
        obj = waiting.pop()
        if id(obj) not in seen:
            seen[id(obj)] = obj
            waiting += walk.look_at(obj)
    return tuple(walk.watched), tuple(walk.mutable)


class _Walk:
    """Notes what to watch of each object that a function takes along."""

    def __init__(self) -> None:
        self.watched: list[_Watched] = []
        self.mutable: list[Held] = []

    def look_at(self, obj: object) -> Iterable[object]:
        """Note what to watch of an object, and return the objects that it takes along."""
        if isinstance(obj, type):
            return self._class(obj) if _travels_by_value(obj) else ()
        found = _function_behind(obj)
        if found is obj:
            return () if found is None or reference_to(found) is not None else self._function(found)
        parts = parts_of_constant(obj)
        if parts is None:
            self.mutable.append(_hold(obj))
            return (found,)
        return (found, *parts)

    def _class(self, cls: type) -> Iterable[object]:
        attributes = _attributes(cls)
        self.watched.append(_Watched(weakref.ref(cls), _held(attributes), (), is_class=True))
        return (*cls.__bases__, *(value for name, value in attributes.items() if not _is_special(name)))

    def _function(self, function: FunctionType) -> Iterable[object]:
        variables, contents = _variables(function), [_content(cell) for cell in function.__closure__ or ()]
        if not function.__dict__.keys() <= {"__wrapped__"}:
            self.mutable.append(partial(_attributes_behind, weakref.ref(function)))
        if variables or contents:
            held = _held(variables), tuple(map(_hold, contents))
            self.watched.append(_Watched(weakref.ref(function), *held, is_class=False))
        return (*variables.values(), *contents, *_defaults(function))


def unchanged(watched: Watch) -> bool:
    """Return True if every name and cell still holds the same object."""
    for ref, variables, cells, is_class in watched:
        owner = ref()
        if owner is None:
            return False
        space: Mapping[str, object] = owner.__dict__ if is_class else owner.__globals__  # type: ignore[union-attr]
        for name, held in variables:
            value = space.get(name)
            if held() is not value or (value is None and held is not _nothing):  # `held()` is None for what is gone
                return False
        if cells and not _same_contents(owner, cells):  # type: ignore[arg-type]
            return False
    return True


def _same_contents(function: FunctionType, cells: tuple[Held, ...]) -> bool:
    try:
        for cell, held in zip(function.__closure__ or (), cells, strict=True):
            value = cell.cell_contents
            if held() is not value or (value is None and held is not _nothing):
                return False
    except ValueError:  # a cell is empty, so the function can hardly run
        return False
    return True


def _variables(function: FunctionType) -> dict[str, object]:
    """Return the globals that the function's code uses, without modules, which are not assigned again."""
    space = function.__globals__
    found = {name: space[name] for name in sorted(set(names_in(function.__code__))) if name in space}
    return {name: value for name, value in found.items() if not isinstance(value, ModuleType)}


def _attributes(cls: type) -> dict[str, object]:
    return {name: value for name, value in sorted(cls.__dict__.items()) if name not in _KEPT_BY_PYTHON}


_KEPT_BY_PYTHON = frozenset({"__dict__", "__weakref__", "__doc__", "_abc_impl", "__abstractmethods__"})
_HEAP_TYPE = 1 << 9
"""Flag of classes that a program has made, and not the interpreter."""


def _travels_by_value(cls: type) -> bool:
    return bool(cls.__flags__ & _HEAP_TYPE) and reference_to(cls) is None


def _is_special(name: str) -> bool:
    """Return True for names of Python, dataclasses and enumerations, whose values hardly ever change."""
    return name.startswith("_") and name.endswith("_")


def _attributes_behind(ref: Callable[[], object]) -> object:
    return getattr(ref(), "__dict__", None)


def _defaults(function: FunctionType) -> list[object]:
    return [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _held(values: Mapping[str, object]) -> tuple[tuple[str, Held], ...]:
    return tuple((name, _hold(value)) for name, value in values.items())


def _function_behind(obj: object) -> FunctionType | None:
    """Return `obj` if it is a plain function, or the function inside a partial or a decorator's object; else None."""
    while isinstance(obj, partial):
        obj = obj.func
    if not isinstance(obj, FunctionType):
        with suppress(Exception):  # a user's object may do anything when asked for an attribute
            obj = getattr(obj, "__wrapped__", None)
    return obj if isinstance(obj, FunctionType) else None


def names_in(code: CodeType) -> Iterator[str]:
    """Iterate over the names of globals and attributes in code, and in the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


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
