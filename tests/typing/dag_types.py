"""What type checkers say of named graphs and their reports. Checked by `make check`, never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from datetime import timedelta
from typing import Any, Literal, assert_type

from grainlike import Callbacks, Cores, Dag, Delayed, Executor, connect, delayed, result, run
from grainlike.dag import DagReport, JobReport
from grainlike.jobs import Event
from grainlike.wire import EndedJob, Totals


async def load(path: str) -> bytes:
    return path.encode()


def measure(data: bytes, *, strict: bool = False) -> int:
    return len(data) + strict


@delayed
def double(x: int) -> float:
    return 2.0 * x


async def told(name: str, error: BaseException) -> None:
    print(name, error)


dag = Dag()
load_ = dag.add("load", load, "path", request=Cores(1), cost=2.0, timeout=3)
assert_type(load_, Delayed[bytes])
assert_type(dag.add("measure", measure, load_, strict=True, after=["load"]), Delayed[int])
assert_type(dag.add("double", double, dag["measure"]), Delayed[float])
assert_type(dag["load"], Delayed[Any])
assert_type(Dag.from_edges({"a": load}, [("a", "a")], requests={"a": Cores(1)}, costs={"a": 1}), Dag)
assert_type(dag.critical_path(), list[str])
assert_type(run(dag.run, local=Cores(1)), DagReport)
dag.add("load", load, "path", request="cores=1")  # type: ignore[call-overload]


async def main(executor: Executor) -> None:
    report = await dag.run(on_failure="continue", timeout=3, callbacks=Callbacks(on_error=told), trace="trace.json")
    assert_type(report, DagReport)
    assert_type(report.succeeded, int)
    assert_type(report.peak_utilization, dict[str, float])
    assert_type(report["load"], JobReport)
    assert_type(report["load"].status, Literal["succeeded", "failed", "skipped", "timed_out", "cancelled"])
    assert_type(executor.report(), Totals)
    jobs = await executor.history(name="fit*", outcomes=["failed"], since=timedelta(hours=1), most=5)
    assert_type(jobs, list[EndedJob])
    assert_type(jobs[0].ran_s, float | None)
    assert_type(await connect().history(), list[EndedJob])
    await executor.history("fit")  # type: ignore[call-arg]
    async for event in executor.events():
        assert_type(event, Event)
    await dag.run(on_failure="stop")  # type: ignore[arg-type]
    Callbacks(on_stop=told)  # type: ignore[call-arg]


def blocking(r_: Delayed[int]) -> None:
    assert_type(result(r_), int)
    assert_type(result(r_, timeout=2.5), int)
