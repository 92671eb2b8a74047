"""A small real job through an installed grainlike: delayed functions, exact cores, a process of their own."""

import os

import grainlike as g

double = g.delayed(lambda x: 2 * x)


@g.delayed
async def whoami(x: int) -> tuple[int, tuple[int, ...]]:
    return x, tuple(g.GVAR.res.cores)


async def main() -> None:
    assert await (double @ g.Cores(1))(21) == 42
    total = await ((double @ g.Cores(1))(1) + (double @ g.Cores(1))(2))
    assert total == 6, total
    value, cores = await (whoami @ g.Cores(2))(7)
    assert value == 7, value
    assert len(set(cores)) == 2, cores
    pid = await (g.delayed(os.getpid) @ g.Cores(1))()
    assert pid != os.getpid(), "a plain function with resources must run in a process of its own"


if __name__ == "__main__":
    g.run(main, local=g.Cores(2))
    print(f"grainlike {g.__version__} works from {os.path.dirname(g.__file__)}")
