"""Jobs beside one that kills its process, hangs, closes or spoils what all need: each ends as if it was alone."""

import asyncio
import os

import pytest
from fault_calls import one
from free_slots import slots_are_free
from limits import LIMIT_S

from grainlike import Cores, Executor, Retry, WorkerLostError, delayed, gather, info, start

pytestmark = pytest.mark.asyncio


async def test_an_isolated_job_that_kills_its_process_takes_none_along_that_has_succeeded():
    """Each end is reported before the next job begins."""

    @delayed(isolate=True, retries=Retry(0, losses=0))
    def tiny(number):
        if number == 30:
            os._exit(11)
        return number

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        await gather((tiny @ Cores(1))(number) for number in range(100, 200))
        outcomes = await gather(((tiny @ Cores(1))(number) for number in range(60)), return_exceptions=True)
        assert [number for number, value in enumerate(outcomes) if value != number] == [30]
        assert isinstance(outcomes[30], WorkerLostError)
        assert await (one @ Cores(1))() == 1


async def test_a_local_call_may_depend_on_a_job_far_away(start_worker):
    @delayed
    async def local(x):
        return x + 1

    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address)
        assert await local((one @ Cores(1))()) == 2


async def test_a_graph_of_many_local_calls_takes_many_turns_of_the_loop():
    @delayed
    async def local(x):
        return x

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        assert len(await gather(local(number) for number in range(3000))) == 3000


async def test_5000_tiny_jobs_do_not_wait_behind_one_that_is_held(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(2)) as executor:
        visit = gate.visit

        @delayed
        def tiny(number):
            if number == 2500:
                visit("long")
            return number

        jobs = [(tiny @ Cores(1))(number) for number in range(5000)]
        others = start(gather(jobs[:2500] + jobs[2501:]))
        long = start(jobs[2500])
        assert len(await others) == 4999
        assert info(long).state != "succeeded"
        gate.release_all()
        assert await long == 2500
        await slots_are_free(executor)


async def test_a_job_that_writes_rubbish_to_its_own_socket_hurts_only_itself():
    @delayed
    def rubbish():
        import os
        import stat

        for fd in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(fd).st_mode):
                    os.write(fd, b"\xff" * 64)
            except OSError:
                pass
        return "written"

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        others = start(gather((one @ Cores(1))() for _ in range(20)))
        with pytest.raises(Exception, match="3 times"):
            await (rubbish @ Cores(1))()
        assert await others == [1] * 20
        await slots_are_free(executor)


@pytest.mark.parametrize("how", ["descriptors", "streams", "detached"])
async def test_what_a_job_closes_is_open_again_for_the_next(how, tmp_path):
    data = tmp_path / "data"

    def close(how):
        import os
        import sys

        for number, stream in enumerate([sys.stdin, sys.stdout, sys.stderr]):
            if how == "streams":
                stream.close()
            elif how == "detached":
                stream.detach()
            else:
                os.close(number)
        return os.getpid()

    def write(path):
        import os
        import sys

        with path.open("w") as file:
            print("printed")
            sys.stderr.flush()
            sys.stdin.read()
            os.write(1, b"written")
            file.write("data")
        return os.getpid()

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        first = await (delayed(close) @ Cores(1))(how)
        assert await (delayed(write) @ Cores(1))(data) == first
    assert data.read_text() == "data"
