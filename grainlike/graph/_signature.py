"""Arguments checked against a function's signature where the call is written, as Python does when it makes the call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Mapping, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType, MethodType
from typing import Any

__all__ = ["check_arguments", "positional_counts"]

_ANY = (0, sys.maxsize)


def positional_counts(function: Callable[..., Any]) -> tuple[int, int]:
    """Return the least and the largest number of positional arguments in a call without keywords.

    Known for functions and methods written in Python; for all else every number is right. The least number is out of
    reach where an argument has to be given by keyword.
    """
    bound, function = _unbound(function)
    if type(function) is not FunctionType:
        return _ANY
    code = function.__code__
    most = sys.maxsize if code.co_flags & CO_VARARGS else max(0, code.co_argcount - bound)
    if code.co_kwonlyargcount > len(function.__kwdefaults__ or ()):
        return sys.maxsize, most
    return max(0, code.co_argcount - len(function.__defaults__ or ()) - bound), most


def check_arguments(name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Check a call of `function`, whatever the arguments hold.

    Raises:
        TypeError: it cannot be called so. The message is Python's own, with `name`.
    """
    bound, function = _unbound(function)
    given = len(args) + bound
    if type(function) is not FunctionType:
        return
    code, defaults, others = function.__code__, function.__defaults__ or (), function.__kwdefaults__ or {}
    wrong = (
        _not_by_keyword(code, given, kwargs)
        or _too_many(code, given, len(defaults))
        or _missing("positional", _unfilled(code, given, len(defaults), kwargs), ())
        or _missing("keyword-only", [one for one in _keyword_only(code) if one not in others], kwargs)
    )
    if wrong:
        raise TypeError(f"{name}() {wrong}")


def _unbound(function: Any) -> tuple[int, Callable[..., Any]]:
    """Return how many arguments a bound method brings by itself, and the function that it calls."""
    return (1, function.__func__) if type(function) is MethodType else (0, function)


def _positional(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount]


def _keyword_only(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def _not_by_keyword(code: CodeType, given: int, kwargs: Mapping[str, Any]) -> str | None:
    """Say which keyword cannot be given: for it is not there, is positional only, or has a value already."""
    positional, first = _positional(code), code.co_posonlyargcount
    for name in kwargs:
        if name in positional[first:given]:
            return f"got multiple values for argument {name!r}"
        if name in positional[first:] or name in _keyword_only(code) or code.co_flags & CO_VARKEYWORDS:
            continue
        if name in positional:
            return f"got some positional-only arguments passed as keyword arguments: {name!r}"
        return f"got an unexpected keyword argument {name!r}"
    return None


def _too_many(code: CodeType, given: int, defaults: int) -> str | None:
    most = code.co_argcount
    if given <= most or code.co_flags & CO_VARARGS:
        return None
    takes = f"from {most - defaults} to {most}" if defaults else f"{most}"
    arguments = "argument" if most == 1 and not defaults else "arguments"
    return f"takes {takes} positional {arguments} but {given} {'was' if given == 1 else 'were'} given"


def _unfilled(code: CodeType, given: int, defaults: int, kwargs: Mapping[str, Any]) -> list[str]:
    """List the positional arguments without a value; `**rest` may hold the name of one that is positional only."""
    needed = enumerate(_positional(code)[: code.co_argcount - defaults])
    first = code.co_posonlyargcount
    return [name for index, name in needed if index >= given and (index < first or name not in kwargs)]


def _missing(kind: str, needed: Sequence[str], kwargs: Container[str]) -> str | None:
    names = [repr(name) for name in needed if name not in kwargs]
    if not names:
        return None
    if len(names) == 1:
        return f"missing 1 required {kind} argument: {names[0]}"
    listed = f"{names[0]} and {names[1]}" if len(names) == 2 else f"{', '.join(names[:-1])}, and {names[-1]}"
    return f"missing {len(names)} required {kind} arguments: {listed}"
