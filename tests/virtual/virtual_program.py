"""The whole program in one event loop on a virtual clock: head, workers, jobs, and what happens to their network.

Real are the executor with its engine, head and door, the workers' daemons with their runners of coroutines, both
schedulers, the links, sessions and frames. Only the clock and the sockets are not.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import anyio
import trio
import trio.testing
from anyio.abc import TaskGroup
from virtual_jobs import RAN, Run, add, fail, fail_twice, work
from virtual_net import Net

from grainlike import Cores, Executor, JobCancelledError, WorkerLostError, cancel, start
from grainlike.errors import GrainlikeError
from grainlike.executor._local_head import LocalHead
from grainlike.head._head import Head
from grainlike.head.server import NoStorage
from grainlike.head.server._endpoint import Endpoint
from grainlike.jobs import OutcomeListener
from grainlike.net import ReconnectingLink
from grainlike.resources import Allocation
from grainlike.scheduler import NodeScheduler
from grainlike_worker.daemon._daemon import _Daemon
from grainlike_worker.daemon._introduction import introduction
from grainlike_worker.daemon._probe import offer_for
from grainlike_worker.daemon._runners import runner_at_home

__all__ = ["Story", "play"]

JOBS = 30
WORKERS = 3
FAULTS = 4
LOST_S = 30.0
LIMIT_S = 1200.0
"""Of virtual time: far more than all jobs and all faults one after another take."""


class Story:
    """What one world showed: outcomes by job, executions, and what was done to it."""

    def __init__(self) -> None:
        self.outcomes: dict[int, list[str]] = {}
        self.ran: list[Run] = []
        self.done: list[str] = []
        self.ended = 0
        """How many workers have ended, be it that they were killed or given up."""
        self.busy: list[str] = []
        self.seconds = 0.0


def play(seed: int) -> Story:
    """Play the world of this number from beginning to end."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    story = Story()
    RAN.clear()
    chance = random.Random(seed)
    random.seed(seed)
    with _time_of(clock), _order_by(seed):
        trio.run(_World(chance, story).play, clock=clock)
    story.ran = list(RAN)
    return story


@contextmanager
def _time_of(clock: trio.testing.MockClock) -> Iterator[None]:
    real = time.monotonic
    time.monotonic = clock.current_time
    try:
        yield
    finally:
        time.monotonic = real


@contextmanager
def _order_by(seed: int) -> Iterator[None]:
    """Let the order in which trio runs what is ready come from the seed alone: it sorts by age before it shuffles."""
    inside = trio._core._run
    inside._ALLOW_DETERMINISTIC_SCHEDULING = True
    inside._r.seed(seed)
    try:
        yield
    finally:
        inside._ALLOW_DETERMINISTIC_SCHEDULING = False


class _Virtual(Executor):
    """An executor that listens in a `Net`."""

    def __init__(self, net: Net, seed: int) -> None:
        super().__init__(listen="tcp://127.0.0.1:1", insecure=True)
        self._net = net
        self._seed = seed

    def _make_service(self) -> LocalHead:
        self._local = LocalHead(self._settings, self._engine, self._changes, _VirtualStorage(self._net, self._seed))
        return self._local

    @property
    def head(self) -> Head:
        return self._local.head


class _VirtualStorage(NoStorage):
    """No storage; and a head with random choices of a seed, in a `Net`."""

    def __init__(self, net: Net, seed: int) -> None:
        super().__init__()
        self._net = net
        self._seed = seed

    def make_head(self, outcomes: OutcomeListener, alarm: Callable[[float], None], *, closed: bool) -> Head:
        return Head(outcomes, closed=closed, alarm=alarm, seed=self._seed, now=lambda: time.monotonic())

    def open_endpoint(self, listen: str, access: Path | None, *, insecure: bool) -> AbstractContextManager[Endpoint]:
        return _endpoint(self._net)


@contextmanager
def _endpoint(net: Net) -> Iterator[Endpoint]:
    listener: Any = SimpleNamespace(serve=net.serve, close=net.close)
    yield Endpoint(listener, "virtual", net.address, Path("worker.json"), lambda: None)
    net.close()


