"""Graphs of named calls outlive the program that submitted them."""

import asyncio

import msgspec
import pytest
from far import head_of, lose, records
from graph_calls import add, big, fails, never, step, total
from heads import head_process, listens
from limits import LIMIT_S
from waiting import until, until_called

from grainlike import (
    Cores,
    Executor,
    GraphError,
    JobCancelledError,
    Retry,
    ValueLostError,
    cancel,
    connect,
    delayed,
    gather,
    info,
    wait,
)
from grainlike.client._connection import call
from grainlike.head import _functions
from grainlike.scheduler import HeadScheduler
from grainlike.wire import AskSessions, RetrySpec, SessionsAre, Submit, SubmittedFunction

pytestmark = pytest.mark.asyncio

TLS = "tcp://127.0.0.1:0"

CALLS = """
import sys, time
from grainlike import connect, Cores, delayed, gather, run

def visit(path, name):
    import os, socket
    with socket.socket(socket.AF_UNIX) as way:
        way.connect(path)
        way.sendall(f"{name} {os.getpid()}\\n".encode())
        way.recv(1)

@delayed
def step(x, path, at=-1):
    if x == at:
        visit(path, x)
    return x + 1

@delayed
def both(left, right, path):
    visit(path, "both")
    return left, right

"""

CHAIN = (
    CALLS
    + """
async def main():
    async with connect(sys.argv[2] if len(sys.argv) > 2 else None, session="sweep", patience=60) as ex:
        r_ = (step @ Cores(1))(0, sys.argv[1])
        for number in range(9):
            r_ = (step @ (Cores(1) if number % 2 else Cores(1) | Cores(2)))(r_, sys.argv[1], 3)
        await ex.name("end", r_)

run(main, local=None)
"""
)


async def rows():
    async with call() as caller:
        return (await caller.ask(AskSessions(0), SessionsAre)).sessions


async def test_a_chain_goes_on_without_its_program(gates, script):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(2)) as head:
        program = script(CHAIN, gate.path)
        third = await gate.arrival()
        program.kill()
        program.wait()
        async with connect(session="sweep") as ex:
            end_ = ex.placeholders()["end"]
            assert info(end_).state == "pending"
            assert str(await ex.explain(end_)) == "It waits for calls of its graph that have not ended."
            third.release()
            assert await end_ == 10
            await ex.forget("end")
        assert (gate.visits, head.report().succeeded) == (1, 10)


async def test_a_diamond_goes_on_and_what_two_names_share_runs_once(gates, script):
    text = (
        CALLS
        + """
async def main():
    async with connect(session="sweep") as ex:
        first_ = (step @ Cores(1))(0, sys.argv[1], 0)
        left_, right_ = (step @ Cores(1))(first_, sys.argv[1]), (step @ Cores(2))(first_ + 10, sys.argv[1])
        ex.name("diamond", (both @ Cores(1))(*gather(left_, right_), sys.argv[1]))
        await ex.name("other", (step @ Cores(1))(left_ * 5, sys.argv[1]))

run(main, local=None)
"""
    )
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(2)) as head:
        program = script(text, gate.path)
        first = await gate.arrival()
        program.kill()
        program.wait()
        first.release()
        (await gate.arrival()).release()
        async with connect(session="sweep") as ex:
            found = ex.placeholders()
            assert await gather(found["diamond"], found["other"]) == [(2, 12), 11]
            await ex.forget("diamond", "other")
        assert (gate.visits, head.report().succeeded) == (2, 5)


async def test_a_head_that_is_killed_in_the_middle_goes_on_with_a_graph(gates, script, start_worker, tmp_path):
    journal = tmp_path / "journal"
    heads = [head_process(journal)]
    try:
        async with asyncio.timeout(LIMIT_S), gates() as gate:
            address = await listens(heads[-1])
            start_worker(address, resources="cores=2")
            program = script(CHAIN, gate.path, address)
            third = await gate.arrival()
            program.kill()
            program.wait()
            heads[-1].kill()
            heads.append(head_process(journal))
            assert await listens(heads[-1]) == address
            third.release()
            async with connect(session="sweep") as ex:
                assert await ex.placeholders()["end"] == 10
            assert gate.visits == 1
    finally:
        for head in heads:
            head.kill()
            head.communicate()


