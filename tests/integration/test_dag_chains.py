"""Jobs of a named graph that travel together, for they are quick and wait for each other, are told of one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import anyio
import pytest
import pytest_asyncio
from chain_calls import allow
from limits import LIMIT_S

from grainlike import Callbacks, Cores, Dag, Executor, delayed
from grainlike.head._head import Head
from grainlike.scheduler import HeadScheduler, JobsSubmitted

pytestmark = pytest.mark.asyncio

LENGTH = 40


def divide(x: int, by: int) -> int:
    return x // by


def chain(broken_at: int = -1) -> Dag:
    dag = Dag()
    last_ = dag.add("0", divide, 7, 1, request=Cores(1))
    for n in range(1, LENGTH):
        last_ = dag.add(f"{n}", divide, last_, int(n != broken_at), request=Cores(1))
    return dag


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the jobs that the scheduler was told of."""
    numbers: list[int] = []
    tell = Head._tell

    def telling(head, event):
        if isinstance(event, JobsSubmitted):
            numbers.extend(event.jobs)
        tell(head, event)

    monkeypatch.setattr(Head, "_tell", telling)
    return numbers


@pytest_asyncio.fixture
async def executor(sent: list[int]) -> AsyncIterator[Executor]:
    """An executor whose chains go on however busy the machine is."""
    async with Executor(local=Cores([0])) as opened:
        await (delayed(allow) @ Cores(1))(3600.0)
        sent.clear()
        yield opened


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions are known to be quick, however busy the machine is that runs the tests."""
    monkeypatch.setattr(HeadScheduler, "pace", lambda scheduler, fn: 1e-5)


async def test_callbacks_come_for_each_job_of_a_chain_in_order(executor, sent):
    heard: list[tuple[str, str]] = []
    callbacks = Callbacks(
        on_resource_acquired=lambda name, slots: heard.append(("acquired", name)),
        on_start=lambda name: heard.append(("start", name)),
        on_complete=lambda name, value: heard.append(("complete", name)),
        on_resource_released=lambda name, slots: heard.append(("released", name)),
    )
    report = await chain().run(callbacks=callbacks)
    assert len(sent) < LENGTH / 2, "nothing travelled together"
    assert report.succeeded == LENGTH
    assert report.peak_utilization == {"cores": 1.0}
    assert set(Counter(heard).values()) == {1}
    order = {told: at for at, told in enumerate(heard)}
    for n in range(LENGTH):
        steps = [order[what, str(n)] for what in ("acquired", "start", "complete", "released")]
        assert steps == sorted(steps)
        assert n == 0 or order["complete", str(n - 1)] < order["start", str(n)]
    job = report["5"]
    assert (job.worker, job.allocation, job.attempt) == ("local", Cores([0]), 1)
    assert job.run_s is not None
    assert job.queued_s is not None


async def test_a_chain_that_breaks_fails_one_job_and_skips_those_behind(executor, sent):
    events = executor.events()
    before = executor.report()
    report = await chain(broken_at=5).run()
    after = executor.report()
    await executor.aclose()
    assert len(sent) < LENGTH / 2, "nothing travelled together"
    assert [job.status for job in report.values()] == ["succeeded"] * 5 + ["failed"] + ["skipped"] * (LENGTH - 6)
    assert type(report["5"].error) is ZeroDivisionError
    assert after.succeeded - before.succeeded == 5
    assert (after.failed, after.skipped, after.cancelled) == (1, LENGTH - 6, 0)
    with anyio.fail_after(LIMIT_S):
        found = [(event.kind, event.outcome) async for event in events if event.job]
    assert found == [("job_started", ""), ("job_ended", "succeeded")] * 5 + [
        ("job_started", ""),
        ("job_ended", "failed"),
    ]
