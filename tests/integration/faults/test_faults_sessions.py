"""Named sessions: jobs that outlive the program that submitted them, and whoever comes back for them."""

import asyncio
import gc
import json

import pytest
from fault_calls import stand
from limits import LIMIT_S
from session_calls import count, fails, square
from waiting import logged, until, until_called
from weather import Weather, port, way_through

from grainlike import (
    Cores,
    Executor,
    GraphError,
    JobCancelledError,
    SessionError,
    cancel,
    connect,
    gather,
    info,
    start,
)
from grainlike.cli import main
from grainlike.client._connection import call
from grainlike.executor import _connected
from grainlike.head.durable import HeadDaemon
from grainlike.head.server import _accept, _service
from grainlike.head.server._clients import ClientRegistry
from grainlike.scheduler import HeadScheduler
from grainlike.wire import AskSessions, RetrySpec, SessionsAre, Submit, SubmittedFunction

pytestmark = pytest.mark.asyncio

TLS = "tcp://127.0.0.1:0"


@pytest.fixture
def told(capsys):
    """Run a command in a thread; its exit code, and what it printed."""

    async def tell(*arguments):
        capsys.readouterr()
        code = await asyncio.to_thread(main, [str(word) for word in arguments])
        return code, capsys.readouterr().out

    return tell


async def sessions():
    """The named sessions of the current head, as it tells them."""
    async with call() as caller:
        return (await caller.ask(AskSessions(0), SessionsAre)).sessions


async def until_gone():
    async def gone():
        return not await sessions()

    await until(gone)  # a head answers, and tells nobody of itself


async def test_what_a_program_leaves_is_found_by_the_next(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(2)) as head:
        async with connect(session="sweep") as ex:
            assert ex.placeholders() == {}
            assert await ex.name("done", (square @ Cores(1))(3)) == 9
            fails_ = ex.name("fails", (fails @ Cores(1))())
            with pytest.raises(ArithmeticError):
                await fails_
            runs_ = ex.name("runs", (stand @ Cores(1))(gate.visit, "runs"))
            start((stand @ Cores(1))(gate.visit, "unnamed"))
            visitors = [await gate.arrival(), await gate.arrival()]
            ex.name("waits", (square @ Cores(2))(5))
        assert info(runs_).state == "cancelled"  # here; there it goes on
        assert head._service.head.view.unended == 3
        [row] = await sessions()
        assert (row.name, row.jobs, row.names, row.outcomes, row.attached) == ("sweep", 3, 4, 2, "")
        async with connect(session="sweep") as ex:
            found = ex.placeholders()
            assert list(found) == ["done", "fails", "runs", "waits"]
            assert await found["done"] == 9
            with pytest.raises(ArithmeticError, match="as it should"):
                await found["fails"]
            assert (info(found["runs"]).state, info(found["runs"]).worker) == ("running", "local")
            assert (await ex.explain(found["waits"])).reason == "room"
            lines = ex.logs(found["runs"])
            assert await anext(lines) == "here runs"
            new_ = ex.name("new", (square @ Cores(1))(7))  # its number is none of an earlier program's
            for visitor in visitors:
                visitor.release()
            assert await gather(found["runs"], found["waits"] + 1, new_) == ["runs", 26, 49]
            assert [line async for line in lines] == []
            await ex.forget("done", "fails", "runs", "waits")
            assert list(ex.placeholders()) == ["new"]
        async with connect(session="sweep") as ex:
            assert [await r_ for r_ in ex.placeholders().values()] == [49]
            await ex.forget("new")
        await until_gone()
        assert gate.visits == 2


async def test_who_awaits_a_call_of_a_session_that_is_left_hears_that_it_goes_on(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)) as head:
        async with connect(head.address, session="sweep") as ex:
            runs_ = ex.name("runs", (stand @ Cores(1))(gate.visit, "runs"))
            unsent_ = (square @ Cores(1))(runs_)
            awaited = asyncio.gather(runs_, unsent_, return_exceptions=True)
            visitor = await gate.arrival()
        goes_on, ended = await awaited
        assert type(goes_on) is SessionError
        assert str(goes_on) == "stand goes on in its session, which this program has left"
        assert type(ended) is JobCancelledError
        assert str(ended) == "square was cancelled: its executor closed"
        visitor.release()
        async with connect(head.address, session="sweep") as ex:
            assert await ex.placeholders()["runs"] == "runs"
            await ex.forget("runs")


