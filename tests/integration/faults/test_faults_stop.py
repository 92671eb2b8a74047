"""A head that is told to stop: what sessions keep stays in its journal, and what is dropped is said."""

import asyncio
import math
import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from heads import ROOT, head_process, listens
from limits import LIMIT_S
from waiting import until

from grainlike import Cores, HeadLostError, JournalError, connect, delayed, start
from grainlike.cli import _head, main
from grainlike.client._connection import call
from grainlike.head.durable import HeadDaemon, _store
from grainlike.net import accesses_for, find_access, make_credentials, write_access
from grainlike.wire import AskJobs, AskSessions, JobsAre, SessionsAre

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("no_short_bytecode")]

TLS = "tcp://127.0.0.1:0"


@delayed
def stand(visit, name):
    visit(name)
    return name


@delayed
async def square(x):
    return x * x


async def sessions():
    """Names of the sessions of the current head."""
    async with call() as caller:
        return [row.name for row in (await caller.ask(AskSessions(0), SessionsAre)).sessions]


async def stop(daemon, *words):
    """Begin `head stop`; return its task once the head in this process has heard of it."""
    stopping = asyncio.create_task(asyncio.to_thread(main, ["head", "stop", *words]))
    await daemon.stop.wait()
    return stopping


async def test_what_sessions_keep_and_their_jobs_go_on_with_the_next_head(tmp_path, start_worker, gates, capsys):
    journal = tmp_path / "a journal"
    async with asyncio.timeout(LIMIT_S), gates() as gate:
        async with HeadDaemon(TLS, journal=journal) as daemon:
            async with connect(session="campaign") as ex:
                start_worker(ex.address, name="n1", resources="cores=1")
                assert await ex.name("done", (square @ Cores(1))(3)) == 9
                ex.name("runs", (stand @ Cores(1))(gate.visit, "runs"))
                visitor = await gate.arrival()
            stopping = await stop(daemon)
        assert await stopping == 0
        wait = "workers go on with their jobs, and wait 300 s for that head"
        goes_on = f"`grainlike head start --journal '{journal}'` goes on with that"
        assert capsys.readouterr().out.splitlines() == [
            "stopped",
            f"kept in {journal}: session 'campaign', 1 outcome and 1 job that had not ended",
            f"{goes_on}; `grainlike head stop --forget` would have dropped it",
            f"{wait}; `grainlike head stop --workers` would have ended them",
        ]
        async with HeadDaemon(TLS, journal=journal) as daemon:
            async with connect(session="campaign") as ex:
                found = ex.placeholders()
                assert await found["done"] == 9
                visitor.release()
                assert await found["runs"] == "runs"
                assert gate.visits == 1
                ex.name("waits", (square @ Cores(2))(3))
            stopping = await stop(daemon, "--forget")
        assert await stopping == 0
        dropped = "dropped: session 'campaign', 2 outcomes and 1 job that had not ended"
        assert capsys.readouterr().out.splitlines() == ["stopped", dropped]
        async with HeadDaemon(TLS, journal=journal):
            assert await sessions() == []


async def test_jobs_of_programs_that_end_with_the_head_are_told(start_worker, gates, capsys):
    async with asyncio.timeout(LIMIT_S), gates() as gate:
        async with HeadDaemon(TLS) as daemon:
            async with connect(session="campaign") as kept:
                start_worker(kept.address, name="n1", resources="cores=2")
                await kept.wait_for_workers(1)
                kept.name("waits", (square @ Cores(4))(3))
                await sessions()
            ex = await connect()
            begun = [start((stand @ Cores(1))(gate.visit, x)) for x in range(2)]
            for _ in begun:
                await gate.arrival()
            begun.append(start((square @ Cores(2))(1)))
            async with call() as caller:
                await until(lambda: has_jobs(caller, 4))
            stopping = await stop(daemon)
        assert await stopping == 0
        for r_ in begun:
            with pytest.raises(HeadLostError):
                await r_
        with suppress(HeadLostError):
            await ex.aclose()
    first, ended, dropped = capsys.readouterr().out.splitlines()
    assert first == "stopped"
    assert re.fullmatch(rf"ended 2 running jobs and 1 waiting of \S+:{os.getpid()}", ended)
    assert dropped.startswith("dropped: session 'campaign'")


async def has_jobs(caller, count):
    return (await caller.ask(AskJobs(0, 10), JobsAre)).total == count


