"""Links that break between a head and its workers: they are made anew, nothing is lost, and nothing is done twice."""

import asyncio
import os
import signal

import numpy as np
import pytest
from fault_calls import marked
from limits import LIMIT_S
from waiting import until, until_files
from weather import Weather, port, way_through

from grainlike import Cores, Executor, delayed, gather, info, start
from grainlike.head.server import _accept
from grainlike_worker.daemon import _daemon

pytestmark = pytest.mark.asyncio

TLS = "tcp://127.0.0.1:0"


@pytest.mark.parametrize("how", ["reset", "cut"])
async def test_broken_links_lose_nothing_and_do_nothing_twice(how, start_worker, tmp_path):
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS) as executor, Weather(port(executor)) as weather:
        start_worker(way_through(weather, executor, tmp_path))
        await executor.wait_for_workers(1)
        jobs = []
        for count in range(1, 5):
            await weather.until_made(count)
            await weather.until_carried()
            # With each link there are new ones: else all might have come over the links before it, and this one idle.
            jobs += [start((marked @ Cores(1))(tmp_path / "marks", len(jobs) + more)) for more in range(150)]
            await weather.until_passed(5_000)
            getattr(weather, how)()
        assert await gather(jobs) == list(range(600))
        assert len(executor.workers()) == 1
    marks = (tmp_path / "marks").read_text().split()
    assert sorted(map(int, marks)) == list(range(600))


async def test_arrays_that_lie_in_shared_memory_come_through_too(start_worker, tmp_path):
    """Their files stay until who is to map them has heard of them, over whichever link."""

    @delayed
    def doubled(array):
        return array * 2

    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS) as executor, Weather(port(executor)) as weather:
        start_worker(way_through(weather, executor, tmp_path))
        await executor.wait_for_workers(1)
        jobs = []
        for count in range(1, 4):
            await weather.until_made(count)
            await weather.until_carried()
            jobs += [start((doubled @ Cores(1))(np.full(100_000, len(jobs) + more))) for more in range(14)]
            await weather.until_passed(1_000)
            weather.reset()
        for number, array in enumerate(await gather(jobs)):
            assert array[0] == array[-1] == 2 * number
        assert len(executor.workers()) == 1


async def test_while_a_link_is_broken_its_worker_gets_nothing_new_and_keeps_what_it_has(gates, start_worker, tmp_path):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as executor:
        visit = gate.visit

        @delayed
        def job(name):
            visit(name)
            return name

        async with Weather(port(executor)) as weather:
            start_worker(way_through(weather, executor, tmp_path))
            await executor.wait_for_workers(1)
            events = executor.events()
            first = start((job @ Cores(1))("first"))
            visitor = await gate.arrival()
            weather.closed = True
            weather.reset()
            while (event := await anext(events)).kind != "worker_suspected":
                pass
            assert "its link has broken" in event.outcome
            assert "its link has broken" in executor.workers()[0].shut
            second = start((job @ Cores(1))("second"))
            await asyncio.sleep(0)
            found = await executor.explain(second)
            assert (found.reason, found.nearest) == ("suspect", "n1")
            visitor.release()
            weather.closed = False
            assert await first == "first"
            assert info(first).attempt == 1
            (await gate.arrival()).release()
            assert await second == "second"
            while (event := await anext(events)).kind != "worker_heard":
                pass
            assert executor.workers()[0].shut == ""


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("unread", [False, True])
async def test_a_worker_that_is_killed_is_known_to_be_dead_however_its_link_ends(
    unread, elsewhere, gates, start_worker, tmp_path, monkeypatch
):
    monkeypatch.setattr(_accept, "LOST_S", 3600.0)
    if elsewhere:  # its process cannot be looked for: all that is known is how its link ended
        monkeypatch.setattr(_accept, "is_gone", lambda _: False)
        monkeypatch.setattr(_accept, "process_id", lambda: "")
        monkeypatch.setattr(_accept, "ENDED_S", 0.05)
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as executor:
        visit = gate.visit

        @delayed
        def job():
            visit("job")
            return 1

        worker = start_worker(executor.address, name="first")
        r_ = start((job @ Cores(1))())
        await gate.arrival()
        if unread:  # what it did not read makes an RST of its end
            os.kill(worker.pid, signal.SIGSTOP)
            (peer,) = executor._service.head.peers.values()
            sent = peer.session._transcript.sent_in_all
            waiting = [start((job @ Cores(1))()) for _ in range(5)]
            # How far a socket has been written to is told to nobody.
            await until(lambda: peer.session._transcript.sent_in_all > sent and not peer.link.waiting())
            del waiting
        os.kill(worker.pid, signal.SIGKILL)
        start_worker(executor.address, name="second")
        (await gate.arrival()).release()  # and not only after LOST_S
        gate.release_all()
        assert await r_ == 1
        assert info(r_).attempt == 2


