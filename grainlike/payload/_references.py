"""References in arguments: the number of a value that stays at workers, in place of the value or of a buffer.

The process that packs arguments learns to which values they refer. The process that unpacks them says where the
replicas of these values are, and gets the values. Arguments without references cost nothing more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from pathlib import Path
from typing import Any

from grainlike.errors import SerializationError
from grainlike.payload._payload import Buffer, Payload
from grainlike.payload._replicas import map_replica
from grainlike.payload._store import is_stored, mapped
from grainlike.payload._values import load_value

__all__ = [
    "Reference",
    "ReferencedValues",
    "applied",
    "buffer_reference",
    "collecting",
    "holding",
    "referenced_buffer",
    "resolved",
    "resolving",
]

_MARK = b"\x01value\x00"
"""Beginning of a reference in place of a buffer; buffers outside the stream are longer than a reference."""

_NUMBER = struct.Struct("<Q")
_LENGTH = len(_MARK) + _NUMBER.size


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
        self.value: int = value

    def __reduce__(self) -> tuple[Any, ...]:
        collector = _collector.get()
        if collector is not None:
            collector.note(self.value)
        return resolved, (self.value,)


class ReferencedValues:
    """Values that references stand for; each is loaded when it is first used.

    `gone` lists the values whose replica was missing or damaged, even if the arguments handled that. `error` is the
    exception of an operator on values.
    """

    __slots__ = ("_beside", "_buffers", "_loaded", "_paths", "error", "gone")

    def __init__(self, paths: Mapping[int, Path]) -> None:
        self._paths = paths
        self._beside: dict[int, Payload] = {}
        self._loaded: dict[int, object] = {}
        self._buffers: dict[int, Buffer] = {}
        self.gone: list[int] = []
        self.error: BaseException | None = None

    def add(self, payloads: Mapping[int, Payload]) -> None:
        """Add values that are in no file."""
        self._beside.update(payloads)

    def load(self, value: int) -> object:
        """Return the value with this number, the same object each time. `SerializationError` if it cannot be loaded."""
        if value not in self._loaded:
            self._loaded[value] = load_value(self._mapped(value), what=f"value {value}")
        return self._loaded[value]

    def filled(self, payload: Payload | tuple[Buffer, Sequence[Buffer]]) -> Payload:
        """Return a payload with the buffers for which references stand. Raises `SerializationError` like `load`."""
        data, buffers = payload
        if is_stored(data):
            data, buffers = mapped(data)
        return Payload(data, tuple(map(self._filled, buffers)))

    def _filled(self, buffer: Buffer) -> Buffer:
        value = referenced_buffer(buffer)
        if value is None:
            return buffer
        if value not in self._buffers:
            (self._buffers[value],) = self._mapped(value).buffers
        return self._buffers[value]

    def _mapped(self, value: int) -> Payload:
        if value in self._beside:
            return self._beside[value]
        path = self._paths.get(value)
        if path is None:
            raise SerializationError(f"value {value} is not here: these arguments were sent without it")
        try:
            return map_replica(path)
        except SerializationError:
            self.gone.append(value)
            raise


class _Collector:
    """Notes references while it is entered (`collecting`). It is a class, because that costs less than a generator for
    each call with arguments that are not plain.
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
        """Note that a reference to this value was pickled."""
        if value not in self._seen:
            self._seen.add(value)
            self.values.append(value)


_collector: ContextVar[_Collector | None] = ContextVar("grainlike_collector", default=None)
_referenced: ContextVar[ReferencedValues | None] = ContextVar("grainlike_referenced", default=None)


def buffer_reference(value: int) -> bytes:
    """Return the bytes that stand in a payload for the only buffer of a value.

    >>> len(buffer_reference(7))
    15
    """
    return _MARK + _NUMBER.pack(value)


def referenced_buffer(buffer: Buffer) -> int | None:
    """Return the value for which a buffer of a payload stands; None if the buffer is no reference.

    >>> referenced_buffer(buffer_reference(7))
    7
    """
    view = memoryview(buffer)
    if view.nbytes != _LENGTH or view[: len(_MARK)] != _MARK:
        return None
    number: int = _NUMBER.unpack_from(view, len(_MARK))[0]
    return number


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
    """Replace references that are unpickled inside by the values in these files, on memory that only this process has.

    The same reference gives the same object inside one block; another block loads another object.
    """
    referenced = ReferencedValues(paths)
    token = _referenced.set(referenced)
    try:
        yield referenced
    finally:
        _referenced.reset(token)


@contextmanager
def holding(payloads: Mapping[int, Payload]) -> Iterator[None]:
    """Replace references that are unpickled inside by these values; other references resolve as outside."""
    outside = _referenced.get()
    if outside is not None:
        outside.add(payloads)
        yield
        return
    with resolving({}) as referenced:
        referenced.add(payloads)
        yield


def resolved(value: int) -> object:
    """Return the value for which a reference stands; the pickle of a reference calls this.

    Raises `SerializationError` outside `resolving`, and if the value cannot be loaded.
    """
    referenced = _referenced.get()
    if referenced is None:
        raise SerializationError(f"value {value} is at a worker, and cannot be had from here")
    return referenced.load(value)


def applied(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Return the result of an operator for values; the pickle of an operator on references calls this.

    The `ReferencedValues` of `resolving` note its exception, which is the user's own, like a job's exception.
    """
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        referenced = _referenced.get()
        if referenced is not None:
            referenced.error = error
        raise
