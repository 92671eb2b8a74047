"""Programs that share a head: they connect, submit, leave, die, are refused, and lose it."""

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from fault_calls import square, stand
from limits import LIMIT_S
from waiting import logged, until, until_called, until_ended

from grainlike import (
    AuthenticationError,
    Cores,
    Executor,
    HeadLostError,
    JobCancelledError,
    JobTimeoutError,
    Retry,
    VersionMismatchError,
    WorkerLostError,
    amap,
    cancel,
    connect,
    delayed,
    gather,
    info,
    start,
)
from grainlike.cli import main
from grainlike.client import _connection, _introduction
from grainlike.head.server import _clients
from grainlike.net import (
    accesses_for,
    dial,
    find_access,
    make_credentials,
    note_journal,
    parse_address,
    publish_access,
)
from grainlike.scheduler import HeadScheduler
from grainlike.wire import AskHead, ConnectingHandshake, EndSessions, HeadIs, RetrySpec, Submit, SubmittedFunction
from grainlike_worker.daemon._introduction import introduction

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {"PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
TLS = "tcp://127.0.0.1:0"
LOG = logging.getLogger(__name__)

pytestmark = pytest.mark.asyncio


class Confession:
    """Writes down which process unpickles it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return _confess, (self.path,)


def _confess(path):
    import os

    with open(path, "a") as file:  # noqa: PTH123 - it travels by value
        file.write(f"{os.getpid()}\n")
    return path


async def told(*arguments):
    return await asyncio.to_thread(main, [str(word) for word in arguments])


@pytest.fixture
def head(private_state):
    """A head daemon in a process of its own, as `head start` runs it, killed if it is still there at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "grainlike", "head", "start", "--listen", TLS],
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert "head at tcp://" in process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


async def test_g17_jobs_run_on_a_daemons_workers_and_the_head_opens_nothing(head, start_worker, tmp_path, monkeypatch):
    module = tmp_path / "modules" / "only_the_client_has_this.py"
    module.parent.mkdir()
    module.write_text("def triple(x):\n    return 3 * x\n")
    monkeypatch.syspath_prepend(str(module.parent))
    import only_the_client_has_this

    async def outer(x):
        return await (delayed(only_the_client_has_this.triple) @ Cores(1))(x) + 1

    async with asyncio.timeout(LIMIT_S), connect() as executor:
        start_worker(executor.address, name="n1", resources="cores=2")
        await executor.wait_for_workers(1)
        assert [(worker.name, worker.pid == head.pid) for worker in executor.workers()] == [("n1", False)]
        r_ = (square @ Cores(2))(3)
        assert await r_ == 9
        assert (info(r_).worker, info(r_).allocation, info(r_).attempt) == ("n1", Cores([0, 1]), 1)
        assert await (delayed(only_the_client_has_this.triple) @ Cores(1))(5) == 15
        assert await (delayed(outer) @ Cores(1))(5) == 16
        assert [y async for y in amap(square @ Cores(1), range(20))] == [x * x for x in range(20)]
        confessed = tmp_path / "confessed"
        assert await (delayed(str) @ Cores(1))(Confession(str(confessed))) == str(confessed)
        assert str(head.pid) not in confessed.read_text().split()
        with pytest.raises(ZeroDivisionError) as caught:
            await (delayed(lambda: 1 / 0) @ Cores(1))()
        assert "on worker n1" in "".join(caught.value.__notes__)
        report = executor.report()
        assert (report.failed, report.skipped, report.cancelled) == (1, 0, 0)
        assert report.succeeded >= 5
        assert await told("head", "stop") == 0
        assert await asyncio.to_thread(head.wait, LIMIT_S) == 0


