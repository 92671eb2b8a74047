"""One job that stands for many tiny calls of a plain function, as `amap` sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

from grainlike.payload import Payload, dump_error, dump_value, load_arguments
from grainlike.wire import Parcel

__all__ = ["Many"]


class Many:
    """Calls `function` once for each packed argument list, each time in a context of its own, up to the first failure.

    Gives the packed values in order, and the packed exception of the call after them, or None. `what` names a value in
    errors.
    """

    __slots__ = ("_function", "_what")

    def __init__(self, function: Callable[..., Any], what: str) -> None:
        self._function = function
        self._what = what

    def __call__(self, calls: Sequence[bytes]) -> tuple[list[Parcel], Parcel | None]:
        values: list[Parcel] = []
        for arguments in calls:
            try:
                values.append(copy_context().run(self._call, arguments))
            except Exception as error:  # noqa: BLE001 - whatever a call raises is its outcome
                return values, _parcel(dump_error(error))
        return values, None

    def _call(self, arguments: bytes) -> Parcel:
        args, kwargs = load_arguments(Payload(arguments))
        return _parcel(dump_value(self._function(*args, **kwargs), what=self._what))


def _parcel(payload: Payload) -> Parcel:
    """As plain bytes, for what holds it is itself a value that will travel."""
    return bytes(payload.data), [bytes(buffer) for buffer in payload.buffers]
