"""Run as `__main__` in several ways: each function named `case_*` sends something to a fresh interpreter.

Prints one JSON object, from the case's name to "ok" or a traceback.
"""

import abc
import concurrent.futures
import enum
import functools
import json
import math
import pickle
import sys
import threading
import traceback
import xml.etree.ElementTree
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import decorated
from decorated import Wrapper, state
from far import Far

from grainlike.payload import dump_function

SCALE = 10
lock = threading.Lock()


def helper(x):
    return x * SCALE


def uses_helper(x):
    return helper(x) + math.floor(1.5)


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


@Wrapper
def factorial(n):
    return 1 if n < 2 else n * factorial.__wrapped__(n - 1)


@dataclass
class Point:
    x: int
    tags: list = field(default_factory=list)

    def moved(self):
        return Point(self.x + SCALE)


class Base(abc.ABC):
    @abc.abstractmethod
    def name(self): ...

    @property
    def loud(self):
        return self.name().upper()

    @staticmethod
    def number():
        return SCALE


class Derived(Base):
    __slots__ = ("n",)
    made = 0

    def __init__(self, n):
        self.n = n

    def name(self):
        return f"{super().__str__.__name__}{self.n}"

    def __call__(self, x):
        return self.n + x


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    left: int
    right: int


class Broken(Exception):
    def __init__(self, code, *, reason):
        super().__init__(f"{reason} {code}")
        self.code = code


def fails(code):
    raise Broken(code, reason="because")


def call(function, *args, **kwargs):
    return far.call(function, *args, **kwargs)


def case_function_with_globals():
    assert call(uses_helper, 4) == 41


def case_lambda():
    assert call(lambda x: x + SCALE, 1) == 11


def case_closure():
    def make(n):
        return lambda x: x + n + SCALE

    assert call(make(100), 1) == 111


def case_nested_recursion():
    def countdown(n):
        return [] if n == 0 else [n, *countdown(n - 1)]

    assert call(countdown, 3) == [3, 2, 1]


def case_mutual_recursion():
    assert call(even, 7) is False


def case_recursion_through_a_wrapper():
    assert call(factorial.__wrapped__, 5) == 120


def case_partial():
    assert call(functools.partial(pow, 2), 5) == 32
    assert call(functools.partial(helper), 5) == 50


def case_bound_method():
    assert call(Point(5).moved) == Point(15)
    assert call("a,b".split, ",") == ["a", "b"]


def case_class_and_instance_as_callables():
    assert call(Point, 3) == Point(3)
    assert call(Derived(4), 3) == 7


def case_builtin():
    assert call(sum, [1, 2]) == 3


def case_default_and_keyword_arguments():
    def f(a, b=SCALE, *, c=helper):
        return a + b + c(2)

    assert call(f, 1) == 31
    assert call(f, 1, b=1, c=lambda x: x) == 4


def case_class_keeps_its_identity():
    moved = call(lambda point: point.moved(), Point(1))
    assert type(moved) is Point
    assert isinstance(call(lambda: Point(2)), Point)
    assert type(call(Derived, 2)) is Derived
    assert call(lambda: Colour.RED) is Colour.RED
    assert type(call(lambda: Pair(1, 2))) is Pair


def case_class_at_home_is_not_touched():
    method, space = Point.moved, Point.moved.__globals__
    Derived.made = 0

    def there():
        Derived.made += 5
        return Point(1), Derived(1)

    call(there)
    assert Point.moved is method
    assert Point.moved.__globals__ is space
    assert Derived.made == 0


def case_class_changed_at_home_reaches_the_other_side():
    class Changing:
        def say(self):
            return "old"

    assert call(lambda c: (c.say(), c), Changing())[0] == "old"
    Changing.say = lambda self: "new"
    assert call(lambda c: c.say(), Changing()) == "new"


def case_dataclass_keeps_its_fields():
    assert call(lambda point: [f.name for f in fields(point)], Point(1)) == ["x", "tags"]
    assert call(lambda: [f.name for f in fields(Point)]) == ["x", "tags"]


def case_abstract_class_property_and_static_method():
    assert call(lambda: (Derived(1).loud, Derived.number())) == ("__STR__1", 10)


