"""The way of a stream's items to their reader, by hand: which are taken, what is given back, and who is forgotten."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from grainlike.engine._streams import buffer_of
from grainlike.errors import ProtocolError
from grainlike.graph import StreamNode, delayed, node_behind
from grainlike.head._functions import FunctionTable
from grainlike.head._nested import RelayedJob, RelayedJobs
from grainlike.head._results import take_items
from grainlike.head.values._owners import ValueOwners
from grainlike.jobs import JobCounters
from grainlike.jobs._job import Job
from grainlike.payload import dump_value
from grainlike.resources import Cores
from grainlike.wire import WINDOW_BYTES, WINDOW_ITEMS, Credit, Items, RetrySpec, Submit, SubmittedFunction, pack_parcels
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
    plain = Job(5, 1, SimpleNamespace(state=None, finished=False), (b"", ()))  # type: ignore[arg-type]
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
    assert (relay.runner(credit), bool(relay.runners)) == (None, False)
    relay.up(3, message, buffers)
    assert (relay.runner(credit), bool(relay.runners), sent) == (3, True, [(message, buffers)])
    relay.forget([4, 5, 6])
    assert (relay.runner(credit), bool(relay.runners)) == (None, False)


class Program:
    """A client that keeps what it is sent."""

    number = 9

    def __init__(self) -> None:
        self.told: list[Any] = []

    def post(self, message: Any, buffers: Any = ()) -> None:
        self.told.append(message)


def a_relayed_job(program: Program, *, stream: bool = True) -> tuple[RelayedJobs, RelayedJob]:
    """A call that a program has submitted as its number 3, and that runs on worker n1 as attempt 2."""
    jobs: dict[int, Job] = {}
    nested = RelayedJobs(
        jobs, FunctionTable(lambda _: None), lambda: 5, lambda _: None, JobCounters(0.0), ValueOwners()
    )
    function = SubmittedFunction(b"digest", "numbers", True, None, RetrySpec(), False, False, True, stream)
    nested.submit(program, Submit(0, 0, "cores=1", 0, False, [function], [3], [0], [b""], []), [b"code"], 9)
    job = jobs[5]
    assert isinstance(job, RelayedJob)
    job.assigned("n1", 2)
    return nested, job


def test_items_of_a_client_s_stream_go_on_under_its_own_number() -> None:
    peer: Any = Peer("n1")
    program = Program()
    nested, job = a_relayed_job(program)
    assert take_items(peer, job, *items("a", "b"))
    assert not take_items(peer, job, *items("c"))
    assert [(message.job, message.attempt, len(message.data)) for message in program.told] == [(3, 2, 2), (3, 2, 1)]
    size = sum(len(data) for message in program.told for data in message.data)
    assert nested.credit(program, Credit(3, 2, 3, size)) == Credit(5, 2, 3, size)
    assert nested.credit(program, Credit(4, 2, 1, 1)) is None
    assert nested.credit(program, Credit(3, 1, 1, 1)) is None


@pytest.mark.parametrize(("count", "size"), [(2, 0), (1, 1000), (-1, 0), (0, -1), (2**40, 2**60)])
def test_credit_for_what_was_never_sent_is_refused(count: int, size: int) -> None:
    peer: Any = Peer("n1")
    program = Program()
    nested, job = a_relayed_job(program)
    take_items(peer, job, *items("a"))
    with pytest.raises(ProtocolError, match="never sent"):
        nested.credit(program, Credit(3, 2, count, size))


def test_items_of_a_client_s_call_that_is_no_stream_reach_nobody() -> None:
    peer: Any = Peer("n1")
    program = Program()
    _, job = a_relayed_job(program, stream=False)
    assert not take_items(peer, job, *items("a"))
    assert (program.told, job.streamed) == ([], False)
