"""What an executor tells while it runs: events as they happen, and how its jobs ended."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from limits import LIMIT_S

from grainlike import Cores, Executor, JobTimeoutError, cancel, connect, delayed, gather, info, start
from grainlike.backends import ThreadBackend
from grainlike.jobs import _events

pytestmark = pytest.mark.asyncio


def one(_: object = None) -> int:
    return 1


def fail() -> None:
    raise ValueError("broken on purpose")


async def told(executor: Executor, events, last: str) -> list[tuple[str, ...]]:
    """Read events until one is as `last`."""
    found = []
    with anyio.fail_after(LIMIT_S):
        async for event in events:
            found.append((event.kind, event.name, event.outcome))
            if last in found[-1]:
                break
    return found


async def test_events_tell_of_each_attempt_with_its_slots():
    async with Executor(local=Cores([0, 1])) as executor:
        events = executor.events()
        with pytest.raises(ValueError, match="on purpose"):
            await (delayed(fail, retries=1) @ Cores(2))()
        with pytest.raises(JobTimeoutError):
            await (delayed(signal.pause, timeout=0.05) @ Cores(1))()
    with anyio.fail_after(LIMIT_S):
        found = [event async for event in events]
    assert [event.number for event in found] == list(range(1, len(found) + 1))
    assert [event.at for event in found] == sorted(event.at for event in found)
    assert {event.worker for event in found} == {"local"}
    assert [(event.kind, event.name, event.attempt, event.outcome) for event in found] == [
        ("worker_joined", "", 0, ""),
        ("job_started", "fail", 1, ""),
        ("job_ended", "fail", 1, "failed"),
        ("job_started", "fail", 2, ""),
        ("job_ended", "fail", 2, "failed"),
        ("job_started", "pause", 1, ""),
        ("job_ended", "pause", 1, "timed_out"),
        ("worker_left", "", 0, ""),
    ]
    assert [event.allocation.N for event in found if event.allocation is not None] == [2, 2, 2, 2, 2, 1, 1, 2]
    assert found[1].job == found[4].job != found[5].job


async def test_each_reader_hears_all_since_it_asked_and_one_that_is_dropped_no_more():
    async with Executor(local=Cores([0])) as executor:
        first = executor.events()
        await executor.submit(Cores(1), one)
        second = executor.events()
        await executor.submit(Cores(1), one)
        assert len(executor._service.head.observers) == 2
        assert await told(executor, first, "succeeded") == [
            ("worker_joined", "", ""),
            ("job_started", "one", ""),
            ("job_ended", "one", "succeeded"),
        ]
        assert len(await told(executor, second, "succeeded")) == 3
        del first
        gc.collect()
        assert len(executor._service.head.observers) == 1


gates: list[anyio.Event] = []
"""Gates that the jobs of a test wait for: coroutines run in the loop of the program that is the head."""


async def behind_a_gate() -> None:
    await gates[-1].wait()


@asynccontextmanager
async def embedded() -> AsyncIterator[Executor]:
    async with Executor(local=Cores(2)) as executor:
        yield executor


@asynccontextmanager
async def connected() -> AsyncIterator[Executor]:
    async with Executor(local=Cores(2), listen="tcp://127.0.0.1:0"), connect() as executor:
        yield executor


@pytest.mark.parametrize("opened", [embedded, connected])
@pytest.mark.parametrize("outcome", ["succeeded", "cancelled"])
async def test_a_reader_that_comes_while_a_job_runs_is_told_of_its_end(
    opened: Callable[[], Any], outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    gates.append(anyio.Event())
    async with opened() as executor:
        early = executor.events()
        r_ = start((delayed(behind_a_gate) @ Cores(1))())
        await told(executor, early, "job_started")
        late = executor.events()
        if outcome == "cancelled":
            cancel(r_)
        else:
            gates[-1].set()
        assert await told(executor, late, outcome) == [
            ("worker_joined", "", ""),
            ("job_ended", "behind_a_gate", outcome),
        ]
        await executor.submit(Cores(1), one)
        assert await told(executor, late, "succeeded") == [
            ("job_started", "one", ""),
            ("job_ended", "one", "succeeded"),
        ]


async def test_a_reader_that_comes_while_a_call_runs_on_another_engine_is_told_of_its_end():
    begun, go = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go.wait(LIMIT_S)

    async with Executor(backend=ThreadBackend(2)) as executor:
        r_ = start((delayed(wait) @ Cores(1))())
        await anyio.to_thread.run_sync(begun.wait, LIMIT_S)
        late = executor.events()
        go.set()
        assert (await told(executor, late, "succeeded"))[-1] == ("job_ended", "wait", "succeeded")
        await r_


async def test_a_reader_that_is_closed_receives_nothing_more():
    async with Executor(local=Cores([0])) as executor:
        async with aclosing(executor.events()) as events:
            assert len(executor._service.head.observers) == 1
            await executor.submit(Cores(1), one)
        assert executor._service.head.observers == []
        with anyio.fail_after(LIMIT_S):
            assert [event async for event in events] == []


async def test_all_that_wait_for_a_reader_hear_that_it_is_closed():
    events = _events.Events(_events.Feed(), lambda feed: None)
    heard = []

    async def wait() -> None:
        with pytest.raises(StopAsyncIteration):
            await anext(events)
        heard.append(True)

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await events.aclose()
    assert heard == [True, True]


async def test_a_reader_that_is_far_behind_sees_a_gap(monkeypatch):
    monkeypatch.setattr(_events, "MOST", 3)
    async with Executor(local=Cores([0])) as executor:
        events = executor.events()
        for _ in range(3):
            await executor.submit(Cores(1), one)
    with anyio.fail_after(LIMIT_S):
        assert [event.number async for event in events] == [6, 7, 8]


async def test_the_report_counts_every_way_to_end():
    async with Executor(local=Cores([0, 1])) as executor:
        assert await gather(executor.submit(Cores(1), one) for _ in range(5)) == [1] * 5
        for broken_ in (
            executor.submit(Cores(1), fail),
            executor.submit(Cores(1), one, (x for x in ())),
            executor.submit(Cores(99), one),
        ):
            with pytest.raises((ValueError, TypeError, RuntimeError)):
                await broken_
        with pytest.raises(TimeoutError):
            await (delayed(signal.pause, timeout=0.05) @ Cores(1))()
        with pytest.raises(ValueError, match="on purpose"):
            await (delayed(one) @ Cores(1))(executor.submit(Cores(1), fail))  # the outer one is skipped
        events = executor.events()
        running_ = start((delayed(anyio.sleep_forever) @ Cores(2))())
        await told(executor, events, "job_started")
        with anyio.move_on_after(0.01):
            await (delayed(one) @ Cores(1))()  # there is no room for it
        del running_
    report = executor.report()
    figures = (report.succeeded, report.failed, report.skipped, report.timed_out, report.cancelled)
    assert figures == (5, 4, 1, 1, 2)
    assert 0 < report.run_seconds < report.total_seconds
    assert str(report).startswith("5 succeeded, 4 failed, 1 skipped, 1 timed out, 2 cancelled in ")


async def test_what_somebody_gave_up_is_cancelled_and_what_failed_skips_the_rest():
    async with Executor(local=Cores([0])) as executor:
        events = executor.events()
        holds_ = start((delayed(anyio.sleep_forever) @ Cores(1))())
        await told(executor, events, "job_started")
        queued_ = executor.submit(Cores(1), one)
        behind_ = start((delayed(abs) @ Cores(1))((delayed(one) @ Cores(1))()))
        for r_ in (queued_, behind_, holds_):
            cancel(r_)
        assert info(queued_).state == info(behind_).state == "cancelled"
        report = executor.report()
        assert (report.skipped, report.cancelled) == (0, 4)

        holds_ = start((delayed(anyio.sleep_forever) @ Cores(1))())
        with pytest.raises(ValueError, match="on purpose"):
            await gather(delayed(fail)(), (delayed(one) @ Cores(1))(), holds_)
        cancel(holds_)
    report = executor.report()
    assert (report.skipped, report.cancelled) == (1, 5)


async def test_calls_without_resources_are_no_jobs():
    async with Executor(local=Cores([0])) as executor:
        await delayed(one)()
        assert str(executor.report()).startswith("no jobs in ")
