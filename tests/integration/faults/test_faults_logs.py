"""What jobs write reaches who asks, whoever wrote it and however the job ended; and nobody else's output is touched."""

import asyncio
import logging
import os
import signal
import sys
from contextlib import asynccontextmanager

import anyio
import pytest
from limits import LIMIT_S
from speaking_calls import (
    begins_a_line,
    closes_its_output,
    coroutine_link,
    ends_its_process,
    fails,
    fails_deeply,
    fails_later,
    link,
    says_when_loaded,
    speaker,
    talkative,
    tiny,
    tiny_too,
)

from grainlike import (
    GVAR,
    Cores,
    Executor,
    GraphError,
    JobMemoryError,
    Memory,
    Retry,
    WorkerLostError,
    cancel,
    delayed,
    gather,
    start,
)
from grainlike_worker.daemon import _output_store

LISTEN = "tcp://127.0.0.1:0"


@pytest.fixture(params=["embedded", "daemon"])
def opened(request, start_worker):
    """Opens an executor with two cores, in this process or in a worker's: `async with opened() as executor`."""

    @asynccontextmanager
    async def embedded():
        async with Executor(local=Cores(2)) as executor:
            yield executor

    @asynccontextmanager
    async def daemon():
        async with Executor(listen=LISTEN) as executor:
            start_worker(executor.address)
            await executor.wait_for_workers(1)
            yield executor

    return embedded if request.param == "embedded" else daemon


async def lines(executor, placeholder):
    with anyio.fail_after(LIMIT_S):
        return [(line.stream, str(line)) async for line in executor.logs(placeholder)]


@pytest.mark.anyio
async def test_whatever_a_process_writes_is_its_jobs(opened):
    async with opened() as executor:
        r_ = start((talkative @ Cores(1))())
        found = await lines(executor, r_)
        out = [text for stream, text in found if stream == "stdout"]
        assert sorted(out[2:]) == sorted(["by a child", "by a thread", "raw bytes", "no line end"])
        assert out[:2] == ["printed 1", "by descriptor"]
        assert [text for stream, text in found if stream == "stderr"] == ["to stderr"]
        assert await lines(executor, r_) == found


@pytest.mark.parametrize("function", [fails, fails_later])
@pytest.mark.anyio
async def test_the_log_of_a_job_that_raised_ends_with_its_call_and_traceback(opened, function):
    async with opened() as executor:
        r_ = (function @ Cores(1))(0, scale="ab" * 40)
        with pytest.raises(TypeError):
            await r_
        found = await lines(executor, r_)
        assert found[0] == ("stdout", "tries 0")
        text = [line for stream, line in found if stream == "traceback"]
        assert len(text) == len(found) - 1
        assert text[:2] == [f"called with (0, scale={'ab' * 10!r}…)", "Traceback (most recent call last):"]
        assert text[-1] == "TypeError: unsupported operand type(s) for /: 'str' and 'int'"
        named = [line.rpartition(" in ")[2] for line in text if "File " in line]
        assert named == [function.__name__, "inner"]


@pytest.mark.anyio
async def test_what_is_kept_of_a_traceback_is_bounded_and_others_objects_are_not_shown(opened):
    async with opened() as executor:
        r_ = (fails_deeply @ Cores(1))([Cores(1)], "x" * 1000)
        with pytest.raises(ValueError, match="deep"):
            await r_
        text = [line for stream, line in await lines(executor, r_) if stream == "traceback"]
        assert text[0] == "Traceback (most recent call last):"
        assert "[... left out ...]" in text
        assert text[-1] == "x" * 1000
        assert 16_000 < sum(map(len, text)) < 17_000


@pytest.mark.asyncio
async def test_coroutines_are_told_apart_though_they_share_a_process(opened):
    async with opened() as executor:
        speakers = [start((speaker @ Cores(1))(n)) for n in range(20)]
        await gather(speakers)
        for n, r_ in enumerate(speakers):
            found = await lines(executor, r_)
            assert [text for stream, text in found if stream == "stdout"] == [f"one {n}", f"three {n}"]
            assert [text for stream, text in found if stream == "stderr"] == [f"two {n}", f"four {n}"]


