"""Several event loops of one program: an `await` means an executor of its own loop."""

from __future__ import annotations

import threading
from contextvars import copy_context

import anyio
import pytest
from limits import LIMIT_S

from grainlike import GVAR, Cores, Executor, delayed

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_an_executor_of_another_loop_in_the_context_is_passed_over(backend):
    async def where():
        return GVAR.res.cores

    async def elsewhere():
        if backend == "trio":
            with pytest.raises(RuntimeError, match=r"no executor is open in this loop \(<Executor open.* lives in the"):
                await delayed(where)()
        async with Executor(local=Cores([5])):
            with anyio.fail_after(LIMIT_S):
                return await (delayed(where) @ Cores(1))()

    async with Executor(local=Cores([0])):
        cores = await anyio.to_thread.run_sync(lambda: copy_context().run(anyio.run, elsewhere, backend=backend))
        assert cores == (5,)
        assert await (delayed(where) @ Cores(1))() == (0,)


async def test_the_innermost_executor_of_this_loop_wins_over_an_inner_one_of_another():
    """As where fixtures of several loops share one context."""

    async def where():
        return GVAR.res.cores

    async with Executor(local=Cores([0])), Executor(local=Cores([5])):
        ready, done = threading.Event(), threading.Event()
        contexts = []

        async def elsewhere():
            async with Executor(local=Cores([7])):
                contexts.append(copy_context())
                ready.set()
                await anyio.to_thread.run_sync(done.wait)

        async def ask():
            found.append(await (delayed(where) @ Cores(1))())

        found = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, lambda: anyio.run(elsewhere))
            try:
                await anyio.to_thread.run_sync(ready.wait)
                async with anyio.create_task_group() as asking:
                    contexts[0].run(asking.start_soon, ask)
                assert found == [(5,)]
            finally:
                done.set()


async def test_a_question_from_a_thread_says_where_to_ask():
    async with Executor(local=Cores([0])) as executor:
        with pytest.raises(
            RuntimeError, match="it is asked from no event loop: do so in an `async def` that runs there,"
        ):
            await anyio.to_thread.run_sync(executor.counts)
        counts = await anyio.to_thread.run_sync(anyio.from_thread.run_sync, executor.counts)
    assert counts == (0, 0)
