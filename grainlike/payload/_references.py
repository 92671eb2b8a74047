"""References inside arguments: the number of a value that stays at workers, in place of the value.

Whoever packs arguments learns which values they refer to; whoever unpacks them says where replicas of these lie, and
gets the values themselves. Arguments without references cost nothing more than they did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from pathlib import Path
from typing import Any

from grainlike.errors import SerializationError
from grainlike.payload._replicas import map_replica
from grainlike.payload._values import load_value

__all__ = ["Reference", "ReferencedValues", "applied", "collecting", "resolved", "resolving"]


class Reference:
    """Stands for a value in arguments; unpickled inside `resolving`, it is that value.

    Example::

        with collecting() as values:
            payload = dump_arguments((Reference(7), 1), {}, what="f")      # values == [7]
        with resolving({7: path}):
            load_arguments(payload)                                        # the value in the file, and 1
    """

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        collector = _collector.get()
        if collector is not None:
            collector.note(self.value)
        return resolved, (self.value,)


class ReferencedValues:
    """Values that references stand for, each loaded when it is first met.

    `gone`: those of which the replica was missing or damaged, whatever the arguments made of that. `error`: what an
    operator on values raised.
    """

    __slots__ = ("_loaded", "_paths", "error", "gone")

    def __init__(self, paths: Mapping[int, Path]) -> None:
        self._paths = paths
        self._loaded: dict[int, object] = {}
        self.gone: list[int] = []
        self.error: BaseException | None = None

    def load(self, value: int) -> object:
        """Return the value of this number: the same object each time. `SerializationError` where it cannot be had."""
        if value not in self._loaded:
            path = self._paths.get(value)
            if path is None:
                raise SerializationError(f"value {value} is not here: these arguments were sent without it")
            try:
                payload = map_replica(path)
            except SerializationError:
                self.gone.append(value)
                raise
            self._loaded[value] = load_value(payload, what=f"value {value}")
        return self._loaded[value]


class _Collector:
    """Notes references while it is entered; see `collecting`. A class, as it is entered for each call with arguments
    that are not plain.
    """

    __slots__ = ("_seen", "_token", "values")

    def __init__(self) -> None:
        self.values: list[int] = []
        self._seen: set[int] = set()
        self._token: Token[_Collector | None]

    def __enter__(self) -> list[int]:
        self._token = _collector.set(self)
        return self.values

    def __exit__(self, *_: object) -> None:
        _collector.reset(self._token)

    def note(self, value: int) -> None:
        """A reference to this value was pickled."""
        if value not in self._seen:
            self._seen.add(value)
            self.values.append(value)


_collector: ContextVar[_Collector | None] = ContextVar("grainlike_collector", default=None)
_referenced: ContextVar[ReferencedValues | None] = ContextVar("grainlike_referenced", default=None)


def collecting() -> AbstractContextManager[list[int]]:
    """Note the references that are pickled inside: their values in order, each once.

    >>> with collecting() as values:
    ...     payload = dump_value([Reference(2), Reference(1), Reference(2)])
    >>> values
    [2, 1]
    """
    return _Collector()


@contextmanager
def resolving(paths: Mapping[int, Path]) -> Iterator[ReferencedValues]:
    """Have references that are unpickled inside be the values in these files, on memory of this process alone.

    The same reference gives the same object throughout; what is loaded in another block is another object.
    """
    referenced = ReferencedValues(paths)
    token = _referenced.set(referenced)
    try:
        yield referenced
    finally:
        _referenced.reset(token)


def resolved(value: int) -> object:
    """Return the value that a reference stands for: what its pickle calls.

    Raises `SerializationError` outside `resolving`, and where the value cannot be had.
    """
    referenced = _referenced.get()
    if referenced is None:
        raise SerializationError(f"value {value} is at a worker, and cannot be had from here")
    return referenced.load(value)


def applied(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Return what an operator gives for values: what the pickle of one on references calls.

    What it raises is noted for whoever unpickles inside `resolving`: it is the user's own, as in a job.
    """
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        referenced = _referenced.get()
        if referenced is not None:
            referenced.error = error
        raise
