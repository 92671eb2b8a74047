"""Arguments and values: pickle protocol 5 first, cloudpickle where that would not do."""

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from grainlike._memory import copied
from grainlike.errors import SerializationError
from grainlike.payload._explain import describe_error, describe_loading, is_interrupt, refusal
from grainlike.payload._names import registered
from grainlike.payload._payload import INLINE_LIMIT, Buffer, Payload
from grainlike.payload._store import MARK, is_stored, mapped
from grainlike.payload._too_large import refuse_stand_in

__all__ = [
    "HOSTILE",
    "dump_arguments",
    "dump_plain_arguments",
    "dump_plain_columns",
    "dump_plain_value",
    "dump_value",
    "load_arguments",
    "load_plain_values",
    "load_value",
    "load_values",
    "names_reachable",
    "unreachable",
]

HOSTILE = (Exception, SystemExit, GeneratorExit)
"""What a user's `__reduce__` or `__setstate__` may raise where there is another way to try."""

unreachable: list[bytes] = []
"""Names of loaded modules that no import finds, as far as any was met. `__main__` is another, always."""

_MOST_BUFFERS = 4096
"""How many buffers of one payload travel apart; a frame holds a limited number, of all its payloads together."""

_MARKED = MARK[:1]
"""No pickle begins so: that tells most payloads from those in shared memory without a call."""


class OperatorError(Exception):
    """Carrier of the `error` of an operator that was applied as arguments were loaded: it is passed on as it is."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})
"""Types of which a stream holds all there is: it names nothing, has no buffers, and cannot be refused."""

_dumps = pickle.dumps
_loads = pickle.loads


def dump_arguments(args: tuple[object, ...], kwargs: Mapping[str, object], *, what: str) -> Payload:
    """The bytes of a call's arguments, buffers from 8 KiB on apart, not copied. `what` names the function.

    Raises `SerializationError` naming the argument and the object inside it that cannot travel.

    >>> load_arguments(dump_arguments((1,), {"x": 2}, what="f"))
    ((1,), {'x': 2})
    """
    if not kwargs and _PLAIN.issuperset(map(type, args)):
        return Payload(_dumps((args, {}), 5))
    try:
        return _dump((args, kwargs))
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise _refused_argument(args, kwargs, what, error) from error


def dump_plain_arguments(args: tuple[object, ...]) -> bytes | None:
    """The stream of `dump_arguments` for numbers, text and bytes alone, of which nothing needs a second thought; None
    where there is anything else.

    >>> load_arguments(Payload(dump_plain_arguments((1, "a"))))
    ((1, 'a'), {})
    """
    return _dumps((args, {}), 5) if _PLAIN.issuperset(map(type, args)) else None


def dump_plain_columns(calls: Sequence[tuple[object, ...]]) -> list[bytes] | None:
    """Return what `dump_plain_arguments` returns for each of these calls; None where one has anything else.

    >>> dump_plain_columns([(1,), (2,)]) == [dump_plain_arguments((1,)), dump_plain_arguments((2,))]
    True
    """
    if not _PLAIN.issuperset(map(type, chain.from_iterable(calls))):
        return None
    return [_dumps((args, {}), 5) for args in calls]


def load_arguments(payload: Payload | tuple[Buffer, Sequence[Buffer]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that `dump_arguments` was given. `SerializationError` where it cannot be rebuilt here."""
    data, buffers = payload
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    if buffers or data[:1] == _MARKED:
        arguments = load_value(payload, what="the arguments")
        return arguments
    try:
        arguments = _loads(data)
    except OperatorError as carrier:
        raise carrier.error from None
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise SerializationError(f"the arguments cannot be rebuilt here: {describe_loading(error)}") from error
    return arguments


def dump_plain_value(value: object) -> bytes | None:
    """The stream of `dump_value` for a number, text or bytes; None for anything else.

    >>> load_value(Payload(dump_plain_value("a")))
    'a'
    """
    return _dumps(value, 5) if type(value) in _PLAIN else None


def dump_value(value: object, *, what: str = "the value") -> Payload:
    """The bytes of one object, buffers from 8 KiB on apart, not copied. `what` names it in errors.

    Raises `SerializationError` naming the object inside it that cannot travel.
    """
    if type(value) in _PLAIN:
        return Payload(_dumps(value, 5))
    try:
        return _dump(value)
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise refusal(what, value, _reason_against, error) from error


