"""Functions: by name where a fresh interpreter finds them, else by value with dill, then with cloudpickle.

A function's bytes are a pickled tuple `(serializer, stream, modules, sources)`; of a function behind a
decorator's object (see `_names`) the serializer is `"name"`, which spares both ends dill. `modules` are
submodules that its code reaches through a package (`import a.b` binds only `a`); `sources` are its lines, so
that a traceback far away can show them.

Lines of source for tracebacks, where the file is not: notebook cells, prompts, a script on another node.

Only the lines of the code that travels go along, each stretch with the number of its first line.
"""

import hashlib
import importlib
import linecache
import logging
import pickle
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Literal, NamedTuple

from grainlike.errors import SerializationError
from grainlike.payload._explain import describe_loading, is_interrupt, refusal
from grainlike.payload._names import importable, is_registered, reference_behind_wrapper, resolve
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
    """A function's bytes, and their digest (16 bytes of SHA-256) by which a receiver knows that it has them."""

    digest: bytes
    data: bytes


_MOST_AGAIN = 1 << 16
"""Bytes up to which a function that takes along what may change in place is looked at again."""


class _Known(NamedTuple):
    ref: "weakref.ref[Function]"
    blob: FunctionBlob
    watch: Watch
    mutable: tuple[Held, ...]
    print: bytes | None
    """Of what is mutable, as it was before `blob` was made; None where it was not taken, or cannot be."""


_cache: dict[tuple[int, str], _Known] = {}

_logger = logging.getLogger("grainlike")


def dump_function(function: Function, serializer: Serializer = "dill") -> FunctionBlob:
    """The bytes of a callable, made once per function, and again when a global or closure variable was rebound.

    What it takes along and may change in place (a dict, an array, an object) is compared each time, up to 64 KiB; above
    that such changes are not seen. Bound methods and callable objects are dumped anew each time, since their state may
    have changed; the digest tells whether it has.

    Raises:
        SerializationError: a variable inside, which it names, cannot travel, and the function never has.

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
        ref = weakref.ref(function, lambda ref: _forget(key, ref))
        _cache[key] = _Known(ref, blob, watched, again, fingerprint)
    return blob


def load_function(data: bytes | bytearray | memoryview) -> Function:
    """The callable of `dump_function`'s bytes. `SerializationError` where it cannot be rebuilt here."""
    try:
        serializer, stream, modules, sources = pickle.loads(data)  # noqa: S301 -- the only room that unpickles
        learn_sources(sources)
        for module in modules:
            with suppress(ImportError):  # a guess from names: only the running code knows whether it is needed
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
    """Return True if the callable has no state that could change: a built-in object's method has that object's."""
    if isinstance(function, BuiltinFunctionType):
        return isinstance(function.__self__, ModuleType)
    return isinstance(function, FunctionType | type | partial)


def _fingerprint(mutable: tuple[Held, ...]) -> bytes | None:
    """By plain pickle, which is much faster than to copy the function; None where it would name what is copied."""
    try:
        stream = pickle.dumps([held() for held in mutable], 5)
    except BaseException as error:  # to dump the function itself will say it
        if is_interrupt(error):
            raise
        return None
    return hashlib.sha256(stream).digest() if names_reachable(stream) else None


def _as_before(key: tuple[int, str], known: _Known, title: str, error: SerializationError) -> FunctionBlob:
    """Return what was sent until now, where something that cannot be has come into what the function holds: a task, a
    socket. It is not looked at again.
    """
    _logger.warning("%s goes on with what it held before: it holds what cannot travel now (%s)", title, error)
    _cache[key] = known._replace(mutable=())
    return known.blob


def _forget(key: tuple[int, str], ref: "weakref.ref[Function]") -> None:
    known = _cache.get(key)
    if known is not None and known.ref is ref:  # else the address already belongs to another function
        del _cache[key]


def _dump(function: Function, serializer: Serializer) -> FunctionBlob:
    try:
        name, stream, codes = _stream(function, serializer)
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise refusal(_title(function), function, _reason_against, error) from error
    data = pickle.dumps((name, stream, _submodules(codes), dependencies_of(codes)), 5)
    return FunctionBlob(hashlib.sha256(data).digest()[:16], data)


def _stream(function: Function, serializer: Serializer) -> Stream:
    if _lives_out_of_reach(function):
        serializer = "cloudpickle"  # dill would name it: it takes whatever is in `sys.modules` for importable
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
        with suppress(*HOSTILE):  # if cloudpickle refuses too, its reason is the one that is told
            return "dill", *dilled(obj)
    return "cloudpickle", *cloudpickled(obj)


def _lives_out_of_reach(function: Function) -> bool:
    """Return True if the function's module is loaded, but not found by an import. What it holds is sent by value."""
    inner: object = function
    while isinstance(inner, partial):
        inner = inner.func
    module: str | None = None if isinstance(inner, BuiltinFunctionType) else getattr(inner, "__module__", None)
    if module not in sys.modules or module == "__main__" or importable(module):
        return False
    if is_registered(module):
        return True  # for as long as it is: cloudpickle knows
    if module.encode() not in unreachable:
        from grainlike.payload._byvalue import copy_module

        copy_module(module)
        unreachable.append(module.encode())
    return True


def _reason_against(obj: object) -> BaseException | None:
    try:
        _by_value(obj, "dill")
    except BaseException as error:  # a loop's cancellation too: in here only user code can raise it
        if is_interrupt(error):
            raise
        return error
    return None


def _title(function: Function) -> str:
    return f"the function {getattr(function, '__qualname__', None) or type(function).__qualname__!r}"


def _submodules(codes: Iterable[CodeType]) -> list[str]:
    """Loaded submodules all of whose parts are names in the code: cloudpickle's rule, which dill lacks."""
    names = {name for code in codes for name in code.co_names}
    return sorted(name for name in list(sys.modules) if "." in name and names.issuperset(name.split(".")))


Stretch = tuple[int, list[str]]

_LONGEST = 5000


def dependencies_of(codes: Iterable[CodeType]) -> dict[str, list[Stretch]]:
    """For every file that `codes` come from, the stretches of lines that they cover, as far as known."""
    sources: dict[str, list[Stretch]] = {}
    for code in codes:
        first, last = _span(code)
        lines = linecache.getlines(code.co_filename)[first - 1 : min(last, first + _LONGEST)]
        if lines:
            sources.setdefault(code.co_filename, []).append((first, lines))
    return sources


def learn_sources(sources: Mapping[str, Iterable[Stretch]]) -> None:
    """Let `linecache`, and so every traceback, know these lines, where it does not see the file itself."""
    for name, stretches in sources.items():
        if not Path(name).exists():
            lines = list(linecache.getlines(name))
            for first, text in stretches:
                lines.extend(["\n"] * (first - 1 + len(text) - len(lines)))
                lines[first - 1 : first - 1 + len(text)] = text
            # No modification time: `linecache.checkcache` drops entries of missing files, but not such ones.
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def _span(code: CodeType) -> tuple[int, int]:
    return code.co_firstlineno, max(_lines(code), default=code.co_firstlineno)


def _lines(code: CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line is not None)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines(constant)
