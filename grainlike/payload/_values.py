"""Arguments and values as bytes: by pickle protocol 5, and by cloudpickle if pickle fails."""

import pickle
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from grainlike._memory import copied
from grainlike.errors import SerializationError
from grainlike.payload._explain import cause_of_refusal, describe_error, describe_loading, is_interrupt, refusal
from grainlike.payload._names import registered
from grainlike.payload._payload import INLINE_LIMIT, Buffer, Payload, refuse_stand_in
from grainlike.payload._store import MARK, is_stored, mapped

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
    "no_ctrl_c_comes",
    "rude_exceptions",
    "unreachable",
]

HOSTILE = (Exception, SystemExit, GeneratorExit)
"""Exceptions of a user's `__reduce__` or `__setstate__` after which another way is tried."""

_has_ctrl_c = True

unreachable: list[bytes] = []
"""Names of loaded modules that no import finds, as far as they were used; without `__main__`, which never is found."""

_MOST_BUFFERS = 4096
"""Most buffers of a payload outside its stream, because a frame has a limited number for all payloads together."""

_MARKED = MARK[:1]
"""First byte of a payload in shared memory. No pickle begins with it, so comparing one byte saves a call."""


class OperatorError(Exception):
    """Carrier of the `error` of an operator that was applied while arguments were loaded; `error` itself is raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})
"""Types whose stream is complete: it names nothing, has no buffers, and cannot be refused."""

_PLAIN_OR_TUPLE = _PLAIN | {tuple}

_dumps = pickle.dumps
_loads = pickle.loads

# The stream of a call with one whole number of 32 bits, as very many are. It is a pickle without what a pickler adds
# for larger ones, a frame and three entries of its memo: half as long, and read in two thirds of the time.
_BOUND = 1 << 31
_HEAD, _END = b"\x80\x05J", b"\x85}\x86."
_pack_number = struct.Struct("<3si4s").pack


def no_ctrl_c_comes() -> None:
    """Record that this process is a runner: a `KeyboardInterrupt` in it is a user's class's own."""
    global _has_ctrl_c  # noqa: PLW0603 -- a fact of the process
    _has_ctrl_c = False


def rude_exceptions() -> tuple[type[BaseException], ...]:
    """Return what a user's class may raise wherever an exception is looked at: `HOSTILE`, and `KeyboardInterrupt` where
    it is no Ctrl-C, in runners and in threads.
    """
    if _has_ctrl_c and threading.current_thread() is threading.main_thread():
        return HOSTILE
    return *HOSTILE, KeyboardInterrupt


def dump_arguments(args: tuple[object, ...], kwargs: Mapping[str, object], *, what: str) -> Payload:
    """Return the bytes of a call's arguments; buffers from 8 KiB on stay outside, uncopied. `what` names the function.

    Raises `SerializationError`, which names the argument and the object in it that cannot be sent.

    >>> load_arguments(dump_arguments((1,), {"x": 2}, what="f"))
    ((1,), {'x': 2})
    """
    if not kwargs and (_PLAIN.issuperset(map(type, args)) or _are_plain(args)):
        return Payload(_dumps((args, {}), 5))
    try:
        return _dump((args, kwargs))
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise _refused_argument(args, kwargs, what, error) from cause_of_refusal(error)


def dump_plain_arguments(args: tuple[object, ...]) -> bytes | None:
    """Return the stream of `dump_arguments` for numbers, text, bytes and tuples of them; None if there is anything
    else, which needs care.

    >>> load_arguments(Payload(dump_plain_arguments((1, "a"))))
    ((1, 'a'), {})
    """
    return _stream(args) if _PLAIN.issuperset(map(type, args)) or _are_plain(args) else None


def _stream(args: tuple[Any, ...]) -> bytes:
    if len(args) == 1 and type(args[0]) is int and -_BOUND <= args[0] < _BOUND:
        return _pack_number(_HEAD, args[0], _END)
    return _dumps((args, {}), 5)


def dump_plain_columns(calls: Sequence[tuple[object, ...]]) -> list[bytes] | None:
    """Return the result of `dump_plain_arguments` for each of these calls; None if any call has anything else.

    >>> dump_plain_columns([(1,), (2,)]) == [dump_plain_arguments((1,)), dump_plain_arguments((2,))]
    True
    """
    items: list[Any] = [*chain.from_iterable(calls)]
    if not _are_plain(items):
        return None
    kinds, counts = set(map(type, items)), set(map(len, calls))
    if int not in kinds or 1 not in counts:
        return [_dumps((args, {}), 5) for args in calls]
    if len(kinds) == len(counts) == 1 and min(items) >= -_BOUND and max(items) < _BOUND:
        return list(map(_pack_number, repeat(_HEAD), items, repeat(_END)))
    return list(map(_stream, calls))


def _are_plain(items: Collection[object]) -> bool:
    """Return True for numbers, text and bytes, and tuples of them alone: a point, a pair, a range."""
    if not _PLAIN_OR_TUPLE.issuperset(map(type, items)):
        return False
    return _PLAIN.issuperset(map(type, chain.from_iterable([item for item in items if type(item) is tuple])))


def load_arguments(payload: Payload | tuple[Buffer, Sequence[Buffer]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that `dump_arguments` packed. Raises `SerializationError` if they cannot be rebuilt here."""
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