async def test_a_program_that_is_killed_leaves_its_session_to_the_next(gates, script):
    text = """
import sys
from grainlike import connect, Cores, delayed, run

def stand(path, name):
    import os, socket
    with socket.socket(socket.AF_UNIX) as way:
        way.connect(path)
        way.sendall(f"{name} {os.getpid()}\\n".encode())
        way.recv(1)
    return name

async def main():
    async with connect(session="sweep") as ex:
        for name in ("one", "two"):
            ex.name(name, (delayed(stand) @ Cores(1))(sys.argv[1], name))
        await ex.placeholders()["two"]

run(main, local=None)
"""
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)):
        program = script(text, gate.path)
        first = await gate.arrival()
        with pytest.raises(SessionError, match=f"in use by the program .*:{program.pid}"):
            async with connect(session="sweep"):
                pass
        program.kill()
        program.wait()
        async with connect(session="sweep") as ex:  # at once: that it is dead can be seen
            first.release()
            (await gate.arrival()).release()
            assert [await r_ for r_ in ex.placeholders().values()] == ["one", "two"]
            assert [info(r_).attempt for r_ in ex.placeholders().values()] == [1, 1]
            await ex.forget("one", "two")
        await until_gone()
        assert gate.visits == 2


async def test_two_programs_do_not_share_a_session_and_may_take_turns():
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)):
        async with connect(session="one") as first:
            with pytest.raises(SessionError, match="'one' is in use by the program"):
                async with connect(session="one"):
                    pass
            assert await first.name("r", (square @ Cores(1))(2)) == 4
            async with connect(session="other") as other:
                assert await other.name("r", (square @ Cores(1))(3)) == 9
        for session, value in (("other", 9), ("one", 4)):
            async with connect(session=session) as ex:
                assert await ex.placeholders()["r"] == value
        async with connect() as unnamed:
            with pytest.raises(SessionError, match=r"connect\(session=...\)"):
                unnamed.placeholders()


async def test_who_has_left_has_left(monkeypatch):
    """A program that was told so may be started again at once."""
    found = []
    join = ClientRegistry.join

    async def later(visit):
        await asyncio.Event().wait()

    def joined(clients, *arguments):
        found.append(clients)
        return join(clients, *arguments)

    monkeypatch.setattr(ClientRegistry, "join", joined)
    monkeypatch.setattr(
        _accept.ConnectionHandler, "wait_for_return", later
    )  # the end of its link is told in good time, or not
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)):
        for number in range(3):
            async with connect(session="sweep") as ex:
                ex.name(f"r{number}", (square @ Cores(1))(number))
                assert len(found[0].here) == 1
            assert found[0].here == {}


async def test_what_can_have_no_name_is_refused_with_words(monkeypatch):
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)):
        for name in ("", "x" * 256, "two\nlines", 7):
            with pytest.raises(ValueError, match="1 to 255 printable characters"):
                connect(session=name)
        async with connect(session="sweep") as ex:
            r_ = ex.name("r", (square @ Cores(1))(2))
            for name, placeholder, error, words in (
                ("r", (square @ Cores(1))(2), SessionError, "something named 'r'"),
                ("s", r_ + 1, GraphError, "name the call of square that gives the value, and take the part"),
                ("s", r_[0], GraphError, "^a part of a value, or what an operator gives, can not be given a name"),
                ("s", r_[0] + 1, GraphError, "name the call that gives the value"),
                ("s", square(2), GraphError, r"no resources; \(square @ Cores\(1\)\)\(...\) runs on a worker"),
                ("s", start((square @ Cores(1))(2)), GraphError, "square can not be given a name: it has been started"),
                ("s", (count @ Cores(1))(), GraphError, "count can not be given a name: it is a stream"),
                ("", (square @ Cores(1))(2), ValueError, "1 to 255 printable characters"),
            ):
                with pytest.raises(error, match=words):
                    ex.name(name, placeholder)
            with pytest.raises(SessionError, match="nothing named 's'"):
                await ex.forget("s")
            monkeypatch.setattr(_connected, "MOST_NAMES", 1)
            with pytest.raises(SessionError, match="has 1 names"):
                ex.name("s", (square @ Cores(1))(2))
            assert list(ex.placeholders()) == ["r"]


