"""`repr` of placeholders shows arguments, shortened, and runs nobody's code."""

from __future__ import annotations

from typing import Any

import pytest
from counting import counted

from grainlike import Cores, delayed, gather
from grainlike.graph import node_behind


def train(*args: Any, **kwargs: Any) -> None: ...


f = delayed(train)


class Rude:
    """An object that raises at every look, and whose class calls itself otherwise."""

    def __repr__(self) -> str:
        raise AssertionError("it was looked at")

    __str__ = __len__ = __iter__ = __hash__ = __bool__ = __eq__ = __getattribute__ = __repr__


class RudeList(list[int]):
    __repr__ = __len__ = __iter__ = Rude.__repr__


class Named(type):
    @property
    def __name__(cls) -> str:
        raise AssertionError("it was looked at")


class OddlyNamed(metaclass=Named): ...


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ((), ""),
        ((3, "abc", None), "3, 'abc', None"),
        ((1, 2, 3, 4), "1, 2, 3, …"),
        ((1.5, 2j, True, b"x"), "1.5, 2j, True, …"),
        (("a" * 100,), "'aaaaaaaaaaaaaaaaaaaa'…"),
        (("two\nlines",), "'two\\nlines'"),
        ((b"b" * 100,), "b'bbbbbbbbbbbbbbbbbbbb'…"),
        ((10**100_000,), "<int of 332193 bits>"),
        (([1, 2, 3, 4], (1,), {"a": [5]}), "[1, 2, 3, …], (1), {'a': [5]}"),
        (([[[[1]]]],), "[[[…]]]"),
        (({1}, frozenset(), []), "{1}, {}, []"),
        ((Rude(), RudeList([1]), OddlyNamed()), "<Rude>, <RudeList>, <OddlyNamed>"),
        (([Rude()] * 5,), "[<Rude>, <Rude>, <Rude>, …]"),
        ((train,), "<function>"),
    ],
)
def test_arguments_are_shown_shortened(args: tuple[Any, ...], shown: str) -> None:
    assert repr(f(*args)) == f"<Delayed train({shown}): lazy>"


def test_placeholders_keywords_and_requests() -> None:
    inner_ = f(1)
    assert repr(f(inner_, [inner_], key=2)) == "<Delayed train(train(…), […], key=2): lazy>"
    assert repr((f @ Cores(1))(3, rate=0.5)) == "<Delayed train(3, rate=0.5): lazy, cores=1>"
    assert repr(gather(inner_)) == "<Delayed gather: lazy>"


def test_it_is_one_short_line_whatever_it_is_given() -> None:
    shown = repr(f(*["long " * 50] * 50, **{"key\n" * 50: "x" * 99, "b": "y" * 99}))
    assert len(shown) < 140
    assert shown.isprintable()


def test_only_the_beginning_of_what_is_large_is_looked_at() -> None:
    numpy = pytest.importorskip("numpy")
    large = [list(range(1000))] * 100_000
    r_ = f(numpy.zeros(10_000_000), large, "x" * 10_000_000)
    with counted() as calls:
        shown = repr(r_)
    assert shown == "<Delayed train(<ndarray>, [[0, 1, 2, …], [0, 1, 2, …], [0, 1, 2, …], …], '…): lazy>"
    assert calls.python + calls.c < 300


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("it says nothing")

    def __format__(self, spec: str) -> str:
        raise AssertionError("it was formatted")


def test_a_placeholder_is_shown_whose_error_has_no_text() -> None:
    mute_, told_ = (f @ Cores(1))(), (f @ Cores(1))()
    node_behind(mute_).fail(Mute())
    node_behind(told_).fail(KeyError("<b>"))
    assert ">Mute (its text cannot be shown: ValueError)</td>" in mute_._repr_html_()
    assert ">KeyError: &#x27;&lt;b&gt;&#x27;</td>" in told_._repr_html_()