async def test_workers_that_were_started_by_hand_end_with_their_head_where_that_is_asked(
    tmp_path, start_worker, gates, capsys
):
    async with asyncio.timeout(LIMIT_S), gates() as gate:
        async with HeadDaemon(TLS, journal=tmp_path / "journal") as daemon:
            async with connect(session="campaign") as ex:
                worker = start_worker(ex.address, name="n1", resources="cores=1")
                ex.name("runs", (stand @ Cores(1))(gate.visit, "runs"))
                await gate.arrival()
            stopping = await stop(daemon, "--workers")
        assert await stopping == 0
        await asyncio.to_thread(worker.process.wait)
    first, second, *_, last = capsys.readouterr().out.splitlines()
    assert (first, second) == ("worker n1 ended", "stopped")
    assert last.endswith("would have dropped it")


async def test_a_worker_that_does_not_end_with_its_head_is_named(tmp_path, start_worker, capsys, monkeypatch):
    clock, workers_there = SimpleNamespace(monotonic=lambda: now), _head._workers_there
    now = 0.0

    async def looks(caller):
        nonlocal now
        found = await workers_there(caller)
        now = math.inf if found == ["n2"] else 0.0
        return found

    monkeypatch.setattr(_head, "time", clock)
    monkeypatch.setattr(_head, "_workers_there", looks)
    async with asyncio.timeout(LIMIT_S):
        async with HeadDaemon(TLS, journal=tmp_path / "journal") as daemon:
            async with connect() as ex:
                start_worker(ex.address, name="n1", resources="cores=1")
                stays = start_worker(ex.address, name="n2", resources="cores=1")
                await ex.wait_for_workers(2)
            stays.process.send_signal(signal.SIGSTOP)
            try:
                stopping = await stop(daemon, "--workers")
            finally:
                stays.process.send_signal(signal.SIGCONT)
        assert await stopping == 1
    assert capsys.readouterr().out.splitlines() == [
        "worker n1 ended",
        "worker n2 has not ended within 10 s, and may still run",
        "stopped",
    ]


async def test_where_the_disk_refuses_it_does_not_say_that_sessions_are_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_store, "LOOK_S", 1000.0)  # nothing mends it before the head ends
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    journal = tmp_path / "journal"
    async with asyncio.timeout(LIMIT_S):
        async with HeadDaemon(TLS, journal=journal) as daemon:
            async with connect(session="campaign") as ex:
                ex.name("waits", (square @ Cores(1))(3))
                await sessions()
                limit = next(journal.glob("*.log")).stat().st_size + 100
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
                try:
                    with pytest.raises(JournalError, match="File too large"):
                        await (delayed(len) @ Cores(1))(b"x" * 1000)
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            stopping = await stop(daemon)
        assert await stopping == 1
    first, failed, session, goes_on, _ = capsys.readouterr().out.splitlines()
    assert first == "stopped"
    assert failed.startswith(f"the journal in {journal} was not kept, so no jobs are taken, and none are started: ")
    assert session == "not all of it kept: session 'campaign', 0 outcomes and 1 job that had not ended"
    assert goes_on.startswith(f"`grainlike head start --journal {journal}` goes on with what was written before; ")


HEAD = """
import sys
import anyio
from grainlike.head.durable import HeadDaemon

async def main():
    async with HeadDaemon("tcp://127.0.0.1:0", ends_process=ENDS) as daemon:
        print("head at", daemon.address, flush=True)
        await daemon.stop.wait()

anyio.run(main)
sys.stdin.readline()
"""
"""Program of a head that has closed, and has not ended before it is told to."""


def head_that_lingers(*, ends_process=True):
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
    command = [sys.executable, "-c", HEAD.replace("ENDS", str(ends_process))]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)


async def test_it_returns_when_the_process_of_the_head_has_ended(monkeypatch):
    head = head_that_lingers()

    def let_end(seconds):
        head.stdin.close()
        time.sleep(seconds)

    monkeypatch.setattr(_head, "time", SimpleNamespace(monotonic=time.monotonic, sleep=let_end))
    try:
        async with asyncio.timeout(LIMIT_S):
            await listens(head)
            assert await asyncio.to_thread(main, ["head", "stop"]) == 0
            assert head.stdin.closed, "it has waited"
            assert head.wait(LIMIT_S) == 0  # at once, if the other threads of it have ended, too
    finally:
        head.kill()
        for file in (head.stdin, head.stdout, head.stderr):
            file.close()
        head.wait()


async def test_it_does_not_wait_for_a_program_that_goes_on_without_its_head(monkeypatch):
    head = head_that_lingers(ends_process=False)
    monkeypatch.setattr(_head, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pytest.fail))
    try:
        async with asyncio.timeout(LIMIT_S):
            await listens(head)
            assert await asyncio.to_thread(main, ["head", "stop"]) == 0
            assert head.poll() is None
    finally:
        head.kill()
        for file in (head.stdin, head.stdout, head.stderr):
            file.close()
        head.wait()


