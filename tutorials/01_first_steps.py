"""First steps: delayed functions, placeholders, and what `await` does.

A function becomes *delayed* with `@delayed`. Calling it does not run it. The call gives a *placeholder*, which
stands for the value and remembers what it needs. When you `await` a placeholder, everything it needs is run first, as
much at the same time as there are cores for.

`fn @ Cores(1)` is a new delayed function. Its calls are *jobs*: each gets one CPU core, and no other running job
has that core. `fn` itself is unchanged, and a call of it without resources runs here, in this process. That is the
place for cheap steps and for code that only puts other calls together.

Names of placeholders end in `_` in these tutorials, to tell them from values. The library does not care.

Run it with `python 01_first_steps.py`. It needs no set-up. It prints::

    a placeholder: <Delayed square(7): lazy, cores=1>
    its value: 49
    now: <Delayed square: succeeded, cores=1>
    an expression: 65
    a sum over a loop: 285
    gathered: [0, 1, 4, 9]
    nested arguments: 25
    unpacked: 3 1
    the job's own error: no root of -1
    where it was: grainlike: job 19, on worker local, slots cores=[0], attempt 1 of root
    some of several failed: [0.0, ValueError('no root of -1')]
    what it cannot do: write `if await r_:`
    in order of completion: ['quick', 'slow']
"""

import math
import time

from grainlike import Cores, as_completed, delayed, gather, run


@delayed
def square(x: int) -> int:
    """A plain function. As a job it runs in a process of its own, so it may keep its core busy as long as it likes."""
    return x * x


@delayed
def root(x: int) -> float:
    if x < 0:
        raise ValueError(f"no root of {x}")
    return math.sqrt(x)


@delayed(nout=2)
def divide(a: int, b: int) -> tuple[int, int]:
    """With `nout=2` a placeholder of this function can be unpacked into two."""
    return divmod(a, b)


@delayed
async def total(parts: dict[str, list[int]]) -> int:
    """An `async def` function. Without resources it is a task in the program's own event loop."""
    return sum(parts["squares"])


@delayed
def nap(name: str, seconds: float) -> str:
    time.sleep(seconds)
    return name


async def main() -> None:
    one = square @ Cores(1)

    # A call is a placeholder. It runs when it is awaited, at most once, however often it is awaited.
    r_ = one(7)
    print("a placeholder:", r_)
    print("its value:", await r_)
    print("now:", r_)

    # Operators, indexing, attributes and method calls on placeholders give placeholders. Both calls run at once.
    print("an expression:", await (one(8) + square(1)))

    # So a loop builds a graph and does not wait.
    sum_ = 0
    for x in range(10):
        sum_ += one(x)
    print("a sum over a loop:", await sum_)

    # `gather` gives one placeholder for many: a list of values, in order.
    print("gathered:", await gather(one(x) for x in range(4)))

    # A placeholder as an argument is a dependency, also inside lists, tuples, sets, dicts, named tuples, dataclasses.
    print("nested arguments:", await total({"squares": [one(3), one(4)]}))

    quotient_, rest_ = divide(10, 3)
    print("unpacked:", await quotient_, await rest_)

    # A job's exception comes back as what it is, with the remote traceback and a note that says where it happened.
    try:
        await (root @ Cores(1))(-1)
    except ValueError as error:
        print("the job's own error:", error)
        print("where it was:", *error.__notes__)

    # With `return_exceptions=True` it has exceptions in the places of the values that there are not.
    roots_ = gather(((root @ Cores(1))(x) for x in (0, -1)), return_exceptions=True)
    print("some of several failed:", await roots_)

    # Where Python needs a value at once, a placeholder refuses, and says what to write instead.
    try:
        if one(1):
            pass
    except TypeError as error:
        print("what it cannot do:", str(error).rpartition(": ")[2])

    # To take results as they come:
    naps = [(nap @ Cores(1))("slow", 0.5), (nap @ Cores(1))("quick", 0.0)]
    print("in order of completion:", [await done_ async for done_ in as_completed(naps)])


if __name__ == "__main__":
    # `run` opens an event loop with an `Executor`. `local=` says what it may use: here two cores, numbered 0 and 1.
    run(main, local=Cores([0, 1]))