async def test_events_are_of_ones_own_jobs_and_of_all_workers(head, start_worker, gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, connect() as executor:
        events = executor.events()
        worker = start_worker(executor.address, name="n1", resources="cores=2")
        await executor.wait_for_workers(1)
        await (square @ Cores(1))(1)
        with pytest.raises(ZeroDivisionError):
            await (delayed(retries=1)(lambda: 1 / 0) @ Cores(2))()
        with pytest.raises(JobTimeoutError):
            await (delayed(timeout=0.05)(signal.pause) @ Cores(1))()
        runs_ = start((stand @ Cores(1))(gate.visit, "runs"))
        await gate.arrival()
        async with connect() as other:
            assert await other.submit(Cores(1), pow, 2, 3) == 8
        late = executor.events()
        cancel(runs_)
        gate.release_all()
        leaves = executor.events()
        worker.process.terminate()
        while (await anext(leaves)).kind != "worker_left":
            pass
        assert not executor.workers()
    found = [event async for event in events]
    assert [event.number for event in found] == list(range(1, len(found) + 1))
    assert [event.at for event in found] == sorted(event.at for event in found)
    assert {event.worker for event in found} == {"n1"}
    assert [(event.kind, event.name, event.attempt, event.outcome) for event in found] == [
        ("worker_joined", "", 0, ""),
        ("job_started", "square", 1, ""),
        ("job_ended", "square", 1, "succeeded"),
        ("job_started", "<lambda>", 1, ""),
        ("job_ended", "<lambda>", 1, "retried"),
        ("job_started", "<lambda>", 2, ""),
        ("job_ended", "<lambda>", 2, "failed"),
        ("job_started", "pause", 1, ""),
        ("job_ended", "pause", 1, "timed_out"),
        ("job_started", "stand", 1, ""),
        ("job_ended", "stand", 1, "cancelled"),
        ("worker_left", "", 0, ""),
    ]
    assert [event.allocation.N for event in found] == [2, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 2]
    assert found[1].job == found[2].job != found[3].job > 0
    assert [event.kind for event in [event async for event in late]] == ["worker_joined", "job_ended", "worker_left"]


async def test_what_runs_when_the_head_is_lost_is_told_to_be_lost(head, start_worker, gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, connect() as executor:
        start_worker(executor.address, name="n1", resources="cores=1")
        await executor.wait_for_workers(1)
        events = executor.events()
        runs_ = start((stand @ Cores(1))(gate.visit, "runs"))
        await gate.arrival()
        heard = [await anext(events) for _ in range(2)]  # the head has told of the start by then, not just made it
        assert [event.kind for event in heard] == ["worker_joined", "job_started"]
        head.send_signal(signal.SIGKILL)
        with pytest.raises(HeadLostError):
            await runs_
        await gate.until_left()
    assert [(event.kind, event.outcome) async for event in events] == [
        ("job_ended", "lost"),
        ("worker_left", ""),
    ]


async def test_a_head_that_is_killed_fails_what_waits_and_what_comes(head, start_worker, gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, connect() as executor:
        start_worker(executor.address, name="n1", resources="cores=1")
        runs_ = start((stand @ Cores(1))(gate.visit, "runs"))
        waits_ = start((stand @ Cores(1))(gate.visit, "waits"))
        await gate.arrival()
        head.send_signal(signal.SIGKILL)
        for r_ in (runs_, waits_):
            with pytest.raises(HeadLostError, match=r"^the head at \S+ is dead$"):
                await r_
        with pytest.raises(HeadLostError):
            await (square @ Cores(1))(1)
        with pytest.raises(HeadLostError):
            await executor.wait_for_workers(1)
        await gate.until_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_head_in_good_order(head, start_worker, gates, private_state, number):
    async with asyncio.timeout(LIMIT_S), gates() as gate, connect() as executor:
        worker = start_worker(executor.address, name="n1", resources="cores=1")
        r_ = start((stand @ Cores(1))(gate.visit, "runs"))
        visitor = await gate.arrival()
        head.send_signal(number)
        with pytest.raises(HeadLostError):
            await r_
        assert await asyncio.to_thread(head.wait, LIMIT_S) == 0
        assert (await worker.exit())[0] == 0
        assert not _runs(visitor.pid)
        await gate.until_left()
        assert not list(private_state.glob("*/*.json"))
        assert await told("head", "status") == 3


async def test_who_hears_that_a_head_has_closed_does_not_find_it_any_more(private_state, monkeypatch):
    found = []
    leave = _clients.ClientRegistry.leave

    def left(clients, connection):
        found.extend(private_state.glob("current/*.json"))
        leave(clients, connection)

    async with asyncio.timeout(LIMIT_S), contextlib.AsyncExitStack() as stack:
        head = await Executor(listen=TLS).__aenter__()
        caller = await stack.enter_async_context(_connection.call(None))
        assert len(list(private_state.glob("current/*.json"))) == 3
        monkeypatch.setattr(_clients.ClientRegistry, "leave", left)
        await head.__aexit__(None, None, None)
        await caller.gone()
    assert found == []


async def test_detached_it_is_there_when_the_command_returns(private_state, tmp_path):
    note_journal("gone", tmp_path)
    began = datetime(2026, 11, 26, 14, 3).timestamp()
    os.utime(private_state / "journals" / "gone", (began, began), follow_symlinks=False)
    async with asyncio.timeout(LIMIT_S):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "grainlike", "head", "start", "--detach", "--listen", TLS),
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        said, warned = await process.communicate()
        first, second, third = warned.decode().splitlines()[-3:]
        assert first == "grainlike head: this head begins without jobs and sessions, as --journal was not given"
        earlier = f"an earlier head, started 2026-11-26 14:03, kept its own in {tmp_path}"
        command = f"`grainlike head start --journal {tmp_path}`"
        assert second == f"  {earlier}: if you miss them, `grainlike head stop` and {command}"
        assert third == "  go on with them; if they are of no more use, remove that folder, and this is not said again"
        assert (process.returncode, said.startswith(b"head at tcp://127.0.0.1:")) == (0, True)
        [log] = (private_state / "logs").iterdir()
        assert log.stat().st_mode & 0o777 == 0o600
        assert said.decode().rstrip().endswith(f"log in {log}")
        async with connect() as executor:
            assert executor.address.encode() in said
        assert await told("head", "stop") == 0
        assert not (private_state / "current").exists()


@pytest.mark.parametrize(
    ("listen", "code", "reason"),
    [("nonsense", 2, "an address is tcp://HOST:PORT or unix:///PATH"), ("tcp://192.0.2.7:1", 3, "cannot listen at")],
)
async def test_detached_it_says_why_it_could_not_start(private_state, listen, code, reason):
    async with asyncio.timeout(LIMIT_S):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "grainlike", "head", "start", "--detach", "--log-level", "debug"),
            *("--listen", listen),
            env={**os.environ, **ENVIRONMENT},
            stderr=subprocess.PIPE,
        )
        _, said = await process.communicate()
    [log] = (private_state / "logs").iterdir()
    *why, last = said.decode().splitlines()
    assert process.returncode == code
    assert reason in " ".join(why)
    assert not [line for line in why if " DEBUG " in line or " INFO " in line]
    assert last == f"grainlike head: it has ended, with exit code {code}; see {log}"