def load_value(payload: Payload | tuple[Buffer, Sequence[Buffer]], *, what: str = "the value") -> Any:
    """Return the value that `dump_value` was given. `SerializationError`, naming `what`, where it cannot be rebuilt
    here.
    """
    data, buffers = payload
    if data[:1] == _MARKED:
        refuse_stand_in(data, what)
        if is_stored(data):
            data, buffers = mapped(data)
    for buffer in buffers:
        refuse_stand_in(buffer, what)
    try:
        return _loads(data, buffers=map(_writable, buffers)) if buffers else _loads(data)
    except OperatorError as carrier:
        raise carrier.error from None
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise SerializationError(f"{what} cannot be rebuilt here: {describe_loading(error)}") from error


def load_plain_values(streams: Sequence[bytes]) -> list[Any]:
    """The values of streams that nothing belongs to, up to the first that cannot be rebuilt so: `load_value` says why.

    >>> load_plain_values([dump_value(1).data, dump_value([2]).data, b"damaged", dump_value(3).data])
    [1, [2]]
    """
    values: list[Any] = []
    try:
        values.extend(map(_loads, streams))  # what was there before an error stays
    except BaseException as error:  # whatever unpickling raises belongs to that value's awaiters
        if is_interrupt(error):
            raise
        return values
    return values


def load_values(payloads: Iterable[tuple[Buffer, Sequence[Buffer]]], put: Callable[[Any], object], what: str) -> None:
    """Hand to `put` what `dump_value` was given, one after another; `SerializationError` as for `load_value`.

    >>> load_values([dump_value(1), dump_value([2])], print, "a value")
    1
    [2]
    """
    for data, buffers in payloads:
        if buffers or data[:1] == _MARKED:
            put(load_value((data, buffers), what=what))
            continue
        try:
            value = _loads(data)
        except BaseException as error:
            if is_interrupt(error):
                raise
            raise SerializationError(f"{what} cannot be rebuilt here: {describe_loading(error)}") from error
        put(value)


def names_reachable(stream: bytes) -> bool:
    """Return True if a stream by plain pickle names nothing that only this process has.

    Pickle names what `__main__` holds, and the receiver's `__main__` is another. A harmless string with that
    name in it only costs the slower way. (`_main__` is also in `__mp_main__`, multiprocessing's name for it.)
    """
    if b"_main__" in stream or (unreachable and any(name in stream for name in unreachable)):
        return False
    return not any(name.encode() in stream for name in registered())


def _dump(obj: object) -> Payload:
    buffers: list[Buffer] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < INLINE_LIMIT or len(buffers) >= _MOST_BUFFERS:
            return True
        buffers.append(raw)
        return False

    try:
        data = _dumps(obj, 5, buffer_callback=keep)
        if names_reachable(data):
            return Payload(data, tuple(buffers))
    except HOSTILE:
        pass  # cloudpickle's reason, if it has one too, is the one that is told
    buffers.clear()
    return _dump_by_value(obj, buffers, keep)


def load_whole(stream: Buffer, buffers: Iterable[Buffer]) -> Any:
    """Return what a stream inside another one holds; what goes wrong is for whoever loads that."""
    return _loads(stream, buffers=map(_writable, buffers))


def dump_whole(obj: object) -> Payload:
    """Return the bytes of an object of plain parts, whose streams inside have been looked at already."""
    buffers: list[Buffer] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        if len(buffers) >= _MOST_BUFFERS:
            return True
        buffers.append(buffer.raw())
        return False

    return Payload(_dumps(obj, 5, buffer_callback=keep), tuple(buffers))


def _dump_by_value(obj: object, buffers: list[Buffer], keep: Callable[[pickle.PickleBuffer], bool]) -> Payload:
    from grainlike.payload._byvalue import cloudpickled

    data, _ = cloudpickled(obj, keep)
    return Payload(data, tuple(buffers))


def _writable(buffer: Buffer) -> Buffer:
    return copied(buffer) if memoryview(buffer).readonly else buffer


def _reason_against(obj: object) -> BaseException | None:
    """None if `obj` can be dumped, else why not."""
    try:
        _dump(obj)
    except BaseException as error:  # a loop's cancellation too: in here only user code can raise it
        if is_interrupt(error):
            raise
        return error
    return None


def _refused_argument(
    args: tuple[object, ...], kwargs: Mapping[str, object], what: str, error: BaseException
) -> SerializationError:
    for key, value in [*enumerate(args), *kwargs.items()]:
        reason = _reason_against(value)
        if reason is not None:
            return refusal(f"argument {key!r} of {what}", value, _reason_against, reason)
    return SerializationError(f"the arguments of {what} cannot travel together: {describe_error(error)}")