@pytest.mark.asyncio
async def test_in_run_lists_too_each_has_its_own(opened):
    async with opened() as executor:
        jobs = [(tiny @ Cores(1))(n) for n in range(400)]
        await gather(jobs)
        for n, r_ in enumerate(jobs):
            expected = [[("stdout", f"printed {n}")], [("stderr", f"written {n}")], []][n % 3]
            assert await lines(executor, r_) == expected


@pytest.mark.asyncio
async def test_in_run_lists_of_two_functions_too(opened):
    async with opened() as executor:
        functions = [tiny @ Cores(1), tiny_too @ Cores(1)]
        jobs = [functions[n % 2](n) for n in range(400)]
        await gather(jobs)
        for n, r_ in enumerate(jobs):
            expected = [[("stdout", f"printed {n}")], [("stderr", f"written {n}")], []][n % 3]
            assert await lines(executor, r_) == expected


@pytest.mark.asyncio
async def test_what_is_printed_where_a_function_is_loaded_amid_a_run_list_is_its_own_jobs():
    async with Executor(local=Cores(1)) as executor:
        functions = [tiny @ Cores(1), says_when_loaded() @ Cores(1)]
        for fn in functions:
            await gather([fn(2) for _ in range(200)])  # known to be tiny
        await gather([(ends_its_process @ Cores(1))()], return_exceptions=True)  # what comes next has nothing loaded
        jobs = [functions[n == 20](2) for n in range(40)]
        await gather(jobs)
        loud = jobs.pop(20)
        # Two pipes: which stream is read first is not promised.
        assert sorted(await lines(executor, loud)) == [("stderr", "loaded, too"), ("stdout", "loaded")]
        assert [await lines(executor, r_) for r_ in jobs] == [[]] * 39


@pytest.mark.parametrize("way", ["close", "detach"])
@pytest.mark.asyncio
async def test_what_jobs_print_in_a_process_in_which_one_has_closed_its_output_is_their_own(way):
    async with Executor(local=Cores(1)) as executor:
        process = await (closes_its_output @ Cores(1))(way)
        first, second = (begins_a_line @ Cores(1))(1), (begins_a_line @ Cores(1))(2)
        assert (await first, await second) == (process, process)
        assert await lines(executor, first) == [("stdout", "begun 1")]
        assert await lines(executor, second) == [("stdout", "begun 2")]


@pytest.mark.asyncio
async def test_in_chains_too_each_has_its_own(opened):
    async with opened() as executor:
        await gather((fn @ Cores(1))(n) for fn in (link, coroutine_link) for n in range(20))  # known to be quick
        for fn in (link, coroutine_link):
            links = [(fn @ Cores(1))(0)]
            for _ in range(60):
                links.append((fn @ Cores(1))(links[-1]))
            following = asyncio.ensure_future(start_and_follow(executor, links[-1]))
            assert await links[-1] == 61
            for n, r_ in enumerate(links):
                printed = ("stdout", f"printed {n}")
                expected = [[printed], [("stderr", f"written {n}")], []][n % 3] if fn is link else [printed]
                assert await lines(executor, r_) == expected
            assert await following == expected


async def start_and_follow(executor, placeholder):
    return await lines(executor, start(placeholder))


@pytest.mark.asyncio
@pytest.mark.parametrize("is_async", [False, True])
async def test_lines_come_while_the_job_runs(opened, gates, is_async):
    async with gates() as gate, opened() as executor:
        visit = gate.visit

        def plain():
            print("before")
            visit("it")
            print("after")

        async def coroutine():
            print("before")
            await asyncio.to_thread(visit, "it")
            print("after")

        r_ = start((delayed(coroutine if is_async else plain) @ Cores(1))())
        iteration = executor.logs(r_)
        assert await asyncio.wait_for(anext(iteration), LIMIT_S) == "before"
        visitor = await gate.arrival()
        late = executor.logs(r_)
        assert await asyncio.wait_for(anext(late), LIMIT_S) == "before"
        visitor.release()
        assert [str(line) async for line in iteration] == [str(line) async for line in late] == ["after"]
        await r_


