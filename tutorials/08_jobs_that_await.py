"""Jobs that await jobs: the graph grows where the work is.

Inside a job, `await` works as it does in your program: on calls with resources, which go to the head and to whatever
worker has room, and on calls without, which run in the job's own process. So a job can look at what came out and
decide what to do next, and a recursion is written as one.

While a job awaits jobs, it has nothing to do on its cores. They are *lent* to others, first of all to those that it
waits for, and it has them back before it goes on: perhaps others than before, which `GVAR.res` then shows. So a
recursion with one core a level needs one core, however deep it is. What else a job has been given, memory or devices
say, it holds on to, for its data is in them. `keep=True` makes a function hold on to its cores as well.

That can go wrong: jobs that hold what others need, and wait for those, would wait for ever. The youngest of them gets
an error that says who holds what, and who waits for whom.

A job's own jobs end with it: when it is cancelled, when it fails, or when it returns and has not awaited them.

It prints::

    fib(10) with one core a level, on one core: 55
    lent meanwhile: the core of its elder is its own: True
    found 1.4142 after 8 rounds of 3 jobs each
    it comes as itself: ValueError('-1 is below zero')
    they hold what they wait for: keeper (job 3) asks for cores=1 and can never start
"""

from grainlike import GVAR, Cores, UnsatisfiableError, delayed, gather, run


@delayed
async def fib(n: int) -> int:
    """Two jobs at each level, and a core that goes from one to the other."""
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
    """What to try next depends on what came out: no graph could be made of it beforehand."""
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
async def blocked_class() -> bool:
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
    """Keeps its core while it waits for one that needs a core too, and so on."""
    return await (keeper @ Cores(1))(depth - 1) if depth else 0


async def alone() -> None:
    print("fib(10) with one core a level, on one core:", await (fib @ Cores(1))(10))
    print("lent meanwhile: the core of its elder is its own:", await (blocked_class @ Cores(1))())


async def together() -> None:
    root, rounds = await (search @ Cores(1))(2.0)
    print(f"found {root:.4f} after {rounds} rounds of 3 jobs each")
    print("it comes as itself:", await (careful @ Cores(1))())


async def in_a_circle() -> None:
    try:
        await (keeper @ Cores(1))(2)
    except UnsatisfiableError as error:
        print("they hold what they wait for:", str(error).partition(",")[0])


if __name__ == "__main__":
    run(alone, local=Cores(1))
    run(together, local=Cores(2))
    run(in_a_circle, local=Cores(2))
