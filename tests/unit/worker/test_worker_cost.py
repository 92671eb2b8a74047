"""Cost of a job to the worker's daemon, counted in Python calls, without its links and its runners' processes.

A bound here is what was counted when it was written and a tenth more, as in `test_cost_per_job`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any

import anyio
import pytest
from counting import counted

from grainlike.net import Link, OnFrames
from grainlike.resources import parse_allocation
from grainlike.scheduler import NodeScheduler, RunnerKind
from grainlike.scheduler._statistics import TINY_S
from grainlike.wire import (
    Assign,
    Buffer,
    ClassSpec,
    Code,
    Completed,
    Define,
    Frame,
    FunctionSpec,
    Message,
    Run,
    Welcome,
    encode_frame,
)
from grainlike_worker.daemon import _core_locks, _daemon
from grainlike_worker.daemon._introduction import introduction
from grainlike_worker.daemon._output_pipes import OutputPipes
from grainlike_worker.daemon._runners import runner_in_process
from grainlike_worker.ipc._claims import ClaimPage

pytestmark = pytest.mark.asyncio

AHEAD = 100


class DeadEnd(Link):
    """A link whose far end is the test: frames are encoded, and go nowhere."""

    on_frames: OnFrames

    def __init__(self, peer: str, runs: list[tuple[DeadEnd, Run]]) -> None:
        super().__init__(peer)
        self._runs = runs

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        encode_frame(message, buffers)
        if isinstance(message, Run):
            self._runs.append((self, message))

    async def run(self, on_frames: OnFrames) -> None:
        self.on_frames = on_frames
        await anyio.sleep_forever()

    async def aclose(self) -> None: ...

    def _has_unsent(self) -> bool:
        return False

    def _drop(self) -> None: ...


class Process:
    """A runner's process that answers when the test does."""

    pid, steps, scratch = 1, None, ""

    def __init__(self, runs: list[tuple[DeadEnd, Run]]) -> None:
        self.link = DeadEnd("runner", runs)
        self.claims = ClaimPage.create()
        self.output = OutputPipes(framed=False)

    async def wait(self) -> int:
        return 0

    def kill(self) -> None: ...

    async def aclose(self) -> None:
        self.claims.close()
        self.output.close()


class Node:
    """A daemon with two cores, and its jobs' other end."""

    def __init__(self, head: DeadEnd, runs: list[tuple[DeadEnd, Run]], wall_s: float) -> None:
        self._head = head
        self._runs = runs
        self._wall_s = wall_s
        self._numbers = count(1)

    def define(self) -> None:
        spec = FunctionSpec(fn=1, digest=b"", name="plain", is_async=False, timeout=None)
        self._head.on_frames([Frame(Define([spec], [ClassSpec(1, "cores=1", isolate=False)]), [b"code"])])

    def assigned(self, jobs: int, *, ahead: bool) -> list[Frame]:
        numbers = [next(self._numbers) for _ in range(jobs)]
        return [Frame(Assign(1, ahead, numbers, [1] * jobs, [1] * jobs, [b"arguments"] * jobs, [], None), [])]

    def answered(self, run: Run) -> list[Frame]:
        jobs, now = len(run.jobs), time.monotonic()
        columns = [now] * jobs, [self._wall_s] * jobs, [1e-5] * jobs, [1] * jobs, [b"value"] * jobs
        return [Frame(Completed(run.lease, run.jobs, run.attempts, [Code.SUCCEEDED] * jobs, *columns, [], now), [])]

    def work(self, *, ahead: int = 0, planned: int = 1) -> float:
        """Take jobs, and answer until none is left; return the calls that the daemon makes for each."""
        calls = 0
        frames = self.assigned(planned, ahead=False) + (self.assigned(ahead, ahead=True) if ahead else [])
        with counted() as counter:
            self._head.on_frames(frames)
        calls += counter.python
        while self._runs:
            link, run = self._runs.pop(0)
            answer = self.answered(run)
            with counted() as counter:
                link.on_frames(answer)
            calls += counter.python
        return calls / (ahead + planned)


@asynccontextmanager
async def node(wall_s: float) -> AsyncIterator[Node]:
    """A daemon with two cores whose jobs take `wall_s` each."""
    runs: list[tuple[DeadEnd, Run]] = []
    head, offer = DeadEnd("head", runs), parse_allocation("cores=[0,1]")

    async def spawn(kind: RunnerKind) -> Any:
        return Process(runs)

    make = partial(runner_in_process, spawn)
    daemon = _daemon._Daemon(head, NodeScheduler(offer), introduction("n1", offer, ""), make, show=None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon.run)
        await anyio.wait_all_tasks_blocked()
        head.on_frames([Frame(Welcome("c", 3600.0, [], "n1"), [])])
        made = Node(head, runs, wall_s)
        made.define()
        head.on_frames(made.assigned(2, ahead=False))  # so that both runners are up
        await anyio.wait_all_tasks_blocked()
        for _ in range(20):
            made.work()
        yield made
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("wall_s", "ahead", "calls"),
    [
        pytest.param(TINY_S / 10, 0, 94, id="one after another"),
        pytest.param(TINY_S / 1000, AHEAD, 1.9, id="many at once"),
        pytest.param(2 * TINY_S, AHEAD, 86, id="many at once, a lease each"),
    ],
)
async def test_a_job_costs_the_daemon_this_many_calls(
    wall_s: float, ahead: int, calls: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine would have it look at its cores, or let go of them, more often.
    for module, name in ((_daemon, "LOOK_S"), (_core_locks, "LINGER_S")):
        monkeypatch.setattr(module, name, 3600.0)
    async with node(wall_s) as one:
        least = min(one.work(ahead=ahead) for _ in range(5))
    assert calls * 0.85 <= least <= calls  # much less is another way than the one that is named


async def test_the_head_is_told_that_jobs_begin_before_they_do_and_a_runner_goes_on_before_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[str] = []
    async with node(TINY_S / 10) as one:
        monkeypatch.setattr(DeadEnd, "flush", lambda link: left.append(link.peer))
        one._head.on_frames(one.assigned(3, ahead=False))
        assert left == ["head", "runner", "runner"]
        left.clear()
        link, run = one._runs.pop(0)
        link.on_frames(one.answered(run))
        assert left == ["runner", "head"]
        while one._runs:
            link, run = one._runs.pop(0)
            link.on_frames(one.answered(run))
