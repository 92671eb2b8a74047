"""Links that break between a client and its head: the client goes on, nothing is lost, and nothing is done twice."""

import asyncio
import contextlib
import os

import pytest
from limits import LIMIT_S
from waiting import logged, until, until_called
from weather import Weather, port, way_through

from grainlike import Cores, Executor, HeadLostError, connect, delayed, gather, info, start
from grainlike.client import _connection, _remote_jobs, _remote_values
from grainlike.client._connection import call
from grainlike.head.server import _accept, _clients
from grainlike.scheduler import HeadScheduler
from grainlike.wire import AskHead, HeadIs, _resend_buffer

pytestmark = pytest.mark.asyncio

TLS = "tcp://127.0.0.1:0"


@delayed
async def marked(path, number):
    """Leave a mark for each time that it runs."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{number}\n".encode())
    os.close(fd)
    return number


@delayed
def stand(visit, name):
    print("here", name, flush=True)
    visit(name)
    print("gone", name, flush=True)
    return name


async def wait_for(r_):
    return await r_


@pytest.fixture
def through(tmp_path):
    """A client of an executor, by way of the weather: `through(weather, executor)`."""
    return lambda weather, executor: connect(way_through(weather, executor, tmp_path, "client"))


@pytest.fixture
def linked(through):
    """A head with so many cores, the weather, and a client: `async with linked() as (head, weather, client):`."""

    @contextlib.asynccontextmanager
    async def linked(cores=1):
        async with (
            asyncio.timeout(LIMIT_S),
            Executor(listen=TLS, local=Cores(cores)) as head,
            Weather(port(head)) as weather,
            through(weather, head) as client,
        ):
            yield head, weather, client

    return linked


@pytest.mark.parametrize("how", ["reset", "cut"])
async def test_broken_links_of_a_client_lose_nothing_and_do_nothing_twice(how, linked, tmp_path):
    async with linked(2) as (head, weather, client):
        marks = tmp_path / "marks"
        waves = []
        for count in range(1, 6):
            await weather.until_made(count)
            await weather.until_carried()
            numbers = range(100 * count, 100 * count + 100)
            waves.append(start(gather((marked @ Cores(1))(marks, number) for number in numbers)))
            await weather.until_passed(500 * count)
            getattr(weather, how)()
        await weather.until_made(6)
        assert [number for wave in waves for number in await wave] == list(range(100, 600))
        assert sorted(map(int, marks.read_text().split())) == list(range(100, 600))
        assert (client.report().succeeded, head.report().succeeded) == (500, 500)


async def test_one_who_reads_nothing_of_much_is_cut_off_and_goes_on_when_it_reads_again(
    gates, linked, monkeypatch, caplog
):
    submit_calls = _remote_jobs.submit_calls
    monkeypatch.setattr(
        _remote_jobs, "submit_calls", lambda *args, stays, **more: submit_calls(*args, stays=not stays, **more)
    )
    clients = []
    join = _clients.ClientRegistry.join
    monkeypatch.setattr(_clients.ClientRegistry, "join", lambda *args: clients.append(join(*args)) or clients[-1])
    monkeypatch.setattr(_accept, "HEARTBEAT_S", 0.02)
    monkeypatch.setattr(_accept, "MOST_WAITING", 1 << 20)
    async with gates() as gate, linked() as (head, weather, client):

        @delayed
        def much(visit):
            visit("here")
            return bytes(32 << 20)

        first_, second_ = start((much @ Cores(1))(gate.visit)), start((much @ Cores(1))(gate.visit))
        first = await gate.arrival()
        weather.swallow()
        first.release()
        (await gate.arrival()).release()
        await until_called(HeadScheduler, "handle", lambda: head.report().succeeded == 2)
        link = clients[0].link
        # A socket that takes nothing any more tells nobody.
        await until(lambda: link.waiting() > 1 << 20 and link.stands_still())
        assert not link.closed
        with monkeypatch.context() as impatient:  # with the next link, which is busy, a head is patient again
            impatient.setattr(_accept, "SEND_STALL_S", 0.0)
            await logged(caplog, "is cut: it has read nothing")
        assert link.closed
        assert "has read nothing" in link.reason
        weather.clear_up()
        assert [len(value) for value in await gather(first_, second_)] == [32 << 20] * 2
        assert weather.made == 2
        assert client.report().succeeded == 2


async def test_delays_and_short_black_holes_break_nothing(linked):
    async with linked(2) as (_, weather, client):
        weather.delay_s = 0.05
        assert await (delayed(abs) @ Cores(1))(-1) == 1
        weather.swallow()
        lost_ = start((delayed(abs) @ Cores(1))(-2))
        asked = asyncio.create_task(client.explain(lost_))
        await weather.swallowed.wait()
        assert not asked.done()
        weather.clear_up()
        assert await lost_ == 2
        await asked
        assert weather.made == 1


@pytest.mark.parametrize("stays", [True, False])
async def test_questions_are_answered_while_a_large_value_is_on_its_way(stays, gates, linked, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_remote_values, "is_shared_directory", lambda _: False)
    async with gates() as gate, linked(2) as (_, weather, client):
        weather.hold_down(5_000_000)
        runs_ = start((stand @ Cores(1))(gate.visit, "one"))
        await gate.arrival()
        large_ = (delayed(bytes, cache=None if stays else "1") @ Cores(1))(60_000_000)
        large = asyncio.create_task(wait_for(large_))
        await weather.held.wait()
        asked = asyncio.create_task(client.explain(runs_))
        for name in ("two", "three"):  # when the last of them has begun the head has heard the question, too
            start((stand @ Cores(1))(gate.visit, name))
            (await gate.arrival()).release()
        assert not asked.done()
        weather.clear_up()
        assert (await asked).state == "leased"
        assert not large.done()
        assert len(await large) == 60_000_000
        assert weather.made == 1
        assert (client.report().fetched > 60_000_000) == stays


async def test_a_question_that_went_with_the_link_is_asked_again(gates, linked, monkeypatch):
    monkeypatch.setattr(_clients, "_MOST_LOGS", 1)  # the one before the break does not count
    async with gates() as gate, linked() as (_, weather, client):
        runs_ = start((stand @ Cores(1))(gate.visit, "one"))
        await gate.arrival()
        lines = client.logs(runs_)
        assert await anext(lines) == "here one"
        weather.swallow()
        waits_ = start((stand @ Cores(1))(gate.visit, "two"))
        asked = [asyncio.create_task(client.explain(r_)) for r_ in (runs_, waits_)]
        await weather.swallowed.wait()
        weather.reset()
        weather.clear_up()
        found = [await one for one in asked]
        assert [one.state for one in found] == ["leased", "queued"]
        gate.release_all()
        assert [line async for line in lines] == ["gone one"]
        await gather(runs_, waits_)


async def test_what_ends_while_the_client_is_away_is_told_when_it_is_back(gates, linked):
    async with gates() as gate, linked() as (head, weather, client):
        first_, second_ = (start((stand @ Cores(1))(gate.visit, name)) for name in ("first", "second"))
        visitor = await gate.arrival()
        lines = client.logs(first_)
        assert await anext(lines) == "here first"
        weather.closed = True
        weather.reset()
        visitor.release()
        await gate.arrival()  # of the second: the first has ended
        async with call(head.address) as caller:
            assert (await caller.ask(AskHead(0), HeadIs)).clients == 2  # its place is kept
        third_ = start((stand @ Cores(1))(gate.visit, "third"))
        weather.closed = False
        assert await first_ == "first"
        assert info(first_).attempt == 1
        assert [line async for line in lines] == ["gone first"]
        gate.release_all()
        assert await gather(second_, third_) == ["second", "third"]
        assert gate.visits == 3


async def test_a_client_that_stays_away_is_given_up_and_hears_so(gates, linked, monkeypatch):
    async with gates() as gate, linked() as (head, weather, client):
        runs_ = start((stand @ Cores(1))(gate.visit, "one"))
        await gate.arrival()
        monkeypatch.setattr(_accept, "LOST_S", 0.1)
        weather.closed = True
        weather.reset()
        await until_called(HeadScheduler, "handle", lambda: head._service.head.view.unended == 0)
        weather.closed = False
        with pytest.raises(HeadLostError, match="was given up meanwhile"):
            await runs_
        with pytest.raises(HeadLostError, match="was given up meanwhile"):
            await client.wait_for_workers(2)


async def test_when_too_much_was_on_the_way_that_is_said(gates, linked, monkeypatch):
    async with gates() as gate, linked() as (head, weather, _):
        jobs = [start((stand @ Cores(1))(gate.visit, number)) for number in range(4)]
        visitor = await gate.arrival()
        monkeypatch.setattr(_resend_buffer, "MOST_COUNT", 2)
        weather.closed = True
        weather.reset()
        for _ in range(3):
            visitor.release()
            visitor = await gate.arrival()
        weather.closed = False
        for r_ in jobs:
            with pytest.raises(HeadLostError, match=r"cannot go on with client .*: more messages were on the way"):
                await r_
        await until_called(HeadScheduler, "handle", lambda: head._service.head.view.unended == 0)


async def test_who_leaves_over_a_broken_link_is_heard(gates, through, monkeypatch):
    monkeypatch.setattr(_connection, "LEAVE_S", 600.0)  # which nobody waits for
    async with (
        asyncio.timeout(LIMIT_S),
        gates() as gate,
        Executor(listen=TLS, local=Cores(1)) as head,
        Weather(port(head)) as weather,
    ):
        async with through(weather, head) as client:
            runs_ = client.submit(Cores(1), stand, gate.visit, "one")
            await gate.arrival()
            weather.reset()
        await until_called(HeadScheduler, "handle", lambda: head._service.head.view.unended == 0)
        async with call(head.address) as caller:
            assert (await caller.ask(AskHead(0), HeadIs)).clients == 1
        del runs_


async def test_a_head_that_closes_is_not_waited_for(gates, through):
    async with asyncio.timeout(LIMIT_S), gates() as gate:
        head = await Executor(listen=TLS, local=Cores(1)).__aenter__()
        async with Weather(port(head)) as weather, through(weather, head) as client:
            runs_ = client.submit(Cores(1), stand, gate.visit, "one")
            await gate.arrival()
            await head.__aexit__(None, None, None)
            with pytest.raises(HeadLostError) as caught:
                await runs_
            assert str(caught.value) == f"the head at {client.address} said that it has closed"
