"""Rehearsals: worlds in which all seconds are the jobs' own, written down run by run."""

from __future__ import annotations

import pytest

from grainlike.resources import EMPTY, Allocation, Cores, GPUs, Request, offer_of
from grainlike.simulation import Dice, FunctionPlan, JobPlan, Rehearsal, Workload
from simtest import Trial, equal_nodes

JOB = FunctionPlan("job")


def offers(*what: Request) -> list[Allocation]:
    return [offer_of(one, own_cores=()) for one in what]


def lived(jobs: list[JobPlan], *what: Request, function: FunctionPlan = JOB) -> Rehearsal:
    rehearsal = Rehearsal(Workload("test", (function,), tuple(jobs)), offers(*what))
    while rehearsal.advance(100):
        pass
    return rehearsal


def test_only_the_jobs_take_time():
    rehearsal = lived([JobPlan(0, Cores(1), 2.0) for _ in range(6)], Cores(2), Cores(1))
    assert rehearsal.makespan == 4.0
    assert sorted(run.began for _, run in rehearsal.runs()) == [0.0, 0.0, 0.0, 2.0, 2.0, 2.0]
    assert rehearsal.busy("cores") == 12.0 * 10**9


def test_runs_tell_where_and_on_which_ids():
    runs = dict(lived([JobPlan(0, Cores(1), 1.0) for _ in range(3)], Cores(2), Cores([7])).runs())
    assert sorted((run.worker, run.allocation.cores) for run in runs.values()) == [(1, (0,)), (1, (1,)), (2, (7,))]


def test_a_choice_counts_as_what_was_given():
    runs = lived([JobPlan(0, Cores(2) | GPUs(1), 1.0) for _ in range(2)], Cores(2) & GPUs(1))
    assert [run.began for _, run in runs.runs()] == [0.0, 0.0]
    assert runs.busy("cores") == 2.0 * 10**9


def test_a_job_that_asks_for_nothing_passes_on_what_it_came_after():
    jobs = [JobPlan(0, EMPTY, 0.0), JobPlan(0, Cores(1), 3.0, after=(0,))]
    jobs += [JobPlan(0, EMPTY, 0.0, after=(at,)) for at in range(1, 5_000)]
    jobs.append(JobPlan(0, Cores(1), 1.0, after=(len(jobs) - 1, 0)))
    rehearsal = lived(jobs, Cores(4))
    assert [(at, run.began) for at, run in rehearsal.runs()] == [(1, 0.0), (len(jobs) - 1, 3.0)]
    assert rehearsal.never_submitted() == []


def test_who_never_runs_is_told_why_and_who_waits_for_it_is_named():
    jobs = [JobPlan(0, Cores(9), 1.0), JobPlan(0, EMPTY, 0.0, after=(0,)), JobPlan(0, Cores(1), 1.0, after=(1,))]
    rehearsal = lived(jobs, Cores(2), Cores(4))
    assert rehearsal.runs() == []
    assert rehearsal.never_submitted() == [2]
    assert list(rehearsal.stuck()) == [0]
    assert "asked 9, at most 4" in rehearsal.stuck()[0]


def test_a_timeout_ends_each_attempt():
    function = FunctionPlan("late", timeout=1.0, retries=1)
    rehearsal = lived([JobPlan(0, Cores(1), 5.0)], Cores(1), function=function)
    told = [(run.attempt, run.status, run.ready, run.began, run.ended) for _, run in rehearsal.runs()]
    assert told == [(1, "timed_out", 0.0, 0.0, 1.0), (2, "timed_out", 1.0, 1.0, 2.0)]


def test_jobs_that_ask_for_nothing_keep_every_promise():
    """The same client, before the judge: layers of jobs with joints between them."""
    dice = Dice(5)
    jobs: list[JobPlan] = []
    for layer in range(6):
        before = (len(jobs) - 1,) if jobs else ()
        jobs += [JobPlan(0, Cores(1), dice.between(0.1, 0.2), after=before) for _ in range(5)]
        jobs.append(JobPlan(0, EMPTY, 0.0, after=tuple(range(len(jobs) - 5, len(jobs)))))
        assert len(jobs) == (layer + 1) * 6
    outcome = Trial(1, Workload("joints", (FunctionPlan("job"),), tuple(jobs)), equal_nodes(1, Cores(2))).run()
    assert outcome.violations == ()
    assert outcome.seen["settled SUCCEEDED"] == 30


@pytest.mark.parametrize("slice_", [1, 7, 10_000])
def test_slices_make_no_difference(slice_):
    jobs = [JobPlan(0, Cores(1 + at % 3), 0.5 + at % 7) for at in range(60)]
    rehearsal = Rehearsal(Workload("test", (FunctionPlan("job"),), tuple(jobs)), offers(Cores(4), Cores(3)))
    while rehearsal.advance(slice_):
        pass
    whole = lived(jobs, Cores(4), Cores(3))
    assert [(at, run.began, run.slots) for at, run in rehearsal.runs()] == [
        (at, run.began, run.slots) for at, run in whole.runs()
    ]
