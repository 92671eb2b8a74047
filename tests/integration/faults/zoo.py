"""Values and exceptions that nobody should have to pickle, each made by a function so that a job can make its own.

None of them raises `KeyboardInterrupt` where it is pickled or rebuilt: in the caller's process that is Ctrl-C.
"""

import asyncio
import contextvars
import ctypes
import enum
import functools
import io
import mmap
import re
import socket
import sys
import tempfile
import threading
import types
import warnings
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple


class ReduceRaises:
    def __reduce__(self):
        raise ValueError("not me")


class ReduceExits:
    def __reduce__(self):
        raise SystemExit(3)


class ReduceIsJunk:
    def __reduce__(self):
        return 42


class StateRaises:
    def __getstate__(self):
        raise RuntimeError("no state")


class LoadRaises:
    def __reduce__(self):
        return int, ("not a number",)


class LoadExits:
    def __reduce__(self):
        return sys.exit, (5,)


class LoadRecurses:
    def __reduce__(self):
        return _recurse, ()


class SetStateRaises:
    def __init__(self):
        self.x = 1

    def __setstate__(self, state):
        raise AttributeError("cannot take it")


class Liar:
    """Raises at every question."""

    def __repr__(self):
        raise RuntimeError("no repr")

    def __str__(self):
        raise RuntimeError("no str")

    def __bool__(self):
        raise RuntimeError("neither")

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    def __hash__(self):
        raise RuntimeError("no hash")

    def __len__(self):
        raise RuntimeError("no length")


class Bottomless:
    def __getattr__(self, name):
        return getattr(self, name + "_")


class ClassLies:
    @property
    def __class__(self):
        raise RuntimeError("no class")


class Meta(type):
    def __reduce__(cls):
        raise TypeError("no class of this kind travels")


class OfMeta(metaclass=Meta):
    pass


class Slots:
    __slots__ = ("x",)

    def __init__(self):
        self.x = threading.Lock()


class Bytes(bytes):
    def __reduce_ex__(self, protocol):
        return Bytes, (b"other",)


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class WithLambda:
    call: object


def _recurse():
    return _recurse()


def local_class():
    class Local:
        pass

    return Local


def local_instance():
    return local_class()()


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


def cyclic():
    value = []
    value.append({"self": value})
    return value


def generator():
    yield 1


async def coroutine():
    return 1


async def agenerator():
    yield 1


def frame():
    return sys._getframe()


def trace():
    try:
        raise ValueError
    except ValueError as error:
        return error.__traceback__


def thread():
    return threading.Thread(target=print)


def pool():
    made = ThreadPoolExecutor(1)
    made.shutdown()
    return made


def closed(thing):
    thing.close()
    return thing


def a_coroutine_object():
    made = coroutine()
    made.close()
    return made


def weak():
    return weakref.ref(Colour)


VALUES = {
    "lambda": lambda: lambda x: x,
    "generator": generator,
    "coroutine object": a_coroutine_object,
    "async generator": agenerator,
    "open file": lambda: open(__file__),  # noqa: SIM115, PTH123
    "closed file": lambda: closed(tempfile.TemporaryFile()),  # noqa: SIM115
    "socket": lambda: closed(socket.socket()),
    "lock": threading.Lock,
    "event": threading.Event,
    "thread": thread,
    "thread pool": pool,
    "module": lambda: types,
    "made-up module": lambda: types.ModuleType("made_up"),
    "frame": frame,
    "traceback": trace,
    "local class": local_class,
    "instance of a local class": local_instance,
    "cyclic": cyclic,
    "100 000 deep": deep,
    "__reduce__ raises": ReduceRaises,
    "__reduce__ exits": ReduceExits,
    "__reduce__ is junk": ReduceIsJunk,
    "__getstate__ raises": StateRaises,
    "loading raises": LoadRaises,
    "loading exits": LoadExits,
    "loading recurses for ever": LoadRecurses,
    "__setstate__ raises": SetStateRaises,
    "raises at every question": Liar,
    "set of those": lambda: [Liar(), Liar()],
    "attributes without bottom": Bottomless,
    "its class raises": ClassLies,
    "class of a metaclass": lambda: OfMeta,
    "slots with a lock": Slots,
    "bytes that change": lambda: Bytes(b"one"),
    "enum": lambda: Colour.RED,
    "named tuple": lambda: Point(1, 2),
    "dataclass with a lambda": lambda: WithLambda(lambda: 1),
    "partial of a lambda": lambda: functools.partial(lambda x: x, 1),
    "bound method of a lock": lambda: threading.Lock().acquire,
    "weak reference": weak,
    "memory view": lambda: memoryview(b"view"),
    "mmap": lambda: mmap.mmap(-1, 10),
    "ctypes pointer": lambda: ctypes.pointer(ctypes.c_int(1)),
    "mapping proxy": lambda: types.MappingProxyType({}),
    "property": lambda: property(lambda self: 1),
    "iterator": lambda: iter([1, 2]),
    "zip": lambda: zip([1], [2], strict=True),
    "match": lambda: re.match("a", "a"),
    "context variable": lambda: contextvars.ContextVar("here"),
    "context": contextvars.copy_context,
    "future": Future,
    "asyncio event": asyncio.Event,
    "stdout": lambda: sys.stdout,
    "string io": lambda: io.StringIO("x"),
    "exception as a value": lambda: ValueError("just a value"),
    "exception class": lambda: ValueError,
    "ellipsis": lambda: ...,
    "not implemented": lambda: NotImplemented,
    "type of None": lambda: type(None),
    "lone surrogate": lambda: "\ud800",
    "huge integer": lambda: 1 << 100_000,
    "nan": lambda: float("nan"),
    "code": lambda: coroutine.__code__,
    "builtin": lambda: print,
    "globals": lambda: {"g": threading.RLock()},
}


