"""What clients are told of many workers and jobs: in a few words, and of the last as surely as of the first."""

from collections import Counter
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest
from limits import LIMIT_S

from grainlike.head._head import Head
from grainlike.head._queries import StoreUse
from grainlike.head.server import _clients, _store_updates
from grainlike.head.server._clients import ClientRegistry
from grainlike.head.server._store_updates import StoreUpdates
from grainlike.net import ClosedLink
from grainlike.resources import Cores, offer_of
from grainlike.scheduler import FunctionDefined, JobsCancelled, JobsSubmitted
from grainlike.wire import (
    PROTOCOL,
    AskDepart,
    AskHead,
    AskHistory,
    AskJobs,
    AskLive,
    AskLogs,
    Enough,
    FleetIs,
    Frame,
    Hello,
    LiveIs,
    Matched,
    PoolRow,
    StoresAre,
    Unable,
    WorkersAre,
)

pytestmark = pytest.mark.anyio


class Heard(ClosedLink):
    """Remembers how many workers each message told of."""

    def __init__(self) -> None:
        super().__init__("here", "here")
        self.told: list[int] = []

    def post(self, message, buffers=()) -> None:
        assert isinstance(message, WorkersAre)
        self.told.append(len(message.workers))


class Kept(ClosedLink):
    """Remembers what it was sent."""

    def __init__(self) -> None:
        super().__init__("here", "here")
        self.sent: list[object] = []

    def post(self, message, buffers=()) -> None:
        self.sent.append(message)

    async def drain(self) -> None:
        await anyio.lowlevel.checkpoint()


def hello(role: str, name: str) -> Hello:
    return Hello(role, PROTOCOL, PROTOCOL, "3", {}, name, name, 1, "", [])


class Deaf:
    """Hears of no outcomes: there is no graph."""


async def test_a_program_is_told_of_the_first_worker_at_once_and_of_a_crowd_together(monkeypatch) -> None:
    monkeypatch.setattr(_clients, "WORKERS_S", 0.0)
    head = Head(Deaf(), closed=False, alarm=lambda at: None)
    clients = ClientRegistry(head, "c1", bool, bool, lambda: None)
    link, offer = Heard(), offer_of(Cores([0]), own_cores=(0,))
    async with anyio.create_task_group() as tasks:
        connection = clients.join(hello("client", "program"), link, tasks)
        connection.paths = ("/here",)
        for number in range(300):
            head.join(hello("worker", f"n{number}"), offer, f"n{number}", ClosedLink("n", "here"))
            clients.workers_changed()
        assert link.told == [1]
    assert link.told == [1, 300]
    assert not clients._telling


async def test_of_workers_that_were_lost_a_head_keeps_the_last_ten() -> None:
    clients, link = ClientRegistry(Head(Deaf(), closed=False, alarm=lambda at: None), "c1", bool, bool, None), Kept()
    async with anyio.create_task_group() as tasks:
        connection = clients.join(hello("client", "program"), link, tasks)
        for number in range(12):
            clients.worker_lost(f"n{number}", number, "silent")
        clients.hear(connection, [Frame(AskHead(1))])
    assert [(row.name, row.running) for row in link.sent[0].lost] == [(f"n{n}", n) for n in range(11, 1, -1)]


async def test_who_is_back_is_told_of_workers_though_tasks_of_the_link_that_broke_have_not_ended(monkeypatch) -> None:
    monkeypatch.setattr(_clients, "WORKERS_S", 0.0)
    head = Head(Deaf(), closed=False, alarm=lambda at: None)
    clients = ClientRegistry(head, "c1", bool, bool, lambda: None)
    link, offer = Heard(), offer_of(Cores([0]), own_cores=(0,))
    async with anyio.create_task_group() as later, anyio.create_task_group() as before:
        connection = clients.join(hello("client", "program"), link, before)
        connection.paths = ("/here",)
        clients.workers_changed()
        clients.came_back(connection, later)
        head.join(hello("worker", "n1"), offer, "n1", ClosedLink("n", "here"))
        clients.workers_changed()
        before.cancel_scope.cancel()
    assert link.told == [0, 0, 1]
    assert not clients._telling


async def test_who_is_back_is_told_of_bytes_though_tasks_of_the_link_that_broke_have_not_ended(monkeypatch) -> None:
    monkeypatch.setattr(_store_updates, "STORES_S", 0.0)
    head = Head(Deaf(), closed=False, alarm=lambda at: None)
    link, stores = Kept(), dict[str, StoreUse]()
    async with anyio.create_task_group() as later, anyio.create_task_group() as before:
        connection = ClientRegistry(head, "c1", bool, bool, None).join(hello("client", "program"), link, before)
        connection.paths = ("/here",)
        updates = StoreUpdates({1: connection}, lambda: stores)
        updates.changed()
        connection.tasks = later
        updates.listed(connection)
        stores["n1"] = StoreUse(5, 0, "")
        updates.changed()
        before.cancel_scope.cancel()
    assert link.sent == [StoresAre(0, ["n1"], [5], [0], [""])]


