"""`delayed`, its options, and `@`."""

import copy
import functools
import inspect
import pickle
import re
import sys
from typing import Any

import pytest

from grainlike.errors import ResourceSpecError
from grainlike.graph import Delayed, DelayedFn, Function, RunsIn, delayed, delayed_value, info, node_of
from grainlike.resources import EMPTY, Cores, GPUs, Limit, Memory, Token


@delayed
async def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


@delayed(nout=2, name="two halves")
def halve(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    @delayed
    async def times(self, x: int) -> int:
        return self.factor * x

    @classmethod
    @delayed
    def unit(cls, x: int) -> str:
        return f"{cls.__name__} {x}"

    @staticmethod
    @delayed
    def plain(x: int) -> int:
        return x


def test_g1_a_call_gives_a_placeholder_and_runs_nothing() -> None:
    ran = []
    r_ = delayed(ran.append)(1)
    assert isinstance(r_, Delayed)
    assert ran == []
    assert info(r_).state == "lazy"


def test_the_place_follows_from_the_request() -> None:
    assert node_of(double(1)).place == RunsIn.LOCAL
    assert node_of((double @ Cores(1))(1)).place == RunsIn.REMOTE
    assert node_of(double(1) + 1).place == RunsIn.INLINE


def test_at_gives_a_new_function_and_leaves_the_old_one() -> None:
    heavy = double @ Cores(4)
    assert heavy is not double
    assert (double.request, heavy.request) == (None, Cores(4))
    assert heavy.function is double.function
    assert node_of(heavy(1)).request == Cores(4)


def test_at_again_may_ask_for_more_but_never_drops_a_part_in_silence() -> None:
    heavy = double @ Cores(4)
    assert (heavy @ Cores(8)).request == Cores(8)
    assert (heavy @ (Cores(1) & Memory("1G"))).request == Cores(1) & Memory("1G")
    with pytest.raises(TypeError, match=r"drop cores.*fn @ \(a & b\)"):
        heavy @ Memory("1G")
    with pytest.raises(TypeError, match="drop limit:db, token of the first request"):
        double @ (Cores(1) & Token("a") & Limit("db", 1) | GPUs(1) & Token("a")) @ (GPUs(1) & Cores(1))


def test_at_with_nothing_asks_for_nothing() -> None:
    assert node_of((double @ EMPTY)(1)).place == RunsIn.LOCAL


@pytest.mark.parametrize(
    "other",
    [4, "cores=4", None, double, Cores, delayed_value(3)],
    ids=["an integer", "text", "None", "a delayed function", "a kind of request", "a placeholder"],
)
def test_at_takes_requests_only(other: Any) -> None:
    with pytest.raises(TypeError, match="takes a request such as Cores"):
        double @ other


def test_at_says_how_text_becomes_a_request() -> None:
    with pytest.raises(TypeError, match=re.escape("not str: write parse('cores=4')")):
        double @ "cores=4"  # type: ignore[operator]  # the mistake that is meant


def test_at_refuses_ids_which_only_offers_have() -> None:
    with pytest.raises(ResourceSpecError):
        double @ Cores([6, 7])


def test_operators_that_bind_looser_than_at_say_where_the_brackets_go() -> None:
    with pytest.raises(TypeError, match=r"fn @ \(a & b\)"):
        double @ Cores(1) & Memory("1G")
    with pytest.raises(TypeError, match=r"fn @ \(a & b\)"):
        Memory("1G") & double @ Cores(1)
    with pytest.raises(TypeError, match=r"fn @ \(a \| b\)"):
        double @ Cores(1) | GPUs(1)
    with pytest.raises(TypeError, match=r"fn @ \(a \+ b\)"):
        double @ Cores(1) + Cores(1)
    with pytest.raises(TypeError, match=r"fn @ \(a - b\)"):
        double @ Cores(2) - Cores(1)
    with pytest.raises(TypeError, match="fn @ request"):
        Cores(1) @ double


def test_a_call_binds_tighter_than_at() -> None:
    with pytest.raises(TypeError, match=r"calls Cores\(4\); write `\(fn @ Cores\(4\)\)\(\.\.\.\)`"):
        double @ Cores(4)(1)
    with pytest.raises(TypeError, match=r"\(fn @ Cores\(4\)\)\("):
        double(1) @ Cores(4)
    with pytest.raises(TypeError, match=r"fn @ \(a & b\)"):
        (double @ Cores(1))(1) & Memory("1G")


def test_options_are_kept_with_the_function() -> None:
    fn = delayed(retries=2, timeout=1.5, priority=-3, keep=True, isolate=True)(len)
    options = fn.function.options
    assert (options.retries, options.timeout, options.priority, options.keep, options.isolate) == (
        2,
        1.5,
        -3,
        True,
        True,
    )
    assert (halve.function.name, double.function.name) == ("two halves", "double")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"nout": -1}, ValueError, "nout= must be at least 0"),
        ({"nout": True}, TypeError, "nout= takes an integer"),
        ({"nout": 1.5}, TypeError, "nout= takes an integer"),
        ({"retries": -1}, ValueError, "retries= must be at least 0"),
        ({"retries": "many"}, TypeError, "retries= takes an integer"),
        ({"priority": "high"}, TypeError, "priority= takes an integer"),
        ({"timeout": 0}, ValueError, "timeout= must be a positive"),
        ({"timeout": float("inf")}, ValueError, "timeout= must be a positive"),
        ({"timeout": float("nan")}, ValueError, "timeout= must be a positive"),
        ({"timeout": "1s"}, TypeError, "timeout= takes a number"),
        ({"keep": 1}, TypeError, "keep= takes True or False"),
        ({"isolate": None}, TypeError, "isolate= takes True or False"),
        ({"name": 3}, TypeError, "name= takes a string"),
        ({"name": ""}, ValueError, "name= must not be empty"),
        ({"name": "caf\udce9"}, ValueError, r"name= has half a character, which is no text: 'caf\\udce9'"),
        ({"cache": True}, TypeError, 'cache= takes a string, not True: write cache="v1"'),
        ({"cache": ""}, ValueError, "cache= must not be empty"),
        ({"cores": 4}, TypeError, "cores"),
    ],
)
def test_a_bad_option_is_refused_where_it_is_written(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        delayed(**options)


async def _async(x: int) -> int:
    return x


class _AsyncCallable:
    async def __call__(self, x: int) -> int:
        return x

    async def method(self, x: int) -> int:
        return x


@pytest.mark.parametrize(
    ("fn", "is_async", "name"),
    [
        (_async, True, "_async"),
        (functools.partial(_async, 1), True, "_async"),
        (functools.partial(functools.partial(_async), 1), True, "_async"),
        (_AsyncCallable(), True, "_AsyncCallable"),
        (functools.partial(_AsyncCallable(), 1), True, "_AsyncCallable"),
        (_AsyncCallable().method, True, "method"),
        (_AsyncCallable, False, "_AsyncCallable"),
        (len, False, "len"),
        ("a".upper, False, "upper"),
        (lambda: 1, False, "<lambda>"),
    ],
)
def test_every_kind_of_callable_is_told_apart(fn: Any, is_async: bool, name: str) -> None:
    function = delayed(fn).function
    assert (function.is_async, function.name) == (is_async, name)


@pytest.mark.parametrize("thing", [3, [1], delayed_value(1)], ids=repr)
def test_what_is_not_a_function_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="delayed_value"):
        delayed(thing)


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_method_decorators_belong_above(kind: Any) -> None:
    with pytest.raises(TypeError, match=f"write @{kind.__name__} above @delayed"):
        delayed(kind(len))


