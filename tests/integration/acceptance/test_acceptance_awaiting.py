"""What awaiters get: errors as they were raised, cancellation that reaches the work, and nothing that is not theirs."""

import asyncio
import atexit
import logging
import os
import random
import signal
import threading
import traceback

import anyio
import pytest
from failing_jobs import OwnError, async_failure, plain_failure
from stagehands import Stage, appear, appear_blocking
from waiting import until

from grainlike import (
    Cores,
    Executor,
    GPUs,
    JobCancelledError,
    JobTimeoutError,
    Memory,
    RemoteError,
    Resource,
    SerializationError,
    UnsatisfiableError,
    WorkerLostError,
    cancel,
    delayed,
    gather,
    info,
    start,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("function", [plain_failure, async_failure])
async def test_an_error_reaches_every_awaiter_as_its_own_type(executor: Executor, function):
    r_ = (delayed(function) @ Cores(2))("lost")
    caught = []

    async def watch():
        try:
            await r_
        except KeyError as error:
            caught.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(watch)
    assert [error.args for error in caught] == [("lost",)] * 3
    name = executor.workers()[0].name
    assert caught[0].__notes__ == [
        f"grainlike: job {info(r_).job}, on worker {name}, slots cores=[0,1], attempt 1 of {function.__name__}"
    ]
    assert info(r_).job > 0
    shown = "".join(traceback.format_exception(caught[0]))
    assert "return values[x]  # this line fails" in shown
    assert f"in {function.__name__}" in shown
    assert info(r_).state == "failed"
    assert info(r_).error is caught[0]


async def test_an_error_of_the_users_own_type_keeps_its_fields(executor: Executor):
    async def fail():
        raise OwnError(7, hint="so")

    with pytest.raises(OwnError) as caught:
        await (delayed(fail) @ Cores(1))()
    assert (caught.value.code, caught.value.hint) == (7, "so")


async def test_an_error_that_cannot_travel_is_told_of(executor: Executor):
    def fail():
        error = ValueError("locked")
        error.lock = threading.Lock()
        raise error

    with pytest.raises(RemoteError, match="ValueError: locked") as caught:
        await (delayed(fail) @ Cores(1))()
    assert "in fail" in caught.value.remote_traceback


async def test_an_error_of_a_call_without_resources_is_its_own(executor: Executor):
    with pytest.raises(KeyError) as caught:
        await (delayed(async_failure)("here") + 1)
    assert "this line fails" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, type("Odd", (BaseException,), {})]
)
async def test_no_error_of_a_call_without_resources_harms_the_executor(executor: Executor, kind, anyio_backend_name):
    def plain():
        raise kind("so")

    async def coroutine():
        raise kind("so")

    class Operand:
        def __add__(self, other):
            raise kind("so")

    own = kind is asyncio.CancelledError and anyio_backend_name == "asyncio"
    for r_ in (delayed(plain)(), delayed(coroutine)()):
        with pytest.raises(JobCancelledError if own else kind, match="cancelled itself" if own else "so"):
            await r_
    with pytest.raises(kind, match="so"):
        await (delayed(Operand)() + 1)
    assert await (delayed(lambda: 1) @ Cores(8))() == 1


async def test_an_operator_that_raises_fails_what_follows_and_nothing_else(executor: Executor):
    one_ = (delayed(lambda: 1) @ Cores(1))()
    bad_ = (one_ / 0) + 1
    with pytest.raises(ZeroDivisionError):
        await bad_
    assert await one_ == 1


async def test_the_worker_survives_what_its_jobs_do(executor: Executor):
    def leave():
        raise SystemExit(3)

    def end():
        os._exit(3)

    worker = executor.workers()[0].pid
    with pytest.raises(RemoteError, match="SystemExit"):
        await (delayed(leave) @ Cores(1))()
    with pytest.raises(WorkerLostError, match="exit code 3"):
        await (delayed(end) @ Cores(1))()
    assert await (delayed(lambda: 1) @ Cores(8))() == 1
    assert executor.workers()[0].pid == worker


async def test_what_does_not_travel_is_named_and_nothing_is_sent(executor: Executor):
    async def take(thing):
        return thing

    with pytest.raises(SerializationError, match=r"argument 0.*lock"):
        await (delayed(take) @ Cores(1))({"deep": [threading.Lock()]})
    with pytest.raises(SerializationError, match=r"argument 'thing'.*lock"):
        await (delayed(take) @ Cores(1))(thing=threading.Lock())
    with pytest.raises(SerializationError, match=r"value of.*lock"):
        await (delayed(threading.Lock) @ Cores(1))()
    assert await (delayed(take) @ Cores(8))(1) == 1