async def test_an_inner_error_is_that_of_the_name_for_this_program_and_the_next(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(2)) as head:
        async with connect(session="sweep") as ex:
            bad_ = (fails @ Cores(1))(gate.visit, 7)
            here_ = ex.name("here", (add @ Cores(1))((add @ Cores(1))(bad_), 1))
            (await gate.arrival()).release()
            with pytest.raises(ArithmeticError, match="not of 7") as seen:
                await here_
            assert (ex.report().failed, ex.report().skipped) == (1, 2)
            again_ = (fails @ Cores(1))(gate.visit, 8)
            ex.name("left", (add @ Cores(1))((add @ Cores(1))(again_), 1))
            visitor = await gate.arrival()
        visitor.release()
        async with connect(session="sweep") as ex:
            found = ex.placeholders()
            with pytest.raises(ArithmeticError, match="not of 7") as later:
                await found["here"]
            assert later.value.__notes__ == seen.value.__notes__
            assert len(later.value.__notes__) == 1
            assert "of fails" in later.value.__notes__[0]
            with pytest.raises(ArithmeticError, match="not of 8"):
                await found["left"]
            await ex.forget("here", "left")
        assert head.report().skipped == 4
        assert head.report().failed == 2


async def test_what_only_a_failed_call_needed_is_cancelled_or_goes_on(gates):
    for on_failure in ("fail_fast", "continue"):
        async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(2)) as head:
            async with connect(session="sweep", on_failure=on_failure) as ex:
                bad_, other_ = (fails @ Cores(1))(gate.visit, 1), (step @ Cores(1))(gate.visit, 2, 2)
                ex.name("pair", (never @ Cores(1))(bad_, other_))
                visitors = {(visitor := await gate.arrival()).name: visitor for _ in range(2)}
            visitors["fails"].release()
            async with connect(session="sweep") as ex:
                with pytest.raises(ArithmeticError):
                    await ex.placeholders()["pair"]
                if on_failure == "continue":
                    visitors["2"].release()
                await gate.until_left()
                await ex.forget("pair")
            counts = (1, 1) if on_failure == "continue" else (0, 2)
            report = head.report
            await until_called(HeadScheduler, "handle", lambda: (report().succeeded, report().skipped) == counts)  # noqa: B023


async def test_what_only_a_failed_call_needed_is_cancelled_by_a_program_that_is_there(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(2)) as head:
        async with connect(session="sweep") as ex:
            bad_, other_ = (fails @ Cores(1))(gate.visit, 1), (step @ Cores(1))(gate.visit, 2, 2)
            pair_ = ex.name("pair", (never @ Cores(1))((add @ Cores(1))(bad_), other_))
            visitors = {(visitor := await gate.arrival()).name: visitor for _ in range(2)}
            visitors["fails"].release()
            with pytest.raises(ArithmeticError):
                await pair_
            await gate.until_left()
            assert (ex.report().failed, ex.report().skipped, ex.report().cancelled) == (1, 2, 1)
            assert not ex._remote.runner._unheard
        async with connect(session="sweep") as ex:
            with pytest.raises(ArithmeticError):
                await ex.placeholders()["pair"]
            await ex.forget("pair")
        assert head.report().succeeded == 0


async def test_cancelling_a_name_cancels_what_only_it_needs(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(3)):
        async with connect(session="sweep") as ex:
            shared_ = (step @ Cores(1))(gate.visit, 1, 1)
            alone_ = (step @ Cores(1))(gate.visit, 5, 5)
            ex.name("gone", (never @ Cores(1))((add @ Cores(1))(alone_), shared_))
            ex.name("stays", (add @ Cores(1))(shared_))
            visitors = {(visitor := await gate.arrival()).name: visitor for _ in range(2)}
        async with connect(session="sweep") as ex:
            found = ex.placeholders()
            cancel(found["gone"])
            visitors["1"].release()
            assert await found["stays"] == 3
            await gate.until_left()  # the other was ended
        async with connect(session="sweep") as ex:
            assert list(ex.placeholders()) == ["stays"]
            await ex.forget("stays")
        assert await rows() == []


async def test_a_program_that_cancels_an_inner_call_leaves_word_of_it(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(2)):
        async with connect(session="sweep") as ex:
            inner_ = (step @ Cores(1))(gate.visit, 1, 1)
            outer_ = ex.name("outer", (add @ Cores(1))(inner_))
            await gate.arrival()
            cancel(inner_)
            with pytest.raises(JobCancelledError, match="step was cancelled"):
                await outer_
        async with connect(session="sweep") as ex:
            with pytest.raises(JobCancelledError, match="step was cancelled"):
                await ex.placeholders()["outer"]


