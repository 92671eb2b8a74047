"""Many calls at once reach the workers some at a time."""

from collections.abc import Callable

from grainlike.engine._engine import _BATCH, Engine
from grainlike.graph import delayed, gather, node_of
from grainlike.head._head import Head
from grainlike.resources import Cores


def plain(x: int) -> int:
    return x


def test_workers_begin_while_more_calls_are_made_ready() -> None:
    fairness: list[Callable[[], None]] = []
    engine = Engine(None, fairness.append, fail_fast=True)
    engine.jobs = head = Head(engine, closed=False, alarm=lambda at: None)
    engine.release_hold()
    job = delayed(plain) @ Cores(1)
    engine.start([node_of(gather(job(item) for item in range(2 * _BATCH + 1)))])
    sent = [head.view.unended]
    while head.view.unended < 2 * _BATCH + 1:
        fairness.pop(0)()
        sent.append(head.view.unended)
    assert sent == [_BATCH, 2 * _BATCH, 2 * _BATCH + 1]
    assert [row.job for row in head.view.rows(None)] == list(range(1, 2 * _BATCH + 2))
