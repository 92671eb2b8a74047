"""Values: which travel, on whose memory, and what is said about those that do not."""

import collections
import contextvars
import enum
import fractions
import linecache
import pickle
import queue
import socket
import sqlite3
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from grainlike.errors import SerializationError
from grainlike.payload import (
    PREVIOUS,
    Payload,
    dump_arguments,
    dump_arguments_before,
    dump_plain_arguments,
    dump_plain_columns,
    dump_value,
    load_arguments,
    load_arguments_after,
    load_value,
    plain_arguments,
)


def there_and_back(value: object) -> object:
    payload = dump_value(value)
    return load_value(Payload(bytes(payload.data), tuple(map(bytes, payload.buffers))))


def refused(value: object) -> str:
    with pytest.raises(SerializationError) as caught:
        dump_value(value, what="the result of f")
    return str(caught.value)


def generator():
    yield 1


class ReduceRaises:
    def __reduce__(self):
        raise ValueError("no way")


class ReduceExits:
    def __reduce__(self):
        raise SystemExit(3)


class ReduceGivesNonsense:
    def __reduce__(self):
        return 1, 2, 3


class StateRaises:
    def __getstate__(self):
        raise ValueError("stateless")


class Hostile:
    """Raises at every look."""

    def __reduce_ex__(self, protocol):
        raise ValueError("go away")

    def __getattribute__(self, name):
        raise ValueError(f"no {name}")

    def __repr__(self):
        raise ValueError("no name")


class ErrorWithoutText(Exception):
    def __str__(self):
        raise ValueError("no text")


class ReduceRaisesWithoutText:
    def __reduce__(self):
        raise ErrorWithoutText


class Holder:
    def __init__(self, **content):
        self.__dict__.update(content)


class Slotted:
    __slots__ = ("inside",)


def slotted(inside):
    made = Slotted()
    made.inside = inside
    return made


def deep():
    value: list = []
    for _ in range(100_000):
        value = [value]
    return value


def keep(value):
    return lambda: value


class Placeholder:
    """As a placeholder refuses to be hidden in an object."""

    def __reduce_ex__(self, protocol):
        raise SerializationError("a placeholder inside another object cannot travel")


REFUSED = {
    "lock": (threading.Lock, "_thread.lock"),
    "condition": (threading.Condition, "lock"),
    "queue": (queue.Queue, "lock"),
    "thread": (threading.Thread, "_thread."),
    "generator": (generator, "builtins.generator"),
    "generator expression": (lambda: (x for x in "ab"), "builtins.generator"),
    "socket": (socket.socket, "socket.socket"),
    "database": (lambda: sqlite3.connect(":memory:"), "sqlite3.Connection"),
    "frame": (sys._getframe, "builtins.frame"),
    "weak reference": (lambda: weakref.ref(Holder), "weakref"),
    "context variable": (lambda: contextvars.ContextVar("v"), "call .get() in the program, and give the value as an"),
    "reduce raises": (ReduceRaises, "ValueError: no way"),
    "reduce exits": (ReduceExits, "SystemExit: 3"),
    "reduce gives nonsense": (ReduceGivesNonsense, "ReduceGivesNonsense"),
    "getstate raises": (StateRaises, "ValueError: stateless"),
    "hostile": (Hostile, "ValueError: "),
    "error without text": (ReduceRaisesWithoutText, "(ErrorWithoutText)"),
    "too deep": (deep, "recursion"),
    "in a list": (lambda: [1, [threading.Lock()]], "at [1][0],"),
    "in a dict": (lambda: {"a": {"b": threading.Lock()}}, "at ['a']['b'],"),
    "in a key": (lambda: {(1, keep(generator())): 1}, "key "),
    "in a set": (lambda: {ReduceRaises()}, "at member "),
    "in an attribute": (lambda: Holder(a=Holder(lock=threading.Lock())), "at .a.lock,"),
    "in a slot": (lambda: slotted(threading.Lock()), "at .inside,"),
    "in a closure": (lambda: keep(threading.Lock()), "at closure variable 'value',"),
    "in a partial": (lambda: partial(print, threading.Lock()), "at .args[0],"),
    "in a bound method": (lambda: slotted(threading.Lock()).__reduce__, "inside,"),
    "in a ring": (lambda: ring(threading.Lock()), "at [0][1][1], cannot travel"),
    "in an exception": (lambda: ValueError(threading.Lock()), "at .args[0],"),
    "placeholder": (lambda: [Placeholder()], "at [0]: a placeholder inside"),
}