@pytest.mark.parametrize("addresses", [["unix:///no/h.sock"], ["tcp://127.0.0.1:1", "unix:///no/h.sock"]])
async def test_of_a_head_that_was_killed_the_command_line_says_so(addresses, private_state, capsys):
    publish_access(accesses_for("gone", tuple(map(parse_address, addresses)), make_credentials("gone")))
    assert await told("jobs") == 3
    hint = "the head of this access file seems to have died; `grainlike head start` starts another"
    assert hint in capsys.readouterr().err


async def test_of_a_head_that_was_killed_all_name_the_journal_that_it_kept(private_state, tmp_path, capsys):
    publish_access(accesses_for("gone", (parse_address("unix:///no/h.sock"),), make_credentials("gone")))
    note_journal("gone", tmp_path)
    note_journal("other", tmp_path / "other")
    hint = f"seems to have died; it kept a journal: `grainlike head start --journal {tmp_path}` goes on with its work"
    assert await told("jobs") == 3
    assert hint in capsys.readouterr().err
    with pytest.raises(HeadLostError, match=re.escape(hint)):
        async with connect():
            pass


async def test_a_head_that_takes_the_place_of_another_says_how_to_reach_that(private_state):
    start_head = (sys.executable, "-m", "grainlike", "head", "start", "--detach", "--listen", TLS)
    said = []
    async with asyncio.timeout(LIMIT_S):
        for _ in range(2):
            process = await asyncio.create_subprocess_exec(
                *start_head, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            said.append([told.decode() for told in await process.communicate()])
        (_, silent), (_, warned) = said
        assert silent == ""
        found = re.search(r"the one before runs on, at --head (\S+/client\.json)\n$", warned)
        assert await told("head", "stop") == 0
        assert await told("head", "status", "--head", found[1]) == 0
        assert await told("head", "stop", "--head", found[1]) == 0


async def test_k7_run_once_head_and_workers_end_when_the_work_of_the_last_program_is_done(private_state, start_worker):
    async with asyncio.timeout(LIMIT_S):
        head = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "grainlike", "head", "start", "--run-once", "--listen", TLS),
            env={**os.environ, **ENVIRONMENT},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert b"head at tcp://" in await head.stdout.readline()
        assert await told("ls") == 0  # who only asks has no work that could be done
        async with connect() as executor:
            worker = start_worker(executor.address)
            assert await (square @ Cores(1))(3) == 9
            async with connect() as other:
                await other.wait_for_workers(1)
            assert await (square @ Cores(1))(4) == 16
        _, said = await head.communicate()
        assert head.returncode == 0
        assert b"stopping after 2 succeeded in" in said
        assert await asyncio.to_thread(worker.process.wait, LIMIT_S) == 0


