"""The disk refuses the journal of a head that runs: what runs goes on, and nothing begins that would not be known."""

import asyncio
import resource

import pytest
from heads import head_process, listens
from journaled_heads import Heads, a_head, check, made_again
from limits import LIMIT_S
from marking_calls import plain
from waiting import logged, until, until_ended

from grainlike import Cores, Retry, cancel, connect, delayed, gather, start
from grainlike.client._connection import call
from grainlike.errors import HeadLostError, JournalError, WorkerLostError
from grainlike.head.durable import _store
from grainlike.wire import AskHead, HeadIs

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("no_short_bytecode")]


async def test_a_full_disk_refuses_new_jobs_and_stops_none(start_worker, gates, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(_store, "LOOK_S", 0.05)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    journal = tmp_path / "journal"
    async with asyncio.timeout(LIMIT_S), gates() as gate, a_head(journal) as daemon:
        start_worker(daemon.address, resources="cores=2")
        async with connect() as client:
            await client.wait_for_workers(1)
            runs = start((delayed(gate.visit) @ Cores(1))("runs"))
            await gate.arrival()
            limit = next(journal.glob("*.log")).stat().st_size + 100
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
            try:
                with pytest.raises(JournalError, match="File too large"):
                    await (delayed(len) @ Cores(1))(b"x" * 1000)
                assert daemon._journal.files.failure is not None
                gate.release_all()
                await runs
                with pytest.raises(JournalError):
                    await (delayed(len) @ Cores(1))(b"y")
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            await logged(caplog, "the journal is kept again")
            assert await (delayed(len) @ Cores(1))(b"zz") == 2
    async with a_head(journal) as daemon:
        assert daemon.head.view.unended == 0
        daemon.leaves = False


async def test_nothing_is_started_that_cannot_be_written_down(start_worker, gates, tmp_path, monkeypatch):
    monkeypatch.setattr(_store, "LOOK_S", 0.05)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    journal, marks = tmp_path / "journal", tmp_path / "marks"
    once = delayed(retries=Retry(0, losses=0))
    async with asyncio.timeout(LIMIT_S), gates() as gate, a_head(journal) as daemon:
        start_worker(daemon.address, resources="cores=2")
        async with connect() as client:
            await client.wait_for_workers(1)
            runs = start((once(gate.visit) @ Cores(2))("runs"))
            await gate.arrival()
            waits = start((once(plain.__wrapped__) @ Cores(2))(marks, 1))
            assert (await client.explain(waits)).reason == "room"
            limit = next(journal.glob("*.log")).stat().st_size + 100
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
            try:
                with pytest.raises(JournalError, match="File too large"):
                    await (delayed(len) @ Cores(1))(b"x" * 1000)
                gate.release_all()
                await runs
                said = await client.explain(waits)
                assert (said.state, said.reason) == ("queued", "paused")
                assert "not written down is not started, and the journal is not kept" in str(said)
                again, _ = made_again(journal, tmp_path, 1)
                assert again.view.explain_job(said.job).state == "queued", "as whoever came next would find it"
                async with call() as caller:
                    assert "none are started" in (await caller.ask(AskHead(0), HeadIs)).journal
                assert not marks.exists()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            assert await waits == 1
            check(marks, [1])
        daemon.leaves = False


async def test_a_program_whose_jobs_wait_is_told_that_the_disk_is_full_and_when_it_is_not(
    start_worker, gates, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(_store, "LOOK_S", 0.05)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    journal = tmp_path / "journal"

    def told():
        return [record.getMessage() for record in caplog.records if record.module == "_remote_jobs"]

    async with asyncio.timeout(LIMIT_S), gates() as gate, a_head(journal) as daemon:
        start_worker(daemon.address, resources="cores=1")
        async with connect(session="first"), connect(session="second") as client, call() as asks:
            await client.wait_for_workers(1)
            runs = start((delayed(gate.visit) @ Cores(1))("runs"))
            await gate.arrival()
            waits = start((delayed(len) @ Cores(1))(b"y"))
            assert (await client.explain(waits)).reason == "room"
            first = min(daemon._service._clients.here.items())[1].session
            sent = first.sent
            resource.setrlimit(resource.RLIMIT_FSIZE, (next(journal.glob("*.log")).stat().st_size, unlimited[1]))
            try:
                gate.release_all()
                await until(lambda: len(told()) == 2)
                assert {words.partition(": ")[0] for words in told()} == {
                    "the head starts no jobs for now, and takes none"
                }
                assert all("File too large" in words for words in told())
                assert (await asks.ask(AskHead(0), HeadIs)).journal.startswith("not kept")
                assert first.sent == sent, "a replay must come to the same number"
                async with connect(session="third"):
                    await until(lambda: len(told()) == 3)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            assert await gather(runs, waits) == [None, 1]
            assert told()[3:] == ["the head starts jobs again: its journal is kept again"] * 2
        daemon.leaves = False


async def test_who_has_heard_more_than_the_journal_has_is_told_so(start_worker, gates, tmp_path, monkeypatch):
    monkeypatch.setattr(_store, "LOOK_S", 1000.0)  # nothing mends it before the head ends
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    journal = tmp_path / "journal"
    heads = Heads(journal)
    once = delayed(retries=Retry(0, losses=0))
    async with asyncio.timeout(LIMIT_S), gates() as gate:
        start_worker(await heads.next(), resources="cores=2")
        async with connect() as client:
            await client.wait_for_workers(1)
            ends = start((once(gate.visit) @ Cores(1))("ends"))
            first = await gate.arrival()
            waits = start((once(gate.visit) @ Cores(1))("waits"))
            second = await gate.arrival()
            limit = next(journal.glob("*.log")).stat().st_size + 100
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
            try:
                with pytest.raises(JournalError, match="File too large"):
                    await (delayed(len) @ Cores(1))(b"x" * 1000)
                first.release()
                await ends
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            await heads.next()
            with pytest.raises(HeadLostError, match="the journal lacks the last messages"):
                await waits
            second.release()
        await heads.end()


@pytest.mark.parametrize("hears", [False, True], ids=["worker heard nothing more", "worker heard more"])
async def test_what_ended_while_the_disk_refused_is_not_run_twice_when_the_head_is_killed(
    hears, start_worker, gates, tmp_path
):
    """A worker that has heard what the journal lacks begins anew: with `losses=0` its jobs are lost, those too that had
    ended. Else it tells the next head again what ended.
    """
    journal = tmp_path / "journal"
    heads = [head_process(journal)]
    try:
        async with asyncio.timeout(LIMIT_S), gates() as gate:
            address = await listens(heads[-1])
            start_worker(address, resources="cores=4")
            async with connect(session="night") as client:
                await client.wait_for_workers(1)
                only_once = delayed(gate.visit, retries=Retry(0, losses=0)) @ Cores(1)
                ends_, waits_, goes_ = (client.name(name, only_once(name)) for name in ("ends", "waits", "goes"))
                again_ = client.name("again", (delayed(gate.visit) @ Cores(1))("again"))
                visitors = {visitor.name: visitor for visitor in [await gate.arrival() for _ in range(4)]}
                # No byte more of any file, or an image of this small head would still find room.
                resource.prlimit(heads[-1].pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
                with pytest.raises(JournalError, match="File too large"):
                    await (delayed(len) @ Cores(1))(b"x" * 1000)
                for name, placeholder in (("ends", ends_), ("again", again_)):
                    visitors[name].release()
                    await placeholder
                if hears:
                    cancel(goes_)
                    await until_ended(visitors["goes"].pid)
                heads[-1].kill()
                heads[-1].wait()
                heads.append(head_process(journal))
                assert await listens(heads[-1]) == address
                with pytest.raises(HeadLostError, match="the journal lacks the last messages"):
                    await waits_
            gate.release_all()
            async with connect(session="night") as client:
                found = client.placeholders()
                assert list(found) == ["ends", "waits", "goes", "again"]
                ends = await gather(found.values(), return_exceptions=True)
            lost = WorkerLostError if hears else type(None)
            assert list(map(type, ends)) == [lost, lost, lost, type(None)]
            assert gate.visits == 4 + hears  # again, where that may be
    finally:
        for head in heads:
            head.kill()
            head.communicate()


async def test_a_journal_that_was_moved_away_is_not_kept_until_it_is_back(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(_store, "LOOK_S", 0.02)
    journal, away = tmp_path / "journal", tmp_path / "away"
    async with asyncio.timeout(LIMIT_S), a_head(journal) as daemon:
        journal.rename(away)
        await logged(caplog, "the journal is not kept any more")
        assert "was removed, or moved away" in str(daemon._journal.files.failure)
        away.rename(journal)
        await logged(caplog, "the journal is kept again")
        assert daemon._journal.files.failure is None
        assert list(journal.glob("*.image"))
        daemon.leaves = False
