"""A head is asked by clients, from the command line too: over TLS, over Unix sockets, and by those who may not."""

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from fault_calls import wait_at
from limits import LIMIT_S
from waiting import logged, until, until_called

from grainlike import (
    AuthenticationError,
    Cores,
    Executor,
    HeadLostError,
    JobCancelledError,
    JobTimeoutError,
    cancel,
    connect,
    delayed,
    gather,
    info,
    start,
)
from grainlike.cli import main
from grainlike.client import RefusedQueryError, _connection, call
from grainlike.client._introduction import hello_of_client
from grainlike.head.durable import HeadDaemon
from grainlike.head.server import _accept, _clients, _trace_rows
from grainlike.net import dial, find_access
from grainlike.scheduler import HeadScheduler
from grainlike.wire import (
    FROM_CLIENT,
    AskCancel,
    AskHead,
    AskJob,
    AskJobs,
    AskWorkers,
    ConnectingHandshake,
    Done,
    Goodbye,
    HeadIs,
    JobIs,
    JobsAre,
    Welcome,
    WorkersAre,
)
from grainlike_worker.daemon._introduction import introduction

ROOT = Path(__file__).parents[3]
TLS = "tcp://127.0.0.1:0"

pytestmark = pytest.mark.asyncio


async def typed(*arguments):
    """Run the program as a person would; its exit code, standard output and standard error."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "grainlike", *map(str, arguments)),
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT_S):
        said, complained = await process.communicate()
    return process.returncode, said.decode(), complained.decode()


@pytest.fixture
def told(capsys):
    """The same in a thread of this process, which takes a tenth of the time; exit code and standard output."""

    async def tell(*arguments):
        capsys.readouterr()
        code = await asyncio.to_thread(main, [str(word) for word in arguments])
        return code, capsys.readouterr().out

    return tell


@delayed(name="\x1b[2Jrude\x07[bold]")
def rude(visit):
    visit("rude")


async def test_a_question_of_the_command_line_is_no_news_in_the_log_of_its_head(caplog, told):
    caplog.set_level(logging.DEBUG, "grainlike")
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS) as executor:
        caplog.clear()
        assert (await told("ls", "--head", executor.address))[0] == 0
        await logged(caplog, "is gone")
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO] == []
        async with connect(executor.address):
            pass
        [said] = [record for record in await heard(caplog, "is gone", 2) if record.levelno >= logging.INFO]
        assert said.levelno == logging.INFO, "a program's end is some"


async def heard(caplog, text, count):
    """The records with `text`, once there are so many."""
    await logged(caplog, text, count)
    return [record for record in caplog.records if text in record.getMessage()]


async def test_the_command_line_asks_a_head_over_tls_and_cancels(gates, start_worker, told):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as executor:
        start_worker(executor.address, name="n1", resources="cores=2")
        await executor.wait_for_workers(1)
        runs_ = start((rude @ Cores(2))(gate.visit))
        await gate.arrival()
        waits_ = start((wait_at @ Cores(1))(gate.visit, "waits"))
        never_ = start((wait_at @ Cores(3))(gate.visit, "never"))

        code, out = await told("ls")
        assert (code, "n1" in out, "cores=[0,1]" in out) == (0, True, True)
        [worker] = json.loads((await told("ls", "--json"))[1])
        assert (worker["name"], worker["running"]) == ("n1", 1)
        code, out = await told("jobs")
        assert (code, "\x1b" in out, "\x07" in out) == (0, False, False)
        assert "\\x1b[2Jrude\\x07[bold]" in out
        listed = json.loads((await told("jobs", "--json", "--most", 1, "--head", executor.address))[1])
        assert listed["total"] == 3
        assert [(job["job"], job["state"], job["worker"]) for job in listed["jobs"]] == [(1, "running", "n1")]
        code, out = await told("explain", 2)
        assert (code, out.startswith("Job 2 waits for room")) == (0, True)
        assert json.loads((await told("explain", 3, "--json"))[1])["reason"] == "never"
        facts = json.loads((await told("head", "status", "--json"))[1])
        assert facts["jobs"] == {"queued": 2, "running": 1}
        assert (facts["workers"], facts["clients"], facts["pid"]) == (1, 0, os.getpid())
        async with connect(executor.address):
            assert json.loads((await told("head", "status", "--json"))[1])["clients"] == 1
        assert "1 running" in (await told("head", "status"))[1]

        code, out, _ = await typed("cancel", 2)
        assert (code, out) == (0, "job 2 is cancelled\n")
        with pytest.raises(JobCancelledError):
            await waits_
        code, _, why = await typed("cancel", 2)
        assert (code, why) == (1, "grainlike: there is no job 2 any more: it has ended. wait_at cancelled\n")
        code, _, why = await typed("explain", 4)
        assert (code, why) == (1, "grainlike: there is no job 4 yet: the last one is 3\n")
        gate.release_all()
        await runs_
        del never_
    code, _, why = await typed("ls")
    assert (code, "no head is running here" in why) == (3, True)


def fail(_):
    raise ValueError("broken on purpose")


@delayed
async def tries(fn):
    try:
        return await (delayed(fn) @ Cores(1))(1)
    except ValueError:
        return "in vain"


async def test_a_head_tells_how_jobs_of_all_programs_ended_and_what_ran_where(told, gates, tmp_path, monkeypatch):
    monkeypatch.setattr(_trace_rows, "_ROWS", 2)
    path = tmp_path / "trace.json"
    async with (
        asyncio.timeout(LIMIT_S),
        gates() as gate,
        Executor(listen=TLS, local=Cores([0, 1]), record=True) as head,
    ):
        assert (await told("trace", "-o", tmp_path / "none" / "trace.json"))[0] == 2
        assert await (delayed(abs) @ Cores(1))((delayed(divmod) @ Cores(1))(-7, 2)[0]) == 4
        async with connect(head.address) as ex:
            await ex.wait_for_workers(1)
            with pytest.raises(RuntimeError, match="`grainlike trace` draws"):
                ex.write_trace(path)
            assert await (tries @ Cores(1))(fail) == "in vain"
            with pytest.raises(ValueError, match="on purpose"):
                await ex.submit(Cores(1), fail, 1)
            with pytest.raises(JobTimeoutError):
                await (delayed(time.sleep, timeout=0.05) @ Cores(1))(60)
            assert await ex.submit(Cores(1), abs, -3) == 3
            runs_ = start((wait_at @ Cores(2))(gate.visit, "runs"))
            await gate.arrival()
            waits_ = ex.submit(Cores(1), abs, 1)
            # Who asks on a way of his own could be there before it.
            await until_called(HeadScheduler, "handle", lambda: head._service.head.view.unended == 2)
            report = json.loads((await told("report", "--json"))[1])
            assert (report["succeeded"], report["failed"], report["timed_out"], report["unended"]) == (4, 2, 1, 2)
            cancel(waits_)
            cancel(runs_)
            await until_called(HeadScheduler, "handle", lambda: not head._service.head.view.unended)
        report = head.report()
        counts = (report.succeeded, report.failed, report.timed_out, report.cancelled, report.skipped)
        assert counts == (4, 2, 1, 2, 0)
        code, out = await told("report")
        assert (code, out.startswith("4 succeeded, 2 failed, 1 timed out, 2 cancelled in")) == (0, True)
        assert out.splitlines()[1].endswith("; 0 have not ended")
        rows = {line.split()[0]: line for line in out.splitlines()[2:] if line.strip()}
        assert {"divmod", "tries", "fail", "sleep", "abs", "wait_at"} <= rows.keys()
        assert "2 succeeded, 1 cancelled" in rows["abs"]
        assert "1 timed out" in rows["sleep"]
        code, out = await told("trace", "-o", path)
        assert (code, out) == (0, f"{path}: what ran in 8 attempts; open it in ui.perfetto.dev\n")
        drawn = path.read_text()
        picture = path.with_suffix(".svg")
        code, out = await told("trace", "-o", picture)
        assert (code, out) == (0, f"{picture}: which core ran what when in 8 attempts; open it in a browser\n")
        assert picture.read_text().startswith("<svg")
        assert "divmod" in picture.read_text()
        head.write_trace(path)
        events = json.loads(path.read_text())["traceEvents"]
        told_of = json.loads(drawn)["traceEvents"]
        assert [event for event in told_of if event["ph"] != "C"] == [event for event in events if event["ph"] != "C"]
        names = {event["name"] for event in told_of if event["ph"] == "X"}
        assert names == {"divmod", "tries", "fail", "sleep", "abs", "wait_at"}
        assert [event["ph"] for event in told_of if event["name"] == "needs"] == ["s", "f"]
        assert max(event["args"]["waiting"] for event in told_of if event["name"] == "jobs") == 1
    async with Executor(listen=TLS):
        assert await told("trace", "-o", path) == (1, "")
        assert json.loads(path.read_text())["traceEvents"] == events, "what was there stays"


@pytest.mark.parametrize("name", ["run.svg", "run.json"])
async def test_a_trace_of_a_head_that_records_nothing_is_drawn_from_its_history(tmp_path, told, name):
    path = tmp_path / name
    async with Executor(listen=TLS, local=Cores(1)):
        assert await (delayed(abs) @ Cores(1))(-1) == 1
        code, out = await told("trace", "-o", path)
    assert (code, "1 attempt;" in out) == (0, True)
    assert "\nfrom the history of ended jobs: a head that is started with --record knows " in out
    assert "abs" in path.read_text()
    assert path.read_text().startswith("<svg" if path.suffix == ".svg" else "{")


async def test_a_program_without_a_head_sees_one_frame_of_ours_above_the_error():
    with pytest.raises(HeadLostError, match="no head is running here") as caught:
        async with connect():
            pass
    assert [frame.name for frame in caught.traceback][1:] == ["__aenter__"]


async def test_without_a_head_or_with_the_wrong_file_it_is_exit_3(private_state, told):
    async with Executor(listen=TLS):
        [folder] = [path for path in private_state.iterdir() if not path.is_symlink()]
        assert (await told("jobs", "--head", folder / "worker.json"))[0] == 3
        (folder / "client.json").chmod(0o644)
        code, _, why = await typed("jobs", "--head", folder / "client.json")
        assert (code, "chmod 600" in why) == (3, True)
    assert (await told("explain", 0))[0] == 2


@delayed
def fails_at(visit):
    visit("fails")
    raise ValueError("on purpose")


async def fails_with_others(visit):
    """Of its jobs one fails, one runs then, and three wait."""
    calls = [(fails_at @ Cores(1))(visit), (wait_at @ Cores(1))(visit, "runs")]
    with contextlib.suppress(ValueError):
        await gather(*calls, *((delayed(abs) @ Cores(2))(-n) for n in range(3)))


@pytest.mark.parametrize("where", ["program", "job"])
async def test_what_a_failure_skips_is_skipped_in_every_tally(where, gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(2)) as head:
        async with connect(head.address) as ex:
            await ex.wait_for_workers(1)
            everywhere = fails_with_others if where == "program" else delayed(fails_with_others) @ Cores(1)
            failing = asyncio.ensure_future(everywhere(gate.visit))
            arrived = {visitor.name: visitor for visitor in [await gate.arrival(), await gate.arrival()]}
            arrived["fails"].release()
            await failing
            await until_called(HeadScheduler, "handle", lambda: not head._service.head.view.unended)
            reports = [head.report(), *([ex.report()] if where == "program" else [])]
        for report in reports:
            assert (report.failed, report.cancelled, report.skipped) == (1, 1, 3)


@pytest.mark.parametrize("scheme", ["tls", "unix", "insecure"])
async def test_every_kind_of_door_lets_clients_ask(scheme, tmp_path, gates):
    listen = f"unix://{tmp_path}/door/head.sock" if scheme == "unix" else TLS
    insecure = scheme == "insecure"
    async with (
        asyncio.timeout(LIMIT_S),
        gates() as gate,
        Executor(listen=listen, local=Cores(1), insecure=insecure) as executor,
    ):
        r_ = start((wait_at @ Cores(1))(gate.visit, "one"))
        await gate.arrival()
        async with call(executor.address, insecure=insecure) as caller:
            assert [w.name for w in (await caller.ask(AskWorkers(0), WorkersAre)).workers] == ["local"]
            assert (await caller.ask(AskJobs(0, 5), JobsAre)).jobs[0].allocation == "cores=[0]"
            assert (await caller.ask(AskJob(0, 1), JobIs)).state == "leased"
            assert (await caller.ask(AskHead(0), HeadIs)).clients == 1
            with pytest.raises(RefusedQueryError, match="there is no job 2"):
                await caller.ask(AskCancel(0, 2), Done)
            await caller.ask(AskCancel(0, 1), Done)
        with pytest.raises(JobCancelledError):
            await r_


async def test_an_answer_has_a_most(gates, monkeypatch):
    monkeypatch.setattr(_clients, "MOST_ROWS", 20)
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)):
        start((wait_at @ Cores(1))(gate.visit, "one"))
        queued = [start((wait_at @ Cores(1))(gate.visit, n)) for n in range(20)]
        await gate.arrival()
        async with call() as caller:
            found = await caller.ask(AskJobs(0, 10**9), JobsAre)
            assert (len(found.jobs), found.total) == (20, 21)
            assert (await caller.ask(AskJobs(0, -1), JobsAre)).jobs == []
        del queued


async def test_a_job_of_a_job_can_be_cancelled_by_number(gates):
    async def outer(inner_):
        from grainlike import JobCancelledError

        try:
            await inner_()
        except JobCancelledError as error:
            return str(error)

    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(2)):
        visit = gate.visit

        def inner():
            visit("inner")

        inner_ = delayed(inner) @ Cores(1)
        r_ = start((delayed(outer) @ Cores(1))(inner_))
        await gate.arrival()
        async with call() as caller:
            names = {job.name: job.job for job in (await caller.ask(AskJobs(0, 5), JobsAre)).jobs}
            [child] = [number for name, number in names.items() if "inner" in name]
            await caller.ask(AskCancel(0, child), Done)
        assert "was cancelled" in await r_


async def test_a_workers_certificate_can_not_ask(private_state, caplog):
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS) as executor:
        with pytest.raises(AuthenticationError, match=r"client\.json"):
            async with call(private_state / "current" / "worker.json"):
                pass
        # One that lies about its role is refused,
        liar = _connection.HeadClient(await dial(find_access(executor.address, "worker")))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(liar.run)
            with pytest.raises(AuthenticationError, match="its certificate says 'worker'"):
                await liar.welcomed()
        # and one that was let in as a worker gets no answer.
        link = await dial(find_access(executor.address, "worker"))
        heard = []
        handshake = ConnectingHandshake(introduction("nosy", Cores([0])))
        link.post(handshake.hello)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run, heard.extend)
            await executor.wait_for_workers(1)
            with caplog.at_level(logging.WARNING, "grainlike"):
                link.post(AskJobs(1, 10))
                link.post(AskCancel(2, 1))
                await logged(caplog, "which workers do not send", 2)
            link.close()
        assert not [frame for frame in heard if isinstance(frame.message, JobsAre | Done)]


async def test_the_log_says_which_jobs_of_a_worker_that_died_run_again(gates, start_worker, caplog):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as executor:
        workers = {name: start_worker(executor.address, name=name, resources="cores=1") for name in ("a1", "a2")}
        await executor.wait_for_workers(2)
        r_ = start((delayed(wait_at) @ Cores(1))(gate.visit, "job"))
        await gate.arrival()
        here, number = info(r_).worker, (await executor.explain(r_)).job
        workers[here].process.kill()
        visitor = await gate.arrival()
        visitor.release()
        await r_
    assert f"1 job that ran on worker {here} runs again: {number}" in [one.getMessage() for one in caplog.records]


@pytest.mark.parametrize("session", [None, "s"])
async def test_a_program_is_told_which_of_its_calls_run_again(session, gates, start_worker, caplog):
    def told():
        return [one.getMessage() for one in caplog.records if one.module == "_remote_jobs"]

    async with (
        asyncio.timeout(LIMIT_S),
        gates() as gate,
        Executor(listen=TLS) as head,
        connect(head.address),
        connect(head.address, session=session) as executor,
    ):
        workers = {name: start_worker(head.address, name=name, resources="cores=1") for name in ("a1", "a2")}
        await executor.wait_for_workers(2)
        r_ = start((delayed(wait_at) @ Cores(1))(gate.visit, "job"))
        await gate.arrival()
        await until(lambda: info(r_).worker)
        here = info(r_).worker
        workers[here].process.kill()
        visitor = await gate.arrival()
        visitor.release()
        await r_
        (words,) = told()
    assert words.startswith(f"worker {here} was lost (")
    assert words.endswith("): 1 call that ran there runs again")


async def test_the_head_lists_the_last_workers_that_it_lost(gates, start_worker, told):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as executor:
        assert "lost" not in (await told("head", "status"))[1]
        workers = {name: start_worker(executor.address, name=name, resources="cores=1") for name in ("a1", "a2")}
        await executor.wait_for_workers(2)
        await told("worker", "drain", "a2")
        await until(lambda: len(executor.workers()) == 1)
        assert json.loads((await told("head", "status", "--json"))[1])["lost"] == [], "it has left in good order"
        r_ = start((delayed(wait_at) @ Cores(1))(gate.visit, "job"))
        await gate.arrival()
        [connection] = executor._service.head.peers.values()
        before = time.time()
        workers["a1"].process.kill()
        await until(lambda: not executor.workers())
        executor._service._service._acceptor.give_up(
            connection, "its link has ended, too"
        )  # as a peer that is given up early is
        [lost] = json.loads((await told("head", "status", "--json"))[1])["lost"]
        assert (lost["name"], lost["running"], before <= lost["at"] <= time.time()) == ("a1", 1, True)
        assert f": worker a1, where 1 job ran: {lost['why']}\n" in (await told("head", "status"))[1]
        assert (await told("ls"))[1] == "no workers\n`grainlike head status` lists those that were lost\n"
        cancel(r_)


async def test_a_head_that_leaves_its_work_to_the_next_does_not_say_that_it_runs_again(
    gates, start_worker, tmp_path, caplog
):
    journal = tmp_path / "journal"
    async with asyncio.timeout(LIMIT_S), gates() as gate:
        async with HeadDaemon(TLS, journal=journal) as daemon:
            start_worker(daemon.address, name="n1", resources="cores=1")
            async with connect(session="sweep") as owner:
                await owner.wait_for_workers(1)
                owner.name("runs", (delayed(wait_at) @ Cores(1))(gate.visit, "job"))
                visitor = await gate.arrival()
            daemon.leaves = True
        async with HeadDaemon(TLS, journal=journal), connect(session="sweep") as owner:
            visitor.release()
            runs_ = owner.placeholders()["runs"]
            await runs_
            assert info(runs_).attempt == 1
    assert not [one for one in caplog.records if "that ran on worker" in one.getMessage()]


async def test_workers_are_told_to_end_by_name_with_their_jobs_or_after_them(gates, start_worker, told):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as executor:
        workers = {name: start_worker(executor.address, name=name, resources="cores=1") for name in ("a1", "a2")}
        await executor.wait_for_workers(2)
        r_ = start((delayed(wait_at, retries=0) @ Cores(1))(gate.visit, "job"))
        await gate.arrival()
        here = info(r_).worker
        there = {"a1": "a2", "a2": "a1"}[here]
        code, said = await told("worker", "kill", "nobody", f"{here[:-1]}[{here[-1]}]", "--json")
        assert (code, json.loads(said)) == (0, [here])
        second = await gate.arrival()
        assert (info(r_).worker, info(r_).attempt) == (there, 2)
        code, log = await workers[here].exit()
        assert code == 0, log
        await until(lambda: [worker.name for worker in executor.workers()] == [there])
        code, said = await told("worker", "drain", "a?")
        assert (code, said) == (0, f"worker {there} ends when its jobs have\n")
        for _ in range(2):
            number = (await executor.explain(r_)).job
            assert await told("logs", number) == (0, "")  # its worker has answered since
            assert executor.workers()[0].shut == "it is to end when its jobs have"
        later = start((delayed(wait_at) @ Cores(1))(gate.visit, "later"))
        second.release()
        await r_
        code, log = await workers[there].exit()
        assert code == 0, log
        await until(lambda: executor.workers() == [])  # its process ends before that is heard
        assert info(later).state == "pending"
        assert info(r_).attempt == 2


async def test_it_is_asked_how_many_more_workers_would_help(gates, told):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as executor:
        waiting = [start((delayed(wait_at) @ Cores(2))(gate.visit, "job")) for _ in range(5)]
        await executor.explain(waiting[-1])
        assert await told("head", "wanted", "cores=4") == (0, "3\n")
        code, said = await told("head", "wanted", "cores=4", "--most", 2, "--json")
        assert (code, json.loads(said)) == (0, {"offer": "cores=4", "wanted": 2})
        assert (await told("head", "wanted", "cores=x"))[0] == 2


async def test_no_worker_is_told_to_end_that_is_not_called_so_or_belongs_to_a_program(told):
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)) as executor:
        assert len(executor.workers()) == 1
        for command in ("drain", "kill"):
            assert await told("worker", command, "*", "--json") == (1, "[]\n")
        assert executor.workers()[0].shut == ""


@pytest.mark.parametrize("role", ["client", "worker"])
async def test_who_was_let_in_may_not_fill_the_heads_memory_with_one_message(role):
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS) as executor:
        link = await dial(find_access(executor.address, role))
        link.post(hello_of_client() if role == "client" else introduction("large", Cores([0])))

        def welcomed(frames):
            if isinstance(frames[0].message, Welcome):
                link.post(Goodbye("z" * FROM_CLIENT.header))

        await link.run(welcomed)
        assert link.reason is not None
        async with call() as caller:
            told = await caller.ask(AskHead(0), HeadIs)
        assert (told.workers, told.clients) == (0, 1)


async def test_who_waits_for_an_answer_hears_that_the_head_is_gone():
    async with asyncio.timeout(LIMIT_S):
        executor = Executor(listen=TLS)
        async with executor:
            caller = _connection.HeadClient(await dial(find_access(executor.address, "client")))
            running = asyncio.create_task(caller.run())
            await caller.welcomed()
        await running
        with pytest.raises(HeadLostError, match="is gone"):
            await caller.ask(AskHead(0), HeadIs)


async def test_each_who_hears_that_the_head_is_gone_has_an_error_without_the_frames_of_others():
    head = await Executor(listen=TLS, local=Cores([0]))
    connected = await connect(head.address)

    async def asks():
        await connected.history()

    async def calls():
        await (delayed(says) @ Cores(1))(1)

    async def heard(how):
        with pytest.raises(HeadLostError) as told:
            await how()
        return told.value, len(told.traceback)

    async with asyncio.timeout(LIMIT_S):
        await head.aclose()
        await connected._service.client.gone()
        for how in (asks, calls, lambda: connected.wait_for_workers(1)):
            (first, frames), (second, later) = await heard(how), await heard(how)
            assert first is not second
            assert (str(first), frames) == (str(second), later)
    await connected.aclose()


async def test_a_silent_client_is_dropped(monkeypatch):
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS) as executor:
        with monkeypatch.context() as impatient:  # but not with the other
            impatient.setattr(_accept, "LOST_S", 0.3)
            impatient.setattr(_accept, "SECOND_LOOK_S", 0.05)
            link = await dial(find_access(executor.address, "client"))
            link.post(hello_of_client())
            await link.run(lambda frames: None)
        async with call() as caller:
            assert (await caller.ask(AskHead(0), HeadIs)).clients == 1


@delayed
def says(visit):
    import sys

    print("first\tone \x1b[31mred\x1b[0m \x1b[2J", flush=True)
    print("aside", file=sys.stderr, flush=True)
    visit("middle")
    print("last", flush=True)


async def test_logs_are_followed_to_the_end_and_kept_for_a_while(gates, start_worker, told):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as executor:
        start_worker(executor.address, name="n1", resources="cores=1")
        r_ = start((says @ Cores(1))(gate.visit))
        queued_ = start((wait_at @ Cores(1))(gate.visit, "later"))
        await gate.arrival()
        async with call() as caller:  # what it has written may come after it has come to the gate
            lines = caller.logs(1, follow=True)
            assert {(await anext(lines)).stream for _ in range(2)} == {"stdout", "stderr"}
        code, out, beside = await typed("logs", 1)
        assert (code, out, beside) == (0, "first\tone \x1b[31mred\x1b[0m \\x1b[2J\n", "aside\n")
        assert await told("logs", 2) == (0, "")
        assert (await told("logs", 3))[0] == 1
        followed = asyncio.create_task(typed("logs", "-f", 1))
        async with call() as caller:
            lines = caller.logs(1, follow=True)
            assert await anext(lines) == "first\tone \x1b[31mred\x1b[0m \x1b[2J"
            gate.release_all()
            assert [line async for line in lines if line.stream == "stdout"] == ["last"]
        await r_
        code, out, _ = await followed
        assert (code, out.splitlines()[-1]) == (0, "last")
        code, out = await told("logs", "--json", 1)
        rows = [json.loads(line) for line in out.splitlines()]
        assert {"line": "last", "stream": "stdout", "attempt": 1} in rows
        await queued_


async def test_who_follows_logs_hears_that_the_head_is_gone(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)) as executor:
        r_ = start((says @ Cores(1))(gate.visit))
        await gate.arrival()
        caller = _connection.HeadClient(await dial(find_access(executor.address, "client")))
        running = asyncio.create_task(caller.run())
        await caller.welcomed()
        lines = caller.logs(1, follow=True)
        assert "first" in await anext(lines)
        caller.link.close("cut")
        await running
        with pytest.raises(HeadLostError, match="cut"):
            _ = [line async for line in lines]
        del r_