def case_two_hops():
    got = call(lambda n: lambda x: helper(x) + n, 7)
    assert got(1) == 17
    assert call(got, 1) == 17


def case_module_among_globals():
    assert call(lambda: decorated.STATE is sys.modules["decorated"].STATE) is True
    decorated.STATE["imports"] = "changed here"
    assert call(lambda: decorated.STATE["imports"]) == "once"


def case_submodule_reached_through_its_package():
    assert call(lambda: xml.etree.ElementTree.fromstring("<a/>").tag) == "a"
    assert call(lambda: concurrent.futures.Future().done()) is False


def case_wrapped_functions_of_a_module_go_by_name():
    assert call(decorated.state.__wrapped__) is True
    assert call(decorated.shout.__wrapped__, "hi") == "HI"
    assert call(decorated.shout.__wrapped__.__wrapped__, "hi") == "hi"
    method = vars(decorated.Holder)["method"].__wrapped__
    assert call(method, decorated.Holder(), 3) == ("Holder", 3)
    assert pickle.loads(dump_function(method).data)[0] == "name"
    assert call(decorated.Holder().method, 3) == ("Holder", 3)


def case_wrapper_among_globals_and_arguments():
    assert call(lambda: decorated.shout.__wrapped__("x")) == "X"
    assert call(lambda wrapper: wrapper.__wrapped__("x"), decorated.shout) == "X"
    assert call(lambda wrapper: wrapper.__wrapped__(4), factorial) == 24
    assert call(lambda: state.__wrapped__()) is True
    assert call(lambda wrapper: wrapper.__wrapped__(), state) is True


def case_plain_function_of_a_module():
    assert call(decorated.plain, 1) == 2
    assert call(functools.partial(map, decorated.plain), [1]).__next__() == 2


def case_function_as_argument():
    assert call(lambda f: f(2), helper) == 20
    assert call(lambda f: f(2), lambda x: x + SCALE) == 12


def case_lock_in_a_closure():
    def f():
        with lock:
            return "held"

    assert call(f) == "held"


def case_cloudpickle_by_choice():
    assert call(uses_helper, 4, serializer="cloudpickle") == 41
    assert type(call(lambda: Point(2), serializer="cloudpickle")) is Point


def case_redefined_helper_is_sent_again():
    global helper
    old = helper
    assert call(uses_helper, 1) == 11
    helper = lambda x: -x  # noqa: E731
    try:
        assert call(uses_helper, 1) == 0
    finally:
        helper = old


def error_of(function, *args):
    try:
        return call(function, *args)
    except Exception as error:  # noqa: BLE001
        return error


def case_own_exception():
    error = error_of(fails, 7)
    assert type(error) is Broken
    assert error.code == 7
    assert error.args == ("because 7",)
    assert error.__notes__ == ["note of the worker"]


def case_source_lines_of_an_exception():
    line = 'raise Broken(code, reason="because")'
    try:
        fails(7)
    except Broken:
        here = traceback.format_exc()
    told = str(error_of(fails, 7).__cause__)
    assert ", in fails\n" in told
    # Not every Python keeps the lines of every `__main__`: what comes from afar tells no less than what fails here.
    # That of `python -c` is kept by code object since 3.14, and code objects travel without it.
    assert (line in told) == (line in here) or (sys.version_info >= (3, 14) and line not in told)


def case_exception_of_a_module():
    def fails_there():
        raise decorated.Needy(1, "hm")

    error = error_of(fails_there)
    assert type(error) is decorated.Needy
    assert (error.code, str(error)) == (1, "hm (1)")


def case_generator_and_async_functions():
    import asyncio

    async def coroutine(x):
        await asyncio.sleep(0)
        return helper(x)

    assert call(lambda: asyncio.run(coroutine(2))) == 20


def report():
    outcomes = {}
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            try:
                case()
                outcomes[name[5:]] = "ok"
            except BaseException:  # noqa: BLE001
                outcomes[name[5:]] = traceback.format_exc()
    return outcomes


if __name__ == "__main__":
    far = Far()
    print(json.dumps(report()))
    far.close()
