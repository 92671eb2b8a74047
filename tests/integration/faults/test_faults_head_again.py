"""A head with a journal ends, in whatever way, and is started again: nothing is lost, and nothing is done twice."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import threading

import numpy as np
import pytest
from heads import head_process, listens
from journaled_heads import EAGER, NEVER, TLS, Heads, a_head, check, drawn, ended, made_again, one_of_each, same, told
from limits import LIMIT_S
from marking_calls import grows, plain, waits
from waiting import until, until_called, until_files
from weather import Weather, port, way_through

from grainlike import Cores, JobCancelledError, cancel, connect, delayed, gather, info, start
from grainlike.cli import main
from grainlike.client._connection import call
from grainlike.errors import JournalError
from grainlike.head._logs import LogFollower
from grainlike.head.durable import HeadDaemon, _store
from grainlike.head.durable._clients import DurableClients
from grainlike.head.server import listened_at, open_durable_endpoint
from grainlike.journal import Disk
from grainlike.net import find_access
from grainlike.wire import AskSessions, RetrySpec, SessionsAre, Submit, SubmittedFunction

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("no_short_bytecode")]


@pytest.mark.parametrize("images", [NEVER, EAGER], ids=["never", "eager"])
async def test_a_head_is_made_again_down_to_what_it_had_said(images, start_worker, tmp_path, monkeypatch):
    for name, value in zip(("IMAGE_BYTES", "IMAGE_TIMES", "LOOK_S"), images, strict=True):
        monkeypatch.setattr(_store, name, value)
    journal, path = tmp_path / "journal", tmp_path / "marks"
    found = []

    def remember(clients, *arguments):
        found.append(clients)
        return original(clients, *arguments)

    original = DurableClients.__init__
    monkeypatch.setattr(DurableClients, "__init__", remember)
    async with asyncio.timeout(LIMIT_S), a_head(journal) as daemon:
        (clients,) = found
        start_worker(daemon.address, resources="cores=2")
        async with connect() as client:
            await client.wait_for_workers(1)
            jobs = []
            for number in range(90):
                jobs.append(asyncio.ensure_future(one_of_each(path, number)))
                await ended(jobs, number - 10)
                if number % 9 == 0:
                    same(told(daemon.head, clients), told(*made_again(journal, tmp_path, number)))
            await asyncio.gather(*jobs)
        check(path, range(90))
        await drawn(journal, images)
        daemon.leaves = False


async def test_that_a_worker_was_asked_to_end_is_known_to_the_next_head(start_worker, gates, tmp_path, monkeypatch):
    journal, found = tmp_path / "journal", []

    def remember(clients, *arguments):
        found.append(clients)
        return original(clients, *arguments)

    original = DurableClients.__init__
    monkeypatch.setattr(DurableClients, "__init__", remember)
    async with asyncio.timeout(LIMIT_S), gates() as gate, a_head(journal) as daemon, connect() as client:
        worker = start_worker(daemon.address, name="n1")
        await client.wait_for_workers(1)
        r_ = start((delayed(gate.visit) @ Cores(1))("job"))
        visitor = await gate.arrival()
        assert daemon.head.release(["n*"], kill=False) == ["n1"]
        again = made_again(journal, tmp_path, 0)
        same(told(daemon.head, found[0]), told(*again))
        assert [worker.shut for worker in again[0].view.workers()] == ["it is to end when its jobs have"]
        visitor.release()
        await r_
        code, log = await worker.exit()
        assert code == 0, log
        daemon.leaves = False


async def test_restarts_lose_nothing_and_do_nothing_twice(start_worker, tmp_path, monkeypatch, caplog):
    for name, value in zip(("IMAGE_BYTES", "IMAGE_TIMES", "LOOK_S"), EAGER, strict=True):
        monkeypatch.setattr(_store, name, value)
    journal, path = tmp_path / "journal", tmp_path / "marks"
    heads, jobs = Heads(journal), []
    async with asyncio.timeout(LIMIT_S):
        worker = start_worker(await heads.next(), resources="cores=2")
        async with connect() as client:
            await client.wait_for_workers(1)
            for restart in range(12):
                numbers = range(20 * restart, 20 * restart + 20)
                jobs += [asyncio.ensure_future(one_of_each(path, number)) for number in numbers]
                await ended(jobs[-20:], restart)
                stopped = start((waits @ Cores(1))(tmp_path / "stopped", 1000 + restart))
                cancel(stopped)
                with pytest.raises(JobCancelledError):
                    await stopped
                await heads.next()
            await asyncio.gather(*jobs)
        await heads.end()
        assert (await worker.exit())[0] == 0
    check(path, range(240))
    logged = [record.getMessage() for record in caplog.records if record.name == "marks"]
    assert len(logged) == len(set(logged)), "records may be lost with a head, and do not come twice"
    assert len(logged) > 240


async def test_a_head_that_records_knows_the_workers_of_an_image(start_worker, tmp_path, monkeypatch, capsys):
    for name, value in zip(("IMAGE_BYTES", "IMAGE_TIMES", "LOOK_S"), EAGER, strict=True):
        monkeypatch.setattr(_store, name, value)
    journal, images = tmp_path / "journal", set()
    heads = Heads(journal, record=True)
    async with asyncio.timeout(LIMIT_S):
        start_worker(await heads.next(), resources="cores=2")
        async with connect() as client:
            await client.wait_for_workers(1)
            for number in range(3):
                assert await (delayed(abs) @ Cores(1))(-number) == number
                address = await heads.next()
                images |= await until_files(journal, lambda: set(journal.glob("*.image")) - images)  # noqa: B023
            assert await (delayed(divmod) @ Cores(1))(7, 2) == (3, 1)
            address = await heads.next()
            assert await (delayed(len) @ Cores(1))("abc") == 3
        path = tmp_path / "trace.json"
        assert await asyncio.to_thread(main, ["trace", "--head", address, "-o", str(path)]) == 0
        bars = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
        assert [bar["name"] for bar in bars] == ["divmod", "len"], "what was written down behind the image"
        assert bars[0]["ts"] + bars[0]["dur"] <= bars[1]["ts"]
        capsys.readouterr()
        assert await asyncio.to_thread(main, ["report", "--head", address]) == 0
        said = capsys.readouterr().out.splitlines()[0]
        assert said.startswith("5 succeeded in ")
        assert said.endswith(" s, since this head was first started")
        await heads.end()


async def test_a_killed_head_is_followed_by_one_that_goes_on(start_worker, tmp_path):
    journal, path = tmp_path / "journal", tmp_path / "marks"
    heads = [head_process(journal)]
    try:
        async with asyncio.timeout(LIMIT_S):
            address = await listens(heads[-1])
            worker = start_worker(address, resources="cores=2")
            async with connect() as client:
                await client.wait_for_workers(1)
                jobs = []
                for kill in range(3):
                    jobs += [asyncio.ensure_future(one_of_each(path, 40 * kill + number)) for number in range(40)]
                    await ended(jobs[-40:], 10 * kill)
                    heads[-1].send_signal(signal.SIGKILL)
                    heads.append(head_process(journal))
                    assert await listens(heads[-1]) == address
                await asyncio.gather(*jobs)
                placeholder = start((plain @ Cores(1))(path, 120))
                assert await placeholder == 120
                assert info(placeholder).attempt == 1
            heads[-1].send_signal(signal.SIGINT)
            assert await asyncio.to_thread(heads[-1].wait) == 0
            code, _ = await worker.exit()
        assert code == 0
        check(path, range(121))
    finally:
        for head in heads:
            head.kill()
            head.communicate()


async def test_a_worker_that_has_waited_in_vain_for_its_head_says_so(start_worker, tmp_path):
    head = head_process(tmp_path / "journal")
    try:
        async with asyncio.timeout(LIMIT_S):
            address = await listens(head)
            worker = start_worker(address, more=("--patience", "0.2"))
            async with connect() as client:
                await client.wait_for_workers(1)
            head.kill()
            code, said = await worker.exit()
    finally:
        head.kill()
        head.communicate()
    assert code == 3
    words = f"grainlike worker: worker n1 has ended: nothing was heard of the head at {address} for 0.2 s"
    assert said.splitlines()[-1].startswith(words)


async def test_nobody_is_told_that_his_words_have_come_before_they_are_on_disk(tmp_path, monkeypatch):
    disk_is_free, sync = threading.Event(), Disk.sync
    disk_is_free.set()
    monkeypatch.setattr(Disk, "sync", lambda disk, file: (disk_is_free.wait(), sync(disk, file)))
    async with asyncio.timeout(LIMIT_S), a_head(tmp_path / "journal") as daemon:
        async with connect() as client:
            kept = client._remote.client.link._session._transcript
            disk_is_free.clear()
            try:
                job = start((plain @ Cores(1))(tmp_path / "marks", 1))
                for _ in range(3):  # an acknowledgement would come before an answer
                    assert (await client.explain(job)).state == "queued"
                assert len(kept) > 0
            finally:
                disk_is_free.set()
            await until_called(type(kept), "acknowledged", lambda: len(kept) == 0)
        daemon.leaves = False


async def test_what_a_killed_head_had_on_its_hands_can_be_told(start_worker, gates, tmp_path, capsys):
    journal = tmp_path / "journal"
    async with asyncio.timeout(LIMIT_S), gates() as gate, a_head(journal) as daemon:
        start_worker(daemon.address, resources="cores=1")
        async with connect() as client:
            await client.wait_for_workers(1)
            jobs = [start((delayed(gate.visit) @ Cores(1))(name)) for name in ("one", "two")]
            await gate.arrival()
            await until(lambda: info(jobs[0]).state == "running")  # what a program hears is on the disk
            assert await asyncio.to_thread(main, ["head", "status"]) == 0
            assert "journal: kept" in capsys.readouterr().out
            assert main(["journal", "export", str(journal), "--json"]) == 3
            assert "another head" in capsys.readouterr().err
            copy = tmp_path / "copy"
            shutil.copytree(journal, copy)
            assert main(["journal", "export", str(copy), "--json"]) == 0
            told = json.loads(capsys.readouterr().out)
            assert [(row["name"], row["state"], row["worker"]) for row in told["jobs"]] == [
                ("visit", "running", "n1"),
                ("visit", "queued", ""),
            ]
            assert main(["journal", "export", str(copy)]) == 0
            assert capsys.readouterr().out.count("visit") == 2
            gate.release_all()
            await gather(jobs)
        daemon.leaves = False


async def test_an_image_is_drawn_while_somebody_reads_a_log(start_worker, gates, monkeypatch, tmp_path, caplog):
    for name, value in zip(("IMAGE_BYTES", "IMAGE_TIMES", "LOOK_S"), EAGER, strict=True):
        monkeypatch.setattr(_store, name, value)
    journal = tmp_path / "journal"
    async with asyncio.timeout(LIMIT_S), gates() as gate, a_head(journal) as daemon:
        start_worker(daemon.address, resources="cores=2")
        async with connect() as client:
            await client.wait_for_workers(1)
            job = start((delayed(gate.visit) @ Cores(1))("read"))
            await gate.arrival()
            reads = asyncio.ensure_future(anext(client.logs(job), None))
            await until_called(LogFollower, "catch_up", lambda: daemon.head.logs)
            assert await (delayed(len) @ Cores(1))(bytes(100_000)) == 100_000
            await until_files(journal, lambda: list(journal.glob("*.image")) or "no new image" in caplog.text)
            assert "no new image" not in caplog.text
            again, clients = made_again(journal, tmp_path, 1)
            (connection,) = clients.here.values()
            connection.hush()  # as when it is there again
            (followed,) = again.state.jobs.values()
            followed.close()  # whoever read is not told by this head, but by his own
            gate.release_all()
            await job
            assert await reads is None
        daemon.leaves = False


async def test_who_reads_a_log_over_a_death_has_each_line_once(start_worker, gates, tmp_path):
    """The worker has been asked by the head that died, hears of it late, and answers the next one as well."""
    journal = tmp_path / "journal"
    async with asyncio.timeout(LIMIT_S), gates() as gate, contextlib.AsyncExitStack() as stack:
        visit = gate.visit

        @delayed
        def says():
            print("one", flush=True)
            visit("between")
            print("two", flush=True)

        async with a_head(journal) as daemon:
            head_port = port(daemon)
            weather = await stack.enter_async_context(Weather(head_port))
            start_worker(way_through(weather, daemon, tmp_path), more=("--wait",))
            client = await stack.enter_async_context(connect())
            await client.wait_for_workers(1)
            job = start((says @ Cores(1))())
            await gate.arrival()
            weather.swallow()  # the question goes nowhere
            lines = client.logs(job)
            first = asyncio.ensure_future(anext(lines))
            await until_called(LogFollower, "catch_up", lambda: daemon.head.logs)
            weather.closed = True
        async with HeadDaemon(f"tcp://127.0.0.1:{head_port}", journal=journal) as again:
            await until_called(LogFollower, "catch_up", lambda: again.head.logs)
            weather.reset()
            weather.clear_up()
            weather.closed = False
            assert await first == "one"
            gate.release_all()
            assert [str(line) async for line in lines] == ["two"]
            await job
            await stack.aclose()


async def test_an_orderly_end_leaves_nothing_for_the_next_head(start_worker, tmp_path):
    journal = tmp_path / "journal"
    async with HeadDaemon(TLS, journal=journal) as daemon:
        worker = start_worker(daemon.address)
        async with connect() as client:
            await client.wait_for_workers(1)
            assert await (delayed(abs) @ Cores(1))(-1) == 1
    assert (await worker.exit())[0] == 0
    async with HeadDaemon(TLS, journal=journal) as again:
        assert (again.workers(), again.head.view.unended) == ([], 0)
        assert again.head.view.last_job
        assert again.address == daemon.address


async def test_an_access_file_that_is_missing_is_named(tmp_path):
    journal = tmp_path / "journal"
    async with HeadDaemon(TLS, journal=journal):
        pass
    (journal / "access" / "worker.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"worker\.json of .* is missing: bring it back"):
        async with HeadDaemon(TLS, journal=journal):
            pass


async def test_one_head_at_a_time_writes_a_journal(tmp_path):
    journal = tmp_path / "journal"
    async with HeadDaemon(TLS, journal=journal):
        with pytest.raises(JournalError, match=f"another head, process {os.getpid()}"):
            async with HeadDaemon(TLS, journal=journal):
                pass


async def test_a_journal_of_a_release_before_is_read_and_one_of_a_later_schema_is_refused(tmp_path, monkeypatch):
    journal = tmp_path / "journal"
    with monkeypatch.context() as before:
        before.setattr("grainlike.head.durable._snapshot.__version__", "0.0.1")
        async with a_head(journal):
            pass
    async with a_head(journal):
        pass
    with monkeypatch.context() as later:
        for module in ("_schema", "_snapshot", "_store"):
            later.setattr(f"grainlike.head.durable.{module}.SCHEMA", 99)
        async with a_head(tmp_path / "later"):
            pass
    with pytest.raises(JournalError, match=r"this journal has schema 99, of grainlike .*: start it with that release"):
        async with a_head(tmp_path / "later"):
            pass


@pytest.mark.parametrize("images", [NEVER, EAGER], ids=["never", "eager"])
async def test_named_sessions_are_in_the_next_head(images, gates, start_worker, tmp_path, monkeypatch):
    for name, value in zip(("IMAGE_BYTES", "IMAGE_TIMES", "LOOK_S"), images, strict=True):
        monkeypatch.setattr(_store, name, value)
    journal, path = tmp_path / "journal", tmp_path / "marks"
    heads = Heads(journal)
    async with asyncio.timeout(LIMIT_S), gates() as gate:
        visit = gate.visit
        worker = start_worker(await heads.next(), resources="cores=2")
        async with connect(session="sweep") as client:
            await client.wait_for_workers(1)
            big_ = client.name("big", (grows @ Cores(1))(path, 1, np.zeros(30_000)))
            assert (await big_)[-1] == 1
            client.name("runs", (delayed(visit) @ Cores(1))("runs"))
            client.name("forgotten", (plain @ Cores(1))(path, 2))
            await gate.arrival()
            await heads.next()  # while the program is attached
            assert await client.name("later", (plain @ Cores(1))(path, 3)) == 3
            await client.forget("forgotten")
        await heads.next()  # while nobody is
        async with connect(session="sweep") as client:
            found = client.placeholders()
            assert list(found) == ["big", "runs", "later"]
            assert ((await found["big"])[-1], await found["later"]) == (1, 3)
            gate.release_all()
            await found["runs"]
            assert info(found["runs"]).attempt == 1
            await client.forget(*found)
        await heads.next()
        async with connect(session="sweep") as client:
            assert client.placeholders() == {}
            client.name("left", (plain @ Cores(1))(path, 4))
            assert await client.placeholders()["left"] == 4  # and its worker is there again
        await drawn(journal, images)
        await heads.end()  # in order: nothing is left
        await worker.exit()
        assert await heads_sessions(journal) == []


async def heads_sessions(journal):
    """The sessions that the next head with this journal has."""
    async with HeadDaemon(TLS, journal=journal), call() as caller:
        return (await caller.ask(AskSessions(0), SessionsAre)).sessions


async def test_what_a_rude_client_has_said_does_not_keep_the_next_head_from_starting(tmp_path):
    journal = tmp_path / "journal"
    function = SubmittedFunction(b"digest", "f", False, None, RetrySpec(), False, False, True)
    async with asyncio.timeout(LIMIT_S), a_head(journal):
        async with connect(session="sweep") as client:
            rude = Submit(0, 0, "cores=1", 0, False, [function], [1], [0], [b"data"], [2], ["r"])
            client._remote.client.link.post(rude, [b"code"])
            await client._remote.client.gone()
        async with connect(session="other") as client:
            client.name("r", (plain @ Cores(1))(tmp_path / "marks", 1))
    assert [session.name for session in await heads_sessions(journal)] == ["other"]


async def test_a_head_that_is_not_told_where_to_listen_does_so_where_the_one_before_it_did(tmp_path):
    addresses = []
    for listen in (True, False, False):
        head = head_process(tmp_path / "journal", listen=listen)
        try:
            async with asyncio.timeout(LIMIT_S):
                addresses.append(await listens(head))
        finally:
            head.kill()
            head.communicate()
    assert addresses[0].startswith("tcp://127.0.0.1:")
    assert len(set(addresses)) == 1


@pytest.mark.parametrize("at", ["tcp://127.0.0.1:0", "tcp://0.0.0.0:0", "unix"])
async def test_where_a_head_listened_is_known_from_its_access_files(tmp_path, at):
    folder = tmp_path / "private" / "access"
    folder.parent.mkdir(mode=0o700)
    assert listened_at(folder) is None
    at = f"unix://{folder.parent}/head.sock" if at == "unix" else at
    with open_durable_endpoint(at, folder):
        pass
    several = len(find_access(folder / "head.json").addresses) > 1
    assert listened_at(folder) == (None if several else at.replace("0.0.0.0", "127.0.0.1"))
    (folder / "head.json").write_text("{")
    assert listened_at(folder) is None
