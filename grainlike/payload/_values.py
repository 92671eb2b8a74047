"""Arguments and values: pickle protocol 5 first, cloudpickle where that refuses or would name `__main__`."""

import pickle
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import SerializationError
from ._explain import refusal
from ._payload import INLINE_LIMIT, Buffer, Payload

__all__ = ["HOSTILE", "dump_arguments", "dump_value", "load_arguments", "load_value"]

HOSTILE = (Exception, SystemExit)
"""What a user's `__reduce__` or `__setstate__` may raise and must not get past us. KeyboardInterrupt is the user's own."""

_dumps = pickle.dumps
_loads = pickle.loads


def dump_arguments(args: tuple[object, ...], kwargs: Mapping[str, object], *, what: str) -> Payload:
    """The bytes of a call's arguments, buffers above 8 KiB apart and not copied. `what` names the function in errors.

    Raises `SerializationError` naming the argument and the object inside it that cannot travel.

    >>> load_arguments(dump_arguments((1,), {"x": 2}, what="f"))
    ((1,), {'x': 2})
    """
    try:
        return _dump((args, kwargs))
    except HOSTILE as error:
        raise _refused_argument(args, kwargs, what, error) from error


def load_arguments(payload: Payload) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What `dump_arguments` was given. `SerializationError` where it cannot be rebuilt here."""
    arguments: tuple[tuple[Any, ...], dict[str, Any]] = _load(payload, "the arguments")
    return arguments


def dump_value(value: object, *, what: str = "the value") -> Payload:
    """The bytes of one object, buffers above 8 KiB apart and not copied. `what` names it in errors.

    Raises `SerializationError` naming the object inside it that cannot travel.
    """
    try:
        return _dump(value)
    except HOSTILE as error:
        raise refusal(what, value, travels, error) from error


def load_value(payload: Payload, *, what: str = "the value") -> Any:
    """What `dump_value` was given. `SerializationError` where it cannot be rebuilt here."""
    return _load(payload, what)


def travels(obj: object) -> BaseException | None:
    """None if `obj` can be dumped, else why not."""
    try:
        _dump(obj)
    except HOSTILE as error:
        return error
    return None


def _dump(obj: object) -> Payload:
    buffers: list[Buffer] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < INLINE_LIMIT:
            return True
        buffers.append(raw)
        return False

    try:
        data = _dumps(obj, 5, buffer_callback=keep)
        # Pickle names what `__main__` holds, and the receiver's `__main__` is another: whatever mentions it, even a
        # harmless string, takes the slower way. (`_main__` is also in `__mp_main__`, multiprocessing's name for it.)
        if b"_main__" not in data:
            return Payload(data, tuple(buffers))
    except HOSTILE:
        pass  # cloudpickle's reason, if it has one too, is the one that is told
    return _dump_by_value(obj, buffers, keep)


def _dump_by_value(obj: object, buffers: list[Buffer], keep: Callable[[pickle.PickleBuffer], bool]) -> Payload:
    from ._byvalue import cloudpickled

    buffers.clear()
    data, _ = cloudpickled(obj, keep)
    return Payload(data, tuple(buffers))


def _load(payload: Payload, what: str) -> Any:
    data, buffers = payload
    try:
        return _loads(data, buffers=map(_writable, buffers)) if buffers else _loads(data)
    except HOSTILE as error:
        raise SerializationError(f"{what} cannot be rebuilt here: {type(error).__name__}: {error}") from error


def _writable(buffer: Buffer) -> Buffer:
    return bytearray(buffer) if memoryview(buffer).readonly else buffer


def _refused_argument(
    args: tuple[object, ...], kwargs: Mapping[str, object], what: str, error: BaseException
) -> SerializationError:
    for key, value in [*enumerate(args), *kwargs.items()]:
        reason = travels(value)
        if reason is not None:
            return refusal(f"argument {key!r} of {what}", value, travels, reason)
    return SerializationError(
        f"the arguments of {what} cannot travel together: {type(error).__name__}: {error}"
    )
