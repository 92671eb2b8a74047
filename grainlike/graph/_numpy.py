"""NumPy's functions on placeholders, by NumPy's own protocols, without importing NumPy.

NumPy functions that write into an argument make that placeholder stand for a changed copy instead: a value
that others derive from is never written to.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

from grainlike.graph._function import Function, operation
from grainlike.graph._operators import operate
from grainlike.graph._placeholder import Placeholder, rebind

__all__ = ["NumpyProtocols"]

_WRITERS = frozenset({"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"})
"""The functions of NumPy that write into their first argument, and return None."""


class NumpyProtocols(Placeholder):
    """Methods that NumPy calls instead of computing."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        if method == "at":
            return _write_first(function, inputs, kwargs)
        outs = kwargs.pop("out", ())
        if outs:
            return _write_out(type(self), function, inputs, outs, kwargs)
        nout = ufunc.nout if ufunc.nout > 1 and method == "__call__" else None
        return type(self)(operate(_named(function, nout), *inputs, **kwargs))

    def __array_function__(self, function: Any, types: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if function.__name__ in _WRITERS:
            return _write_first(function, args, kwargs)
        args, rest, out = _without_out(function, args, kwargs)
        if out is not None:
            return _write_out(type(self), function, args, out if type(out) is tuple else (out,), rest)
        return type(self)(operate(_named(function, None), *args, **rest))


def _write_out(
    kind: type[Placeholder],
    function: Any,
    inputs: tuple[Any, ...],
    outs: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Let each placeholder in `outs` stand for what the function wrote there; give them back, as NumPy does."""
    for out in outs:
        if out is not None and not isinstance(out, Placeholder):
            _refuse_array(f"out= of {_name(function)}")
    written = operate(_OUT, function, inputs, outs, kwargs)
    first, *others = outs
    if not others:
        rebind(first, written)
        return first
    results = tuple(kind(written) if out is None else out for out in outs)
    whole = kind(written)
    for index, result in enumerate(results):
        rebind(result, operate(_ONE_OF, whole, index))
    return results


def _write_first(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Let the placeholder that is the first argument stand for the copy that the function wrote into."""
    if not args or not isinstance(args[0], Placeholder):
        _refuse_array(f"the first argument of {_name(function)}")
    rebind(args[0], operate(_FIRST, function, args[0], args[1:], dict(kwargs)))


def _refuse_array(what: str) -> NoReturn:
    raise TypeError(
        f"{what} would be written to at some later time, for another argument is a placeholder: "
        "write `a = a + r_` instead of `a += r_`, or make the array a placeholder, `a_ = delayed_value(a)`"
    )


def _call_out(function: Any, inputs: tuple[Any, ...], outs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    first, *others = [copy.copy(out) for out in outs]
    if others:
        return function(*inputs, out=(first, *others), **kwargs)
    function(*inputs, out=first, **kwargs)
    return first


def _call_first(function: Any, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    changed = copy.copy(first)
    function(changed, *args, **kwargs)
    return changed


def _one_of(results: tuple[Any, ...], index: int) -> Any:
    return results[index]


_OUT = operation(_call_out, "out=")
_FIRST = operation(_call_first, "write")
_ONE_OF = operation(_one_of, "getitem")


def _without_out(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Take `out` from the arguments, where it may stand by name or by position."""
    rest = dict(kwargs)
    place = _place_of_out(function)
    if place is None or len(args) <= place:
        return args, rest, rest.pop("out", None)
    names = list(inspect.signature(function).parameters)
    rest.update(zip(names[place + 1 :], args[place + 1 :], strict=False))
    return args[:place], rest, args[place]


@lru_cache(maxsize=256)
def _place_of_out(function: Any) -> int | None:
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # written in C, without a signature
        return None
    out = parameters.get("out")
    return list(parameters).index("out") if out is not None and out.kind is out.POSITIONAL_OR_KEYWORD else None


@lru_cache(maxsize=256)
def _named(function: Any, nout: int | None) -> Function:
    return operation(function, _name(function), nout)


def _name(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    owned = getattr(owner, "__name__", None)
    return f"np.{owned}.{function.__name__}" if owned and "numpy" not in owned else f"np.{function.__name__}"