async def test_large_inner_values_stay_until_they_are_used_and_come_back_after_a_loss(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as head:
        first = start_worker(head.address, name="n1", resources="cores=1")
        async with connect(session="sweep") as ex:
            await ex.wait_for_workers(1)
            array_ = (big @ Cores(1))(gate.visit, 100_000)
            waits_ = (step @ Cores(1))(gate.visit, 1, 1)
            ex.name("total", (total @ Cores(1))(array_, waits_))
            for expected in ("big", "1"):
                visitor = await gate.arrival()
                assert visitor.name == expected
                if expected == "big":
                    visitor.release()
        await until(lambda: len(records(head)) == 1)  # kept for the call that waits, though no program refers to it
        first.process.kill()
        start_worker(head.address, name="n2", resources="cores=1")
        gate.release_all()
        async with connect(session="sweep") as ex:
            assert await ex.placeholders()["total"] == 100_000 * 99_999 // 2 + 2
            await ex.forget("total")
        await until(lambda: not records(head))
        owners = head_of(head).state.owners
        assert (owners.pins, owners.unreferred, owners._owners) == ({}, {}, {})


async def test_functions_of_calls_that_wait_are_kept_though_their_program_has_gone(gates, monkeypatch):
    monkeypatch.setattr(_functions, "UNOWNED_MOST", 0)
    monkeypatch.setattr(_functions, "UNOWNED_BYTES", 0)
    monkeypatch.setattr(_functions, "_SWEEP_JOBS", 0)
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(1)) as head:
        async with connect(session="sweep") as ex:
            ex.name("end", (add @ Cores(1))((step @ Cores(1))(gate.visit, 1, 1)))
            visitor = await gate.arrival()
        functions = head_of(head).state.functions
        assert functions.count == 2  # both were swept for when their program left
        visitor.release()
        async with connect(session="sweep") as ex:
            assert await ex.placeholders()["end"] == 3
        await until(lambda: functions.count == 0)


async def test_a_later_program_goes_on_from_names_that_it_finds(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(2)) as head:
        async with connect(session="sweep") as ex:
            local_ = add(0)  # in this program: what needs it goes in its turn
            first_ = ex.name("first", (step @ Cores(1))(gate.visit, local_, 1))
            visitor = await gate.arrival()
            ex.name("second", (add @ Cores(1))(first_))
        async with connect(session="sweep") as ex:
            found = ex.placeholders()
            ex.name("third", (add @ Cores(1))(found["second"], (add @ Cores(1))(found["first"])))
        visitor.release()
        async with connect(session="sweep") as ex:
            found = ex.placeholders()
            assert await gather(found["first"], found["second"], found["third"]) == [2, 3, 6]
            assert await ex.name("fourth", (add @ Cores(1))(found["third"])) == 7
            assert not ex._remote.runner._ahead
            assert not ex._remote.runner._unheard
        assert head.report().succeeded == 5


async def test_operators_between_calls_are_applied_where_the_next_one_runs(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS, local=Cores(2)):
        async with connect(session="sweep") as ex:
            first_ = (step @ Cores(1))(gate.visit, 1, 1)
            parts_ = gather(first_ * 2, [first_ + 1][0], first_.real)
            ex.name("good", (add @ Cores(1))(parts_[0] + parts_[1], y=parts_[2]))
            ex.name("bad", (add @ Cores(1))(parts_[7]))
            visitor = await gate.arrival()
        visitor.release()
        async with connect(session="sweep") as ex:
            found = ex.placeholders()
            assert await found["good"] == 4 + 3 + 2
            with pytest.raises(IndexError, match="out of range"):
                await found["bad"]


async def test_a_program_that_stays_has_all_as_before():
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(2)) as head:
        async with connect(session="sweep") as ex:
            x_ = (add @ Cores(1))(1)
            y_ = ex.name("y", (add @ Cores(1))(x_))
            z_ = ex.name("z", (add @ Cores(1))(y_, x_))
            assert await gather(x_, y_, z_) == [2, 3, 5]
            assert await ex.name("late", (add @ Cores(1))(z_, y_)) == 8
            local_ = add(1)  # runs in this program, so what needs it waits here
            assert await ex.name("mixed", (add @ Cores(1))(local_, x_)) == 4
            assert not ex._remote.runner._ahead
            session = head._service._service._clients.sessions.find("sweep")
            await until(lambda: not session.graph.calls)  # the head has heard that all was heard
            assert session.graph.nbytes == 0
        assert head.report().succeeded == 5


