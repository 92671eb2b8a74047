"""Who is being stepped, told in memory; and whose the stack of a blocked loop is."""

import os
import sys
import time
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from limits import LIMIT_S

from grainlike.net import memory_pair
from grainlike.payload import dump_arguments, dump_function
from grainlike.wire import Completed, Define, FunctionSpec, Run, Setup
from grainlike_worker.daemon import _spawn
from grainlike_worker.daemon._runner_watch import users_part, watched
from grainlike_worker.ipc._steps import BLOCKED_S, CALLED, JOB, SINCE, StackFile, StepPage
from grainlike_worker.runner.common import _coroutines
from grainlike_worker.runner.loop import _runner
from grainlike_worker.runner.loop._runner import serve_shared


def test_two_processes_maps_of_a_page_show_the_same():
    page = StepPage.create()
    other = StepPage.attach(os.dup(page.fd))
    assert other.stepping()[0] == 0
    since = time.monotonic() - 7
    page.words[SINCE] = since
    page.words[JOB] = 2**40
    job, seconds = other.stepping()
    assert job == 2**40
    assert 7 <= seconds <= time.monotonic() - since
    for each in (page, other, page):
        each.close()


def test_stacks_are_read_once():
    file = StackFile()
    with open(file.fd, "w", closefd=False) as out:
        out.write("one\n")
    assert [file.unread, file.read(), file.read(), file.unread] == [4, "one", "", 0]
    file.close()
    file.close()


def test_a_stack_that_came_too_late_is_not_taken_for_the_next():
    file = StackFile()
    os.write(file.fd, b"late\n" * 20_000)  # more than is read at once
    file.skip()
    os.write(file.fd, b"now\n")
    assert [file.unread, file.read(), file.unread] == [4, "now", 0]
    file.close()


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [b"Thread 1:\n", b""], ids=["late", "never"])
async def test_a_stack_is_waited_for_while_a_process_is_too_busy_to_write_it(answer, monkeypatch):
    monkeypatch.setattr(_spawn, "STACK_S", LIMIT_S if answer else 0.0)
    asked, file = anyio.Event(), StackFile()
    process: Any = SimpleNamespace(pid=1, send_signal=lambda _: asked.set())
    unused: Any = None
    runner = _spawn.RunnerProcess(process, unused, unused, unused, unused, file, ExitStack())

    async def write():
        await asked.wait()
        await anyio.sleep(4 * _spawn._SETTLED_S)
        os.write(file.fd, answer)

    os.write(file.fd, b"of the last time\n")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        assert await runner.stack() == answer.decode().strip()
    file.close()


@pytest.mark.anyio
@pytest.mark.parametrize("turns", [0, 1, 2, 3])
async def test_a_runner_that_ends_while_its_stack_is_waited_for_ends_nothing_else(turns, monkeypatch):
    monkeypatch.setattr(_spawn, "_SETTLED_S", 0.01)
    asked, told, file, unused = anyio.Event(), [], StackFile(), None
    process: Any = SimpleNamespace(pid=1, send_signal=lambda _: asked.set())
    runner = _spawn.RunnerProcess(process, unused, unused, unused, unused, file, ExitStack())
    body: Any = SimpleNamespace(stepping=lambda: (1, 2 * BLOCKED_S), stack=runner.stack)
    async with anyio.create_task_group() as tasks:
        with watched(body, told.append, tasks):
            await asked.wait()
            time.sleep(2 * _spawn._SETTLED_S)  # noqa: ASYNC251 - a busy loop: what the other task waits for is over
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            file.close()  # as the runner ends: before the other task goes on, and too late to cancel what it waits for
    assert told == []


def test_of_a_stack_only_the_users_part_is_told():
    helper = 'Current thread 0x1 (most recent call first):\n  File "/x/grainlike_worker/_a.py", line 1 in take'
    user = (
        'Thread 0x2 (most recent call first):\n  File "/u/job.py", line 3 in inner\n  File "/u/job.py", line 9 in outer'
    )
    ours = '  File "/x/grainlike_worker/_coroutines.py", line 5 in __await__\n  File "<frozen runpy>", line 1'
    assert users_part(f"{helper}\n\n{user}\n{ours}\n") == user
    assert users_part("") == ""


@pytest.mark.anyio
async def test_a_step_is_told_while_it_lasts_and_a_slow_one_after_it(monkeypatch):
    monkeypatch.setattr(_coroutines, "SLOW_S", 0.0)
    monkeypatch.setattr(_runner, "SLOW_S", 0.0)
    shared = SimpleNamespace(words=memoryview(bytearray(8 * (CALLED + 1))).cast("d"), seen=[], slow=[])
    monkeypatch.setitem(sys.modules, "what_test_and_job_share", shared)

    async def job():
        import anyio
        import anyio.lowlevel
        import what_test_and_job_share as shared

        shared.seen.append(shared.words[1])
        await anyio.sleep(0)  # noqa: ASYNC115
        shared.seen.append(shared.words[1])
        await anyio.lowlevel.checkpoint()
        shared.seen.append(shared.words[1])
        raise ValueError

    near, far = memory_pair()
    blob = dump_function(job)
    near.post(Setup("n1", []))
    near.post(Define([FunctionSpec(1, blob.digest, "busy", True, None)], []), [blob.data])
    near.post(Run(1, "cores=[0]", [17], [1], [1], [None], [dump_arguments((), {}, what="f").data], []))

    def hear(frames):
        if any(isinstance(message, Completed) for message, _ in frames):
            near.close()

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                lambda: serve_shared(far, None, None, shared.words, lambda *told: shared.slow.append(told))
            )
            await near.run(hear)
    assert shared.seen == [17, 17, 17]
    assert shared.words[JOB] == 0
    assert {(info.id, info.name) for info, _, _ in shared.slow} == {(17, "busy")}
    assert len(shared.slow) == 3
