"""A job of which a part was handed on is never tried again, however its attempt ends."""

from __future__ import annotations

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores, Memory
from grainlike.scheduler import FunctionDefined, JobsCommitted, JobsLost, JobsSettled, WorkerLeaving, WorkerLost
from grainlike.wire import Code

AGAIN = [Code.FAILED, Code.OUT_OF_MEMORY, Code.TIMED_OUT, Code.STOPPED, Code.CRASHED]
"""Ends after which a job with retries and memory that grows is tried again."""


def running(*, committed: bool) -> tuple[Cluster, int]:
    cluster = Cluster(Cores(1) & Memory("4G"), Cores(1) & Memory("4G"))
    cluster.tell(FunctionDefined(1, retries=5))
    job = cluster.submit(Cores(1) & Memory("1G", grow=2), 1)
    if committed:
        cluster.tell(JobsCommitted([job]))
    return cluster, job


@pytest.mark.parametrize("code", AGAIN, ids=lambda code: code.name)
@pytest.mark.parametrize("committed", [False, True])
def test_an_attempt_that_ends_badly(code: Code, committed: bool) -> None:
    cluster, job = running(committed=committed)
    _, _, worker, cls, attempt = cluster.take_running(job)
    cluster.finish(job, worker, cls, attempt, code)
    ends = [*cluster.told(JobsSettled), *cluster.told(JobsLost)]
    assert (len(ends), job in cluster.head.jobs) == ((1, False) if committed else (0, True))


@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_a_worker_that_is_lost(committed: bool, leaving: bool) -> None:
    cluster, job = running(committed=committed)
    worker = cluster.started_on[job]
    if leaving:
        cluster.tell(WorkerLeaving(worker))
    cluster.tell(WorkerLost(worker, "gone"))
    assert len(cluster.told(JobsLost)) == committed
    assert (job in cluster.head.jobs) is not committed


def test_what_is_not_known_any_more_is_passed_over() -> None:
    cluster, job = running(committed=False)
    cluster.run()
    cluster.tell(JobsCommitted([job]))
    assert not cluster.head.jobs
