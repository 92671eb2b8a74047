"""From `concurrent.futures`, joblib and Dask delayed.

Programs for other libraries run here with one line changed, and their calls get slots: cores of their own, thread pools
as wide as these, memory and devices as a request says. `grainlike.adapters` has an interface for each.

======================================================  ==============================================================
elsewhere                                               here
======================================================  ==============================================================
`ProcessPoolExecutor(8)`                                `GrainlikePool(Cores(1), local=Cores(8))`
`pool.submit(fn, x)`, `pool.map(fn, xs)`                the same; `pool.submit_as(Cores(4), fn, x)` for other slots
`future.result()`, `wait`, `as_completed`               the same; in new programs `await r_`, `gather`, `as_completed`
`future.cancel()`, of what has not begun                the same; `cancel(r_)` also ends what runs
`loop.run_in_executor(pool, fn, x)`                     the same; in new programs `await (fn @ Cores(1))(x)`
`pool.shutdown(cancel_futures=True)`                    the same; leaving `async with Executor()` does it
`BrokenProcessPool`, and the pool is lost               `WorkerLostError` for that call alone
`joblib.parallel_config("loky", n_jobs=4)`              `joblib.parallel_config("grainlike", n_jobs=4)`
`inner_max_num_threads=2`                               `request=Cores(2)`, which is enforced
`Parallel()(delayed(fn)(x) for x in xs)`                the same; in new programs `await gather((fn @ Cores(1))(x) ...)`
`dask.compute(y, scheduler="processes")`                `dask.compute(y, scheduler=dask_get)`
`dask.delayed(fn)(x)`                                   `(delayed(fn) @ Cores(1))(x)`
`y.compute()`                                           `await y_`
`dask.delayed(fn, nout=2)`, operators, attributes       the same: `delayed(fn, nout=2)`
`dask.delayed(fn, pure=True)`, `dask_key_name=`         each call is a job of its own; names are those of a `Dag`
`dask.annotate(resources={"GPU": 1})`                   the same; in new programs `fn @ GPUs(1)`
`client.submit(fn, x)`, `client.map`                    `executor.submit(Cores(1), fn, x)`, `amap`
`client.persist(y)`                                     `start(y_)`
======================================================  ==============================================================

It prints::

    futures: [0, 1, 4, 9], and on two cores: 2
    joblib: [0, 1, 4, 9], a Parallel inside is 2 wide
    Dask: 14
"""

from concurrent.futures import as_completed

import dask
import joblib

from grainlike import GVAR, Cores
from grainlike.adapters import GrainlikePool, dask_get, register_joblib


def square(x: int) -> int:
    return x * x


def cores() -> int:
    return len(GVAR.res.cores)


def width() -> int:
    return joblib.effective_n_jobs(-1)


def from_futures(pool: GrainlikePool) -> None:
    futures = [pool.submit(square, x) for x in range(4)]
    values = sorted(future.result() for future in as_completed(futures))
    print(f"futures: {values}, and on two cores: {pool.submit_as(Cores(2), cores).result()}")


def from_joblib(pool: GrainlikePool) -> None:
    register_joblib()
    with joblib.parallel_config("grainlike", request=Cores(2), pool=pool):
        values = joblib.Parallel()(joblib.delayed(square)(x) for x in range(4))
        (inside,) = joblib.Parallel()([joblib.delayed(width)()])
    print(f"joblib: {values}, a Parallel inside is {inside} wide")


def from_dask(pool: GrainlikePool) -> None:
    total = dask.delayed(sum)([dask.delayed(square)(x) for x in range(4)])
    print("Dask:", total.compute(scheduler=dask_get, pool=pool))


if __name__ == "__main__":
    with GrainlikePool(Cores(1), local=Cores(2)) as pool:  # one pool for all three; each would open its own
        from_futures(pool)
        from_joblib(pool)
        from_dask(pool)