async def test_who_is_back_is_told_of_pools_too_as_nothing_of_them_is_sent_again() -> None:
    head = Head(Deaf(), closed=False, alarm=lambda at: None)
    clients, link = ClientRegistry(head, "c1", bool, bool, lambda: None), Kept()
    pool = PoolRow("lab", "local", "cores=1", 0, 1, 0, 0, 0, "", 0.0)
    clients.pools.driver = SimpleNamespace(
        view=SimpleNamespace(pool_rows=lambda: [pool], block_rows=lambda *, ended: [])
    )
    async with anyio.create_task_group() as tasks:
        connection = clients.join(hello("client", "program"), link, None)
        clients.came_back(connection, tasks)
        assert link.sent == []  # it has asked for nothing but answers
        connection.paths = ("/here",)
        clients.came_back(connection, tasks)
    assert link.sent == [WorkersAre(0, []), FleetIs(0, [pool], [])]


def test_states_are_counted_as_rows_have_them() -> None:
    head = Head(Deaf(), closed=False, alarm=lambda at: None)
    head.join(hello("worker", "n1"), offer_of(Cores([0]), own_cores=(0,)), "n1", ClosedLink("n1", "here"))
    scheduler = head.state.scheduler
    scheduler.handle(FunctionDefined(1), 0.0)
    scheduler.handle(JobsSubmitted(Cores(1), [1, 2, 3], [1, 1, 1], 0, False), 0.0)
    scheduler.handle(JobsCancelled([1]), 0.0)  # it had been assigned, so its worker is asked to stop it
    assert head.view.states() == Counter(row.state for row in head.view.rows(None)) == {"stopping": 1, "queued": 2}


async def test_who_asks_for_a_log_and_has_enough_of_it_in_one_breath_is_answered_no_more() -> None:
    head = Head(Deaf(), closed=False, alarm=lambda at: None)
    clients = ClientRegistry(head, "c1", bool, bool, lambda: None)
    peer = head.join(hello("worker", "n1"), offer_of(Cores([0]), own_cores=(0,)), "n1", ClosedLink("n1", "here"))
    head.state.last_job = 1
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            connection = clients.join(hello("client", "program"), ClosedLink("c", "here"), tasks)
            clients.hear(connection, [Frame(AskLogs(1, 1, True)), Frame(Enough(1))])
    assert (connection.listening, peer.follows) == ({}, {})


async def test_who_asks_for_a_live_view_and_has_enough_of_it_in_one_breath_is_answered_no_more() -> None:
    head = Head(Deaf(), closed=False, alarm=lambda at: None)
    clients = ClientRegistry(head, "c1", bool, bool, lambda: None)
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:  # it ends: so do the updates
            connection = clients.join(hello("client", "program"), Kept(), tasks)
            clients.hear(connection, [Frame(AskLive(1, 0.1)), Frame(Enough(1))])
    assert connection.listening == {}


async def test_live_views_that_are_asked_for_in_one_breath_are_bounded_and_each_has_its_number() -> None:
    head = Head(Deaf(), closed=False, alarm=lambda at: None)
    clients = ClientRegistry(head, "c1", bool, bool, lambda: None)
    link = Kept()
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            connection = clients.join(hello("client", "program"), link, tasks)
            asked = [Frame(AskLive(ask, 0.1)) for ask in (1, 1, *range(2, 101))]
            clients.hear(connection, asked)
            assert sorted(connection.listening) == list(range(1, 17))
            assert link.sent == [
                Unable(1, "question 1 is being answered already"),
                *(Unable(ask, "one client may follow 16 live views at a time") for ask in range(17, 101)),
            ]
            clients.hear(connection, [Frame(Enough(ask)) for ask in range(1, 17)])
    assert connection.listening == {}
    assert all(isinstance(message, Unable | LiveIs) for message in link.sent)


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (AskDepart(1, ["n*", "a" * 201], False), "a pattern has at most 200 characters; this has 201"),
        (AskDepart(1, ["n*"] * 1001, False), "a question has at most 1000 patterns; this has 1,001"),
        (AskHistory(1, 1, "a" * 300), "a pattern has at most 200 characters; this has 300"),
        (AskHistory(1, 1, error="a" * 300), "a pattern has at most 200 characters; this has 300"),
        (AskHistory(1, 1, worker="a" * 300), "a pattern has at most 200 characters; this has 300"),
        (AskJobs(1, 1, name="a" * 1000), "a pattern has at most 200 characters; this has 1,000"),
    ],
)
async def test_patterns_of_any_link_are_bounded_and_the_next_question_is_answered(question, why) -> None:
    head = Head(Deaf(), closed=False, alarm=lambda at: None)
    clients = ClientRegistry(head, "c1", bool, bool, lambda: None)
    link = Kept()
    connection = clients.join(hello("client", "program"), link, None)
    clients.hear(connection, [Frame(question), Frame(AskDepart(2, ["a" * 200] * 1000, False))])
    assert link.sent == [Unable(1, why), Matched(2, [])]
