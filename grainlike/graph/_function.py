"""Parts of a delayed function: the callable, its kind, and the options it was given."""

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from grainlike.graph._retry import MOST_SECONDS, MOST_TIMES, Retry
from grainlike.graph._signature import positional_counts

__all__ = ["LEVELS", "Function", "Options", "main_file", "operation"]

LEVELS = 16
"""How many steps there are within one priority. Few: jobs of different steps do not share a queue."""

MOST_PRIORITY = 2**59 - 1
"""Largest priority either way: with the steps within it, a rank has to fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `@delayed(...)`, checked where they are written.

    `nout` is the number of values that a call gives, `timeout` is in seconds, `retries` counts further attempts after
    the first, or is a `Retry` (`retry` is one in any case), a higher `priority` runs earlier, `keep` holds on to cores
    while the job awaits, `isolate` gives a coroutine a process of its own, `cache` is the version under which results
    are kept on disk. Users do not write `level`: it is the step within a priority, below `LEVELS`, that a job's place
    in a named graph gives it. `rank` is both in one number.

    Raises:
        TypeError: a value is of the wrong type.
        ValueError: a value is out of range.
    """

    nout: int | None = None
    name: str | None = None
    retries: int | Retry = 0
    timeout: float | None = None
    priority: int = 0
    keep: bool = False
    isolate: bool = False
    cache: str | None = None
    level: int = 0
    rank: int = field(init=False, repr=False, compare=False)
    retry: Retry = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_int("nout", self.nout, optional=True, least=0)
        retry = self.retries
        if not isinstance(retry, Retry):
            _check_int("retries", retry, least=0, what="an integer, or a Retry")
            if retry > MOST_TIMES:
                raise ValueError(f"retries= must be at most {MOST_TIMES}, not {retry!r}")
            retry = Retry(retry)
        _check_int("priority", self.priority)
        if abs(self.priority) > MOST_PRIORITY:
            raise ValueError(f"priority= must be from -{MOST_PRIORITY} to {MOST_PRIORITY}, not {self.priority!r}")
        _check_flag("keep", self.keep)
        _check_flag("isolate", self.isolate)
        _check_text("name", self.name)
        _check_text("cache", self.cache)
        _check_timeout(self.timeout)
        object.__setattr__(self, "retry", retry)
        object.__setattr__(self, "rank", self.priority * LEVELS + self.level)


def _check_int(
    option: str, value: object, *, optional: bool = False, least: int | None = None, what: str = "an integer"
) -> None:
    if value is None and optional:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{option}= takes {what}, not {value!r}")
    if least is not None and value < least:
        raise ValueError(f"{option}= must be at least {least}, not {value!r}")


