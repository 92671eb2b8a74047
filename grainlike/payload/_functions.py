"""Functions as bytes: by name if a fresh interpreter finds them, else by value with dill, then with cloudpickle.

The bytes of a function are a pickled tuple `(serializer, stream, modules, sources)`. For a function behind a
decorator's object (`_names`), the serializer is `"name"`, so that neither end needs dill. `modules` are submodules that
the code reaches through a package (`import a.b` binds only `a`). `sources` are lines of source.

Tracebacks need these lines where the file is not: for notebook cells, prompts, and a script on another node. Only the
lines of the code that travels go along, each stretch with the number of its first line.

Behind the tuple is a stamp of the versions of the modules that the program has imported, so that a program which is
started again after an edit sends a function of its own, and no process goes on with what it knows of the old one.
"""

import importlib
import logging
import pickle
import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Literal, NamedTuple

from grainlike.errors import SerializationError
from grainlike.payload._explain import cause_of_refusal, describe_loading, is_interrupt, refusal
from grainlike.payload._names import importable, is_registered, reference_behind_wrapper, resolve, versions_stamp
from grainlike.payload._sources import Stretch, dependencies_of, learn_sources
from grainlike.payload._values import HOSTILE, names_reachable, unreachable
from grainlike.payload._watch import Held, Watch, unchanged, watch

__all__ = [
    "FunctionBlob",
    "Serializer",
    "Stretch",
    "dependencies_of",
    "dump_function",
    "learn_sources",
    "load_function",
]


Serializer = Literal["dill", "cloudpickle"]
Function = Callable[..., Any]
Stream = tuple[str, bytes, list[CodeType]]


class FunctionBlob(NamedTuple):
    """Bytes of a function, and their digest (16 bytes of SHA-256), which tells a receiver that it has the function."""

    digest: bytes
    data: bytes


_MOST_AGAIN = 1 << 16
"""Most bytes of a function whose mutable objects are looked at again."""


class _Known(NamedTuple):
    ref: "weakref.ref[Function]"
    blob: FunctionBlob
    watch: Watch
    mutable: tuple[Held, ...]
    print: bytes | None
    """Fingerprint of `mutable` before `blob` was made; None if it was not taken, or cannot be."""


_cache: dict[tuple[int, str], _Known] = {}

_logger = logging.getLogger("grainlike")


def dump_function(function: Function, serializer: Serializer = "dill") -> FunctionBlob:
    """Return the bytes of a callable, made once per function, and again when a global or closure variable was assigned
    again.

    Objects that the function takes along and that may change in place (a dict, an array) are compared each time, up to
    64 KiB; above that, such changes are not seen. Bound methods and callable objects are dumped again each time,
    because their state may have changed; the digest tells whether it has.

    Raises:
        SerializationError: a variable inside, which the error names, cannot be sent, and the function was never sent.

    >>> load_function(dump_function(len).data)([1, 2])
    2
    """
    key = (id(function), serializer)
    known = _cache.get(key)
    if known is not None and (known.ref() is not function or (known.watch and not unchanged(known.watch))):
        known = None
    if known is not None and not known.mutable:
        return known.blob
    fingerprint = None if known is None else _fingerprint(known.mutable)
    if known is not None and fingerprint is not None and fingerprint == known.print:
        return known.blob
    try:
        blob = _dump(function, serializer)
    except SerializationError as error:
        if known is None:
            raise
        return _as_before(key, known, _title(function), error)
    if known is not None and known.blob.digest == blob.digest:
        blob = known.blob
    if _is_constant(function):
        watched, mutable = watch(function)
        again = mutable if len(blob.data) <= _MOST_AGAIN else ()
        ref = weakref.ref(function, partial(_forget, _cache, key))
        _cache[key] = _Known(ref, blob, watched, again, fingerprint)
    return blob


def load_function(data: bytes | bytearray | memoryview) -> Function:
    """Return the callable of the bytes of `dump_function`. Raises `SerializationError` if it cannot be rebuilt here."""
    try:
        serializer, stream, modules, sources = pickle.loads(data)  # noqa: S301 -- the only room that unpickles
        learn_sources(sources)
        for module in modules:
            with suppress(ImportError):  # a guess from names: the code may not need this module
                importlib.import_module(module)
        function: Function = _restored(serializer, stream)
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise SerializationError(f"the function cannot be rebuilt here: {describe_loading(error)}") from error
    return function


