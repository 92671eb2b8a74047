"""What requests can ask for besides amounts, on real processes: each kind is honoured, or refused by name."""

from __future__ import annotations

import anyio
import pytest
from limits import LIMIT_S
from plain_calls import endless, needs, slots

from grainlike import (
    Cores,
    Executor,
    GPUs,
    JobTimeoutError,
    Limit,
    Memory,
    Nodes,
    Rate,
    Resource,
    Token,
    UnsatisfiableError,
    WallTime,
    delayed,
    gather,
    info,
    start,
)

pytestmark = pytest.mark.asyncio


async def test_the_body_sees_which_alternative_it_got():
    async with Executor(local=Cores(4) & GPUs(1)):
        assert await (slots @ (GPUs(1) | Cores(2)))() == ((), (0,))
        assert await (slots @ (GPUs(2) | Cores(2)))() == ((0, 1), ())


async def test_after_a_memory_error_it_runs_again_with_more():
    async with Executor(local=Cores(1) & Memory("8G")):
        r_ = (needs @ Memory("1G", grow=2, max="8G"))(3 * 10**9)
        assert await r_ == 4 * 10**9
        assert info(r_).attempt == 3
        with pytest.raises(MemoryError, match="too little"):
            await (needs @ Memory("1G", grow=2, max="2G"))(3 * 10**9)


async def test_g14_a_walltime_ends_its_job():
    async with Executor(local=Cores(1)):
        with anyio.fail_after(LIMIT_S), pytest.raises(JobTimeoutError, match=r"walltime of 0\.2 s"):
            await (endless @ (Cores(1) & WallTime(0.2)))()
        assert await (slots @ Cores(1))() == ((0,), ())


async def test_limits_and_rates_are_honoured_by_the_head():
    async with Executor(local=Cores(4)) as executor:
        held = start((endless @ (Cores(1) & Limit("db", 1)))())
        waiting = start((slots @ (Cores(1) & Limit("db", 1)))())
        paced = [start((slots @ (Cores(1) & Rate("api", 50)))()) for _ in range(3)]
        await gather(paced)
        said = await executor.explain(waiting)
        assert (said.reason, said.ration) == ("limit", "limit:db")
        assert info(held).state in ("pending", "running")


async def test_tokens_are_the_workers():
    async with Executor(local=Cores(2) & Token("big")):
        assert await (slots @ (Cores(1) & Token("big")))() == ((0,), ())
        with pytest.raises(UnsatisfiableError, match=r"small; .*all that is offered here is cores=\[0,1\] token=big$"):
            await (slots @ (Cores(1) & Token("small")))()


async def test_what_is_not_offered_here_is_said_with_the_offer_that_would_have_it():
    async with Executor(local=Cores(2)):
        with pytest.raises(UnsatisfiableError) as caught:
            await (slots @ (Cores(1) & Memory("1Gi") & GPUs(1)))()
        assert str(caught.value) == (
            "cores=1 gpus=1 memory=1Gi can never be given: no worker has gpus, memory; nearest is local, short of "
            "gpus, memory; all that is offered here is cores=[0,1]; "
            '`local=Cores([0, 1]) & GPUs(1) & Memory("1Gi")` offers more'
        )
    async with Executor(local=Cores(2) & Memory("500Mi")):
        with pytest.raises(UnsatisfiableError, match=r"^cores=1 memory=1Gi can .* \(asked 1Gi, at most 500Mi\)"):
            await (slots @ (Cores(1) & Memory("1Gi")))()


async def test_the_note_of_an_error_has_its_memory_as_people_write_it():
    async with Executor(local=Cores(1) & Memory("500Mi")):
        with pytest.raises(ZeroDivisionError) as caught:
            await (delayed(divmod) @ (Cores(1) & Memory("100Mi")))(1, 0)
        assert "slots cores=[0] memory=100Mi, attempt 1" in caught.value.__notes__[0]


async def test_a_gang_is_refused_where_there_are_too_few_workers():
    async with Executor(local=Cores(2)):
        with pytest.raises(UnsatisfiableError, match="needs 2 workers"):
            await (slots @ Nodes(2, each=Cores(1)))()


async def test_a_call_that_is_not_sent_yet_does_not_wait_for_an_open_executor():
    async with Executor(local=Cores(1)) as executor:
        calls = [(delayed(abs) @ Cores(1))(-number) for number in range(5000)]
        all_ = start(gather(calls))
        said = await executor.explain(calls[-1])
        assert (said.state, said.job) == ("unsent", 0)
        assert str(said).startswith("It is about to be sent")
        assert sum(await all_) == sum(range(5000))


async def test_explain_in_every_state():
    async with Executor(local=Cores(2) & Resource("lic", 1)) as executor:
        lazy = (slots @ Cores(1))()
        assert (await executor.explain(lazy)).state == "lazy"
        running = start((endless @ Cores(2))())
        blocked = start((slots @ Cores(1))())
        after = start(delayed(lambda pair: pair[0])(blocked))
        assert (await executor.explain(blocked)).reason in ("room", "reservation")
        assert (await executor.explain(after)).inputs == ("slots",)
        assert (await executor.explain(running)).worker == "local"
        done = (slots @ Resource("lic", 1))()
        await done
        assert str(await executor.explain(done)) == "It has succeeded."