def _check_flag(option: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{option}= takes True or False, not {value!r}")


def _check_text(option: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        meant = ': write cache="v1", and "v2" once the function gives other values' if option == "cache" else ""
        raise TypeError(f"{option}= takes a string, not {value!r}{meant}")
    if value == "":
        raise ValueError(f"{option}= must not be empty")
    if value is not None and not _is_text(value):
        raise ValueError(f"{option}= has half a character, which is no text: {value!a}")


def _is_text(value: str) -> bool:
    """Return True if a string can be sent to other processes: Python's may hold halves of characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_timeout(timeout: object) -> None:
    if timeout is None:
        return
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        raise TypeError(f"timeout= takes a number of seconds, not {timeout!r}")
    if not (timeout > 0 and isfinite(timeout)):
        raise ValueError(f"timeout= must be a positive number of seconds, not {timeout!r}")
    if timeout > MOST_SECONDS:
        raise ValueError(
            f"timeout= must be at most {MOST_SECONDS:g} seconds, not {timeout!r}: leave it out for no limit"
        )


_NO_OPTIONS = Options()


class Function:
    """Callable with its options, shared by every node that calls it and every `@` copy.

    Attributes:
        accepts_errors: whether it is called when inputs have failed, with their exceptions in place of their values.
        alone: whether each call of it is a job of its own, and takes no other along.
        callable: what is called.
        collects: whether it gives its arguments as a list and looks at none: those that stay at workers may stay.
        name: what it is called in listings: `name=`, or the callable's own name.
        is_async: whether a call of it gives a coroutine, or a stream.
        is_stream: whether a call of it gives an asynchronous generator.
        internal: whether its jobs are internal: the executor submits them for jobs of the program, and no total counts
            them.
        least: how many positional arguments a call without keywords needs, where that is known.
        many: whether one call stands for many: its one argument is a list of packed arguments.
        most: how many positional arguments a call may have, where that is known.
        options: the checked options.
        picks: whether it takes items out of its first argument by the others: of a `gather`, those that stay may stay.
    """

    __slots__ = (
        "__weakref__",
        "accepts_errors",
        "alone",
        "callable",
        "collects",
        "internal",
        "is_async",
        "is_stream",
        "least",
        "many",
        "most",
        "name",
        "options",
        "picks",
    )

    accepts_errors: bool
    alone: bool
    callable: Callable[..., Any]
    name: str
    collects: bool
    internal: bool
    is_async: bool
    is_stream: bool
    least: int
    many: bool
    most: int
    options: Options
    picks: bool

    def __init__(
        self,
        callable: Callable[..., Any],  # noqa: A002
        options: Options = _NO_OPTIONS,
        *,
        name: str | None = None,
        many: bool = False,
        accepts_errors: bool = False,
        alone: bool = False,
        collects: bool = False,
        internal: bool = False,
        picks: bool = False,
    ) -> None:
        self.accepts_errors = accepts_errors
        self.alone = alone
        self.callable = callable
        self.collects = collects
        self.internal = internal
        self.many = many
        self.options = options
        self.picks = picks
        self.least, self.most = positional_counts(callable)
        self.name = name or options.name or _name_of(callable)
        self.is_stream = _gives(callable, inspect.isasyncgenfunction)
        self.is_async = self.is_stream or _gives(callable, inspect.iscoroutinefunction)

    def __repr__(self) -> str:
        return f"<Function {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by reference where an importable module holds it under its own name, by its parts elsewhere.

        A decorated function cannot be pickled by name itself, for the name now leads to the delayed function.
        """
        module = getattr(self.callable, "__module__", None)
        qualname = getattr(self.callable, "__qualname__", None)
        if isinstance(module, str) and isinstance(qualname, str) and module != "__main__":
            holder = _look_up(module, qualname)
            if getattr(holder, "function", None) is self:
                return _function_at, (module, qualname)
        return Function, (self.callable, self.options)


def is_generator(callable: Callable[..., Any]) -> bool:  # noqa: A002
    """Return True if a call gives a plain generator."""
    return _gives(callable, inspect.isgeneratorfunction)


def operation(
    callable: Callable[..., Any],  # noqa: A002
    name: str,
    nout: int | None = None,
    *,
    accepts_errors: bool = False,
    collects: bool = False,
    picks: bool = False,
) -> Function:
    """Return a function that the resolver itself applies: an operator, `gather`, a NumPy function."""
    options = _NO_OPTIONS if nout is None else Options(nout=nout)
    return Function(callable, options, name=name, accepts_errors=accepts_errors, collects=collects, picks=picks)


def _gives(callable: Callable[..., Any], test: Callable[[object], bool]) -> bool:  # noqa: A002
    while isinstance(callable, functools.partial):
        callable = callable.func  # noqa: A001
    return test(callable) or test(type(callable).__call__)


def _name_of(callable: Callable[..., Any]) -> str:  # noqa: A002
    while isinstance(callable, functools.partial):
        callable = callable.func  # noqa: A001
    name = getattr(callable, "__name__", None)
    return name if isinstance(name, str) and _is_text(name) else type(callable).__name__


def _look_up(module: str, qualname: str) -> object:
    found: object = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def _function_at(module: str, qualname: str) -> Function:
    __import__(module)
    function = getattr(_look_up(module, qualname), "function", None)
    if not isinstance(function, Function):
        raise AttributeError(f"{module}.{qualname} is not a delayed function here")
    return function


def main_file(function: Callable[..., Any]) -> Path | None:
    """Return the file of a function or class of `__main__`; None where there is none, as at a prompt or in a notebook.

    `__main__` itself may be another's: at `python -m asyncio` it is that module, in all sessions of all projects.
    """
    code = _code(inspect.unwrap(function))
    name = getattr(sys.modules["__main__"], "__file__", None) if code is None else code.co_filename
    if name is None:
        return None
    path = Path(name).resolve()
    return path if any(part.is_file() for part in (path, *path.parents)) else None  # it may lie in a zip file


def _code(function: Any) -> CodeType | None:
    if isinstance(function, type):
        function = next((value for value in vars(function).values() if isinstance(value, FunctionType)), None)
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