async def test_what_can_never_be_given_is_refused_without_any_event_from_outside(executor: Executor, caplog):
    caplog.set_level(logging.ERROR, "grainlike")
    r_ = (delayed(lambda: 1) @ GPUs(3))()
    if executor.address is not None:
        start(r_)
        assert cancel(r_)
        return
    with pytest.raises(UnsatisfiableError, match="gpus"):
        await (r_ + 1)
    assert info(r_).attempt == 0


async def test_cancelling_one_of_two_awaiters_leaves_the_other_intact(executor: Executor, stage: Stage):
    path = stage.path

    async def act():
        await appear(path, "a")
        return 5

    r_ = (delayed(act) @ Cores(1))()
    got = []

    async def keep():
        got.append(await r_)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep)
        with anyio.CancelScope() as scope:
            await stage.wait_for("a")
            scope.cancel()
            await r_
        assert scope.cancelled_caught
        assert stage.names == {"a"}
        await stage.cue("a")
    assert got == [5]
    assert await r_ == 5


async def _cancelled(r_, stage: Stage, name: str) -> None:
    """Await `r_`, and be cancelled as soon as its job is on stage."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_swallow, r_)
        await stage.wait_for(name)
        tasks.cancel_scope.cancel()


async def _swallow(r_):
    await r_


@pytest.mark.parametrize("kind", ["coroutine", "plain", "isolated"])
async def test_cancelling_the_last_awaiter_ends_the_work_and_its_finally_runs(executor: Executor, stage: Stage, kind):
    path = stage.path

    async def coroutine():
        try:
            await appear(path, "works")
        finally:
            with anyio.CancelScope(shield=True):
                await appear(path, "tidies")

    def plain():
        try:
            appear_blocking(path, "works")
        finally:
            appear_blocking(path, "tidies")

    fn = delayed(plain if kind == "plain" else coroutine, isolate=kind == "isolated")
    r_ = (fn @ Cores(8))() + 1
    await _cancelled(r_, stage, "works")
    assert info(r_).state == "cancelled"
    await stage.wait_for("tidies")
    # Its slots are its own until it has really ended.
    next_ = start((delayed(lambda: 1) @ Cores(1))())
    assert info(next_).state == "pending"
    await stage.cue("tidies")
    assert await next_ == 1
    with pytest.raises(JobCancelledError):
        await r_


async def test_slots_come_back_only_when_the_process_is_gone(executor: Executor, stage: Stage):
    path = stage.path

    def act():
        atexit.register(appear_blocking, path, "exits")
        appear_blocking(path, "works")

    await _cancelled((delayed(act) @ Cores(8))(), stage, "works")
    await stage.wait_for("exits")
    next_ = start((delayed(lambda: appear_blocking(path, "next")) @ Cores(1))())
    assert stage.names == {"exits"}
    assert info(next_).state == "pending"
    await stage.cue("exits")
    await stage.wait_for("next")
    await stage.cue("next")
    await next_
    assert info(next_).attempt == 1, "it was given to the process that was about to end"


async def test_started_work_outlives_its_awaiters(executor: Executor, stage: Stage):
    path = stage.path

    async def act():
        await appear(path, "a")
        return 1

    r_ = start((delayed(act) @ Cores(1))())
    await _cancelled(r_, stage, "a")
    await stage.cue("a")
    assert await r_ == 1


async def test_cancel_ends_it_for_everybody(executor: Executor, stage: Stage):
    path = stage.path
    r_ = (delayed(lambda: appear_blocking(path, "a")) @ Cores(1))()
    outcomes = []

    async def watch():
        try:
            await (r_ + 1)
        except JobCancelledError as error:
            outcomes.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        tasks.start_soon(watch)
        await stage.wait_for("a")
        assert cancel(r_)
    assert len(outcomes) == 2
    assert not cancel(r_)


async def test_cancelling_what_waits_in_the_queue(executor: Executor, stage: Stage):
    path = stage.path
    act = delayed(lambda name: appear_blocking(path, name))
    first_ = start((act @ Cores(8))("first"))
    await stage.wait_for("first")
    queued = [start((act @ Cores(8))(f"q{i}")) for i in range(3)]
    cancel(queued[1])
    await stage.cue("first")
    for name in ("q0", "q2"):
        await stage.wait_for(name)
        await stage.cue(name)
    await gather(first_, queued[0], queued[2])
    assert stage.begun == ["first", "q0", "q2"]


async def test_fail_after_cancels_the_remote_work(executor: Executor, stage: Stage):
    path = stage.path

    async def act():
        await appear(path, "a")

    r_ = (delayed(act) @ Cores(1))()
    with pytest.raises(TimeoutError):
        with anyio.fail_after(0.05):
            await r_
    assert info(r_).state == "cancelled"
    await stage.wait_empty()


async def test_a_timeout_ends_the_job_and_frees_its_slots(executor: Executor, stage: Stage):
    path = stage.path
    fn = delayed(lambda: appear_blocking(path, "a"), timeout=0.2)
    with pytest.raises(JobTimeoutError, match=r"0\.2 s"):
        await (fn @ Cores(8))()
    assert await (delayed(lambda: 1) @ Cores(8))() == 1


async def test_retries_count_attempts(executor: Executor, tmp_path):
    marks = tmp_path / "marks"

    def flaky():
        with marks.open("a") as file:
            file.write("x")
        if len(marks.read_text()) < 3:
            raise OSError("not yet")
        return marks.read_text()

    r_ = (delayed(flaky, retries=2) @ Cores(1))()
    assert await r_ == "xxx"
    assert info(r_).attempt == 3


async def test_info_tells_a_jobs_life(executor: Executor, stage: Stage):
    path = stage.path
    r_ = (delayed(lambda: appear_blocking(path, "a")) @ Cores(2))()
    seen = [info(r_)]
    blocker_ = start((delayed(lambda: appear_blocking(path, "blocker")) @ Cores(7))())
    await stage.wait_for("blocker")
    start(r_)
    seen.append(info(r_))
    await stage.cue("blocker")
    await stage.wait_for("a")
    await until(lambda: info(r_).state == "running")  # the job may be quicker to appear than its worker to say so
    seen.append(info(r_))
    await stage.cue("a")
    await r_
    seen.append(info(r_))
    assert [now.state for now in seen] == ["lazy", "pending", "running", "succeeded"]
    assert [now.attempt for now in seen] == [0, 0, 1, 1]
    assert seen[1].worker is None
    assert seen[2].worker == executor.workers()[0].name
    assert len(seen[2].allocation.cores) == 2
    assert seen[2].receipt is seen[2].usage is None
    mine = os.sched_getaffinity(0)
    own = tuple(core for core in seen[3].allocation.cores if core in mine)
    assert seen[3].receipt.affinity == (own or tuple(sorted(mine)))
    assert seen[3].usage.wall_s > 0
    assert seen[3].usage.peak_rss > 1_000_000
    await blocker_


async def test_a_runner_that_dies_takes_no_other_job_with_it(executor: Executor, stage: Stage):
    path = stage.path
    act = delayed(lambda name: appear_blocking(path, name))
    victim_, other_ = start((act @ Cores(1))("victim")), start((act @ Cores(1))("other"))
    victim, _ = await stage.wait_for("victim", "other")
    os.kill(victim.pid, signal.SIGKILL)
    await stage.wait_gone("victim")
    again, _ = await stage.wait_for("victim", "other")
    assert again.pid != victim.pid
    await stage.cue_all()
    await gather(victim_, other_)
    assert info(victim_).attempt == 2
    assert info(other_).attempt == 1


async def test_a_mixed_stream_with_cancellations_gives_each_job_one_outcome(executor: Executor):
    dice = random.Random(7)
    outcomes = dict.fromkeys(range(600), 0)

    def plain(i):
        return i

    def fails(i):
        raise KeyError(i)

    async def coroutine(i):
        return i

    async def naps(i):
        await anyio.sleep(0.001 * (i % 5))
        return i

    kinds = [delayed(make) for make in (plain, fails, coroutine, naps)]
    requests = [Cores(1), Cores(2), Cores(3) & Memory("1Mi"), Resource("foo", 2)]

    async def one(i):
        r_ = (dice.choice(kinds) @ dice.choice(requests))(i)
        with anyio.move_on_after(dice.random() * 0.05 if i % 4 == 0 else None) as scope:
            try:
                assert await r_ == i
            except KeyError as error:
                assert error.args == (i,)  # noqa: PT017 - which of the two it is, the dice know
        assert info(r_).state in ("succeeded", "failed") or (scope.cancelled_caught and info(r_).state == "cancelled")
        outcomes[i] += 1

    async with anyio.create_task_group() as tasks:
        for i in outcomes:
            tasks.start_soon(one, i)
    assert set(outcomes.values()) == {1}
    await (delayed(plain) @ (Cores(8) & Resource("foo", 7) & Memory("8Gi")))(1)