class _World:
    def __init__(self, chance: random.Random, story: Story) -> None:
        self._chance = chance
        self._story = story
        self._net: Net
        self._scopes: list[anyio.CancelScope] = []

    async def play(self) -> None:
        self._net = Net(self._chance.getrandbits(32))
        begun = anyio.current_time()
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as workers:
                async with _Virtual(self._net, self._chance.getrandbits(64)) as program:
                    await self._live(program, workers)
                workers.cancel_scope.cancel()
        self._story.seconds = anyio.current_time() - begun

    async def _live(self, program: _Virtual, workers: TaskGroup) -> None:
        for number in range(WORKERS):
            workers.start_soon(self._worker, f"w{number}", offer_for(Cores(self._chance.randint(2, 4))))
        await program.wait_for_workers(WORKERS)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._weather)
            await self._users(program)
        await self._settle(program)
        self._story.busy = [info.name for info in program.workers() if info.running]

    # --- workers -----------------------------------------------------------------------------------------------------

    async def _worker(self, name: str, offer: Allocation) -> None:
        """Serve until the world ends; whoever was given up, or killed, comes again as somebody new."""
        while True:
            with anyio.CancelScope() as scope:
                self._scopes.append(scope)
                try:
                    await self._serve(name, offer)
                except (GrainlikeError, OSError):
                    await anyio.sleep(1.0)
                finally:
                    self._scopes.remove(scope)
            await anyio.sleep(0.5)

    async def _serve(self, name: str, offer: Allocation) -> None:
        link = ReconnectingLink(await self._net.dial(), self._net.dial, LOST_S)
        hello = introduction(name, offer, lasting=True)
        scheduler = NodeScheduler(offer, [])
        try:
            await _Daemon(link, scheduler, hello, partial(runner_at_home, _no_process, show=None), show=None).run()
        finally:
            self._story.ended += link.joined

    # --- what happens to them ----------------------------------------------------------------------------------------

    async def _weather(self) -> None:
        kinds = [self._reset, self._silence, self._kill, self._late, self._turn_away]
        for _ in range(FAULTS):
            await anyio.sleep(self._chance.expovariate(1 / 5.0))
            fault = self._chance.choice(kinds)
            self._story.done.append(f"{anyio.current_time():.3f} {fault.__name__}")
            await fault()

    async def _reset(self) -> None:
        self._net.reset()

    async def _silence(self) -> None:
        self._net.silent_until = anyio.current_time() + self._chance.choice([3.0, 20.0, 50.0])

    async def _kill(self) -> None:
        if self._scopes:
            self._chance.choice(self._scopes).cancel()

    async def _late(self) -> None:
        self._net.delay_s = self._chance.choice([0.0, 0.01, 2.0, 10.0])

    async def _turn_away(self) -> None:
        self._net.refuses = True
        self._net.reset()
        await anyio.sleep(self._chance.choice([1.0, 10.0, 40.0]))
        self._net.refuses = False

    # --- who wants jobs ----------------------------------------------------------------------------------------------

    async def _users(self, program: Executor) -> None:
        async with anyio.create_task_group() as tasks:
            for key in range(JOBS):
                tasks.start_soon(self._user, key)
                await anyio.sleep(self._chance.choice([0.0, 0.0, 0.1, 1.0]))

    async def _user(self, key: int) -> None:
        """Await one job, sum or batch, and note what came of it; some are told to give up."""
        outcomes = self._story.outcomes.setdefault(key, [])
        cores, seconds = self._chance.randint(1, 2), self._chance.choice([0.0, 0.01, 0.5, 3.0, 12.0])
        kind = self._chance.choice(["work", "work", "fail", "sum", "retried", "cancelled", "abandoned"])
        try:
            if kind == "work":
                value = await (work @ Cores(cores))(key, seconds)
            elif kind == "fail":
                value = await (fail @ Cores(cores))(key, seconds)
            elif kind == "retried":
                value = await (fail_twice @ Cores(cores))(key, seconds)
            elif kind == "sum":
                parts = [(work @ Cores(1))(1000 * key + part, seconds) for part in (1, 2)]
                value = await (add @ Cores(cores))(key, seconds, *parts)
            elif kind == "cancelled":
                job = start((work @ Cores(cores))(key, seconds))
                await anyio.sleep(self._chance.uniform(0.0, 2 * seconds))
                cancel(job)
                value = await job
            else:
                value = None
                with anyio.move_on_after(self._chance.uniform(0.0, 2 * seconds)):
                    value = await (work @ Cores(cores))(key, seconds)
            outcomes.append(f"{kind}: {value}")
        except ValueError as error:
            outcomes.append(f"{kind}: ValueError {error}")
        except JobCancelledError:
            outcomes.append(f"{kind}: cancelled")
        except WorkerLostError:
            outcomes.append(f"{kind}: lost")

    async def _settle(self, program: _Virtual) -> None:
        """Until nothing runs, not even what nobody wants any more."""
        while not program.head.quiet:  # noqa: ASYNC110 - it is the last event that there is, and no time really passes
            await anyio.sleep(1.0)


async def _no_process(kind: object) -> NoReturn:
    raise AssertionError(f"coroutines need no process, and this is {kind}")