@pytest.mark.anyio
async def test_all_attempts_are_there_and_marked(opened):
    async with opened() as executor:

        @delayed(retries=1)
        def fails():
            print("attempt", GVAR.job.attempt)
            if GVAR.job.attempt == 1:
                raise ValueError

        r_ = start((fails @ Cores(1))())
        found = [(line.attempt, line.stream, str(line)) async for line in executor.logs(r_)]
        assert [found[0], found[-2], found[-1]] == [
            (1, "stdout", "attempt 1"),
            (1, "traceback", "ValueError"),
            (2, "stdout", "attempt 2"),
        ]


@pytest.mark.asyncio
async def test_the_error_of_a_job_that_died_with_its_process_has_its_last_words(opened):
    async with opened() as executor:

        @delayed
        def dies():
            print("about to")
            os.write(2, b"abort\n")
            os.abort()

        r_ = (dies @ Cores(1))()
        with pytest.raises(WorkerLostError, match="SIGABRT") as caught:
            await r_
        (words,) = [
            note for note in caught.value.__notes__ if note.startswith("grainlike: the last that it wrote:\n  ")
        ]
        assert "\n  about to\n" in words
        assert "\n  abort\n" in words
        found = [(line.attempt, str(line)) async for line in executor.logs(r_)]
        assert {attempt for attempt, _ in found} == {1, 2, 3}
        assert len([text for _, text in found if text == "abort"]) == 3


@pytest.mark.asyncio
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds jobs to their memory")
async def test_so_has_the_error_of_a_job_that_took_too_much_memory():
    @delayed
    def greedy():
        print("loading it all")
        hoard = []
        while True:
            hoard.append(bytes(1 << 20))
            hoard[-1] = hoard[-1].replace(bytes(1), b"1")

    async with Executor(local=Cores(1) & Memory("100M")):
        with pytest.raises(JobMemoryError) as caught:
            await asyncio.wait_for((greedy @ (Cores(1) & Memory("100M")))(), LIMIT_S)
    assert any("loading it all" in note for note in caught.value.__notes__)


@pytest.mark.asyncio
@pytest.mark.parametrize("written", [b"", b"\n"])
async def test_one_that_wrote_nothing_has_no_note_of_it(opened, written):
    async with opened() as executor:

        @delayed(retries=Retry(0, losses=0))
        def dies():
            os.write(2, written)
            os.kill(os.getpid(), signal.SIGKILL)

        with pytest.raises(WorkerLostError, match="SIGKILL") as caught:
            await (dies @ Cores(1))()
        assert executor.report().failed == 1
        (where,) = caught.value.__notes__
        assert "attempt 1 of dies" in where


@pytest.mark.asyncio
async def test_endless_output_is_capped_and_does_not_hold_up_the_job(opened):
    async with opened() as executor:

        @delayed
        def writes(count):
            for n in range(count):
                os.write(1, b"%08d " % n * 8000 + b"\n")
            print("the end")

        r_ = start((writes @ Cores(1))(60))
        with anyio.fail_after(LIMIT_S):
            assert await r_ is None
        found = await lines(executor, r_)
        assert found[-1] == ("stdout", "the end")
        assert len([text for stream, text in found if stream == "note"]) == 1
        assert sum(len(text) for _, text in found) < _output_store.HEAD_BYTES + _output_store.TAIL_BYTES + 1000


@pytest.mark.asyncio
async def test_a_process_that_dies_with_all_its_coroutines_leaves_what_they_printed(start_worker):
    @delayed
    async def dies():
        print("about to", end=" ", flush=True)
        os.write(2, b"native words\n")
        os.kill(os.getpid(), signal.SIGKILL)

    async with Executor(listen=LISTEN) as executor:
        start_worker(executor.address)
        r_ = (dies @ Cores(1))()
        with pytest.raises(WorkerLostError, match="SIGKILL"):
            await asyncio.wait_for(r_, LIMIT_S)
        first = [str(line) async for line in executor.logs(r_) if line.attempt == 1]
        assert first == ["about to "]