class NeedsTwo(Exception):
    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


class KeywordOnly(Exception):
    def __init__(self, *, code):
        super().__init__()
        self.code = code


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


class UnpicklableError(Exception):
    def __reduce__(self):
        raise TypeError("stays here")


class NoBase(BaseException):
    pass


class TracebackLies(Exception):
    @property
    def __traceback__(self):
        raise RuntimeError("no traceback")


class AttributeTrap(Exception):
    def __getattr__(self, name):
        raise RuntimeError(f"no {name}")


def with_attribute(error, **attributes):
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


def caused_by(error, cause):
    error.__cause__ = cause
    return error


def caused_by_itself():
    error = ValueError("circle")
    error.__context__ = other = KeyError("back")
    other.__context__ = error
    return error


def long_chain():
    error = ValueError(0)
    for number in range(1, 500):
        error = caused_by(ValueError(number), error)
    return error


def local_error():
    class Local(Exception):
        pass

    return Local("here")


ERRORS = {
    "needs two arguments": lambda: NeedsTwo(1, 2),
    "keyword only": lambda: KeywordOnly(code=3),
    "no words": Silent,
    "does not pickle": UnpicklableError,
    "local class": local_error,
    "lambda in its arguments": lambda: ValueError(lambda: 1),
    "lock in its arguments": lambda: ValueError(threading.Lock()),
    "lock as attribute": lambda: with_attribute(ValueError("x"), lock=threading.Lock()),
    "no exception": NoBase,
    "SystemExit": lambda: SystemExit(7),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": lambda: StopIteration(1),
    "StopAsyncIteration": StopAsyncIteration,
    "asyncio's cancellation": asyncio.CancelledError,
    "MemoryError": MemoryError,
    "RecursionError": lambda: RecursionError("deep"),
    "group": lambda: ExceptionGroup("both", [ValueError(1), ExceptionGroup("in", [KeyError(2)])]),
    "group with a lock": lambda: ExceptionGroup("both", [ValueError(threading.Lock())]),
    "cause does not pickle": lambda: caused_by(ValueError("x"), UnpicklableError()),
    "context in a circle": caused_by_itself,
    "chain of 500": long_chain,
    "notes that are no list": lambda: with_attribute(ValueError("x"), __notes__="words"),
    "five megabytes of words": lambda: ValueError("x" * 5_000_000),
    "traceback raises": TracebackLies,
    "attributes raise": AttributeTrap,
    "decoding": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    "operating system": lambda: FileNotFoundError(2, "No such file", "here"),
    "key that lies": lambda: KeyError(Liar()),
    "warning": lambda: UserWarning("as an error"),
}


# --- jobs: a process that runs one imports this module, and nothing of the tests ---


def give(name):
    warnings.simplefilter("ignore")
    return VALUES[name]()


async def give_later(name):
    await asyncio.sleep(0)
    return give(name)


def take(value):
    return type(value).__name__


async def take_later(value):
    return type(value).__name__


def fail(name):
    error = ERRORS[name]()
    raise error


async def fail_later(name):
    await asyncio.sleep(0)
    fail(name)


def one():
    return 1
