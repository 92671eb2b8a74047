"""A call whose arguments do not fit the signature is refused where it is written, in Python's own words."""

import functools
import pickle
from collections.abc import AsyncIterator
from typing import Any

import pytest

from grainlike import Cores
from grainlike.graph import delayed


def none() -> None: ...
def one(x: object) -> None: ...
def two(x: object, y: object = 1) -> None: ...
def three(x: object, y: object, z: object) -> None: ...
def by_position(x: object, /, **rest: object) -> None: ...
def only_position(x: object, /) -> None: ...
def by_keyword(x: object, *, key: object, other: object = 1) -> None: ...
def two_by_keyword(*, key: object, other: object) -> None: ...
def anything(*args: object, **kwargs: object) -> None: ...
def at_least_one(x: object, *more: object, key: object = 1) -> None: ...
async def coroutine(x: object) -> None: ...


class Model:
    def fit(self, x: object) -> None: ...

    @delayed
    def train(self, x: object) -> None: ...


FUNCTIONS: list[Any] = [
    none, one, two, three, by_position, only_position, by_keyword, two_by_keyword, anything, at_least_one, Model().fit
]  # fmt: skip
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (args, kwargs)
    for args in [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)]
    for kwargs in [{}, {"x": 1}, {"y": 2}, {"x": 1, "y": 2}, {"key": 1}, {"key": 1, "other": 2}, {"strange": 1}]
]


def said(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    try:
        call(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_it_is_refused_exactly_where_python_refuses_it(function: Any) -> None:
    refused = [(call, said(function, *call), said(delayed(function), *call)) for call in CALLS]
    assert [(call, ours is None) for call, _, ours in refused] == [(call, its is None) for call, its, _ in refused]


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (none, (1,), {}),
        (one, (1, 2), {}),
        (two, (1, 2, 3), {}),
        (one, (), {}),
        (three, (1,), {}),
        (three, (), {}),
        (one, (1,), {"x": 1}),
        (one, (1,), {"strange": 1}),
        (only_position, (), {"x": 1}),
        (by_keyword, (1,), {}),
        (two_by_keyword, (), {}),
    ],
)
def test_the_words_are_pythons(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    words = said(function, args, kwargs)
    assert words is not None
    assert said(delayed(function), args, kwargs) == words


def test_calls_with_resources_streams_and_coroutines_are_checked_too() -> None:
    async def stream(x: object) -> AsyncIterator[int]:
        yield 1

    functions: list[Any] = [delayed(one) @ Cores(1), delayed(coroutine), delayed(stream)]
    for function in functions:
        words = f"{function.function.name}() takes 1 positional argument but 2 were given"
        assert said(function, (1, 2), {}) == words


def test_a_method_counts_its_instance_as_python_does() -> None:
    function: Any = Model().train
    assert said(function, (1, 2), {}) == "train() takes 2 positional arguments but 3 were given"
    assert said(function, (1,), {}) is None


def test_what_has_no_signature_in_python_is_left_to_the_call() -> None:
    for function in (pow, functools.partial(one), dict, Model().fit.__call__):
        made: Any = delayed(function)
        assert said(made, (1, 2, 3, 4, 5), {}) is None


def test_a_function_that_travelled_is_checked_as_well() -> None:
    function: Any = pickle.loads(pickle.dumps(delayed(one)))
    assert said(function, (), {}) == "one() missing 1 required positional argument: 'x'"
