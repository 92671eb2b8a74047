"""A big argument of many calls is told of once, with what to write instead."""

import functools

import numpy as np
import pytest

from grainlike import Cores, Executor, delayed, delayed_value, gather
from grainlike.graph import node_of
from grainlike.head import Head
from grainlike.jobs import BIG, _repeated, pack_calls


class Deaf:
    """Receives no outcomes."""


@pytest.fixture(autouse=True)
def _unsaid(monkeypatch):
    monkeypatch.setattr(_repeated, "_said", set())


@pytest.fixture
def hints(caplog):
    """Return the hints so far."""
    return lambda: [one.getMessage() for one in caplog.records if "packed and sent with each" in one.getMessage()]


@delayed
def use(data, number):
    return len(data) + number


def embedded(calls):
    Head(Deaf(), closed=False, alarm=lambda at: None).submit([node_of(call) for call in calls])


def connected(calls):
    pack_calls([node_of(call) for call in calls], id, Deaf(), streams=True)


def calls_with(argument, count=_repeated.MANY):
    return [(use @ Cores(1))(argument, number) for number in range(count)]


SUBMIT = pytest.mark.parametrize("submit", [embedded, connected])
LARGE = {"bytes": bytes(2 * BIG), "array": np.zeros(BIG), "list": [1.5] * (BIG // 4), "text": "a" * (2 * BIG)}


@SUBMIT
@pytest.mark.parametrize("argument", LARGE.values(), ids=LARGE)
def test_a_big_argument_of_many_calls_is_told_of_once(submit, argument, hints):
    submit(calls_with(argument))
    (hint,) = hints()
    assert hint.startswith("use is given the same argument of ")
    assert "delayed(functools.partial(use, argument))" in hint
    submit(calls_with(argument))
    assert len(hints()) == 1


@SUBMIT
def test_it_is_told_of_where_the_calls_are_alike(submit, hints):
    submit([(use @ Cores(1))(LARGE["bytes"], 1) for _ in range(_repeated.MANY)])
    assert len(hints()) == 1


@SUBMIT
def test_a_keyword_argument_counts_too(submit, hints):
    submit([(use @ Cores(1))(number=number, data=LARGE["array"]) for number in range(_repeated.MANY)])
    assert len(hints()) == 1


@SUBMIT
def test_few_calls_small_arguments_and_others_for_each_call_are_no_news(submit, hints):
    submit(calls_with(LARGE["array"], _repeated.MANY - 1))
    submit(calls_with(bytes(BIG // 2), 50))
    submit([(use @ Cores(1))(np.zeros(BIG // 4), number) for number in range(20)])
    submit([(use @ Cores(1))(LARGE["bytes"][number:], number) for number in range(20)])
    assert hints() == []


@SUBMIT
def test_values_of_other_calls_are_no_news(submit, hints):
    value_ = delayed_value(LARGE["array"])
    submit(calls_with(value_, 20))
    assert hints() == []


@pytest.mark.asyncio
async def test_what_the_hint_says_to_write_works_and_is_silent(hints):
    held = delayed(functools.partial(use.function.callable, LARGE["array"]))
    async with Executor(local=Cores(1)):
        assert await gather((held @ Cores(1))(number) for number in range(20)) == [BIG + number for number in range(20)]
    assert hints() == []
