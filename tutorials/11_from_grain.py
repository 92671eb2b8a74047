"""From Grain: the older front end, and what each of its names is called here.

Programs for the older Grain run with another import: `from grainlike.combine import open_waitgroup, exec1,
run_combine`. Jobs and subtasks inside a wait-group run side by side; the block ends when all of them have. The block
raises an error of any of them, with its own type, and ends the rest.

===============================================  ====================================================================
older Grain                                      here
===============================================  ====================================================================
`run_combine(main, [...], Node(N=4))`            `run_combine(main, [], Node(4))`; workers connect, with `listen=` and
                                                 `grainlike worker start`
`wg.submit(Cores(4), fn, x)`                     the same, or `start((delayed(fn) @ Cores(4))(x))`
`wg.start_subtask(frame, i)`                     the same, or a task of any task group
`wg.results`                                     the same, or `await gather(placeholders)`
`await exec1(Cores(4), fn, x)`                   the same, or `await (delayed(fn) @ Cores(4))(x)`
`submit(ZERO, fn)`                               `submit(None, fn)`: it runs in this program
`fn(x, grain_res)`                               `GVAR.res` inside the job
`Memory(8)`, in GB                               `Memory("8Gi")`; a number is bytes
`WTime("1:00:00", group="g")`                    `WallTime("1:00:00", group="g")`
`trio.run` underneath                            asyncio; `run_combine(..., backend="trio")` for programs that use trio
===============================================  ====================================================================

Delayed calls start when they are made in the older Grain, and here when they are awaited or started. So a loop that is
parallel there is serial here, one call after the other::

    placeholders = [(delayed(fn) @ Cores(1))(x) for x in data]
    values = [await r_ for r_ in placeholders]

The first such loop of a program causes a warning. Write `await gather(placeholders)`, or `start(...)` around each call,
which then starts at once.

It prints::

    frame 0: [0, 1] then [0, 10]
    frame 1: [1, 2] then [10, 20]
    one more: 49 on 2 cores
    the error of a job: nothing to relax
"""

from grainlike import GVAR, Cores
from grainlike.combine import exec1, open_waitgroup, run_combine


async def add(x: int, y: int) -> int:
    return x + y


async def times(x: int, y: int) -> int:
    return x * y


async def square(x: int) -> tuple[int, int]:
    return x * x, len(GVAR.res.cores)


async def relax(atoms: list[str]) -> str:
    if not atoms:
        raise ValueError("nothing to relax")
    return "relaxed"


async def frame(i: int) -> str:
    """Runs in this program: parallel inside each group, one group after the other."""
    async with open_waitgroup() as first:
        first.submit(Cores(1), add, i, 0)
        first.submit(Cores(1), add, i, 1)
    async with open_waitgroup() as second:
        for x in first.results:
            second.submit(Cores(1), times, x, 10)
    return f"frame {i}: {first.results} then {second.results}"


async def main() -> None:
    async with open_waitgroup() as wg:
        for i in range(2):
            wg.start_subtask(frame, i)
    print(*wg.results, sep="\n")
    value, cores = await exec1(Cores(2), square, 7)
    print(f"one more: {value} on {cores} cores")
    try:
        async with open_waitgroup() as wg:
            wg.submit(Cores(1), relax, ["H", "H", "O"])
            wg.submit(Cores(1), relax, [])
    except ValueError as error:
        print("the error of a job:", error)


if __name__ == "__main__":
    run_combine(main, [], Cores(2))