def test_what_is_delayed_stays_so() -> None:
    assert delayed(double) is double
    with pytest.raises(TypeError, match="delayed already"):
        delayed(double, retries=2)


def test_it_carries_the_face_of_its_function() -> None:
    heavy = double @ Cores(1)
    for fn in (double, heavy):
        assert (fn.__name__, fn.__doc__, fn.__module__) == ("double", "Twice as much.", __name__)
        assert inspect.unwrap(fn) is double.function.callable
        assert list(inspect.signature(fn).parameters) == ["x"]


def test_it_is_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        double.request = Cores(1)
    with pytest.raises(AttributeError, match="immutable"):
        del double.function
    assert copy.copy(double) is double
    assert copy.deepcopy([double]) == [double]


def test_a_parameter_may_be_called_self() -> None:
    node = node_of(delayed(dict)(self=1, first=2))
    assert node.arguments() == ((), {"self": 1, "first": 2})


def test_it_binds_as_a_method_does() -> None:
    scale = Scale(3)
    assert node_of(scale.times(2)).arguments() == ((scale, 2), {})
    assert node_of((scale.times @ Cores(1))(2)).arguments() == ((scale, 2), {})
    assert node_of(Scale.times(scale, 2)).arguments() == ((scale, 2), {})
    assert scale.times.function is Scale.times.function
    assert node_of(Scale.unit(1)).arguments() == ((Scale, 1), {})
    assert node_of(Scale.plain(1)).arguments() == ((1,), {})


def test_what_is_bound_stays_so() -> None:
    scale = Scale(3)
    holder = type("Holder", (), {"run": scale.times})
    assert node_of(holder().run(2)).arguments() == ((scale, 2), {})


def test_it_pickles_by_reference_from_an_importable_module(monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = pickle.loads(pickle.dumps(double @ Cores(2)))
    assert isinstance(heavy, DelayedFn)
    assert heavy.function is double.function
    assert (heavy.request, heavy.__name__) == (Cores(2), "double")
    bound = pickle.loads(pickle.dumps(Scale(3).times))
    assert node_of(bound(2)).arguments()[0][1:] == (2,)
    assert node_of(bound(2)).arguments()[0][0].factor == 3


def test_it_pickles_by_its_parts_from_elsewhere() -> None:
    fn = pickle.loads(pickle.dumps(delayed(_async, retries=2)))
    assert fn.function.callable is _async
    assert fn.function.options.retries == 2


def test_it_pickles_by_its_parts_from_the_main_script(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(x: int) -> int:
        return x

    script.__module__, script.__qualname__ = "__main__", "script"
    fn = delayed(script)
    monkeypatch.setattr(sys.modules["__main__"], "script", fn, raising=False)
    assert fn.function.__reduce__() == (Function, (script, fn.function.options))


def test_its_repr_is_short() -> None:
    assert repr(double @ Cores(2)) == "<DelayedFn double @ cores=2>"
