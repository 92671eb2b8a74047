"""Search for the object inside an object that cannot be pickled. Its parts are tried only to explain an error."""

import pickle
import re
import reprlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from itertools import islice
from types import BuiltinMethodType, FunctionType, MethodType

from grainlike.errors import SerializationError
from grainlike.payload._watch import names_in

__all__ = ["cause_of_refusal", "describe_error", "describe_loading", "is_interrupt", "refusal"]

Test = Callable[[object], BaseException | None]
Part = tuple[str, object]

_DEEPEST = 32
_WIDEST = 1000
_NOT_IN_MODULE = re.compile(r"attribute .* on <module |module '.*' has no attribute ")
_CONTEXT_VARIABLE = (
    ". A context variable belongs to its process: call .get() in the program, and give the value as an argument"
)
_short = reprlib.Repr()
_short.maxstring = 60


def is_interrupt(error: BaseException) -> bool:
    """Return True if the error may be a Ctrl-C, which is for the program: it is raised only in the main thread."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def refusal(what: str, obj: object, travels: Test, error: BaseException) -> SerializationError:
    """Return the error to raise for `obj`, called `what`, which cannot be sent because of `error`."""
    path, culprit, reason = _deepest(obj, travels, error)
    place = f"{what}, at {path.strip()}," if path else what
    if isinstance(reason, SerializationError):
        return SerializationError(f"{place.rstrip(',')}: {reason}")  # the object says itself what cannot be sent
    hint = _CONTEXT_VARIABLE if type(culprit) is ContextVar else ""
    return SerializationError(f"{place} cannot travel: {_describe(culprit)} ({describe_error(reason)}){hint}")


def cause_of_refusal(error: BaseException) -> BaseException:
    """Return the error that keeps an object from being sent, without the frames of grainlike."""
    from grainlike._tracebacks import fold  # most programs send what can be sent

    return fold(error)


def _deepest(obj: object, travels: Test, error: BaseException) -> tuple[str, object, BaseException]:
    path, seen = "", {id(obj)}
    for _ in range(_DEEPEST):
        found = None if _refuses(obj, error) else _first_bad_part(obj, travels, seen)
        if found is None:
            break
        label, obj, error = found
        path += label
        seen.add(id(obj))
    return path, obj, error


def _refuses(obj: object, error: BaseException) -> bool:
    """Return True if the object itself raised `error` when it was pickled, so that no part is to blame."""
    reduce = type(obj).__reduce_ex__
    if not isinstance(error, SerializationError) or reduce is object.__reduce_ex__:
        return False
    try:
        reduce(obj, pickle.HIGHEST_PROTOCOL)
    except SerializationError:
        return True
    except Exception:  # noqa: BLE001 -- a user's object may raise anything
        return False
    return False


def _first_bad_part(obj: object, travels: Test, seen: set[int]) -> tuple[str, object, BaseException] | None:
    try:
        for label, part in islice(_parts(obj), _WIDEST):
            reason = None if id(part) in seen else travels(part)
            if reason is not None:
                return label, part, reason
    except Exception:  # noqa: BLE001 -- a user's object may raise when its parts are asked for: then it is the culprit
        return None
    return None


def _parts(obj: object) -> Iterator[Part]:
    if isinstance(obj, Mapping):
        for key, value in obj.items():
            yield f" key {_short.repr(key)}", key
            yield f"[{_short.repr(key)}]", value
    elif isinstance(obj, list | tuple):
        yield from ((f"[{index}]", item) for index, item in enumerate(obj))
    elif isinstance(obj, set | frozenset):
        yield from ((f" member {_short.repr(item)}", item) for item in obj)
    elif isinstance(obj, FunctionType):
        yield from _parts_of_function(obj)
    elif isinstance(obj, type):
        yield from ((f".{name}", value) for name, value in vars(obj).items() if not name.startswith("__"))
    elif isinstance(obj, staticmethod | classmethod):
        yield ".__func__", obj.__func__
    elif isinstance(obj, property):
        yield from ((f".{name}", getattr(obj, name)) for name in ("fget", "fset", "fdel"))
    elif isinstance(obj, MethodType | BuiltinMethodType):
        yield from ((name, getattr(obj, name[1:])) for name in (".__self__", ".__func__") if hasattr(obj, name[1:]))
    elif isinstance(obj, partial):
        yield from ((".func", obj.func), (".args", obj.args), (".keywords", obj.keywords))
    if isinstance(obj, BaseException):
        yield ".args", obj.args
    if not isinstance(obj, type | FunctionType):
        yield from _attributes(obj)
        yield ".__class__", type(obj)


def _parts_of_function(function: FunctionType) -> Iterator[Part]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f" closure variable {name!r}", _content(cell)
    for name in dict.fromkeys(names_in(function.__code__)):
        if name in function.__globals__:
            yield f" global {name!r}", function.__globals__[name]
    yield " default", function.__defaults__
    yield " keyword default", function.__kwdefaults__
    yield from ((f".{name}", value) for name, value in function.__dict__.items())


def _content(cell: object) -> object:
    try:
        return getattr(cell, "cell_contents")  # noqa: B009 -- cells have no public type to annotate with
    except ValueError:
        return None  # an empty cell, which travels


def _attributes(obj: object) -> Iterator[Part]:
    for name, value in getattr(obj, "__dict__", {}).items():
        yield f".{name}", value
    for cls in type(obj).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(obj, name):
                yield f".{name}", getattr(obj, name)


def _describe(obj: object) -> str:
    if issubclass(type(obj), FunctionType | type):  # `isinstance` would ask the object, which may raise
        return f"{type(obj).__name__} {getattr(obj, '__module__', '?')}.{getattr(obj, '__qualname__', '?')}"
    return f"an object of type {type(obj).__module__}.{type(obj).__qualname__}"


def describe_error(error: BaseException) -> str:
    """Return type and text of an exception, whose text may itself raise."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 -- a user's exception whose text raises
        return type(error).__name__


def describe_loading(error: BaseException) -> str:
    """Return `describe_error` of an error in loading a stream, with a hint for objects that a module does not have."""
    said = describe_error(error)
    if isinstance(error, AttributeError) and _NOT_IN_MODULE.search(said):
        return f"{said} (this process has imported the module as it was; what was put into it since is not there)"
    return said
