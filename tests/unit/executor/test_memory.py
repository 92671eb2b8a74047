"""What the head keeps of a job that waits, and of a worker, in bytes: counted, and the same on every machine.

A bound here is what was counted when it was written and a tenth more, as for calls in `test_cost_per_job`.
"""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from grainlike.engine._engine import Engine
from grainlike.graph import Node, delayed, gather, node_of
from grainlike.head._head import Head
from grainlike.head.server._storage import NoStorage
from grainlike.net import ProtocolLink, make_credentials, memory_pair, server_tls
from grainlike.resources import Cores, parse_allocation
from grainlike.scheduler import (
    AssignJobs,
    FunctionDefined,
    HeadScheduler,
    JobsSubmitted,
    ReplicasArrived,
    WorkerJoined,
    WorkerReported,
)
from grainlike.wire import Code, Completed, Hello, LeaseStart

WORKERS = 500


def plain(x: int) -> int:
    return x


class Grown:
    """By how many bytes memory has grown."""

    bytes = 0


@contextmanager
def growth() -> Iterator[Grown]:
    gc.collect()
    grown = Grown()
    before, _ = tracemalloc.get_traced_memory()
    yield grown
    gc.collect()
    grown.bytes = tracemalloc.get_traced_memory()[0] - before


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


class Bench:
    """An engine and a head to which no worker has come, so that every job waits. No event loop: turns are called."""

    def __init__(self, *, journal: bool) -> None:
        self._turns: list[Callable[[], None]] = []
        self.engine = Engine(None, self._turns.append, fail_fast=True)
        if journal:
            self.head = Head(self.engine, closed=False, alarm=lambda at: None)
        else:
            self.head = NoStorage().make_head(self.engine, lambda at: None, closed=False)
        self.engine.jobs = self.head
        self.engine.release_hold()

    def start(self, node: Node) -> None:
        self.engine.start([node])
        while self._turns:
            self._turns.pop()()


@pytest.mark.parametrize(
    ("jobs", "bound", "journal"),
    [(2_500, 168, False), (2_800, 191, False), (2_500, 317, True), (2_800, 367, True)],
    ids=["", "tables-have-just-grown", "journal", "journal-tables-have-just-grown"],
)
def test_a_job_that_waits_takes_this_many_bytes(jobs, bound, journal) -> None:
    bench = Bench(journal=journal)
    job = delayed(plain) @ Cores(1)
    bench.start(node_of(job(0)))
    items = list(range(1000, 1000 + jobs))  # what is passed is the user's
    with growth() as placeholders:
        made = [job(item) for item in items]
    with growth() as queued:
        everything = gather(made)
        bench.start(node_of(everything))
    assert bench.head.view.unended == jobs + 1
    assert placeholders.bytes / jobs <= 273
    assert queued.bytes / jobs <= bound


def test_a_worker_takes_this_many_bytes() -> None:
    bench = Bench(journal=False)
    links = [memory_pair()[0] for _ in range(WORKERS)]
    with growth() as workers:
        for number, link in enumerate(links):
            name = f"n{number}"
            offer = f"cores={list(range(16))}"
            hello = Hello("worker", 1, 1, "3.11", {}, name, "0" * 16, number, offer, [])
            bench.head.join(hello, parse_allocation(offer), name, link)
    assert len(bench.head.view.workers()) == WORKERS
    assert (
        workers.bytes / WORKERS <= 3_088
    )  # some 60 tell when it joined, for logs of jobs before that; 40 what its store has room for


@pytest.mark.asyncio
async def test_a_connection_takes_this_many_bytes() -> None:
    server = server_tls("c", make_credentials("c")["head"])
    made = [ProtocolLink("a peer", server.session())]  # with what is there once for all of them
    with growth() as links:
        made += [ProtocolLink("a peer", server.session()) for _ in range(100)]
    assert links.bytes / 100 <= 2_450


class Values:
    """The scheduler of a head with three workers, the first of which makes values of 100 KB."""

    def __init__(self) -> None:
        self._head = HeadScheduler(closed=False)
        self._head.handle(FunctionDefined(1), 0.0)
        for worker in (1, 2, 3):
            self._head.handle(WorkerJoined(worker, f"n{worker}", parse_allocation("cores=[0]")), 0.0)

    def make(self, numbers: range) -> None:
        for number in numbers:
            (sent,) = self._head.handle(JobsSubmitted(Cores(1), [number], [1]), 0.0)
            assert isinstance(sent, AssignJobs)
            assert sent.worker == 1
            start = LeaseStart(number, sent.cls, "", [number], [1], 0.0)
            ends = [number], [1], [int(Code.SUCCEEDED)], [0.0], [0.0], [0.0], [0], [b""], []
            done = Completed(number, *ends, 0.0, sizes=[100_000])
            self._head.handle(WorkerReported(1, [start], [done], [number]), 0.0)

    def copy(self, numbers: range, worker: int) -> None:
        for number in numbers:
            self._head.handle(ReplicasArrived(worker, [number], [1]), 0.0)

    def has(self, numbers: range, *workers: int) -> bool:
        return all(self._head.replicas_of(number) == workers for number in numbers)


@pytest.mark.parametrize(
    ("many", "made", "more"), [(2_600, 328, 63), (5_500, 333, 118)], ids=["", "tables-have-just-grown"]
)
def test_a_value_and_each_further_replica_take_this_many_bytes(many, made, more) -> None:
    values = Values()
    values.make(range(1000))
    numbers = range(10_000, 10_000 + many)
    with growth() as first:
        values.make(numbers)
    assert first.bytes / many <= made
    for worker in (2, 3):
        with growth() as replicas:
            values.copy(numbers, worker)
        assert replicas.bytes / many <= more
    assert values.has(numbers, 1, 2, 3)
