"""`Retry` on every kind of worker and call: what is tried again, what is not, and that waiting shows."""

import os

import anyio
import anyio.lowlevel
import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import (
    Cores,
    Dag,
    Executor,
    JobTimeoutError,
    Retry,
    WorkerLostError,
    delayed,
    info,
    start,
)


class Mine(Exception):
    """Of a module that no worker can import: it travels by value."""


class MineToo(Mine):
    """A kind of it."""


def mark(path):
    """One more attempt; how many there were."""
    with path.open("a+") as file:
        file.write("x")
        file.seek(0)
        return len(file.read())


def attempts(path, kinds):
    """Fail by each kind in turn, and then give how many attempts that took."""
    count = mark(path)
    if count <= len(kinds):
        raise kinds[count - 1]("not yet")
    return count


def plain(path, *kinds):
    return attempts(path, kinds)


async def coroutine(path, *kinds):
    return attempts(path, kinds)


async def waits(path, *kinds):
    await anyio.lowlevel.checkpoint()
    return attempts(path, kinds)


def function(kind, retry):
    isolated = kind == "isolated"
    return delayed(
        {"plain": plain, "coroutine": coroutine, "waits": waits, "isolated": coroutine}[kind],
        isolate=isolated,
        retries=retry,
    )


KINDS = ["plain", "coroutine", "waits", "isolated"]


@pytest.mark.anyio
@pytest.mark.parametrize("request_", [None, Cores(1)], ids=["here", "there"])
@pytest.mark.parametrize("kind", KINDS)
async def test_only_what_was_named_is_tried_again(kind, request_, tmp_path):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)):
            fn = function(kind, Retry(3, on=(Mine, LookupError), backoff=0.001))
            call = fn @ request_ if request_ is not None else fn
            assert await call(tmp_path / "good", MineToo, KeyError, Mine) == 4
            with pytest.raises(OSError, match="not yet"):
                await call(tmp_path / "bad", Mine, OSError, Mine)
    assert (tmp_path / "bad").read_text() == "xx"


@pytest.mark.asyncio
async def test_workers_that_dial_in_and_clients_and_jobs_of_jobs_know_it(tmp_path, start_worker):
    retry = Retry(2, on=Mine)

    @delayed
    async def parent(good, bad):
        inner = delayed(plain, retries=retry) @ Cores(1)
        try:
            await inner(bad, OSError)
        except OSError:
            return await inner(good, Mine, Mine)

    with anyio.fail_after(LIMIT_S):
        async with Executor(listen="tcp://127.0.0.1:0") as executor:
            start_worker(executor.address)
            assert await (parent @ Cores(1))(tmp_path / "a", tmp_path / "b") == 3
        assert (tmp_path / "b").read_text() == "x"


async def explained(executor, r_, reason):
    """Return why it waits, once that is for this reason; of a call without resources nobody is told."""

    async def waits():
        found = await executor.explain(r_)
        return found if found.reason == reason else None

    return await until(waits)


@pytest.mark.asyncio
async def test_explain_says_that_a_job_waits_and_it_can_be_given_up(tmp_path):
    for call in (
        delayed(plain, retries=Retry(3, backoff=600)),
        delayed(plain, retries=Retry(3, backoff=600)) @ Cores(1),
    ):
        with anyio.fail_after(LIMIT_S):
            async with Executor(local=Cores(1)) as executor:
                r_ = start(call(tmp_path / str(id(call)), OSError))
                found = await explained(executor, r_, "backoff")
                assert str(found).endswith("s, attempt 2 of 4.")
                assert 440 < found.starts_in_s <= 600
                assert info(r_).state == "pending"
                del r_


@pytest.mark.asyncio
async def test_a_timeout_is_tried_again_only_if_it_is_named(tmp_path):
    @delayed(timeout=0.1, retries=Retry(1, on=LookupError))
    async def slow():
        mark(tmp_path / "tries")
        await anyio.sleep(60)

    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)):
            with pytest.raises(JobTimeoutError):
                await (slow @ Cores(1))()
            with pytest.raises(JobTimeoutError):
                await slow()
    assert (tmp_path / "tries").read_text() == "xx"


@pytest.mark.asyncio
@pytest.mark.parametrize("losses", [0, 1])
async def test_a_process_that_dies_is_forgiven_as_often_as_was_said(losses, tmp_path):
    @delayed(retries=Retry(5, losses=losses))
    def die():
        mark(tmp_path / "tries")
        os._exit(7)

    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)):
            with pytest.raises(WorkerLostError, match="exit code 7"):
                await (die @ Cores(1))()
    assert (tmp_path / "tries").read_text() == "x" * (losses + 1)


@pytest.mark.asyncio
async def test_named_graphs_and_streams_know_it(tmp_path):
    @delayed(retries=Retry(2, on=Mine, backoff=0.001))
    async def numbers(path):
        yield attempts(path, [Mine, Mine])

    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)):
            dag = Dag()
            dag.add("again", delayed(plain, retries=Retry(1, on=Mine)), tmp_path / "dag", Mine, request=Cores(1))
            report = await dag.run()
            assert report.succeeded
            assert [n async for n in (numbers @ Cores(1))(tmp_path / "there")] == [3]
            assert [n async for n in numbers(tmp_path / "here")] == [3]