def ring(content):
    first: list = []
    first += [first, [first, content]]
    return [first]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    make, expected = REFUSED[name]
    value = make()
    try:
        message = refused(value)
    finally:
        if hasattr(type(value), "close") and not isinstance(value, types.GeneratorType):
            value.close()
    assert message.startswith("the result of f")
    assert "cannot travel" in message
    assert expected in message


class Brittle:
    def __init__(self, problem):
        self.problem = problem

    def __setstate__(self, state):
        raise state["problem"]


def explode():
    raise LookupError("boom")


class ExplodesOnLoading:
    def __reduce__(self):
        return explode, ()


class NeedsArguments:
    def __new__(cls, x):
        return super().__new__(cls)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (dump_value(Brittle(ValueError("cracked"))), "ValueError: cracked"),
        (dump_value(Brittle(SystemExit(1))), "SystemExit: 1"),
        (dump_value(ExplodesOnLoading()), "LookupError: boom"),
        (dump_value(NeedsArguments(1)), "TypeError"),
        (Payload(b""), "EOFError"),
        (Payload(b"junk"), "Error"),
        (Payload(pickle.dumps("x" * 100)[:50]), "Error"),
        (Payload(b"cno_such_module_anywhere\nf\n."), "no_such_module_anywhere"),
        (Payload(dump_value(np.zeros(5000)).data, ()), "UnpicklingError"),
    ],
)
def test_what_breaks_on_loading_says_so(payload: Payload, expected: str) -> None:
    with pytest.raises(SerializationError, match="the result of f cannot be rebuilt here") as caught:
        load_value(payload, what="the result of f")
    assert expected in str(caught.value)


def test_a_keyboard_interrupt_while_loading_is_the_users() -> None:
    with pytest.raises(KeyboardInterrupt):
        load_value(dump_value(Brittle(KeyboardInterrupt())))


class Colour(enum.Enum):
    RED = 1


