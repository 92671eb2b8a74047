"""The way of a stream's items to their reader, by hand: which are taken, what is given back, and who is forgotten."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from grainlike.engine._streams import buffer_of
from grainlike.graph import StreamNode, delayed, node_behind
from grainlike.head._results import take_items
from grainlike.jobs._job import Job
from grainlike.payload import dump_value
from grainlike.resources import Cores
from grainlike.wire import WINDOW_BYTES, WINDOW_ITEMS, Credit, Items, pack_parcels
from grainlike_worker.daemon._report import StreamRelay


@delayed
async def numbers() -> Any:
    yield 1


class Peer:
    """A worker that keeps what it is told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[Any] = []

    def post(self, message: Any) -> None:
        self.told.append(message)


def a_job(number: int = 5, worker: str = "n1", attempt: int = 2) -> tuple[Job, StreamNode]:
    node = node_behind((numbers @ Cores(1))())
    assert isinstance(node, StreamNode)
    job = Job(number, 1, node, (b"", ()))
    job.assigned(worker, attempt)
    return job, node


def items(*values: object, attempt: int = 2) -> tuple[Items, list[Any]]:
    parcels = [(bytes(payload.data), payload.buffers) for payload in map(dump_value, values)]
    data, counts, buffers = pack_parcels(parcels)
    return Items(5, attempt, data, counts), buffers


def test_items_of_the_present_attempt_reach_the_reader_and_only_the_first_are_news() -> None:
    peer: Any = Peer("n1")
    job, node = a_job()
    assert take_items(peer, job, *items("a"))
    assert not take_items(peer, job, *items("b", bytearray(100_000)))
    inlet = buffer_of(node)
    assert [inlet.take(), inlet.take(), len(inlet.take())] == ["a", "b", 100_000]
    assert (bool(inlet), job.streamed, peer.told) == (False, True, [])


@pytest.mark.parametrize(("name", "attempt"), [("n1", 1), ("n2", 2)], ids=["an earlier attempt", "another worker"])
def test_late_items_reach_nobody(name: str, attempt: int) -> None:
    peer: Any = Peer(name)
    job, node = a_job()
    assert not take_items(peer, job, *items("late", attempt=attempt))
    assert (bool(buffer_of(node)), job.streamed) == (False, False)


def test_items_of_what_is_no_stream_or_has_ended_reach_nobody() -> None:
    peer: Any = Peer("n1")
    job, _ = a_job()
    job.close()
    assert not take_items(peer, job, *items("late"))
    assert not take_items(peer, None, *items("late"))
    plain = Job(5, 1, SimpleNamespace(state=None), (b"", ()))  # type: ignore[arg-type]
    plain.assigned("n1", 2)
    assert not take_items(peer, plain, *items("what"))


def test_credit_goes_back_for_what_was_taken() -> None:
    peer: Any = Peer("n1")
    job, node = a_job()
    for number in range(WINDOW_ITEMS):
        take_items(peer, job, *items(number))
    size = len(dump_value(1).data)
    inlet = buffer_of(node)
    for _ in range(WINDOW_ITEMS // 2):
        assert not peer.told
        inlet.take()
    assert peer.told == [Credit(5, 2, WINDOW_ITEMS // 2, size * WINDOW_ITEMS // 2)]
    take_items(peer, job, *items(bytearray(WINDOW_BYTES)))
    while inlet:
        inlet.take()
    assert peer.told[-1].size > WINDOW_BYTES


def test_the_relay_knows_a_runner_from_its_first_item_to_its_end() -> None:
    sent: list[Any] = []
    relay = StreamRelay(lambda message, buffers: sent.append((message, buffers)))
    message, buffers = items("a")
    credit = Credit(5, 2, 1, 1)
    assert (relay.runner(credit), bool(relay)) == (None, False)
    relay.up(3, message, buffers)
    assert (relay.runner(credit), bool(relay), sent) == (3, True, [(message, buffers)])
    relay.forget([4, 5, 6])
    assert (relay.runner(credit), bool(relay)) == (None, False)
