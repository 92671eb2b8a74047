"""Calls of a session that stay in the program until workers have their large arguments."""

from __future__ import annotations

import asyncio

import pytest
from counting import calls_of
from waiting import until

from grainlike.client import _held_calls
from grainlike.client._held_calls import COPIES, HeldCalls
from grainlike.errors import ValueLostError
from grainlike.jobs import JobCall
from grainlike.payload import Payload, dump_arguments, dump_function, load_arguments

VALUE, OTHER = 100, 101


class Values:
    """Own values of a program."""

    def __init__(self):
        self.progress, self.has_workers, self.linked, self.reached = 0, True, True, None
        self.at = {}
        self.asked = []
        self.held = set()
        self.gone = False

    def is_own(self, value):
        return value >= VALUE

    def hold(self, values):
        self.held.update(values)

    def unhold(self, values):
        self.held.difference_update(values)

    def replicate(self, values, copies):
        assert copies == COPIES
        self.asked += values

    def where(self, value):
        return self.at.get(value, ())

    def payloads(self, values):
        if self.gone:
            raise ValueLostError("kept no more")
        return {value: Payload(b"", (b"bytes",)) for value in values}

    def arrive(self, value, *workers):
        self.at[value] = workers
        self.reached(value)


class Sender:
    """Sends calls, as the program's connection does."""

    def __init__(self):
        self.sent, self.refused, self.heard, self.watching = [], [], [], []

    def send_in_order(self, calls, goes_on):
        self.sent += calls

    def refuse_held(self, call, error):
        self.refused.append((call.child, type(error)))

    def tell_heard(self, children):
        self.heard += children

    @property
    def numbers(self):
        return [call.child for call in self.sent]


@pytest.fixture
def values():
    return Values()


@pytest.fixture
def sender():
    return Sender()


@pytest.fixture
def held(values, sender):
    return HeldCalls(values, sender, sender.watching.append)


class Called:
    """Stands for a node; the function alone is looked at."""

    class function:
        callable = staticmethod(len)


def call(child, *inputs, needs=()):
    payload = dump_arguments(("text",), {}, what="f")
    return JobCall(
        child, Called, dump_function(len), (bytes(payload.data), payload.buffers), 0, list(inputs), tuple(needs)
    )


def numbers(calls):
    return [one.child for one in calls]


def test_calls_go_at_once_that_need_no_value_of_the_program(held, sender):
    assert numbers(held.take([call(1), call(2, 7), call(3, needs=[1])])) == [1, 2, 3]
    assert not sender.watching


def test_a_call_is_held_until_its_values_are_where_they_are_to_be(held, values, sender):
    assert numbers(held.take([call(1, VALUE, OTHER, VALUE), call(2)])) == [2]
    assert 1 in held
    assert (set(values.asked), values.held) == ({VALUE, OTHER}, {VALUE, OTHER})
    values.arrive(OTHER, "n1", "n2")
    assert not sender.sent
    values.arrive(VALUE, "n1")
    assert numbers(sender.sent) == [1]
    assert sender.sent[0].inputs == [VALUE, OTHER, VALUE]
    assert not values.held
    assert sender.watching == [held]


def test_a_value_of_several_calls_is_asked_for_once_and_kept_until_the_last_has_gone(held, values, sender):
    held.take([call(1, VALUE)])
    held.take([call(2, VALUE, OTHER)])
    assert values.asked == [VALUE, OTHER]
    values.arrive(VALUE, "n1", "n2")
    assert sender.numbers == [1]
    assert values.held == {VALUE, OTHER}
    assert held.drop(2)
    assert not held.drop(2)
    assert not values.held


def test_a_call_goes_behind_those_that_it_needs(held, values, sender):
    assert numbers(held.take([call(1, VALUE), call(2, needs=[1]), call(3, OTHER), call(4, needs=[2, 3])])) == []
    values.arrive(OTHER, "n1", "n2")
    assert sender.numbers == [3]
    values.arrive(VALUE, "n1", "n2")
    assert sender.numbers == [3, 1, 2, 4]


