"""Arguments with the values to which they refer, for workers that have no room to keep these values."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from grainlike.payload._payload import Buffer, Payload
from grainlike.payload._references import holding, referenced_buffer
from grainlike.payload._values import dump_whole, load_whole

__all__ = ["enclose_values", "stream_apart"]


def enclose_values(arguments: Payload, values: Mapping[int, Payload]) -> Payload:
    """Return arguments with these values, to which they refer by number, for `load_arguments`. Other values stay
    references. Nothing is loaded, and no large buffer is copied.

    >>> from grainlike.payload import dump_arguments, dump_value, load_arguments, Reference
    >>> load_arguments(enclose_values(dump_arguments((Reference(7),), {}, what="f"), {7: dump_value("there")}))
    (('there',), {})
    """
    buffers: list[Buffer] = []
    filled: set[int] = set()
    for buffer in arguments.buffers:
        value = referenced_buffer(buffer)
        if value is None or value not in values:
            buffers.append(buffer)
        else:
            filled.add(value)
            buffers += values[value].buffers
    beside = [(number, *_apart(payload)) for number, payload in values.items() if number not in filled]
    whole = Payload(arguments.data, tuple(buffers))
    return dump_whole(_Enclosed(*_apart(whole), beside)) if beside else whole


def stream_apart(arguments: Payload) -> Payload:
    """Return arguments whose stream is a buffer, too, for `load_arguments`. Nothing is loaded or copied.

    >>> from grainlike.payload import dump_arguments, load_arguments
    >>> whole = stream_apart(dump_arguments(([1] * 1000,), {}, what="f"))
    >>> len(whole.data) < len(whole.buffers[0]), load_arguments(whole) == (([1] * 1000,), {})
    (True, True)
    """
    return dump_whole(_Enclosed(*_apart(arguments), []))


def _apart(payload: Payload) -> tuple[pickle.PickleBuffer, list[pickle.PickleBuffer]]:
    return pickle.PickleBuffer(payload.data), [pickle.PickleBuffer(buffer) for buffer in payload.buffers]


class _Enclosed:
    """Arguments and values side by side; unpickled, they are the arguments."""

    __slots__ = ("_parts",)

    def __init__(self, *parts: object) -> None:
        self._parts = parts

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, self._parts


def _opened(
    stream: Buffer, buffers: Sequence[Buffer], beside: Sequence[tuple[int, Buffer, Sequence[Buffer]]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    with holding({number: Payload(data, tuple(parts)) for number, data, parts in beside}):
        arguments: tuple[tuple[Any, ...], dict[str, Any]] = load_whole(stream, buffers)
    return arguments
