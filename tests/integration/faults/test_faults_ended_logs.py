"""Output of jobs that have ended, read by number: there while it is kept, and an honest sentence where it is not."""

import anyio
import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import Cores, Executor, Resource, cancel, delayed, start
from grainlike.cli import main

LISTEN = "tcp://127.0.0.1:0"


@delayed
def speaks(words):
    print(words)


@delayed
def is_silent():
    pass


@pytest.fixture
def logs(capsys):
    """Run `grainlike logs N` in a thread: its exit code and all that it shows."""

    async def show(job, *options):
        capsys.readouterr()
        code = await anyio.to_thread.run_sync(main, ["logs", str(job), *options])
        return code, "".join(capsys.readouterr())

    return show


@pytest.mark.anyio
async def test_the_output_of_a_job_that_has_ended_is_shown_until_its_worker_leaves(start_worker, logs):
    with anyio.fail_after(LIMIT_S):
        async with Executor(listen=LISTEN) as executor:
            start_worker(executor.address, name="other")
            worker = start_worker(executor.address, name="one", resources="cores=2 one=1")
            await executor.wait_for_workers(2)
            asked = Cores(1) & Resource("one", 1)
            await (speaks @ asked)("a word")
            await (is_silent @ asked)()
            never_ = start((speaks @ (asked & Resource("none", 1)))("never"))
            await executor.explain(never_)
            cancel(never_)
            jobs = {job.job: job for job in await executor.history()}
            assert [jobs[number].worker for number in (1, 2, 3)] == ["one", "one", ""]

            assert await logs(1) == (0, "a word\n")
            assert await logs(1, "--follow") == (0, "a word\n")
            assert await logs(2) == (0, "")
            assert await logs(3) == (0, "[it was never sent to a worker, so it wrote nothing]\n")

            worker.process.kill()
            await until(lambda: len(executor.workers()) == 1)
            gone = (0, "[what it wrote on worker one is gone with that worker]\n")
            assert await logs(1) == gone
            start_worker(executor.address, name="one")
            await executor.wait_for_workers(2)
            assert await logs(1) == gone, "the worker that is called so now is another one"