@pytest.mark.parametrize("finishes", [False, True])
async def test_a_worker_that_was_given_up_comes_back_as_somebody_new(
    finishes, gates, start_worker, tmp_path, monkeypatch
):
    """Frozen, and thawed. What its job gave meanwhile comes too late, and counts for nothing."""
    monkeypatch.setattr(_accept, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(_accept, "SECOND_LOOK_S", 0.1)
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as executor:
        visit = gate.visit

        @delayed
        def job():
            visit("job")
            (tmp_path / f"ended {os.getpid()}").touch()
            return os.getpid()

        worker = start_worker(executor.address)
        r_ = start((job @ Cores(1))())
        first = await gate.arrival()
        os.kill(worker.pid, signal.SIGSTOP)
        events = executor.events()
        with monkeypatch.context() as impatient:
            impatient.setattr(_accept, "LOST_S", 0.3)
            while (await anext(events)).kind != "worker_left":
                pass
        assert executor.workers() == []
        if finishes:
            first.release()
            await until_files(tmp_path, (tmp_path / f"ended {first.pid}").exists)
        os.kill(worker.pid, signal.SIGCONT)
        second = await gate.arrival()
        assert second.pid != first.pid
        second.release()
        assert await r_ == second.pid
        assert info(r_).attempt == 2
        assert [found.pid for found in executor.workers()] == [worker.pid]
        [lost] = (await executor.history())[0].earlier
        assert (lost.attempt, lost.outcome) == (1, "lost")
        assert "silent" in lost.error


async def test_a_silent_worker_is_suspected_before_it_is_lost_and_trusted_when_it_speaks(start_worker, monkeypatch):
    monkeypatch.setattr(_accept, "SUSPECT_S", 0.3)
    monkeypatch.setattr(_accept, "HEARTBEAT_S", 0.1)
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS) as executor:
        worker = start_worker(executor.address)
        await executor.wait_for_workers(1)
        events = executor.events()
        os.kill(worker.pid, signal.SIGSTOP)
        while (event := await anext(events)).kind != "worker_suspected":
            pass
        assert event.outcome == "silent for 0.3 s"
        os.kill(worker.pid, signal.SIGCONT)
        while (await anext(events)).kind != "worker_heard":
            pass
        assert len(executor.workers()) == 1


async def test_delays_cost_time_and_nothing_else(start_worker, tmp_path):
    """Slow, or held up for a while: no link is made anew, nobody is suspected, and nothing is done twice.

    That is so while the silence between two beats is shorter than what makes a suspect: with a delay of up to 10 s.
    """
    assert _accept.HEARTBEAT_S + 10.0 <= _accept.SUSPECT_S < _accept.LOST_S == _daemon.LOST_S
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS) as executor, Weather(port(executor)) as weather:
        start_worker(way_through(weather, executor, tmp_path))
        await executor.wait_for_workers(1)
        events = executor.events()
        assert (await anext(events)).kind == "worker_joined"
        weather.delay_s = 0.02
        slow = [start((marked @ Cores(1))(tmp_path / "marks", number)) for number in range(100)]
        await until_files(tmp_path, (tmp_path / "marks").exists)
        weather.swallow()
        held = start((marked @ Cores(1))(tmp_path / "marks", 100))
        await weather.swallowed.wait()
        assert info(held).state == "pending"
        weather.clear_up()
        weather.delay_s = 0.0
        assert await gather([*slow, held]) == list(range(101))
        assert weather.made == 1
        assert {info(r_).attempt for r_ in [*slow, held]} == {1}
        seen = [(await anext(events)).kind for _ in range(2 * 101)]
        assert set(seen) == {"job_started", "job_ended"}
    assert sorted(map(int, (tmp_path / "marks").read_text().split())) == list(range(101))


async def test_in_a_black_hole_a_worker_is_suspected_and_then_lost_and_comes_back_as_somebody_new(
    gates, start_worker, tmp_path, monkeypatch
):
    monkeypatch.setattr(_accept, "HEARTBEAT_S", 0.1)
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as executor:
        visit = gate.visit

        @delayed
        def job():
            visit("job")
            return os.getpid()

        async with Weather(port(executor)) as weather:
            worker = start_worker(way_through(weather, executor, tmp_path))
            await executor.wait_for_workers(1)
            events = executor.events()
            r_ = start((job @ Cores(1))())
            first = await gate.arrival()
            with monkeypatch.context() as quick:
                quick.setattr(_accept, "SECOND_LOOK_S", 0.05)
                quick.setattr(_accept, "SUSPECT_S", 0.2)
                weather.swallow()
                first.release()  # what it gives is swallowed
                while (event := await anext(events)).kind != "worker_suspected":
                    pass
                assert event.outcome == "silent for 0.2 s"
                assert [found.pid for found in executor.workers()] == [worker.pid]
                quick.setattr(_accept, "LOST_S", 0.3)
                while (event := await anext(events)).kind != "worker_left":
                    assert event.kind != "worker_heard"
            assert executor.workers() == []
            assert info(r_).state == "pending"
            weather.clear_up()
            second = await gate.arrival()
            second.release()
            assert await r_ == second.pid != first.pid
            assert info(r_).attempt == 2
            assert [found.pid for found in executor.workers()] == [worker.pid]
            while (event := await anext(events)).kind != "job_ended":
                pass
            assert event.attempt == 2


async def test_a_worker_waits_for_a_head_that_is_not_there_yet(start_worker, private_state):
    async with asyncio.timeout(LIMIT_S):
        worker = start_worker(None, more=["--wait"])
        assert "waiting for a head" in await asyncio.to_thread(worker.process.stderr.readline)
        async with Executor(listen=TLS) as executor:
            await executor.wait_for_workers(1)
        code, said = await worker.exit()
        assert code == 0, said


async def test_a_worker_that_waits_can_be_stopped(start_worker):
    async with asyncio.timeout(LIMIT_S):
        worker = start_worker(None, more=["--wait"])
        await asyncio.to_thread(worker.process.stderr.readline)
        os.kill(worker.pid, signal.SIGTERM)
        code, said = await worker.exit()
        assert code == 0, said
