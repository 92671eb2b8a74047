"""Barriers of run-lists, as the daemon holds them: what is found behind one is of the lease that it was raised for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from grainlike.scheduler import BarrierHeld, RaiseBarrier
from grainlike.wire import Run
from grainlike_worker.daemon import _daemon, _runner_supervisor
from grainlike_worker.daemon._output import Outputs
from grainlike_worker.daemon._runner_supervisor import RunnerSupervisor
from grainlike_worker.ipc._claims import IDLE, ClaimPage

pytestmark = pytest.mark.anyio


async def never() -> None:
    raise AssertionError("no process is started here")


def runs(lease: int, *jobs: int) -> Run:
    count = len(jobs)
    return Run(lease, "cores=[0]", list(jobs), [1] * count, [4] * count, [None] * count, [b""] * count, [0] * count)


@pytest.mark.parametrize("next_comes", [False, True])
async def test_a_barrier_narrows_the_lease_that_it_was_raised_for_alone(
    next_comes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap = Outputs(lambda message: None).tap(1)
    runner = RunnerSupervisor(never, lambda pid: None, tap, own=True)  # type: ignore[arg-type]
    told: list[Any] = []
    daemon: Any = SimpleNamespace(_runners={1: runner}, _tell=told.append, _flush=lambda: None)

    def begin(run: Run) -> None:
        runner.post(run)
        runner.works_on(run.lease, run.jobs, run.attempts)
        runner._last_claim = 0  # it is at the first of them

    async def stands(seconds: float) -> None:
        assert seconds == _daemon.BARRIER_S
        if next_comes:
            begin(runs(2, 20, 21))

    monkeypatch.setattr(_daemon.anyio, "sleep", stands)
    begin(runs(1, 10, 11, 12))
    await _daemon._Daemon._hold_barrier(daemon, RaiseBarrier(1, 1))
    if next_comes:
        assert told == []
        assert tap._jobs == [20, 21]
    else:
        assert told == [BarrierHeld(1, 1, 0)]
        assert tap._jobs == [10]


async def test_what_a_process_shows_of_the_lease_before_is_not_taken_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Runner that has told of its last outcomes, and is held up before it says that it is idle."""
    tap = Outputs(lambda message: None).tap(1)
    runner = RunnerSupervisor(never, lambda pid: None, tap, own=True)  # type: ignore[arg-type]
    told: list[Any] = []
    daemon: Any = SimpleNamespace(_runners={1: runner}, _tell=told.append, _flush=lambda: None)
    claims = ClaimPage.create()
    barriers: list[int] = []

    async def stands(seconds: float) -> None:
        barriers.append(claims.barrier)
        if len(barriers) == 2:
            claims.started = IDLE
            claims.lease = 2
        elif len(barriers) == 3:
            claims.started = 1

    monkeypatch.setattr(_daemon.anyio, "sleep", stands)
    try:
        claims.lease, claims.started = 1, 4
        process: Any = SimpleNamespace(
            claims=claims, flush=lambda: None, link=SimpleNamespace(post=lambda *_: None),
            steps=None, output=SimpleNamespace(begin=lambda: None, drain=lambda _: None),
        )  # fmt: skip
        runner._process = process
        runner.post(runs(2, 20, 21, 22, 23))
        runner.works_on(2, [20, 21, 22, 23], [1] * 4)
        runner.bar()
        await _daemon._Daemon._hold_barrier(daemon, RaiseBarrier(1, 2))
        assert barriers == [5, 5, 5, 2], "it stands behind what has begun before that is told"
        assert told == [BarrierHeld(1, 2, 1)]
        runner.post(runs(3, 30, 31))
        runner._take_leave(process)
        assert runner._last_claim == IDLE, "nothing of the list that it died with had begun"
    finally:
        claims.close()


async def test_of_one_without_a_limit_none_waits_until_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its function may take for ever to be loaded: others of its list, which have a limit, run elsewhere."""
    runner = RunnerSupervisor(never, lambda pid: None, Outputs(lambda message: None).tap(1), own=True)  # type: ignore[arg-type]
    claims = ClaimPage.create()
    try:
        claims.lease, claims.since, claims.started = 1, 0, 1
        runner._process = SimpleNamespace(  # type: ignore[assignment]
            claims=claims, flush=lambda: None, link=SimpleNamespace(post=lambda *_: None)
        )
        runner.post(msgspec.structs.replace(runs(1, 10, 11, 12), limit=1.0, limits=(1.0, None, 1.0)))
        runner.bar()
        assert runner.held_at(1) == 1
        claims.started = 0
        runner.bar()
        assert runner.held_at(1) is None
    finally:
        claims.close()


@pytest.mark.parametrize(("limit", "ran_s"), [(1.0, 2.5), (None, 0.0)])
async def test_it_is_told_for_how_long_a_job_with_a_time_limit_has_run(
    limit: float | None, ran_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = RunnerSupervisor(never, lambda pid: None, Outputs(lambda message: None).tap(1), own=True)  # type: ignore[arg-type]
    told: list[Any] = []
    daemon: Any = SimpleNamespace(_runners={1: runner}, _tell=told.append, _flush=lambda: None)
    claims = ClaimPage.create()

    async def stands(seconds: float) -> None:
        assert seconds == _daemon.BARRIER_S

    monkeypatch.setattr(_daemon.anyio, "sleep", stands)
    monkeypatch.setattr(_runner_supervisor.time, "monotonic_ns", lambda: 4_000_000_000)
    try:
        claims.lease, claims.since, claims.started = 1, 1_500_000_000, 1
        link = SimpleNamespace(post=lambda *_: None)
        process: Any = SimpleNamespace(claims=claims, flush=lambda: None, link=link)
        runner._process = process
        runner.post(msgspec.structs.replace(runs(1, 10, 11, 12), limit=limit))
        runner.bar()
        await _daemon._Daemon._hold_barrier(daemon, RaiseBarrier(1, 1))
        assert told == [BarrierHeld(1, 1, 1, ran_s)]
    finally:
        claims.close()


async def test_a_job_that_is_claimed_and_waits_to_begin_is_not_told_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner may have to wait until we have read the outcomes of the jobs before it."""
    runner = RunnerSupervisor(never, lambda pid: None, Outputs(lambda message: None).tap(1), own=True)  # type: ignore[arg-type]
    told: list[Any] = []
    daemon: Any = SimpleNamespace(_runners={1: runner}, _tell=told.append, _flush=lambda: None)
    claims = ClaimPage.create()
    waited = 0

    async def stands(seconds: float) -> None:
        nonlocal waited
        assert told == []
        waited += 1
        if waited == 3:
            claims.since = 3_000_000_000

    monkeypatch.setattr(_daemon.anyio, "sleep", stands)
    monkeypatch.setattr(_runner_supervisor.time, "monotonic_ns", lambda: 4_000_000_000)
    try:
        claims.lease, claims.since, claims.started = 1, 0, 1
        runner._process = SimpleNamespace(  # type: ignore[assignment]
            claims=claims, flush=lambda: None, link=SimpleNamespace(post=lambda *_: None)
        )
        runner.post(msgspec.structs.replace(runs(1, 10, 11, 12), limit=1.0))
        runner.bar()
        await _daemon._Daemon._hold_barrier(daemon, RaiseBarrier(1, 1))
        assert (told, waited) == ([BarrierHeld(1, 1, 1, 1.0)], 3)
    finally:
        claims.close()