@pytest.mark.parametrize("how", ["leaves", "dies"])
async def test_a_client_that_goes_takes_its_jobs_and_no_others_with_it(how, gates, script, private_state):
    text = """
import sys
from grainlike import connect, Cores, delayed, start, run
import asyncio

def stand(path):
    import os, socket
    with socket.socket(socket.AF_UNIX) as way:
        way.connect(path)
        way.sendall(f"theirs {os.getpid()}\\n".encode())
        way.recv(1)

async def main():
    async with connect() as ex:
        jobs = [start((delayed(stand) @ Cores(1))(sys.argv[1])) for _ in range(3)]
        await asyncio.to_thread(stand, sys.argv[2])

asyncio.run(main())
"""
    async with (
        asyncio.timeout(LIMIT_S),
        gates() as gate,
        gates() as staying,
        Executor(listen=TLS, local=Cores(2)) as head,
        connect() as ours,
    ):
        with_us_ = ours.submit(Cores(1), stand, gate.visit, "ours")
        await gate.arrival()
        other = script(text, gate.path, staying.path)
        theirs = await gate.arrival()
        await until_called(HeadScheduler, "handle", lambda: head._service.head.view.unended == 4)
        if how == "dies":
            other.kill()
        else:
            staying.release_all()
        await until_called(HeadScheduler, "handle", lambda: head._service.head.view.unended == 1)
        await until_ended(theirs.pid)
        gate.release_all()
        assert await with_us_ == "ours"


def _runs(pid):
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second, when it goes between opening and reading
        return False


async def test_g17_clients_share_the_workers_fairly(gates):
    async with (
        asyncio.timeout(LIMIT_S),
        gates() as gate,
        Executor(listen=TLS, local=Cores(2)) as head,
        connect() as first,
    ):
        many = [first.submit(Cores(1), stand, gate.visit, f"first{n}") for n in range(8)]
        taken = [await gate.arrival() for _ in range(2)]
        async with connect() as second:
            few = [second.submit(Cores(1), stand, gate.visit, f"second{n}") for n in range(2)]
            await until_called(HeadScheduler, "handle", lambda: head._service.head.view.unended == 10)
            assert await told("jobs") == 0
            taken.pop().release()
            assert (await gate.arrival()).name == "second0"
            gate.release_all()
            assert [await r_ for r_ in few] == ["second0", "second1"]
        assert len([await r_ for r_ in many]) == 8


async def test_a_job_that_waits_for_its_next_attempt_does_not_run(gates):
    @delayed(retries=Retry(1, backoff=600))
    def fails(visit):
        visit("try")
        raise OSError("not yet")

    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)), connect() as executor:
        r_ = start((fails @ Cores(1))(gate.visit))
        visitor = await gate.arrival()
        await until(lambda: info(r_).state == "running")  # a program hears of it after the job has begun
        visitor.release()
        await until(lambda: info(r_).state != "running")  # a client is no observer of attempts that will be repeated
        assert info(r_).state == "pending"
        assert (await executor.explain(r_)).reason == "backoff"


async def test_it_is_asked_where_a_job_stands_and_what_it_printed(gates, capsys):
    head = Executor(listen=TLS, local=Cores(1))
    # On the standard output, what the job prints could come between the lines of the command.
    async with asyncio.timeout(LIMIT_S), gates() as gate, head, connect(echo=LOG) as executor:
        runs_ = start((stand @ Cores(1))(gate.visit, "one"))
        await gate.arrival()
        waits_ = start((stand @ Cores(1))(gate.visit, "two"))
        never_ = start((square @ Cores(5))(1))
        lazy_ = (square @ Cores(1))(1)
        assert (await executor.explain(waits_)).reason in ("room", "turn")
        found = await executor.explain(never_)
        assert found.reason == "never"
        assert "too few cores (asked 5, at most 1)" in str(found)
        assert (await executor.explain(lazy_)).state == "lazy"
        await until(lambda: info(runs_).state == "running")
        assert info(waits_).state == "pending"
        capsys.readouterr()
        assert await told("jobs", "--json") == 0
        jobs = json.loads(capsys.readouterr().out)["jobs"]
        assert len({job["client"] for job in jobs}) == 1
        assert jobs[0]["client"] > 0
        assert {job["program"] for job in jobs} == {f"{socket.gethostname()}:{os.getpid()}"}
        number = next(job["job"] for job in jobs if job["request"] == "cores=5")
        assert await told("cancel", number) == 0
        with pytest.raises(JobCancelledError, match="operator"):
            await never_
        lines = executor.logs(runs_)
        assert await anext(lines) == "here one"
        gate.release_all()
        assert [line async for line in lines] == []
        assert await gather(runs_, waits_) == ["one", "two"]
        assert [line async for line in executor.logs(waits_)] == ["here two"]


