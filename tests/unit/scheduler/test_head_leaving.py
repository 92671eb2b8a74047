"""A worker that said that it stops: it gets nothing more, in whatever way, and nobody waits for it."""

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores, offer_of
from grainlike.scheduler import (
    AssignJobs,
    FunctionDefined,
    JobsUnsatisfiable,
    RetractJobs,
    WorkerDrained,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerReported,
)
from grainlike.wire import LeaseStart


def test_nothing_is_sent_ahead_to_a_worker_that_leaves():
    cluster = Cluster(Cores(2))
    cluster.function(1, known_s=0.001)
    cluster.submit(Cores(1), 0.001, n=2)
    cluster.tell(WorkerLeaving(1))
    cluster.actions.clear()
    cluster.submit(Cores(1), 0.001, n=50)
    cluster.run(until=0.01)
    assert cluster.told(AssignJobs) == []


def test_a_reservation_does_not_stay_on_a_worker_that_leaves():
    """The wide job waits for the shorter of two; when that worker leaves, it is reserved on the other at once."""
    cluster = Cluster(Cores(4))
    for fn, seconds in ((1, 1.0), (2, 5.0), (3, 1.0)):
        cluster.function(fn, known_s=seconds)
    cluster.submit(Cores(3), 1.0, fn=1)
    cluster.tell(WorkerJoined(2, "n2", offer_of(Cores(4), own_cores=range(64))))
    cluster.free_at_work[2] = {"cores": 4 * 10**9}
    cluster.submit(Cores(3), 5.0, fn=2)
    wide = cluster.submit(Cores(4), 1.0, fn=3)
    planner = cluster.head._planner
    assert [held.job.id for held in planner.reserving.by_worker[1]] == [wide]
    cluster.tell(WorkerLeaving(1))
    assert 1 not in planner.reserving.by_worker
    assert [held.job.id for held in planner.reserving.by_worker[2]] == [wide]


def drained(*offers):
    """Jobs run on the first worker, which is then asked to end when they have."""
    cluster = Cluster(Cores(2), *offers)
    cluster.tell(FunctionDefined(1))
    jobs = cluster.submit(Cores(1), 10, n=2)
    cluster.tell(WorkerDrained(1))
    return cluster, jobs


def test_what_runs_on_a_drained_worker_goes_on_and_nothing_begins():
    cluster, jobs = drained()
    later = cluster.submit(Cores(1), 1)
    assert "it is to end when its jobs have" in cluster.head.why_shut(1)
    cluster.run()
    assert set(cluster.ended) == set(jobs)
    cluster.join(Cores(1))
    assert cluster.started_on[later] == 2


def test_what_was_sent_ahead_to_a_drained_worker_comes_back():
    cluster = Cluster(Cores(2))
    cluster.function(1, known_s=0.001)
    cluster.submit(Cores(1), 0.001, n=20)
    ahead = [job for action in cluster.told(AssignJobs) if action.ahead for job in action.jobs]
    assert ahead
    cluster.tell(WorkerDrained(1))
    assert [action.jobs for action in cluster.told(RetractJobs)] == [ahead]


def test_what_was_asked_back_before_is_not_asked_back_twice():
    """A wide job has had the worker cleared for itself already."""
    cluster = Cluster(Cores(2))
    cluster.function(1, known_s=0.001)
    cluster.function(2)
    cluster.submit(Cores(1), 0.001, n=20)
    cluster.submit(Cores(2), 1, fn=2, priority=1)
    cluster.tell(WorkerDrained(1))
    back = [job for action in cluster.told(RetractJobs) for job in action.jobs]
    assert len(back) == len(set(back)) > 10


@pytest.mark.parametrize(("said_so", "losses"), [(False, 1), (True, 0)])
def test_a_drained_worker_that_dies_loses_its_jobs_and_one_that_ends_them_does_not(said_so, losses):
    cluster = Cluster(Cores(1))
    cluster.tell(FunctionDefined(1))
    job = cluster.submit(Cores(1), 10)
    _, _, worker, cls, attempt = cluster.take_running(job)
    cluster.tell(WorkerReported(worker, [LeaseStart(1, cls, "", [job], [attempt], 0.0)], [], []))
    record = cluster.head.jobs[job]
    cluster.tell(WorkerDrained(1))
    if said_so:
        cluster.tell(WorkerLeaving(1))
    cluster.tell(WorkerLost(1, "its link has ended"))
    assert record.losses == losses
    assert job in cluster.head.jobs


def test_where_nobody_else_can_come_jobs_that_only_a_drained_worker_could_run_fail():
    cluster = Cluster(Cores(2), closed=True)
    cluster.tell(FunctionDefined(1))
    runs = cluster.submit(Cores(1), 10)
    waits = cluster.submit(Cores(2), 10)
    cluster.tell(WorkerDrained(1))
    assert [action.jobs for action in cluster.told(JobsUnsatisfiable)] == [[waits]]
    assert runs in cluster.head.jobs
