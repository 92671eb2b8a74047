"""Functions: by name where a fresh interpreter finds them, by value with dill, then cloudpickle, where it does not.

A function's bytes are a pickled tuple `(serializer, stream, modules, sources)`: `modules` are submodules that its code
reaches through a package (`import a.b` binds only `a`), `sources` the text of the files its code comes from, so that a
traceback far away shows lines.
"""

import hashlib
import importlib
import pickle
import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, Literal, NamedTuple

from ..errors import SerializationError
from ._explain import refusal
from ._sources import learn_sources, sources_of
from ._values import HOSTILE

__all__ = ["FunctionBlob", "Serializer", "dump_function", "load_function"]

Serializer = Literal["dill", "cloudpickle"]
Function = Callable[..., Any]


class FunctionBlob(NamedTuple):
    """A function's bytes, and their digest (16 bytes of SHA-256) by which a receiver knows that it has them."""

    digest: bytes
    data: bytes


_cache: dict[tuple[int, str], tuple["weakref.ref[Function]", FunctionBlob]] = {}


def dump_function(function: Function, serializer: Serializer = "dill") -> FunctionBlob:
    """The bytes of a callable, made once per function object.

    Bound methods and other objects with state are dumped anew each time, since their state may have changed; their
    digest then tells whether it has. Raises `SerializationError` naming the variable inside that cannot travel.

    >>> load_function(dump_function(len).data)([1, 2])
    2
    """
    key = (id(function), serializer)
    known = _cache.get(key)
    if known is not None and known[0]() is function:
        return known[1]
    blob = _dump(function, serializer)
    if isinstance(function, FunctionType | BuiltinFunctionType | type):
        _cache[key] = weakref.ref(function, lambda ref: _forget(key, ref)), blob
    return blob


def load_function(data: bytes | bytearray | memoryview) -> Function:
    """The callable of `dump_function`'s bytes. `SerializationError` where it cannot be rebuilt here."""
    try:
        serializer, stream, modules, sources = pickle.loads(data)
        learn_sources(sources)
        for module in modules:
            with suppress(
                ImportError
            ):  # a guess from names: only the code that runs knows whether it is needed
                importlib.import_module(module)
        function: Function = _undill(stream) if serializer == "dill" else pickle.loads(stream)
    except HOSTILE as error:
        raise SerializationError(
            f"the function cannot be rebuilt here: {type(error).__name__}: {error}"
        ) from error
    return function


def _forget(key: tuple[int, str], ref: "weakref.ref[Function]") -> None:
    known = _cache.get(key)
    if known is not None and known[0] is ref:
        del _cache[key]


def _dump(function: Function, serializer: Serializer) -> FunctionBlob:
    name, stream, codes = _stream(function, serializer)
    data = pickle.dumps((name, stream, _submodules(codes), sources_of(codes)), 5)
    return FunctionBlob(hashlib.sha256(data).digest()[:16], data)


def _stream(function: Function, serializer: Serializer) -> tuple[str, bytes, list[CodeType]]:
    with suppress(*HOSTILE):
        stream = pickle.dumps(function, 5)
        if b"_main__" not in stream:
            return "pickle", stream, []
    from ._byvalue import cloudpickled, dilled

    if serializer == "dill":
        with suppress(*HOSTILE):
            return "dill", *dilled(function)
    try:
        return "cloudpickle", *cloudpickled(function)
    except HOSTILE as error:
        raise refusal(_title(function), function, _travels, error) from error


def _travels(obj: object) -> BaseException | None:
    from ._byvalue import cloudpickled, dilled

    try:
        dilled(obj)
    except HOSTILE:
        try:
            cloudpickled(obj)
        except HOSTILE as error:
            return error
    return None


def _undill(stream: bytes) -> Function:
    from ._byvalue import undilled

    function: Function = undilled(stream)
    return function


def _title(function: Function) -> str:
    return f"the function {getattr(function, '__qualname__', None) or type(function).__qualname__!r}"


def _submodules(codes: Iterable[CodeType]) -> list[str]:
    """Loaded submodules all of whose parts are names in the code: cloudpickle's rule, which dill lacks."""
    names = {name for code in codes for name in code.co_names}
    return sorted(name for name in sys.modules if "." in name and names.issuperset(name.split(".")))