async def test_what_an_operator_ended_had_run_for_a_while(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)), connect() as executor:
        r_ = start((stand @ Cores(1))(gate.visit, "one"))
        await gate.arrival()
        explained = await executor.explain(r_)
        assert await told("cancel", explained.job) == 0
        with pytest.raises(JobCancelledError, match="operator"):
            await r_
        assert info(r_).usage.wall_s > 0
        gate.release_all()


async def test_where_a_job_ran_is_said_once():
    def notes(error):
        return [note for note in error.__notes__ if note.startswith("grainlike: job ")]

    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)), connect():
        died_ = (delayed(os._exit, retries=Retry(0, losses=0)) @ Cores(1))(3)
        with pytest.raises(WorkerLostError) as lost:
            await died_
        waits_ = (delayed(signal.pause, timeout=0.05) @ Cores(1))()
        with pytest.raises(TimeoutError) as late:
            await waits_
    assert (info(died_).job, info(waits_).job) == (1, 2)
    for caught, number, name in ((lost, 1, "_exit"), (late, 2, "pause")):
        where = f"grainlike: job {number}, on worker local, slots cores=[0], attempt 1 of {name}"
        assert notes(caught.value) == [where]


async def test_a_program_hears_that_nobody_could_run_its_jobs(caplog):
    """The head logs it where nobody may look; who waits is told, once."""
    async with Executor(listen=TLS, local=Cores(2)) as head, connect(head.address):
        job = start((square @ Cores(16))(3))
        words = "1 job waits for a worker that can give cores=16: "
        await logged(caplog, words, 2)
        assert info(job).worker is None
    by_whom = [record.module for record in caplog.records if record.getMessage().startswith(words)]
    assert sorted(by_whom) == ["_actions", "_remote_jobs"]


async def test_who_may_not_connect_hears_why(private_state, monkeypatch):
    with pytest.raises(HeadLostError, match="head start"):
        async with connect():
            pass
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS):
        with pytest.raises(AuthenticationError, match=r"client\.json"):
            async with connect(private_state / "current" / "worker.json"):
                pass
        own = _introduction.software()
        monkeypatch.setattr(_introduction, "software", lambda: type(own)("2.7.18", own.serializers))
        with pytest.raises(VersionMismatchError, match=r"2\.7\.18"):
            async with connect():
                pass


async def test_another_python_asks_a_head_and_submits_nothing_to_it(private_state, monkeypatch, caplog, capsys):
    function = SubmittedFunction(b"digest", "f", False, None, RetrySpec(), False, False, True)
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS) as executor:
        own = _introduction.software()
        monkeypatch.setattr(_introduction, "software", lambda: type(own)("2.7.18", own.serializers))
        assert await asyncio.to_thread(main, ["ls"]) == 0
        assert capsys.readouterr().out == "no workers\n"
        async with _connection.call() as caller:
            caller.link.post(EndSessions(["night"]))
            assert (await caller.ask(AskHead(0), HeadIs)).jobs == {}
        assert await asyncio.to_thread(main, ["doctor"]) == 1
        assert "has 2.7.18; functions pickled by one cannot be trusted to load in the other" in capsys.readouterr().out
        async with _connection.call() as caller:
            caller.link.post(Submit(0, 0, "cores=1", 0, False, [function], [1], [0], [b"arguments"], [0]), [b"code"])
            await caller.gone()
        await logged(caplog, "was dropped: the head has Python")
        assert executor._service.head.view.unended == 0


async def test_a_worker_submits_nothing_of_its_own(caplog):
    function = SubmittedFunction(b"digest", "f", False, None, RetrySpec(), False, False, True)
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS) as executor:
        link = await dial(find_access(executor.address, "worker"))
        link.post(ConnectingHandshake(introduction("greedy", Cores([0]))).hello)
        running = asyncio.create_task(link.run(lambda frames: None))
        await executor.wait_for_workers(1)
        link.post(Submit(0, 0, "cores=1", 0, False, [function], [1], [0], [b"arguments"], [0]), [b"code"])
        await logged(caplog, "sent Submit, which workers do not send")
        assert executor._service.head.view.unended == 0
        link.close()
        await running