def dump_plain_value(value: object, most: int) -> bytes | None:
    """Return the stream of `dump_value` for a number, text or bytes; None for anything else, and for more than `most`
    bytes.

    >>> load_value(Payload(dump_plain_value("a", 100)))
    'a'
    """
    if type(value) not in _PLAIN:
        return None
    data = _dumps(value, 5)
    return data if len(data) <= most else None


_ANY_VALUE = "the value"


def dump_value(value: object, *, what: str = _ANY_VALUE) -> Payload:
    """Return the bytes of one object; buffers from 8 KiB on stay outside, uncopied. `what` names the object in errors.

    Raises `SerializationError`, which names the object inside that cannot be sent.
    """
    if type(value) in _PLAIN:
        return Payload(_dumps(value, 5))
    try:
        return _dump(value)
    except BaseException as error:
        if is_interrupt(error):
            raise
        refused = refusal(what, value, _reason_against, error)
        if what is not _ANY_VALUE and isinstance(error, SerializationError) and error._in_result:
            raise SerializationError(str(refused).removesuffix(str(error)) + error._in_result) from None
        raise refused from cause_of_refusal(error)


def load_value(payload: Payload | tuple[Buffer, Sequence[Buffer]], *, what: str = "the value") -> Any:
    """Return the value that `dump_value` packed. Raises `SerializationError`, with `what`, if it cannot be rebuilt
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
    """Return the values of streams without buffers, up to the first that cannot be rebuilt; `load_value` says why.

    >>> load_plain_values([dump_value(1).data, dump_value([2]).data, b"damaged", dump_value(3).data])
    [1, [2]]
    """
    values: list[Any] = []
    try:
        values.extend(map(_loads, streams))  # values before the one that fails stay in the list
    except BaseException as error:  # an exception of unpickling belongs to those who await that value
        if is_interrupt(error):
            raise
        return values
    return values


def load_values(payloads: Iterable[tuple[Buffer, Sequence[Buffer]]], put: Callable[[Any], object], what: str) -> None:
    """Hand values that `dump_value` packed to `put`, one after another. Raises `SerializationError` like `load_value`.

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

    Pickle names objects of `__main__`, and the receiver has another `__main__`. A harmless string with that name only
    makes the stream go by cloudpickle. (`_main__` is also in `__mp_main__`, multiprocessing's name for `__main__`.)
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
        pass  # if cloudpickle fails, too, its reason is reported
    buffers.clear()
    return _dump_by_value(obj, buffers, keep)


def load_whole(stream: Buffer, buffers: Iterable[Buffer]) -> Any:
    """Return the object of a stream inside another stream; the caller that loads the outer one handles exceptions."""
    return _loads(stream, buffers=map(_writable, buffers))


def dump_whole(obj: object) -> Payload:
    """Return the bytes of an object with plain parts, whose inner streams have been checked already."""
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
    """Return why `obj` cannot be dumped; None if it can be."""
    try:
        _dump(obj)
    except BaseException as error:  # an event loop's cancellation too, because only user code can raise it here
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
