"""Identity of calls: a digest of arguments by their content, for types whose content is known."""

from __future__ import annotations

import reprlib
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from hashlib import blake2b
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType
from typing import Any
from uuid import UUID

from grainlike.errors import SerializationError
from grainlike.payload._names import reference_to

__all__ = ["identity_of"]

_HOOK = "__grainlike_identity__"

_BY_REPR = (bool, int, complex, type(None), type(...), range, date, datetime, time, timedelta, Decimal, Fraction, UUID)
"""Types, without their subclasses, whose `repr` tells all of a value, and is the same in every process."""


class _UnknownError(Exception):
    """Raised for an object whose content is unknown."""

    def __init__(self, path: str, thing: object) -> None:
        super().__init__(path)
        self.path = path
        self.thing = thing


def identity_of(arguments: Mapping[str, object], *, what: str) -> bytes:
    """Return a digest (32 bytes, BLAKE2b) of named arguments by content: the same in every process, today and later.

    It accepts Python's own plain values and containers, dates, paths (by name, not by the file), enumerations,
    dataclasses, NumPy's arrays and scalars, and functions and classes that can be imported (by name). Other types need
    a method `__grainlike_identity__(self)` that returns such an object; its result and the type's name make the digest.

    Raises:
        SerializationError: the content of an argument is unknown; the error names the argument, and the object inside
            it.

    Example::

        identity_of({"x": 3, "table": np.arange(9)}, what="fit")
    """
    digests = []
    for name, value in sorted(arguments.items()):
        try:
            digests.append(name.encode() + b"=" + _Digester().of(value, ""))
        except _UnknownError as unknown:
            place = f", at {unknown.path}" if unknown.path else ""
            raise SerializationError(
                f"cache= cannot tell whether argument {name!r} of {what}{place} is the same as another time: "
                f"{_type_name(type(unknown.thing))} says nothing of its content; give that class a method "
                f"{_HOOK}(self) that returns plain values, or pass plain values"
            ) from None
    return blake2b(b"".join(_framed(digests)), digest_size=32).digest()


class _Digester:
    """Computes the digest of one argument. `_inside` has the ids of the containers around the present object."""

    def __init__(self) -> None:
        self._inside: set[int] = set()

    def of(self, thing: object, path: str) -> bytes:
        kind = type(thing)
        if kind in _BY_REPR:
            return _tagged(kind.__name__, repr(thing).encode())
        plain = _PLAIN.get(kind)
        if plain is not None:
            return _tagged(kind.__name__, plain(thing))
        if id(thing) in self._inside:
            raise _UnknownError(path, thing)
        self._inside.add(id(thing))
        try:
            return self._of_other(thing, kind, path)
        finally:
            self._inside.discard(id(thing))

    def _of_other(self, thing: Any, kind: type, path: str) -> bytes:
        name = _type_name(kind)
        if kind in (tuple, list) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
            return _tagged(name, *(self.of(item, f"{path}[{index}]") for index, item in enumerate(thing)))
        if kind is dict:
            return _tagged(name, *sorted(self._pair(key, item, path) for key, item in thing.items()))
        if kind in (set, frozenset):
            return _tagged(name, *sorted(self.of(item, f"{path}{{...}}") for item in thing))
        if callable(getattr(kind, _HOOK, None)):
            return _tagged(name, self.of(getattr(thing, _HOOK)(), f"{path}.{_HOOK}()"))
        if isinstance(thing, Enum):
            return _tagged(name, thing.name.encode())
        if isinstance(thing, PurePath):
            return _tagged("path", str(thing).encode("utf-8", "surrogateescape"))
        if is_dataclass(thing) and not isinstance(thing, type):
            return self._of_fields(thing, name, path)
        if isinstance(thing, FunctionType | BuiltinFunctionType | type):
            return _of_importable(thing, path)
        return self._of_numpy(thing, name, path)

    def _pair(self, key: object, item: object, path: str) -> bytes:
        shown = reprlib.repr(key)
        return _tagged("", self.of(key, f"{path} key {shown}"), self.of(item, f"{path}[{shown}]"))

    def _of_fields(self, thing: Any, name: str, path: str) -> bytes:
        parts: list[bytes] = []
        for field in fields(thing):
            parts += [field.name.encode(), self.of(getattr(thing, field.name), f"{path}.{field.name}")]
        return _tagged(name, *parts)

    def _of_numpy(self, thing: Any, name: str, path: str) -> bytes:
        numpy = sys.modules.get("numpy")  # a program with an array has loaded it
        if numpy is None or type(thing) is not numpy.ndarray:
            if numpy is not None and isinstance(thing, numpy.generic) and not thing.dtype.hasobject:
                return _tagged(name, repr(thing.dtype).encode(), thing.tobytes())
            raise _UnknownError(path, thing)
        head = (repr(thing.dtype).encode(), repr(thing.shape).encode())
        if thing.dtype.hasobject:
            if thing.dtype != object:
                raise _UnknownError(path, thing)
            return _tagged(name, *head, *(self.of(item, f"{path}.flat[{i}]") for i, item in enumerate(thing.flat)))
        return _tagged(name, *head, blake2b(numpy.ascontiguousarray(thing).data, digest_size=32).digest())


_PLAIN: dict[type, Callable[[Any], bytes]] = {
    float: lambda number: struct.pack(">d", number),
    str: lambda text: text.encode("utf-8", "surrogatepass"),
    bytes: bytes,
    bytearray: bytes,
    memoryview: bytes,
}


def _of_importable(thing: Any, path: str) -> bytes:
    if isinstance(thing, FunctionType) and reference_to(thing) is None:
        raise _UnknownError(path, thing)
    module, name = getattr(thing, "__module__", None), thing.__qualname__
    if module is None or module == "__main__" or "<" in name:
        raise _UnknownError(path, thing)
    return _tagged("name", module.encode(), name.encode())


def _tagged(tag: str, *parts: bytes) -> bytes:
    return blake2b(b"".join(_framed((tag.encode(), *parts))), digest_size=32).digest()


def _framed(parts: Iterable[bytes]) -> Iterable[bytes]:
    """Put its length before each part, so that no two lists of parts look alike when they are joined."""
    for part in parts:
        yield len(part).to_bytes(8, "big")
        yield part


def _type_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