def local_class():
    class Local:
        def __eq__(self, other):
            return type(other) is Local

        __hash__ = None

    return Local()


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1 << 5000,
        float("inf"),
        "\ud800 surrogate",
        "__main__",
        {"__mp_main__": b"__main__"},
        b"x" * 1_000_000,
        bytearray(b"y" * 20_000),
        collections.deque([1, 2], maxlen=2),
        collections.OrderedDict(a=1),
        fractions.Fraction(1, 3),
        Colour.RED,
        range(10),
        slice(1, 2),
        types.MappingProxyType({"a": 1}),
        types.SimpleNamespace(a=1),
        Ellipsis,
        NotImplemented,
        int,
        len,
        collections.namedtuple("Row", "a b")(1, 2),  # noqa: PYI024
        local_class(),
        frozenset({1, (2, 3)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_travels_unchanged(value: object) -> None:
    back = there_and_back(value)
    assert type(back) is type(value)
    assert back == value


def test_rings_keep_their_shape() -> None:
    mapping: dict = {}
    mapping["self"] = [mapping]
    back = there_and_back(mapping)
    assert back["self"][0] is back


def test_functions_inside_values() -> None:
    back = there_and_back(collections.defaultdict(lambda: 7, a=1))
    assert back["missing"] == 7


@pytest.mark.parametrize(
    "array",
    [
        np.arange(10_000.0),
        np.asfortranarray(np.arange(10_000.0).reshape(100, 100)),
        np.arange(20_000.0)[::2],
        np.zeros((0, 3)),
        np.array(5),
        np.array([None, "x"] * 3000, dtype=object),
        np.zeros(2000, dtype=[("a", "i4"), ("b", "f8")]),
    ],
    ids=["plain", "fortran", "strided", "empty", "scalar", "objects", "records"],
)
def test_arrays_are_equal_and_writable(array: np.ndarray) -> None:
    back = there_and_back(array)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    assert back.flags.writeable


def test_a_large_array_leaves_and_arrives_on_the_same_memory() -> None:
    array = np.arange(1_000_000.0)
    data, (buffer,) = dump_value({"array": array, "small": np.arange(10)})
    assert len(data) < 1000
    assert np.shares_memory(np.frombuffer(buffer), array)
    received = bytearray(buffer)
    back = load_value(Payload(data, (received,)))["array"]
    assert np.shares_memory(np.frombuffer(received), back)
    back[0] = 42.0
    assert array[0] == 0.0


def test_a_large_array_beside_a_lambda_still_leaves_without_a_copy() -> None:
    array = np.arange(1_000_000.0)
    payload = dump_value((array, lambda: 1))
    assert [np.shares_memory(np.frombuffer(buffer), array) for buffer in payload.buffers] == [True]


def test_small_buffers_stay_inside_the_stream() -> None:
    assert dump_value(np.zeros(1023)).buffers == ()
    assert len(dump_value(np.zeros(1024)).buffers) == 1


def test_a_read_only_array_stays_read_only() -> None:
    array = np.zeros(5000)
    array.flags.writeable = False
    assert not there_and_back(array).flags.writeable


def test_detached_payloads_share_no_memory() -> None:
    array = np.zeros(5000)
    payload = dump_value(array)
    detached = payload.detached()
    array[0] = 1.0
    assert load_value(detached)[0] == 0.0
    assert detached.nbytes == payload.nbytes == len(payload.data) + array.nbytes
    assert dump_value(1).detached() == dump_value(1)


def test_arguments() -> None:
    payload = dump_arguments((1, np.ones(5000)), {"x": {2}}, what="f")
    (one, ones), kwargs = load_arguments(payload)
    assert (one, ones.sum(), kwargs) == (1, 5000.0, {"x": {2}})


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        (
            (1, [threading.Lock()]),
            {},
            "argument 1 of f, at [0], cannot travel: an object of type _thread.lock (TypeError",
        ),
        (
            (),
            {"x": 1, "y": generator()},
            "argument 'y' of f cannot travel: an object of type builtins.generator",
        ),
        ((Placeholder(),), {}, "argument 0 of f: a placeholder inside another object"),
        (
            (),
            {"k": keep(Placeholder())},
            "argument 'k' of f, at closure variable 'value': a placeholder",
        ),
    ],
)
def test_refused_arguments_are_named(args: tuple, kwargs: dict, expected: str) -> None:
    with pytest.raises(SerializationError) as caught:
        dump_arguments(args, kwargs, what="f")
    assert str(caught.value).startswith(expected)
    assert caught.value.__cause__ is not None


class Moody:
    """Refuses every second time it is asked."""

    asked = 0

    def __reduce__(self):
        type(self).asked += 1
        if self.asked <= 2:
            raise ValueError("not now")
        return Moody, ()


class Named(NamedTuple):
    x: int


def test_plain_arguments_are_a_stream_alone_and_no_others_are() -> None:
    for args in ((1, 0.5, "a", b"b", True, None), ((1, 2), "a", ()), ((0.5, "a"), (b"b", None))):
        data = dump_plain_arguments(args)
        assert data == dump_arguments(args, {}, what="f").data == pickle.dumps((args, {}), 5)
        assert dump_plain_columns([args, (7,)]) == [data, dump_plain_arguments((7,))]
    for other in ([1], 1j, type("Text", (str,), {})("a"), print, ([1],), ((1, (2,)),), (print,), Named(1)):
        assert dump_plain_arguments((1, other)) is None
        assert dump_plain_columns([(1,), ((1, 2), other)]) is None


WHOLE = (0, -1, 7, 2**31 - 1, -(2**31))
OTHERS = (2**31, -(2**31) - 1, True, 0.5, "a", None)


@pytest.mark.parametrize("values", [WHOLE, (*WHOLE, *OTHERS), OTHERS])
def test_streams_of_whole_numbers_are_short_pickles_like_those_of_others(values: tuple) -> None:
    calls = [(value,) for value in values]
    streams = dump_plain_columns(calls)
    assert streams == [dump_plain_arguments(args) for args in calls]
    assert all(len(stream) == 11 for value, stream in zip(values, streams, strict=True) if value in WHOLE[2:])
    for args, stream in zip(calls, streams, strict=True):
        found = [pickle.loads(stream), load_arguments(Payload(stream)), plain_arguments(stream)]
        assert repr(found) == repr([(args, {})] * 3)  # `True` and 1 are equal


