"""Arguments of a call that is sent before its inputs are there; a process that loads nothing fills in the inputs later.

The arguments are packed with a mark in the place of each value, and with the operators between the call and its inputs.
`fill_arguments` adds outcomes, as bytes or as references, without loading any. Loading the result gives the arguments:
outcomes are loaded, and operators applied, each once.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from grainlike.payload._payload import Buffer, Payload
from grainlike.payload._references import resolved
from grainlike.payload._values import OperatorError, dump_value, dump_whole, load_value, load_whole

__all__ = ["AppliedStep", "Awaited", "StepResult", "dump_arguments_ahead", "fill_arguments"]

_Parcel = tuple[Buffer, Sequence[Buffer]]


class _Inputs:
    """Outcomes for arguments that are being loaded, and the results of the operators that were applied so far."""

    __slots__ = ("_given", "_loaded", "results")

    def __init__(self, given: Mapping[int, int | _Parcel]) -> None:
        self._given = given
        self._loaded: dict[int, object] = {}
        self.results: list[object] = []

    def load(self, number: int) -> object:
        """Return the value of one call: the same object each time."""
        if number not in self._loaded:
            given = self._given[number]
            self._loaded[number] = resolved(given) if isinstance(given, int) else load_value(given)
        return self._loaded[number]


_inputs: ContextVar[_Inputs] = ContextVar("grainlike_inputs")


class Awaited:
    """Mark for the value of the call with this number."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number: int = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self.number,)


class StepResult:
    """Mark for the result of the operator with this step."""

    __slots__ = ("step",)

    def __init__(self, step: int) -> None:
        self.step: int = step

    def __reduce__(self) -> tuple[Any, ...]:
        return _result, (self.step,)


class AppliedStep:
    """Operator with its arguments, applied when it is loaded. Its exception is raised unchanged."""

    __slots__ = ("_arguments", "_function")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._function = function
        self._arguments = args, dict(kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return _apply, (self._function, *self._arguments)


def dump_arguments_ahead(
    steps: Sequence[AppliedStep], args: tuple[object, ...], kwargs: Mapping[str, object], *, what: str
) -> Payload:
    """Return the bytes of arguments with marks, to be filled; `steps` are applied in this order.

    Raises:
        SerializationError: an object in the arguments cannot be sent.
    """
    return dump_value((tuple(steps), args, dict(kwargs)), what=f"an argument of {what}")


def fill_arguments(arguments: _Parcel, given: Mapping[int, int | _Parcel]) -> Payload:
    """Return the bytes of `dump_arguments_ahead` with outcomes, by the numbers of their calls, for `load_arguments`. An
    outcome is a payload, or the number of a value that stays at workers.

    >>> marked = dump_arguments_ahead([], (Awaited(3),), {}, what="f")
    >>> from grainlike.payload import load_arguments
    >>> load_arguments(fill_arguments(marked, {3: dump_value("there")}))
    (('there',), {})
    """
    rows = [
        (number, outcome if isinstance(outcome, int) else (bytes(outcome[0]), _raw(outcome[1])))
        for number, outcome in given.items()
    ]
    return dump_whole(_Filled(bytes(arguments[0]), _raw(arguments[1]), rows))


def _raw(buffers: Sequence[Buffer]) -> list[pickle.PickleBuffer]:
    return [pickle.PickleBuffer(buffer) for buffer in buffers]


class _Filled:
    """Arguments and outcomes side by side; unpickled, they are the arguments."""

    __slots__ = ("_parts",)

    def __init__(self, *parts: object) -> None:
        self._parts = parts

    def __reduce__(self) -> tuple[Any, ...]:
        return _filled, self._parts


def _filled(
    stream: bytes, buffers: Sequence[Buffer], rows: Sequence[tuple[int, int | _Parcel]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    token = _inputs.set(_Inputs(dict(rows)))
    try:
        _, args, kwargs = load_whole(stream, buffers)
    finally:
        _inputs.reset(token)
    return args, kwargs


def _load(number: int) -> object:
    return _inputs.get().load(number)


def _result(step: int) -> object:
    return _inputs.get().results[step]


def _apply(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        raise OperatorError(error) from error
    _inputs.get().results.append(result)
