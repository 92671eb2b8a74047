"""Many calls at once reach the workers some at a time."""

from collections.abc import Callable

import pytest

from grainlike.engine import _engine
from grainlike.engine._batches import _REQUESTS
from grainlike.engine._engine import _BATCH, Engine
from grainlike.graph import delayed, gather, node_of
from grainlike.head._head import Head
from grainlike.resources import Cores, Memory, Request


@pytest.fixture(autouse=True)
def _a_machine_that_never_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that takes long ends early, and another follows."""
    monkeypatch.setattr(_engine, "_SLICE_S", 3600.0)


def plain(x: int) -> int:
    return x


def begin(turns: list[Callable[[], None]]) -> tuple[Engine, Head]:
    """Return an engine that submits to a head, and what it does in later turns."""
    engine = Engine(None, turns.append, fail_fast=True)
    engine.jobs = head = Head(engine, closed=False, alarm=lambda at: None)
    engine.release_hold()
    return engine, head


def test_workers_begin_while_more_calls_are_made_ready() -> None:
    turns: list[Callable[[], None]] = []
    engine, head = begin(turns)
    job = delayed(plain) @ Cores(1)
    engine.start([node_of(gather(job(item) for item in range(2 * _BATCH + 1)))])
    sent = [head.view.unended]
    while head.view.unended < 2 * _BATCH + 1:
        turns.pop(0)()
        sent.append(head.view.unended)
    assert sent == [_BATCH, 2 * _BATCH, 2 * _BATCH + 1]
    assert [row.job for row in head.view.rows(None)] == list(range(1, 2 * _BATCH + 2))


def sizes(i: int) -> Request:
    return Memory(1_000 + i)


def test_a_turn_sends_calls_of_so_many_requests_at_most() -> None:
    turns: list[Callable[[], None]] = []
    engine, head = begin(turns)
    engine.start([node_of(gather((delayed(plain) @ sizes(i // 2))(i) for i in range(6 * _REQUESTS)))])
    sent = [head.view.unended]
    while turns:
        turns.pop(0)()
        sent.append(head.view.unended)
    assert sent == [2 * _REQUESTS, 4 * _REQUESTS, 6 * _REQUESTS]


def test_equal_requests_count_as_one() -> None:
    turns: list[Callable[[], None]] = []
    engine, head = begin(turns)
    engine.start([node_of(gather((delayed(plain) @ sizes(1))(i) for i in range(_BATCH)))])
    assert head.view.unended == _BATCH


def test_a_call_does_not_wait_until_all_that_came_before_it_is_sent() -> None:
    turns: list[Callable[[], None]] = []
    engine, head = begin(turns)
    engine.start([node_of(gather((delayed(plain) @ sizes(i))(i) for i in range(100 * _REQUESTS)))])
    turns.pop(0)()
    later = node_of((delayed(plain) @ Cores(1))(1))
    engine.start([later])
    turns.pop(0)()
    turns.pop(0)()
    assert later.record is not None
    assert head.view.unended <= 4 * _REQUESTS


def test_neither_do_those_of_before_wait_for_ever_for_what_comes_later() -> None:
    turns: list[Callable[[], None]] = []
    engine, _ = begin(turns)
    first_ = [(delayed(plain) @ sizes(i))(i) for i in range(10 * _REQUESTS)]
    engine.start([node_of(r_) for r_ in first_])
    for step in range(1, 40):
        turns.pop(0)()
        others = range(step * _REQUESTS, (step + 1) * _REQUESTS)
        engine.start([node_of((delayed(plain) @ sizes(10_000 + i))(i)) for i in others])
    assert all(node_of(r_).record is not None for r_ in first_)


def test_outcomes_that_come_meanwhile_send_no_more_calls_in_the_same_turn() -> None:
    turns: list[Callable[[], None]] = []
    engine, head = begin(turns)
    calls = [node_of((delayed(plain) @ sizes(i))(i)) for i in range(10 * _REQUESTS)]
    engine.start(calls)
    for node in calls[:_REQUESTS]:
        engine.succeeded(node, 1)
        engine.pump()
        assert node.finished
    assert head.view.unended == _REQUESTS
    assert len(turns) == 1


def test_a_turn_drops_so_many_calls_at_most_that_nobody_wants_any_more() -> None:
    turns: list[Callable[[], None]] = []
    engine, head = begin(turns)
    calls = [node_of((delayed(plain) @ Cores(1))(i)) for i in range(4 * _BATCH)]
    engine.start(calls)
    engine.cancel(calls[_BATCH : 3 * _BATCH])
    sent = [head.view.unended]
    while turns:
        turns.pop(0)()
        sent.append(head.view.unended)
    assert sent == [_BATCH, _BATCH, _BATCH, 2 * _BATCH]


def test_a_call_that_is_started_late_in_a_turn_is_sent_at_once_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_engine, "_SLICE_S", -1.0)
    turns: list[Callable[[], None]] = []
    engine, head = begin(turns)
    for number in range(1, 4):
        engine.start([node_of((delayed(plain) @ Cores(1))(number))])
        assert head.view.unended == number
