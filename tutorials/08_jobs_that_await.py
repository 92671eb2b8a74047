"""Jobs that await jobs: the graph grows where the work is.

Inside a job, `await` works as it does in your program. Calls with resources go to the head, and to any worker that has
room. Calls without resources run in the job's own process. So a job can look at results and decide what to do next, and
a recursion is written as one.

While a job awaits jobs, it does not use its cores. They are *lent* to other jobs, first of all to those that it waits
for. The job gets cores back before it resumes: perhaps others than before, which `GVAR.res` then shows. So a recursion
with one core for each level needs one core, however deep it is. The job keeps its other resources, such as memory or
devices, because its data is in them. A function with `keep=True` keeps its cores as well.

This can lead to a deadlock: jobs that hold what others need, and wait for those, would wait for ever. The youngest of
them gets an error that names what each job holds, and for which jobs it waits.

A job's own jobs end with it: when it is cancelled, when it fails, or when it returns and has not awaited them.

It prints::

    fib(10) with one core a level, on one core: 55
    lent meanwhile: the job that it awaits runs on its core: True
    found 1.4142 after 8 rounds of 3 jobs each
    the error has its own type: ValueError('-1 is below zero')
    they hold what they wait for: keeper (job 3) asks for cores=1 and can never start
"""

from grainlike import GVAR, Cores, UnsatisfiableError, delayed, gather, run


@delayed
async def fib(n: int) -> int:
    """Two jobs at each level, on a core that one lends to the other."""
    if n < 2:
        return n
    level = fib @ Cores(1)
    return await (level(n - 1) + level(n - 2))


@delayed
def square(x: float) -> float:
    """Stands for something costly, in a process of its own."""
    if x < 0:
        raise ValueError(f"{x:g} is below zero")
    return x * x


@delayed
async def search(target: float) -> tuple[float, int]:
    """The next step depends on results: no graph could be made of it beforehand."""
    low, high, rounds = 0.0, target, 0
    while high - low > 1e-4:
        step = (high - low) / 4
        tries = [low + step, low + 2 * step, low + 3 * step]
        squares = await gather((square @ Cores(1))(x) for x in tries)
        below = sum(value < target for value in squares)
        low, high, rounds = low + below * step, low + (below + 1) * step, rounds + 1
    return low, rounds


@delayed
async def where() -> tuple[int, ...]:
    return GVAR.res.cores


@delayed
async def lends() -> bool:
    mine = GVAR.res.cores
    return await (where @ Cores(1))() == mine


@delayed
async def careful() -> str:
    """A child's error arrives as its own type."""
    try:
        await (square @ Cores(1))(-1)
    except ValueError as error:
        return repr(error)
    return "no error"


@delayed(keep=True)
async def keeper(depth: int) -> int:
    """Keeps its core while it waits for a job that needs a core too, and so on."""
    return await (keeper @ Cores(1))(depth - 1) if depth else 0


async def alone() -> None:
    print("fib(10) with one core a level, on one core:", await (fib @ Cores(1))(10))
    print("lent meanwhile: the job that it awaits runs on its core:", await (lends @ Cores(1))())


async def together() -> None:
    root, rounds = await (search @ Cores(1))(2.0)
    print(f"found {root:.4f} after {rounds} rounds of 3 jobs each")
    print("the error has its own type:", await (careful @ Cores(1))())


async def in_a_circle() -> None:
    try:
        await (keeper @ Cores(1))(2)
    except UnsatisfiableError as error:
        print("they hold what they wait for:", str(error).partition(",")[0])


if __name__ == "__main__":
    run(alone, local=Cores(1))
    run(together, local=Cores(2))
    run(in_a_circle, local=Cores(2))