@pytest.mark.parametrize("args", [(PREVIOUS,), (1, PREVIOUS), ([2], PREVIOUS, "a")])
@pytest.mark.parametrize("kwargs", [{}, {"b": 3}, {"b": PREVIOUS}])
def test_arguments_before_a_value_get_it_when_they_are_rebuilt(args: tuple, kwargs: dict) -> None:
    data = dump_arguments_before(args, kwargs, what="f")
    assert data is not None
    got = load_arguments_after(Payload(data), dump_value([7]))
    expected = tuple([7] if item is PREVIOUS else item for item in args)
    assert got == (expected, {name: [7] if item is PREVIOUS else item for name, item in kwargs.items()})


def test_arguments_before_a_value_have_no_buffers_apart() -> None:
    assert dump_arguments_before((PREVIOUS, np.zeros(10_000)), {}, what="f") is None


def test_arguments_that_are_refused_only_together() -> None:
    with pytest.raises(SerializationError, match="the arguments of f cannot travel together: ValueError: not now"):
        dump_arguments((Moody(),), {}, what="f")


def test_many_threads_at_once() -> None:
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                assert there_and_back((local_class(), lambda: number))[1]() == number
        except BaseException as error:  # noqa: BLE001
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_value_of_very_many_buffers_has_only_so_many_apart():
    payload = dump_value([pickle.PickleBuffer(bytearray(8192)) for _ in range(5000)])
    assert len(payload.buffers) == 4096
    assert load_value(payload) == [bytearray(8192)] * 5000


@pytest.mark.parametrize("value", ["__main__", "\udc80", b"x" * 100_000, 10**400, True, None, 1.5])
def test_plain_values_are_one_stream_by_pickle(value: object) -> None:
    dumped = dump_value(value)
    assert (dumped.data, dumped.buffers) == (pickle.dumps(value, 5), ())
    assert load_value(dumped) == value
    arguments = dump_arguments((value, 1), {}, what="f")
    assert arguments.buffers == ()
    assert load_arguments(arguments) == ((value, 1), {})


class Tally(int):
    """No plain number: it has more than a number has."""


def test_what_only_derives_from_a_plain_type_is_looked_at() -> None:
    counters = Tally(3)
    counters.grid = np.zeros(4096)  # type: ignore[attr-defined]
    assert len(dump_value(counters).buffers) == len(dump_arguments((counters,), {}, what="f").buffers) == 1


class Unwilling:
    def __reduce__(self) -> str:
        raise ValueError("not from here")


def test_the_cause_of_a_refusal_has_the_frames_of_the_user_and_none_of_ours() -> None:
    with pytest.raises(SerializationError) as caught:
        dump_value([Unwilling()])
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    frames = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(cause.__traceback__)]
    assert frames[-1] == __name__
    assert not [name for name in frames if name.startswith("grainlike")]


def test_functions_in_arguments_keep_their_file_and_lines() -> None:
    name = "/nowhere/of_a_test.py"
    text = "\n\nclass Of:\n    def go(self):\n        return (lambda x: 1 / x)(0)\n\n\ndef f():\n    return Of().go()\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), space)
    streams = [dump_arguments((space["f"],), {}, what="apply"), dump_arguments((space["Of"]().go,), {}, what="apply")]
    del linecache.cache[name]
    try:
        for stream in streams:
            ((function,), _) = load_arguments(Payload(bytes(stream.data)))
            with pytest.raises(ZeroDivisionError) as caught:
                function()
            told = "".join(traceback.format_exception(caught.value))
            assert f'File "{name}", line 5, in go\n    return (lambda x: 1 / x)(0)' in told
            assert told.count("    return (lambda x: 1 / x)(0)") == 2, "the lambda's own line, too"
            linecache.cache.pop(name)
    finally:
        linecache.cache.pop(name, None)


def test_lines_of_functions_inside_others_are_sent_once() -> None:
    def outer() -> Callable[[], str]:
        def inner() -> str:
            return "one line that is long enough to be found"

        return inner

    assert bytes(dump_value(outer).data).count(b'return "one line that is long enough to be found') == 1