async def test_where_the_disk_refuses_it_does_not_say_that_sessions_are_dropped(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_store, "LOOK_S", 1000.0)  # nothing mends it before the head ends
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    journal = tmp_path / "journal"
    async with asyncio.timeout(LIMIT_S):
        daemon = HeadDaemon(TLS, journal=journal)
        await daemon.__aenter__()
        async with connect(session="campaign") as ex:
            ex.name("waits", (square @ Cores(1))(3))
            await sessions()
        resource.setrlimit(resource.RLIMIT_FSIZE, (next(journal.glob("*.log")).stat().st_size, unlimited[1]))
        try:
            stopping = await stop(daemon, "--forget")
            with pytest.raises(JournalError, match="the end of the work is not in the journal"):
                await daemon.__aexit__(None, None, None)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        assert await stopping == 1
        first, refused, session, goes_on = capsys.readouterr().out.splitlines()
        assert first == "stopped"
        assert refused == f"the disk refuses: that these are dropped is not in the journal in {journal}"
        assert session == "not dropped: session 'campaign', 0 outcomes and 1 job that had not ended"
        assert goes_on.startswith("a head with that journal would go on with it: make room")
        async with HeadDaemon(TLS, journal=journal) as daemon:
            assert await sessions() == ["campaign"]
            stopping = await stop(daemon, "--forget")
        assert await stopping == 0
        assert capsys.readouterr().out.splitlines()[1].startswith("dropped: session 'campaign'")


async def test_a_note_that_a_file_server_still_shows_of_a_head_elsewhere_says_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("grainlike.head.server._accept.process_id", lambda: "another machine:1/2/3")
    monkeypatch.setattr("grainlike.head.durable._storage.forget_journal", lambda directory: None)
    async with asyncio.timeout(LIMIT_S):
        async with HeadDaemon(TLS, journal=tmp_path / "journal") as daemon:
            async with connect(session="campaign") as ex:
                ex.name("waits", (square @ Cores(1))(3))
                await sessions()
            stopping = await stop(daemon, "--forget")
        assert await stopping == 0
    dropped = "dropped: session 'campaign', 0 outcomes and 1 job that had not ended"
    assert capsys.readouterr().out.splitlines() == ["stopped", dropped]


async def test_ctrl_c_keeps_what_sessions_keep(tmp_path):
    head = head_process(tmp_path / "journal")
    try:
        async with asyncio.timeout(LIMIT_S):
            await listens(head)
            async with connect(session="campaign") as ex:
                ex.name("waits", (square @ Cores(1))(3))
            head.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(head.wait, LIMIT_S) == 0
            with pytest.raises(HeadLostError, match=f"head start --journal {tmp_path}/journal` goes on with its work"):
                async with connect():
                    pass
            async with HeadDaemon(TLS, journal=tmp_path / "journal"):
                assert await sessions() == ["campaign"]
            with pytest.raises(HeadLostError, match=r"client\.json; start one with"):  # its work has ended
                find_access(role="client")
    finally:
        head.kill()
        head.communicate()


@pytest.mark.parametrize("has_state", [True, False])
async def test_the_journal_of_a_head_whose_access_files_were_made_beforehand_is_named(
    has_state, tmp_path, monkeypatch, caplog
):
    made, journal = tmp_path / "made", tmp_path / "journal"
    for access in accesses_for("made", (), make_credentials("made")):
        write_access(access, made / f"{access.role}.json")
    if not has_state:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    async with asyncio.timeout(LIMIT_S):
        async with HeadDaemon(TLS, access=made / "head.json", journal=journal) as daemon, connect(made / "client.json"):
            daemon.leaves = True
        goes_on = f"it kept a journal: `grainlike head start --journal {journal}`" if has_state else "starts another"
        with pytest.raises(HeadLostError, match=f"seems to have died; .*{goes_on}"):
            async with connect(made / "client.json"):
                pass
    assert ("is not told of its journal" in caplog.text) == (not has_state)


async def test_without_a_journal_it_says_what_is_dropped(capsys):
    async with asyncio.timeout(LIMIT_S):
        async with HeadDaemon(TLS) as daemon:
            for name in ("one", "two"):
                async with connect(session=name) as ex:
                    ex.name("waits", (square @ Cores(1))(3))
            stopping = await stop(daemon)
            assert not daemon.leaves
        assert await stopping == 0
    assert capsys.readouterr().out.splitlines() == [
        "stopped",
        "dropped: session 'one', 0 outcomes and 1 job that had not ended",
        "dropped: session 'two', 0 outcomes and 1 job that had not ended",
    ]


async def test_where_no_session_keeps_anything_the_work_ends(tmp_path, capsys):
    async with asyncio.timeout(LIMIT_S):
        async with HeadDaemon(TLS, journal=tmp_path / "journal") as daemon, connect(session="empty"):
            stopping = await stop(daemon)
            assert not daemon.leaves
        assert await stopping == 0
    assert capsys.readouterr().out.splitlines() == ["stopped"]
