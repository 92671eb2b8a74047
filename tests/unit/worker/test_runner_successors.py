"""A runner whose process is used up, and the next one: what that hears first, and which barriers it finds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from grainlike.net import OnFrames
from grainlike.wire import Buffer, Completed, Define, Frame, FunctionSpec, Gang, Message, NodeSpec, Renew, Run, Setup
from grainlike_worker.daemon._output import Outputs
from grainlike_worker.daemon._output_pipes import OutputPipes
from grainlike_worker.daemon._runner_supervisor import RunnerSupervisor
from grainlike_worker.ipc._claims import NO_BARRIER, ClaimPage

pytestmark = pytest.mark.anyio


def runs(lease: int, *jobs: int, limit: float | None = None) -> Run:
    count = len(jobs)
    return Run(
        lease, "cores=[0]", list(jobs), [1] * count, [4] * count, [None] * count, [b""] * count, [0] * count, limit
    )


def completed(lease: int, *jobs: int) -> Frame:
    count = len(jobs)
    ones, zeros = [1] * count, [0.0] * count
    return Frame(Completed(lease, list(jobs), ones, [0] * count, zeros, zeros, zeros, ones, [b""] * count, [], 0.0), [])


class Pipes(OutputPipes):
    begun = 0
    """Number of leases for which output began."""

    def begin(self) -> None:
        super().begin()
        self.begun += 1


class Process:
    """A process of a runner, and its link, which the test speaks for."""

    pid, steps, scratch = 1, None, ""
    on_frames: OnFrames

    def __init__(self) -> None:
        self.link = self
        self.claims = ClaimPage.create()
        self.output = Pipes(framed=False)
        self.heard: list[tuple[Message, list[Buffer]]] = []
        self._over = anyio.Event()

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        self.heard.append((message, list(buffers)))

    async def run(self, on_frames: OnFrames) -> None:
        self.on_frames = on_frames
        await self._over.wait()

    def says(self, *frames: Frame) -> None:
        self.on_frames(list(frames))

    def ends(self) -> None:
        self._over.set()

    def flush(self) -> None: ...

    async def wait(self) -> int:
        return 0

    def kill(self) -> None: ...

    async def aclose(self) -> None:
        self.claims.close()
        self.output.close()


class Runner:
    """A runner, its processes until now, and what the daemon hears of it."""

    def __init__(self) -> None:
        self.tap = Outputs(lambda *_: None).tap(1)
        self.body = RunnerSupervisor(self._spawn, lambda pid: None, self.tap, own=True)  # type: ignore[arg-type]
        self.told: list[list[Message]] = []
        self.processes: list[Process] = []
        self._may_spawn = anyio.Event()

    async def spawned(self) -> Process:
        """Let a process start, and return it once it has been told all that is there for it."""
        self._may_spawn.set()
        await anyio.wait_all_tasks_blocked()
        return self.processes[-1]

    def begin(self, run: Run, buffers: Sequence[Buffer] = ()) -> None:
        """Give it a lease, as the daemon does."""
        self.body.works_on(run.lease, run.jobs, run.attempts)
        self.body.post(run, buffers)

    def hear(self, frames: list[Frame]) -> None:
        self.told.append([message for message, _ in frames])

    async def _spawn(self) -> Process:
        await self._may_spawn.wait()
        self._may_spawn = anyio.Event()
        self.processes.append(Process())
        return self.processes[-1]


@asynccontextmanager
async def runner_of_one() -> AsyncIterator[Runner]:
    async with anyio.create_task_group() as tasks:
        runner = Runner()
        tasks.start_soon(runner.body.run, runner.hear)
        yield runner
        tasks.cancel_scope.cancel()


async def test_a_barrier_that_was_raised_for_a_lease_does_not_stand_for_the_next() -> None:
    async with runner_of_one() as runner:
        process = await runner.spawned()
        runner.begin(runs(1, 10, 11, 12))
        process.claims.lease, process.claims.started = 1, 0
        runner.body.bar()
        assert process.claims.barrier == 1
        runner.begin(runs(2, 20, 21))
        assert process.claims.barrier == NO_BARRIER


async def test_what_was_barred_before_its_process_was_up_begins_nothing_and_the_next_lease_all() -> None:
    async with runner_of_one() as runner:
        runner.begin(runs(1, 10, 11, limit=2.0))
        runner.body.bar()
        first = await runner.spawned()
        assert first.claims.barrier == 0
        runner.begin(runs(2, 20, 21, limit=2.0))
        assert first.claims.barrier == NO_BARRIER
        first.says(Frame(Renew(), []))
        first.ends()
        second = await runner.spawned()
        assert second.heard[-1][0] == runs(2, 20, 21, limit=2.0)
        assert second.claims.barrier == NO_BARRIER


async def test_a_successor_of_one_that_was_barred_begins_nothing_of_the_same_lease() -> None:
    async with runner_of_one() as runner:
        runner.begin(runs(1, 10, 11, limit=2.0))
        runner.body.bar()
        first = await runner.spawned()
        first.says(Frame(Renew(), []))
        first.ends()
        assert (await runner.spawned()).claims.barrier == 0


async def test_a_barrier_that_a_process_did_not_come_to_stands_for_its_successor() -> None:
    async with runner_of_one() as runner:
        first = await runner.spawned()
        runner.begin(runs(1, 10, 11, limit=2.0))
        runner.body.bar()
        first.says(Frame(Renew(), []))
        first.ends()
        second = await runner.spawned()
        assert second.heard[-1][0] == runs(1, 10, 11, limit=2.0)
        assert second.claims.barrier == 0


async def test_a_successor_hears_all_that_the_lease_needs_and_its_output_is_the_leases() -> None:
    define = Define([FunctionSpec(4, b"", "f", is_async=False, timeout=None)], [])
    gang = Gang(20, 1, [NodeSpec("n1", "host", "cores=[0]")])
    async with runner_of_one() as runner:
        runner.body.post(Setup("n1", []))
        runner.body.post(define, [b"code"])
        first = await runner.spawned()
        runner.begin(runs(1, 10))
        first.says(completed(1, 10))
        runner.body.works_on(2, [20], [1])
        runner.body.post(gang)
        runner.body.post(runs(2, 20), [b"large"])
        before = first.heard[-2:]
        assert before == [(gang, []), (runs(2, 20), [b"large"])]
        runner.tap.lease([], [])
        first.says(Frame(Renew(), []))
        first.ends()
        second = await runner.spawned()
        assert second.heard == [(Setup("n1", []), []), (define, [b"code"]), *before]
        assert second.output.begun == 1
        assert runner.tap._jobs == [20]
        second.says(completed(2, 20), Frame(Renew(), []))
        second.ends()
        third = await runner.spawned()
        assert third.heard == [(Setup("n1", []), []), (define, [b"code"])], "what has been answered is not run again"


async def test_what_a_process_says_after_its_last_answer_is_told_when_it_is_gone() -> None:
    async with runner_of_one() as runner:
        process = await runner.spawned()
        runner.begin(runs(1, 10, 11, 12, 13))
        process.says(completed(1, 10), Frame(Renew(), []), completed(1, 11), Frame(Renew(), []), completed(1, 12))
        process.says(completed(1, 13))
        assert runner.told == [[completed(1, 10).message]]
        process.ends()
        await anyio.wait_all_tasks_blocked()
        assert runner.told[1:] == [[completed(1, job).message for job in (11, 12, 13)], [Renew()]]