def _restored(serializer: str, stream: bytes) -> Any:
    if serializer == "dill":
        from grainlike.payload._byvalue import undilled

        return undilled(stream)
    restored = pickle.loads(stream)  # noqa: S301 -- the only room that unpickles
    return resolve(*restored) if serializer == "name" else restored


def _is_constant(function: Function) -> bool:
    """Return True if the callable has no state that could change; a built-in method has that of its object."""
    if isinstance(function, BuiltinFunctionType):
        return isinstance(function.__self__, ModuleType)
    return isinstance(function, FunctionType | type | partial)


def _fingerprint(mutable: tuple[Held, ...]) -> bytes | None:
    """Return a digest of mutable objects by plain pickle, which is much faster than copying the function; None if a
    receiver would not find an object that the pickle names.
    """
    try:
        stream = pickle.dumps([held() for held in mutable], 5)
    except BaseException as error:  # dumping the function itself raises it again, and then it is reported
        if is_interrupt(error):
            raise
        return None
    return _sha256(stream) if names_reachable(stream) else None


def _as_before(key: tuple[int, str], known: _Known, title: str, error: SerializationError) -> FunctionBlob:
    """Return the bytes that were sent until now, because the function holds an object now that cannot be sent, such as
    a task or a socket. The function's mutable objects are not looked at again.
    """
    _logger.warning("%s goes on with what it held before: it holds what cannot travel now (%s)", title, error)
    _cache[key] = known._replace(mutable=())
    return known.blob


def _forget(cache: "dict[tuple[int, str], _Known]", key: tuple[int, str], ref: "weakref.ref[Function]") -> None:
    # With the cache as an argument: as an interpreter ends, functions go after the names of this module.
    known = cache.get(key)
    if known is not None and known.ref is ref:  # otherwise the id already belongs to another function
        del cache[key]


def _dump(function: Function, serializer: Serializer) -> FunctionBlob:
    try:
        name, stream, codes = _stream(function, serializer)
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise refusal(_title(function), function, _reason_against, error) from cause_of_refusal(error)
    data = pickle.dumps((name, stream, _submodules(codes), dependencies_of(codes)), 5) + versions_stamp()
    return FunctionBlob(_sha256(data)[:16], data)


def _sha256(data: bytes) -> bytes:
    import hashlib  # OpenSSL comes with it, and processes of jobs need none

    return hashlib.sha256(data).digest()


def _stream(function: Function, serializer: Serializer) -> Stream:
    if _lives_out_of_reach(function):
        serializer = "cloudpickle"  # dill would send the name, because it takes all of `sys.modules` for importable
    reference = reference_behind_wrapper(function) if isinstance(function, FunctionType) else None
    if reference is not None:
        return "name", pickle.dumps(reference, 5), []
    with suppress(*HOSTILE):
        stream = pickle.dumps(function, 5)
        if names_reachable(stream):
            return "pickle", stream, []
    return _by_value(function, serializer)


def _by_value(obj: object, serializer: Serializer) -> Stream:
    from grainlike.payload._byvalue import cloudpickled, dilled

    if serializer == "dill":
        with suppress(*HOSTILE):  # if cloudpickle fails, too, its reason is reported
            return "dill", *dilled(obj)
    return "cloudpickle", *cloudpickled(obj)


def _lives_out_of_reach(function: Function) -> bool:
    """Return True if the function's module is loaded, but no import finds it; its objects are sent by value."""
    inner: object = function
    while isinstance(inner, partial):
        inner = inner.func
    module: str | None = None if isinstance(inner, BuiltinFunctionType) else getattr(inner, "__module__", None)
    if module not in sys.modules or module == "__main__" or importable(module):
        return False
    if is_registered(module):
        return True  # not noted here, because the program may take back the registration
    if module.encode() not in unreachable:
        from grainlike.payload._byvalue import copy_module

        copy_module(module)
        unreachable.append(module.encode())
    return True


def _reason_against(obj: object) -> BaseException | None:
    try:
        _by_value(obj, "dill")
    except BaseException as error:  # an event loop's cancellation too, because only user code can raise it here
        if is_interrupt(error):
            raise
        return error
    return None


def _title(function: Function) -> str:
    return f"the function {getattr(function, '__qualname__', None) or type(function).__qualname__!r}"


def _submodules(codes: Iterable[CodeType]) -> list[str]:
    """Return the loaded submodules whose name parts are all in the code: cloudpickle's rule, which dill lacks."""
    names = {name for code in codes for name in code.co_names}
    return sorted(name for name in list(sys.modules) if "." in name and names.issuperset(name.split(".")))