@pytest.mark.asyncio
async def test_when_the_worker_dies_the_iteration_says_what_is_gone_and_goes_on(start_worker, gates):
    async with gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        @delayed
        def tells():
            print("I am on", GVAR.instance)
            visit(GVAR.instance)

        one = start_worker(executor.address, name="one")
        r_ = start((tells @ Cores(1))())
        iteration = executor.logs(r_)
        assert await asyncio.wait_for(anext(iteration), LIMIT_S) == "I am on one"
        await gate.arrival()
        start_worker(executor.address, name="two")
        one.process.kill()
        assert await asyncio.wait_for(anext(iteration), LIMIT_S) == "I am on two"
        (await gate.arrival()).release()
        assert [line async for line in iteration] == []
        again = [(line.stream, line.attempt, str(line)) async for line in executor.logs(r_)]
        assert again[0][:2] == ("note", 1)
        assert "one" in again[0][2]
        assert again[1:] == [("stdout", 2, "I am on two")]


@pytest.mark.asyncio
async def test_a_workers_own_streams_are_its_logs_alone(start_worker):
    async with Executor(listen=LISTEN) as executor:
        worker = start_worker(executor.address)
        await gather((talkative @ Cores(1))(), (speaker @ Cores(1))(1))
    code, said = await worker.exit()
    assert code == 0
    assert all("grainlike.worker" in line for line in said.splitlines()), said


@pytest.mark.anyio
async def test_what_cannot_be_told_apart_is_the_runners_and_said_to_be_so(start_worker):
    @delayed
    async def native():
        os.write(1, b"who am I\n")
        logging.getLogger("any").warning("logged")

    async with Executor(listen=LISTEN) as executor:
        worker = start_worker(executor.address)
        r_ = (native @ Cores(1))()
        await r_
        assert await lines(executor, r_) == [("log", "WARNING:any:logged")]
    _, said = await worker.exit()
    assert "for which of its jobs is unknown: who am I" in said


@pytest.mark.asyncio
async def test_iterations_that_are_left_leave_nothing_and_change_nothing(opened, gates):
    async with gates() as gate, opened() as executor:
        visit = gate.visit

        @delayed
        def waits():
            print("here")
            visit("it")
            return 3

        r_ = start((waits @ Cores(1))())
        iteration = executor.logs(r_)
        await anext(iteration)
        await iteration.aclose()
        assert not executor._service.head.logs.listeners
        (await gate.arrival()).release()
        assert await r_ == 3


@pytest.mark.asyncio
async def test_an_iteration_ends_with_a_job_that_never_ran(opened, gates):
    async with gates() as gate, opened() as executor:
        blockers = [start((delayed(gate.visit) @ Cores(1))(n)) for n in range(2)]
        r_ = start((talkative @ Cores(1))())
        found = asyncio.create_task(lines(executor, r_))
        await gate.arrival()
        cancel(r_)
        assert await found == []
        gate.release_all()
        await gather(blockers)


@pytest.mark.asyncio
async def test_who_is_asked_for_what_it_does_not_have_says_so(opened):
    async with opened() as executor:
        lazy_ = (talkative @ Cores(1))()
        with pytest.raises(GraphError, match="has not been started"):
            await lines(executor, lazy_)

        @delayed
        async def local():
            return 1

        r_ = local()
        await r_
        assert await lines(executor, r_) == []
        async with Executor(local=Cores(1)) as other:
            with pytest.raises(GraphError, match="another executor"):
                other.logs(r_)


PROGRAM = """
import anyio, logging, sys
from grainlike import Cores, Executor, delayed

@delayed
def plain():
    print("plain says")
    print("plain complains", file=sys.stderr)

@delayed
async def coroutine():
    print("coroutine says")
    logging.warning("coroutine logs")

async def main():
    logging.basicConfig(format="%(message)s")
    before = sys.stdout, sys.stderr
    async with Executor(local=Cores(1)) as executor:
        for fn in (plain, coroutine):
            r_ = (fn @ Cores(1))()
            await r_
            print("said:", sorted([str(line) async for line in executor.logs(r_)]))
    assert (sys.stdout, sys.stderr) == before
    logging.warning("the end")

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_of_ones_own_shows_what_its_jobs_print(script, backend):
    program = script(PROGRAM, backend)
    out, err = program.communicate(timeout=LIMIT_S)
    assert out.splitlines() == [
        "plain says",
        "said: ['plain complains', 'plain says']",  # each comes by a pipe of its own, and either may be first
        "coroutine says",
        "said: ['coroutine logs', 'coroutine says']",
    ], err
    assert err.splitlines() == ["plain complains", "coroutine logs", "the end"]