@pytest.fixture
def warned(recwarn):
    """Warnings of one test; those about what earlier tests have left come before it."""
    gc.collect()
    recwarn.clear()
    return recwarn


async def test_a_name_that_is_too_long_is_refused_in_few_words():
    with pytest.raises(ValueError, match="takes 1 to 255") as refused:
        connect(TLS, session=10_000 * "x")
    assert len(str(refused.value)) < 300


async def test_a_call_whose_name_is_refused_is_not_said_to_be_never_awaited(warned):
    async with Executor(local=Cores(1), listen=TLS), connect(session="s") as ex:
        first_ = ex.name("one", (square @ Cores(1))(2))
        for name in ("one", ""):
            with pytest.raises((SessionError, ValueError)):
                ex.name(name, (square @ Cores(1))(3))
        assert await first_ == 4
    gc.collect()
    assert [str(one.message) for one in warned] == []


async def test_a_name_that_is_taken_gives_what_has_it_to_a_program_that_says_so(warned):
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), listen=TLS):
        async with connect(session="s") as ex:
            first_ = ex.name("one", (square @ Cores(1))(2), exist_ok=True)
            assert ex.name("one", (square @ Cores(1))(3), exist_ok=True) is first_
            assert await first_ == 4
            with pytest.raises(ArithmeticError):
                await ex.name("bad", (fails @ Cores(1))())
        async with connect(session="s") as ex:
            assert await ex.name("one", (square @ Cores(1))(5), exist_ok=True) == 4
            with pytest.raises(ArithmeticError):
                await ex.name("bad", (square @ Cores(1))(5), exist_ok=True)
            await ex.forget("bad")
            assert await ex.name("bad", (square @ Cores(1))(5), exist_ok=True) == 25
            with pytest.raises(ValueError, match="1 to 255 printable characters"):
                ex.name("", (square @ Cores(1))(5), exist_ok=True)
    gc.collect()
    assert [str(one.message) for one in warned] == []


async def test_names_come_over_broken_links_once(tmp_path):
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(2)) as head, Weather(port(head)) as weather:
        async with connect(way_through(weather, head, tmp_path, "client"), session="sweep") as ex:
            for count in range(1, 4):
                await weather.until_made(count)
                await weather.until_carried()
                weather.swallow()  # the submission leaves, and never comes
                for number in range(20):
                    ex.name(f"{count}.{number}", (square @ Cores(1))(number))
                await weather.swallowed.wait()
                weather.reset()
                weather.clear_up()
            assert await gather(*ex.placeholders().values()) == [number * number for number in range(20)] * 3
        async with connect(session="sweep") as ex:
            assert await gather(*ex.placeholders().values()) == [number * number for number in range(20)] * 3
        assert head.report().succeeded == 60


async def test_cancelling_frees_the_name_and_an_operator_leaves_word(gates, told):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)):
        async with connect(session="sweep") as ex:
            cancel(ex.name("r", (stand @ Cores(1))(gate.visit, "first")))
            ex.name("r", (square @ Cores(1))(2))
            s_ = ex.name("s", (stand @ Cores(2))(gate.visit, "never"))
            await ex.placeholders()["r"]
            number = (await ex.explain(s_)).job
        assert (await told("cancel", number))[0] == 0
        async with connect(session="sweep") as ex:
            assert await ex.placeholders()["r"] == 4
            with pytest.raises(JobCancelledError, match="operator"):
                await ex.placeholders()["s"]


