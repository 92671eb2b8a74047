"""Jobs that await jobs, in a module that workers import as well."""

import asyncio
import os

import anyio
from stagehands import appear

from grainlike import GVAR, Cores, JobCancelledError, Request, amap, as_completed, delayed, gather, info, start


@delayed
async def fib(n: int, request: Request) -> int:
    level = fib @ request
    return n if n < 2 else await (level(n - 1, request) + level(n - 2, request))


@delayed(isolate=True)
async def isolated_fib(n: int, request: Request) -> int:
    level = isolated_fib @ request
    result = n if n < 2 else await (level(n - 1, request) + level(n - 2, request))
    real = set(GVAR.res.cores) & set(range(os.cpu_count() or 1))
    assert not real or os.sched_getaffinity(0) <= real, "it goes on beside its cores"
    return result


@delayed
def plain_fib(n: int, request: Request) -> int:
    """A plain function that runs a loop of its own, twice."""

    async def both() -> int:
        level = plain_fib @ request
        return await (level(n - 1, request) + level(n - 2, request))

    return n if n < 2 else (asyncio.run(both()) + asyncio.run(both())) // 2


@delayed
async def own_number(fails: bool) -> int:
    assert GVAR.job is not None
    if fails:
        raise LookupError(GVAR.job.id)
    return GVAR.job.id


async def told_numbers(request: Request) -> list[tuple[int, int]]:
    """Numbers of two jobs of this job, of which one fails: each as the job sees itself, and as `info` has it here."""
    good_, bad_ = ((own_number @ request)(fails) for fails in (False, True))
    good, bad = await gather([good_, bad_], return_exceptions=True)
    return [(good, info(good_).job), (bad.args[0], info(bad_).job)]


@delayed
async def act(path: str, name: str) -> tuple[int, ...]:
    await appear(path, name)
    return GVAR.res.cores


async def moves(path: str, cores: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], set[int]]:
    """Lends its cores to one that stays on them, and so goes on on others."""
    before = GVAR.res.cores
    stays_ = start((act @ Cores(cores))(path, "stays"))
    await (act @ Cores(cores))(path, "ends")
    seen_in_a_task: list[tuple[int, ...]] = []

    async def look() -> None:
        seen_in_a_task.append(GVAR.res.cores)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
    after = GVAR.res.cores
    await appear(path, "moved")
    del stays_  # it ends with this job
    return before, after, seen_in_a_task[0], os.sched_getaffinity(0)


@delayed
async def waits_for(path: str, name: str) -> object:
    return await (act @ Cores(8))(path, name)


@delayed
async def fails() -> None:
    raise LookupError("down there")


@delayed
async def catches() -> tuple[str, list[str], int, str, str | None, int, bool]:
    r_ = (fails @ Cores(8))()
    try:
        await r_
    except LookupError as error:
        told = info(r_)
        return str(error), error.__notes__, told.job, told.state, told.worker, told.attempt, told.usage is not None
    raise AssertionError


@delayed
async def gives_up_waiting(path: str) -> tuple[int, tuple[int, ...]]:
    takes_ = start((act @ Cores(8))(path, "takes its cores"))
    async with anyio.create_task_group() as tasks:

        async def give_up() -> None:
            await appear(path, "gives up", holds=False)
            tasks.cancel_scope.cancel()

        tasks.start_soon(give_up)
        await (act @ Cores(8))(path, "never")
    await appear(path, "goes on")
    await takes_
    return await (fib @ Cores(8))(1, Cores(8)), GVAR.res.cores


@delayed
async def leaves_a_task(path: str) -> None:
    """Only on asyncio: a task of its own outlives it."""
    waiting = anyio.Event()

    async def wait() -> None:
        r_ = start((act @ Cores(8))(path, "never"))
        waiting.set()
        try:
            await r_
        except JobCancelledError:
            await appear(path, "told", holds=False)  # its job has ended, and others may have the slots

    _left_behind.append(asyncio.get_running_loop().create_task(wait()))
    await waiting.wait()


_left_behind: list[asyncio.Task[None]] = []


@delayed
async def each_alone(count: int) -> list[int]:
    """Many tasks that await, and some that only look on."""
    results = [0] * count

    async def one(n: int) -> None:
        results[n] = await (fib @ Cores(8))(n % 2, Cores(8)) + n

    async with anyio.create_task_group() as tasks:
        for n in range(count):
            tasks.start_soon(one, n)
    return results


@delayed
async def in_turn() -> int:
    return sum([await r_ async for r_ in as_completed([(fib @ Cores(8))(n, Cores(8)) for n in range(3)])])


@delayed
async def flip(x: int) -> int:
    return 1 - x


@delayed
async def maps(count: int) -> list[int]:
    return [value async for value in amap(flip @ Cores(8), (n % 2 for n in range(count)), in_flight=4)]


@delayed
async def group(n: int) -> int:
    return sum(await gather((fib @ Cores(4))(n % 2, Cores(4)) for n in range(n, n + 2)))


@delayed
async def local_fib(n: int) -> int:
    return await (fib @ Cores(4))(n, Cores(4))


@delayed
async def through_a_local_call(n: int) -> int:
    return await (local_fib(n) + (fib @ Cores(4))(n, Cores(4)))


@delayed
async def maybe_nests(before: int) -> int:
    """So quick that its calls travel together; one of them needs another job all the same."""
    return before + (await (fib @ Cores(8))(2, Cores(8)) if before == 105 else 1)


@delayed(keep=True)
async def keeps(depth: int) -> int:
    return 0 if not depth else 1 + await (keeps @ Cores(4))(depth - 1)