def test_the_head_hears_that_a_call_was_heard_of_once_no_held_call_needs_it(held, values, sender):
    held.take([call(3, VALUE, needs=[1, 2]), call(4, OTHER, needs=[2])])
    assert held.hear({1, 2, 9}) == {9}
    values.arrive(VALUE, "n1")
    assert (sender.numbers, sender.heard) == ([3], [1])
    held.drop(4)
    assert sender.heard == [1, 2]
    assert held.hear({2}) == {2}


def test_a_call_takes_bytes_along_that_are_nowhere(held, values, sender):
    values.has_workers = False
    held.take([call(1, VALUE, 7)])
    values.arrive(VALUE)
    (sent,) = sender.sent
    assert (sent.child, sent.inputs) == (1, [7])
    data, buffers = sent.parcel
    assert load_arguments(Payload(data, buffers)) == (("text",), {})
    assert len(data) + sum(map(len, buffers)) > sum(len(part) for part in (call(1).parcel[0], b"bytes"))


def test_a_call_whose_bytes_are_gone_fails_alone(held, values, sender):
    values.has_workers, values.gone = False, True
    held.take([call(1, VALUE), call(2, OTHER)])
    values.at[OTHER] = ("n1",)
    values.arrive(VALUE)
    values.arrive(OTHER, "n1")
    assert sender.refused == [(1, ValueLostError)]
    assert sender.numbers == [2]


@pytest.mark.asyncio
async def test_it_asks_again_where_workers_were_silent(held, values, sender, monkeypatch):
    monkeypatch.setattr(_held_calls, "LOOK_S", 0.001)
    held.take([call(1, VALUE)])
    values.arrive(VALUE)  # no worker could take it
    assert not sender.sent
    asked = asyncio.ensure_future(held.watch())
    await until(lambda: values.asked == [VALUE, VALUE])
    values.arrive(VALUE, "n1")
    await asked
    assert sender.numbers == [1]


@pytest.mark.asyncio
async def test_one_worker_is_enough_where_nothing_moves_any_more(held, values, sender, monkeypatch):
    monkeypatch.setattr(_held_calls, "LOOK_S", 0.001)
    monkeypatch.setattr(_held_calls, "HELD_S", 0.003)
    held.take([call(1, VALUE), call(2, OTHER)])
    values.at[VALUE] = ("n1",)
    await held.watch()
    assert sender.numbers == [1, 2]
    assert [sent.inputs for sent in sender.sent] == [[VALUE], []]


@pytest.mark.asyncio
async def test_time_without_a_link_counts_only_for_a_program_that_leaves(held, values, sender, monkeypatch):
    looks = []
    monkeypatch.setattr(_held_calls, "LOOK_S", 0.001)
    monkeypatch.setattr(_held_calls, "HELD_S", 0.003)
    monkeypatch.setattr(HeldCalls, "_ask_again", lambda _: looks.append(None))
    values.linked = False
    held.take([call(1, VALUE)])
    watched = asyncio.ensure_future(held.watch())
    await until(lambda: len(looks) > 9 or sender.sent)
    assert not sender.sent
    await held.leave()
    await watched
    assert sender.numbers == [1]


def test_a_step_for_one_call_does_not_look_at_all_that_are_held():
    few, many = (steps_of_all(number) for number in (100, 800))
    assert many < 9 * few


def steps_of_all(number):
    """The calls that Python makes as each of so many calls gets its value, one by one; each has one behind it."""
    values, sender = Values(), Sender()
    held = HeldCalls(values, sender, sender.watching.append)
    held.take([call(2 * at, VALUE + at) for at in range(number)])
    held.take([call(2 * at + 1, needs=[2 * at]) for at in range(number)])
    calls = calls_of(lambda: [values.arrive(VALUE + at, "n1", "n2") for at in reversed(range(number))])
    assert len(sender.sent) == 2 * number
    return calls


def test_nothing_is_left_of_a_lost_head(held, values, sender):
    held.take([call(1, VALUE)])
    held.clear()
    values.arrive(VALUE, "n1")
    assert 1 not in held
    assert not sender.sent