async def test_the_command_line_lists_sessions_and_ends_them(gates, told):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)) as head:
        assert await told("sessions") == (0, "no sessions\n")
        async with connect(session="left") as ex:
            assert await ex.name("done", (square @ Cores(1))(2)) == 4
            ex.name("runs", (stand @ Cores(1))(gate.visit, "runs"))
            await gate.arrival()
        async with connect(session="held") as ex:
            r_ = ex.name("waits", (square @ Cores(1))(2))
            code, out = await told("sessions", "--json")
            left, held = json.loads(out)
            assert (code, left["name"], left["jobs"], left["names"], left["outcomes"]) == (0, "left", 1, 2, 1)
            assert left["kept_bytes"] > 0
            assert (held["attached"] != "", left["attached"]) == (True, "")
            code, out = await told("jobs", "--json")
            jobs = json.loads(out)["jobs"]
            assert [(job["program"], job["named"]) for job in jobs] == [("left", "runs"), ("held", "waits")]
            code, out = await told("jobs")
            title, runs, waits = [line.split() for line in out.splitlines() if line.strip(" \u2500")]
            assert (title[2], title[-1], runs[2], runs[-1], waits[2]) == ("called", "client", "runs", "left", "waits")
            code, out = await told("sessions")
            assert out.split()[:3] == ["session", "jobs", "names"]
            assert (code, "left" in out, "held" in out) == (0, True, True)
            assert (await told("sessions", "end", "held"))[0] == 0
            with pytest.raises(JobCancelledError, match="operator"):
                await r_
            assert (await told("sessions", "end", "left"))[0] == 0
            assert [row.name for row in await sessions()] == ["held"]
            await until_called(HeadScheduler, "handle", lambda: head._service.head.view.unended == 0)
            assert (await told("sessions", "end", "left"))[0] == 1
        await until_gone()


async def test_ended_jobs_are_known_by_the_names_that_their_calls_had(gates, told):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)) as head:
        async with connect(session="sweep") as ex:
            assert await ex.name("done", (square @ Cores(1))(2)) == 4
            fails_ = ex.name("fails", (fails @ Cores(1))())
            with pytest.raises(ArithmeticError):
                await fails_
            runs_ = ex.name("runs", (stand @ Cores(1))(gate.visit, "runs"))
            await gate.arrival()
            cancel(runs_)
            await until_called(HeadScheduler, "handle", lambda: head._service.head.view.unended == 0)
            assert await (square @ Cores(1))(3) == 9
            await ex.forget("done")
            ended = await ex.history()
        assert [(job.named, job.outcome) for job in ended] == [
            ("", "succeeded"),
            ("runs", "cancelled"),
            ("fails", "failed"),
            ("done", "succeeded"),
        ]
        code, out = await told("jobs", "--ended")
        title, *rows = [line.split() for line in out.splitlines() if line.strip(" \u2500")]
        assert (code, title[2], [row[2] for row in rows[1:4]]) == (0, "called", ["runs", "fails", "done"])
        _, out = await told("explain", ended[1].job)
        assert out.startswith(f"job {ended[1].job}, stand, called runs: cancelled in attempt 1")


async def test_a_head_that_closes_ends_its_sessions(gates, monkeypatch):
    monkeypatch.setattr(_service, "QUIET_S", 600.0)
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)):
        async with connect(session="sweep") as ex:
            ex.name("runs", (stand @ Cores(1))(gate.visit, "runs"))
            await gate.arrival()
        async with connect(session="sweep") as ex:
            assert list(ex.placeholders()) == ["runs"]


async def test_a_submission_that_can_not_be_read_leaves_nothing_in_the_session():
    function = SubmittedFunction(b"digest", "f", False, None, RetrySpec(), False, False, True)
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)):
        async with connect(session="sweep") as ex:
            rude = Submit(0, 0, "cores=1", 0, False, [function], [1], [0], [b"data"], [2], ["r"])
            ex._remote.client.link.post(rude, [b"code"])
            await ex._remote.client.gone()
        await until_gone()


async def test_a_head_that_runs_once_stays_for_its_sessions(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, HeadDaemon(TLS, run_once=True) as head:
        start_worker(None, resources="cores=[0]")
        async with connect(session="sweep") as ex:
            ex.name("named", (stand @ Cores(1))(gate.visit, "named"))
            start((stand @ Cores(1))(gate.visit, "unnamed"))
            visitor = await gate.arrival()
        assert not head.stop.is_set()
        async with connect(session="sweep") as ex:
            await ex.forget("named")
        visitor.release()
        visitor = await gate.arrival()
        assert not head.stop.is_set()  # nothing has a name any more, and not all has ended
        visitor.release()
        await head.stop.wait()


async def test_questions_of_the_command_line_are_no_news_and_programs_are(told, caplog):
    caplog.set_level("INFO", "grainlike")
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)):
        assert (await told("sessions"))[0] == 0
        assert (await told("ls"))[0] == 0
        async with connect():
            pass
        await logged(caplog, "is gone")
    assert len([one for one in caplog.messages if one.startswith("client ")]) == 1
