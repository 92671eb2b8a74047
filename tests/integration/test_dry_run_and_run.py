"""A plan and the run that follows it are of one mind."""

from __future__ import annotations

import time

from grainlike import Cores, Executor, delayed, dry_run, gather, info, run

SECONDS = 0.1


@delayed
def work(_before=None):
    time.sleep(SECONDS)
    return 1


async def plan_then_run():
    first_ = [(work @ Cores(1))() for _ in range(3)]
    last_ = (work @ Cores(2))(gather(first_))
    plan = await dry_run(last_, workers=[Cores(2)], durations={"work": SECONDS})
    async with Executor(local=Cores(2)):
        assert await last_ == 1
    return plan, [info(r_) for r_ in [*first_, last_]]


def test_a_graph_runs_as_it_was_planned_and_no_faster():
    plan, told = run(plan_then_run, local=Cores(1))
    assert [len(job.allocation.cores) for job in plan.jobs] == [1, 1, 1, 2]
    assert plan.makespan_s == 3 * SECONDS
    assert [one.allocation.N for one in told] == [1, 1, 1, 2]
    assert told[2].began >= min(one.ended for one in told[:2])
    assert told[3].began >= told[2].ended
    # Times come from several processes, whose clocks are set against each other.
    assert told[3].ended - min(one.began for one in told) >= plan.makespan_s - 0.05
