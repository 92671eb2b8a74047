"""Live view of a head: what viewers are told of workers, running jobs and the queue, and what that costs."""

import gc
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from limits import LIMIT_S

from grainlike import GVAR, Cores, Executor, Memory, cancel, delayed, gather, info, start, wait
from grainlike.client import RefusedQueryError, _queries
from grainlike.head import LiveView
from grainlike.live import LiveState
from grainlike.scheduler import RunTimes
from grainlike.wire import AskJobs, AskQueue, JobsAre, QueueIs

pytestmark = pytest.mark.anyio


@delayed
async def held(gate):
    await gate.wait()


@delayed
async def parent(gate):
    await (held @ Cores(1))(gate)


@delayed
async def quick(x):
    return x


@delayed
async def bad():
    raise ValueError("unlucky")


class Gate:
    """Event of this process: embedded coroutines share it, as they run in this loop."""

    gates: dict[int, anyio.Event] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.gates[id(self)] = anyio.Event()
        self.number = id(self)

    def __reduce__(self):
        return gate_of, (self.number,)

    def set(self) -> None:
        self.gates[self.number].set()

    async def wait(self) -> None:
        await self.gates[self.number].wait()


def gate_of(number):
    gate = object.__new__(Gate)
    gate.number = number
    return gate


@asynccontextmanager
async def viewed(executor):
    """A client of the executor's own head."""
    async with anyio.create_task_group() as tasks:
        yield await executor._service.connect_viewer(tasks)
        tasks.cancel_scope.cancel()


async def until(client, right, every_s=0.1):
    """The state of the first update for which `right` holds."""
    state = LiveState()
    async with aclosing(client.live(every_s)) as updates:
        async for told in updates:
            if state.take(told) and right(state):
                return state
    raise AssertionError("the updates ended")


def names(state, worker="local"):
    return [[job.name for job in slot.jobs] for slot in state.slots(worker)]


async def test_a_viewer_sees_who_runs_on_which_core_and_what_waits_and_why():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(2) & Memory("1Gi")) as executor, viewed(executor) as client:
            gate = Gate()
            waits_ = gather((held @ Cores(1))(gate) for _ in range(5))
            start(waits_)
            state = await until(client, lambda state: state.jobs == {"queued": 3, "running": 2})
            assert names(state) == [["held"], ["held"]]
            [one, two] = state.running("local")
            assert (one.job, two.job, one.attempt, one.client, one.program) == (1, 2, 1, 0, "")
            assert one.began is not None
            assert abs(one.began - state.at) < 600
            assert one.slots.startswith("cores=[")
            queue = await client.ask(AskQueue(0, 10), QueueIs)
            assert (queue.groups, queue.waiting) == (1, 3)
            [row] = queue.rows
            assert (row.job, row.name, row.count, row.request, row.reason) == (3, "held", 3, "cores=1", "room")
            assert "local" in row.words
            gate.set()
            await waits_
            state = await until(client, lambda state: not state.jobs)
            assert (names(state), state.totals.succeeded) == ([[], []], 5)
            assert (await client.ask(AskQueue(0, 10), QueueIs)).rows == []


async def test_a_job_that_waits_for_its_own_job_shares_its_core_with_it():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)) as executor, viewed(executor) as client:
            gate = Gate()
            waits_ = start((parent @ Cores(1))(gate))
            state = await until(client, lambda state: sum(map(len, names(state))) == 2)
            assert names(state) == [["parent", "held"]]
            gate.set()
            await waits_


async def test_of_a_run_list_one_job_runs_on_a_core(monkeypatch):
    add = RunTimes.add  # on a busy machine a job may seem to be slow
    monkeypatch.setattr(RunTimes, "add", lambda times, walls: add(times, [1e-5 for _ in walls]))
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)) as executor:
            head = executor._service.head
            view = LiveView(head.state, head.view, head.now, dict, lambda: 1.0, lambda: 0)
            await gather((quick @ Cores(1))(n) for n in range(500))  # known to be quick from now on
            waits_ = start(gather((quick @ Cores(1))(n) for n in range(2000)))
            leased, running = 0, set()
            while info(waits_).state != "succeeded":
                await anyio.lowlevel.checkpoint()
                for told in view.updates(1):
                    running.add(told.jobs.get("running", 0))
                leased = max([leased, *map(head.state.scheduler.running, head.peers)])
            assert leased > 1, "no lease had a run-list"
            assert running <= {0, 1}


async def test_a_cancelled_job_is_seen_on_its_core_until_it_is_gone():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)) as executor, viewed(executor) as client:
            gate, ends = Gate(), Gate()

            @delayed
            async def stubborn():
                try:
                    await gate.wait()
                finally:
                    with anyio.CancelScope(shield=True):
                        await ends.wait()

            wait_ = start((stubborn @ Cores(1))())
            async with aclosing(client.live(0.1)) as updates:
                state = LiveState()
                async for told in updates:
                    state.take(told)
                    if state.jobs == {"running": 1}:
                        cancel(wait_)
                    elif state.jobs == {"stopping": 1}:
                        break
            assert names(state) == [["stubborn"]]
            ends.set()
            await until(client, lambda state: not state.jobs)


