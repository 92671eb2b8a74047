"""Other engines: a training pipeline on real data as a named graph, and the same on any engine by changing one line.

The graph below loads scikit-learn's handwritten digits, splits them, fits three models beside each other, and keeps the
one that does best on digits that it has not seen. Nothing in it says where it runs. That is the executor's to say, and
`backend=` is the line that changes:

- `Executor(local=Cores(2))`: grainlike's own workers;
- `Executor(backend=ProcessBackend(2))`, or `ThreadBackend(2)`: nothing but processes, or threads;
- `Executor(backend=DaskBackend("tcp://scheduler:8786"))`: a Dask cluster (`pip install 'grainlike[dask]'`);
- `Executor(backend=RayBackend())`: a Ray session (`pip install 'grainlike[ray]'`);
- `Executor(backend=CeleryBackend("redis://host:6379/0"))`: the workers of a Celery app (`pip install
  'grainlike[celery]'`).

What an engine cannot honour is refused by name before anything starts. docs/engines.md says what each of them keeps.

An engine that is not among them takes ten lines: `Pool` below is one, over a pool of the standard library's. What it is
given is an importable function with arguments that pickle, so it needs to know nothing of closures or requests.

Run without arguments, it prints what follows. `python 13_other_engines.py workers` does the same on grainlike's own
workers, `dask` on a Dask cluster of this machine, and `ray` on a Ray session.

It prints::

    threads: 7 succeeded in 6 jobs, the best model is right for 99 %
    pool: 7 succeeded in 1 job, the best model is right for 99 %
    refused: fit 1: backend 'pool' can not honour gpus in cores=1 gpus=1: it honours cores
"""

import sys
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from grainlike import (
    Cores,
    Dag,
    DaskBackend,
    Executor,
    GPUs,
    Partition,
    RayBackend,
    Request,
    ThreadBackend,
    UnsatisfiableError,
    run,
)

NEIGHBOURS = [1, 3, 9]
Digits = dict[str, Any]


class Pool:
    """An engine of our own, in ten lines."""

    name = "pool"

    def __init__(self) -> None:
        self.pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))

    def submit(self, fn: Any, *args: Any, **kwargs: Any) -> Future[Any]:
        return self.pool.submit(fn, *args, **kwargs)

    def result(self, future: Future[Any], timeout: float | None = None) -> Any:
        return future.result(timeout)

    def shutdown(self, wait: bool = True) -> None:
        self.pool.shutdown(wait=wait, cancel_futures=True)


def load() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def split(data: tuple[Any, Any]) -> Digits:
    from sklearn.model_selection import train_test_split

    names = ("seen", "unseen", "seen labels", "unseen labels")
    return dict(zip(names, train_test_split(*data, test_size=0.25, random_state=0, stratify=data[1]), strict=True))


def fit(digits: Digits, neighbours: int) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(neighbours).fit(digits["seen"], digits["seen labels"])


def score(digits: Digits, models: list[Any]) -> list[float]:
    return [model.score(digits["unseen"], digits["unseen labels"]) for model in models]


def best(scores: list[float]) -> str:
    return f"the best model is right for {100 * max(scores):.0f} %"


def pipeline(fitting: Request) -> Dag:
    dag = Dag()
    dag.add("load", load, request=Cores(1))
    digits_ = dag.add("split", split, dag["load"], request=Cores(1))
    models = [dag.add(f"fit {count}", fit, digits_, count, request=fitting, cost=5.0) for count in NEIGHBOURS]
    dag.add("score", score, digits_, models, request=Cores(1))
    dag.add("best", best, dag["score"])
    return dag


async def train(partition: Partition | None = None, **where: Any) -> None:
    async with Executor(**where) as executor:  # the line that changes
        report = await pipeline(fitting=Cores(1)).run(partition=partition)
        jobs = executor.report().succeeded
    sent = "1 job" if jobs == 1 else f"{jobs} jobs"
    print(f"{report.backend}: {report.succeeded} succeeded in {sent}, {report['best'].value}")


async def refused() -> None:
    async with Executor(backend=Pool()):
        try:
            await pipeline(fitting=Cores(1) & GPUs(1)).run()
        except UnsatisfiableError as error:
            print("refused:", error)


async def main() -> None:
    match sys.argv[1:]:
        case ["workers"]:
            await train(local=Cores([0, 1]))
        case ["dask"]:
            await train(backend=DaskBackend(workers=2))
        case ["ray"]:
            await train(backend=RayBackend(num_cpus=2))
        case _:
            await train(backend=ThreadBackend(2))
            await train(backend=Pool(), partition=Partition(k=1))  # parts are jobs like others, and go to any engine
            await refused()


if __name__ == "__main__":
    run(main, local=None)