async def test_a_large_outcome_stays_at_its_worker_and_is_had_by_the_next_program(gates, start_worker, tmp_path):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as head:
        gate.release_all()
        start_worker(head.address, name="n1", resources="cores=1")
        async with connect(session="sweep") as ex:
            await ex.wait_for_workers(1)
            array_ = ex.name("array", (big @ Cores(1))(gate.visit, 100_000))
            assert (await wait(array_), info(array_).where, info(array_).size > 800_000) == ([array_], ("n1",), True)
        [row] = await rows()
        assert (row.outcomes, row.kept_bytes) == (1, 0)
        async with connect(session="sweep") as ex:
            array_ = ex.placeholders()["array"]
            assert await (total @ Cores(1))(array_) == 100_000 * 99_999 // 2  # by reference
            assert ex.report().fetched == 0
            assert (await array_).sum() == 100_000 * 99_999 // 2
            del array_
        assert len(records(head)) == 1
        async with connect(session="sweep") as ex:
            assert (await ex.placeholders()["array"])[-1] == 99_999
            await ex.forget("array")
            await until(lambda: not records(head))  # now, and not when the program has left
        owners = head_of(head).state.owners
        assert (owners.pins, owners.unreferred, owners._owners) == ({}, {}, {})
        assert gate.visits == 1


async def test_a_lost_outcome_is_made_again_for_who_awaits_it_or_says_why_not(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=TLS) as head:
        gate.release_all()
        worker = start_worker(head.address, name="n1", resources="cores=1")
        once = delayed(retries=Retry(losses=0))(big.function.callable)
        async with connect(session="sweep") as ex:
            await ex.wait_for_workers(1)
            await wait(
                ex.name("again", (big @ Cores(1))(gate.visit, 100_000)),
                ex.name("once", (once @ Cores(1))(gate.visit, 100_000)),
            )
        await lose(head, {"n1": worker}, "n1")
        start_worker(head.address, name="n2", resources="cores=1")
        async with connect(session="sweep") as ex:
            found = ex.placeholders()
            assert (await found["again"])[-1] == 99_999
            assert info(found["again"]).recomputed == 1
            with pytest.raises(ValueLostError, match="losses=0"):
                await found["once"]
            await ex.forget("again", "once")
        assert gate.visits == 3


async def test_a_head_that_is_killed_has_large_outcomes_again(gates, start_worker, tmp_path):
    journal = tmp_path / "journal"
    heads = [head_process(journal)]
    try:
        async with asyncio.timeout(LIMIT_S), gates() as gate:
            gate.release_all()
            address = await listens(heads[-1])
            start_worker(address, resources="cores=1")
            async with connect(address, session="sweep") as ex:
                await wait(ex.name("array", (big @ Cores(1))(gate.visit, 1_000_000)))
            heads[-1].kill()
            heads.append(head_process(journal))
            assert await listens(heads[-1]) == address
            async with connect(session="sweep") as ex:
                assert (await ex.placeholders()["array"])[-1] == 999_999
                await ex.forget("array")
            assert gate.visits == 1
        assert sum(path.stat().st_size for path in journal.rglob("*") if path.is_file()) < 1_000_000
    finally:
        for head in heads:
            head.kill()
            head.communicate()


async def test_calls_of_graphs_that_refer_to_nothing_fail_alone_and_without_a_session_are_refused(caplog):
    function = SubmittedFunction(b"digest", "f", False, None, RetrySpec(), False, False, True)
    rude = Submit(0, 0, "cores=1", 0, False, [function], [7], [0], [b"data"], [], ["r"], needs=[[5]])
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)):
        async with connect(session="sweep") as ex:
            ex._remote.client.link.post(rude, [b"code"])
            assert await ex.name("good", (add @ Cores(1))(1)) == 2
        async with connect(session="other") as ex:  # which has no call 7
            ex._remote.client.link.post(msgspec.structs.replace(rude, children=[8], needs=[[7]]), [b"code"])
            assert await ex.name("good", (add @ Cores(1))(1)) == 2
        for session in ("sweep", "other"):
            async with connect(session=session) as ex:
                with pytest.raises(GraphError, match=r"needs call \d of its program, of which the head knows nothing"):
                    await ex.placeholders()["r"]
        async with connect() as ex:
            ex._remote.client.link.post(rude, [b"code"])
            await ex._remote.client.gone()
        assert "calls of graphs are of sessions alone" in caplog.text