async def test_workers_that_join_and_leave_are_told_once_and_nothing_is_where_nothing_changes():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)) as executor:
            head = executor._service.head
            view = LiveView(head.state, head.view, head.now, dict, lambda: 1.0, lambda: 0)
            [first] = view.updates(1)
            assert (first.full, [row.name for row in first.workers]) == (True, ["local"])
            assert view.updates(1) == []
            await (quick @ Cores(1))(1)
            [then] = view.updates(1)
            assert (then.full, then.workers, then.began, then.totals.succeeded) == (False, [], [], 1)
            assert view.updates(1) == []


async def test_another_attempt_on_the_same_core_is_told_as_a_beginning():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)) as executor:
            gates = Gate(), Gate()

            @delayed(retries=1)
            async def second():
                await gates[GVAR.job.attempt - 1].wait()
                if GVAR.job.attempt == 1:
                    raise ValueError("again")

            head = executor._service.head
            view = LiveView(head.state, head.view, head.now, dict, lambda: 1.0, lambda: 0)
            wait_ = start((second @ Cores(1))())
            told = []
            for attempt in (1, 2):
                while (info(wait_).state, info(wait_).attempt) != ("running", attempt):
                    await anyio.lowlevel.checkpoint()
                told += [(row.job, row.attempt) for message in view.updates(1) for row in message.began]
                gates[attempt - 1].set()
            await wait_
            assert told == [(1, 1), (1, 2)]


async def test_more_than_a_thousand_running_jobs_are_told_in_several_messages_of_one_moment():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1100)) as executor, viewed(executor) as client:
            gate = Gate()
            waits_ = gather((held @ Cores(1))(gate) for _ in range(1100))
            start(waits_)
            await until(client, lambda state: state.jobs == {"running": 1100})
            head = executor._service.head
            messages = LiveView(head.state, head.view, head.now, dict, lambda: 1.0, lambda: 0).updates(7)
            assert [(told.full, told.more, len(told.began)) for told in messages] == [
                (True, True, 1000),
                (False, False, 100),
            ]
            assert {row.job for told in messages for row in told.began} == set(range(1, 1101))
            gate.set()
            await waits_


async def test_jobs_are_listed_by_name_and_state_page_by_page():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)) as executor, viewed(executor) as client:
            gate = Gate()
            waits_ = gather([*((held @ Cores(1))(gate) for _ in range(4)), *((quick @ Cores(1))(n) for n in range(3))])
            start(waits_)
            await until(client, lambda state: state.jobs == {"queued": 6, "running": 1})
            page = await client.ask(AskJobs(0, 2, name="he*", state="queued"), JobsAre)
            assert ([job.job for job in page.jobs], page.total) == ([2, 3], 7)
            page = await client.ask(AskJobs(0, 2, name="he*", state="queued", after=page.next), JobsAre)
            assert ([job.job for job in page.jobs], page.next) == ([4], 0)
            assert [job.job for job in (await client.ask(AskJobs(0, 9, name="quick"), JobsAre)).jobs] == [5, 6, 7]
            gate.set()
            await waits_


async def test_a_viewer_that_reads_nothing_for_long_gets_all_anew(monkeypatch):
    monkeypatch.setattr(_queries, "MOST_UPDATES", 2)
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)) as executor, viewed(executor) as client:
            updates = client.live(0.1)
            first = await updates.__anext__()
            [asked] = client._asked.values()
            for _ in range(3):
                assert not asked.behind
                asked.take(first)
            assert (asked.behind, len(asked._answers)) == (True, 0)
            assert (await updates.__anext__()).full
            [asked] = client._asked.values()
            assert not asked.behind
            await updates.aclose()


async def test_a_client_that_follows_too_many_things_is_refused():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), listen="tcp://127.0.0.1:0") as executor, viewed(executor) as client:
            [connection] = executor._service._service._clients.here.values()
            for number in range(1000):
                connection.listens(-number)
            async with AsyncExitStack() as stack:
                for _ in range(16):
                    updates = await stack.enter_async_context(aclosing(client.live(0.1)))
                    await updates.__anext__()
                with pytest.raises(RefusedQueryError, match="follow 16 live views at a time"):
                    await client.live(0.1).__anext__()
            async with aclosing(client.live(0.1)) as updates:
                assert (await updates.__anext__()).full


async def test_failures_are_counted_while_they_come():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), on_failure="continue") as executor, viewed(executor) as client:
            with pytest.raises(ValueError, match="unlucky"):
                await (bad @ Cores(1))()
            state = await until(client, lambda state: state.totals.failed == 1)
            assert state.throughput.failures(state.at) >= 0.0
            assert (state.totals.succeeded, state.jobs) == (0, {})


async def test_a_worker_is_told_anew_when_its_bytes_have_changed():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)) as executor:
            head = executor._service.head
            view = LiveView(head.state, head.view, head.now, dict, lambda: 1.0, lambda: 0)
            assert [row.stored for told in view.updates(1) for row in told.workers] == [0]
            large_ = (delayed(bytes) @ Cores(1))(1_000_000)
            await wait(large_)
            [stored] = [row.stored for told in view.updates(1) for row in told.workers]
            assert stored > 1_000_000
            assert [told.workers for told in view.updates(1) if told.workers] == []
            del large_
            gc.collect()
            with anyio.fail_after(LIMIT_S):
                while head.state.scheduler.stored():
                    await anyio.lowlevel.checkpoint()
            assert [row.stored for told in view.updates(1) for row in told.workers] == [0]
