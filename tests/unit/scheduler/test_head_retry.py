"""When a job is tried again: after what, how often, and how long it waits before that."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from scheduler_cluster import Cluster

from grainlike._retrying import backoff_s
from grainlike.resources import Cores, offer_of
from grainlike.scheduler import (
    AssignJobs,
    FunctionDefined,
    JobsBackedOff,
    JobsCancelled,
    JobsLost,
    JobsRequeued,
    JobsSettled,
    JobsUnsatisfiable,
    Ticked,
    WakeAt,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerQuarantined,
    WorkerReported,
)
from grainlike.scheduler._quarantine import STRIKES
from grainlike.wire import Code, Completed, LeaseStart


def running(*, closed: bool = False, workers: int = 1, **options: Any) -> tuple[Cluster, int]:
    """One job that runs, of a function of these options."""
    cluster = Cluster(*[Cores(1)] * workers, closed=closed)
    cluster.tell(FunctionDefined(1, **options))
    return cluster, cluster.submit(Cores(1), 1)


def end(cluster: Cluster, job: int, code: Code, *, final: bool = False) -> None:
    """The job's attempt ends in this way."""
    _, _, worker, cls, attempt = cluster.take_running(job)
    for name, amount in cluster.head.shapes[cls].units:
        cluster.free_at_work[worker][name] += amount
    start = LeaseStart(job, cls, "", [job], [attempt], cluster.now)
    done = Completed(job, [job], [attempt], [int(code)], [0.0], [1.0], [0.0], [0], [b""], [], cluster.now)
    cluster.tell(WorkerReported(worker, [start], [replace(done, final=[job]) if final else done], [job]))


def wait(cluster: Cluster) -> float:
    """Let the time come for which the scheduler asked last; how long that took."""
    at = min(action.at for action in cluster.told(WakeAt) if action.at > cluster.now)
    seconds, cluster.now = at - cluster.now, at
    cluster.tell(Ticked())
    return seconds


def test_the_waits_grow_up_to_the_longest_and_lose_a_quarter_at_most() -> None:
    cluster, job = running(retries=5, backoff=(1.0, 2.0, 5.0))
    for most in (1.0, 2.0, 4.0, 5.0, 5.0):
        begun = cluster.begun[job]
        end(cluster, job, Code.FAILED)
        assert cluster.begun[job] == begun
        assert 0.75 * most <= wait(cluster) <= most
        assert cluster.begun[job] == cluster.now
    end(cluster, job, Code.FAILED)
    assert len(cluster.told(JobsSettled)) == 1
    assert not cluster.head.jobs


def test_chance_is_of_the_seed_the_job_and_the_attempt() -> None:
    def waits(n: int) -> list[float]:
        cluster = Cluster(*[Cores(1)] * n)
        cluster.tell(FunctionDefined(1, retries=1, backoff=(1.0, 1.0, 1.0)))
        for job in cluster.submit(Cores(1), 1, n=n):
            end(cluster, job, Code.FAILED)
        return [action.seconds for action in cluster.told(JobsBackedOff)]

    assert waits(5) == waits(5)
    assert len(set(waits(5))) == 5


def test_a_factor_that_knows_no_bounds_does_no_harm() -> None:
    assert backoff_s((1.0, 1e300, 7.0), 50, 0.0) == 7.0
    assert backoff_s((0.0, 2.0, 7.0), 1000, 0.0) == 0.0


def test_explain_says_when_and_which_attempt() -> None:
    cluster, job = running(retries=3, backoff=(3.2, 1.0, 3.2))
    end(cluster, job, Code.FAILED)
    due = cluster.head.jobs[job].again_at
    found = cluster.head.explain(job, due - 2.25)
    assert found is not None
    assert (found.reason, found.state) == ("backoff", "backoff")
    assert str(found) == f"Job {job} tries again in 2.2 s, attempt 2 of 4."


def test_one_that_waits_holds_no_slots_and_goes_to_the_front_when_its_time_has_come() -> None:
    cluster, job = running(retries=1, backoff=(10.0, 1.0, 10.0))
    others = cluster.submit(Cores(1), 30, fn=1, n=2)
    end(cluster, job, Code.FAILED)
    assert others[0] in cluster.begun
    wait(cluster)
    assert job not in cluster.ended
    cluster.run(until=30.5)
    assert cluster.begun[job] == cluster.ended[others[0]] == 30.0
    assert others[1] not in cluster.begun


def test_one_that_waits_can_be_cancelled() -> None:
    cluster, job = running(retries=1, backoff=(10.0, 1.0, 10.0))
    end(cluster, job, Code.FAILED)
    cluster.tell(JobsCancelled([job]))
    assert not cluster.head.jobs
    wait(cluster)
    assert cluster.begun[job] == 0.0


def test_one_that_comes_back_to_nobody_fails_where_nobody_can_come() -> None:
    cluster, job = running(retries=1, backoff=(10.0, 1.0, 10.0), closed=True)
    end(cluster, job, Code.FAILED)
    cluster.tell(WorkerLost(1, "gone"))
    assert not cluster.told(JobsUnsatisfiable)
    wait(cluster)
    assert [action.jobs for action in cluster.told(JobsUnsatisfiable)] == [[job]]


@pytest.mark.parametrize("code", [Code.FAILED, Code.OUT_OF_MEMORY])
@pytest.mark.parametrize("final", [False, True])
def test_what_failed_for_good_is_not_tried_again(code: Code, final: bool) -> None:
    cluster, job = running(retries=1)
    end(cluster, job, code, final=final)
    assert (job in cluster.head.jobs) is not final


@pytest.mark.parametrize("on_timeout", [False, True])
def test_a_timeout_is_a_failure_of_its_own(on_timeout: bool) -> None:
    cluster, job = running(retries=1, on_timeout=on_timeout)
    end(cluster, job, Code.TIMED_OUT)
    assert (job in cluster.head.jobs) is on_timeout


@pytest.mark.parametrize("losses", [0, 1, 2, 5])
def test_losses_are_forgiven_as_often_as_was_said(losses: int) -> None:
    cluster, job = running(losses=losses)
    for _ in range(losses):
        end(cluster, job, Code.CRASHED)
        assert job in cluster.head.jobs
    end(cluster, job, Code.CRASHED)
    (lost,) = cluster.told(JobsLost)
    assert lost.losses == losses + 1


def test_a_loss_is_waited_out_too() -> None:
    cluster, job = running(backoff=(1.0, 3.0, 9.0))
    end(cluster, job, Code.CRASHED)
    assert 0.75 <= wait(cluster) <= 1.0
    end(cluster, job, Code.CRASHED)
    assert 2.25 <= wait(cluster) <= 3.0


def test_who_goes_down_with_a_worker_is_told_of_in_the_order_in_which_they_came() -> None:
    cluster = Cluster(Cores(2))
    cluster.tell(FunctionDefined(1, 1, losses=0))
    first, second = cluster.submit(Cores(1), 1.0, n=2)
    end(cluster, first, Code.FAILED)  # it comes to the worker once more, behind the other
    assert list(cluster.head.workers[1].held) == [second, first]
    cluster.tell(WorkerLost(1, "gone"))
    assert [action.jobs for action in cluster.told(JobsLost)] == [[first], [second]]


@pytest.mark.parametrize("losses", [0, 2])
@pytest.mark.parametrize("way", ["unheard", "leaving", "stopped"])
def test_what_may_have_begun_is_not_begun_again_where_no_loss_is_forgiven(losses: int, way: str) -> None:
    cluster, job = running(losses=losses)
    if way == "stopped":
        end(cluster, job, Code.STOPPED)
    else:
        if way == "leaving":
            cluster.tell(WorkerLeaving(1))
        cluster.tell(WorkerLost(1, "gone"))
    assert (job in cluster.head.jobs) is bool(losses)
    assert len(cluster.told(JobsLost)) == (0 if losses else 1)


def test_retries_are_not_used_up_by_losses_nor_losses_by_retries() -> None:
    cluster, job = running(retries=1, losses=1)
    end(cluster, job, Code.CRASHED)
    end(cluster, job, Code.FAILED)
    assert job in cluster.head.jobs
    end(cluster, job, Code.FAILED)
    assert cluster.told(JobsSettled)


def test_ends_of_workers_use_up_neither_retries_nor_losses() -> None:
    cluster, job = running(retries=1, losses=1)
    for _ in range(5):
        end(cluster, job, Code.STOPPED)
    assert not cluster.told(JobsBackedOff)
    end(cluster, job, Code.CRASHED)
    end(cluster, job, Code.FAILED)
    assert job in cluster.head.jobs
    end(cluster, job, Code.FAILED)
    assert cluster.told(JobsSettled)


@pytest.mark.parametrize("handed_back", [True, False])
def test_ends_of_workers_are_no_failures_of_theirs(handed_back: bool) -> None:
    """One of this name comes and ends more often than would put it into quarantine, or lose the job."""
    cluster, job = running(losses=1)
    offer = offer_of(Cores(1), own_cores=range(64))
    for worker in range(2, 2 + 2 * STRIKES):
        cluster.tell(WorkerLeaving(worker - 1))
        if handed_back:
            end(cluster, job, Code.STOPPED)
        else:
            _, _, _, cls, attempt = cluster.take_running(job)
            start = LeaseStart(job, cls, "", [job], [attempt], 0.0)
            cluster.tell(WorkerReported(worker - 1, [start], [], []))
        cluster.tell(WorkerLost(worker - 1, "it has ended"))
        cluster.free_at_work[worker] = dict(offer.units)
        cluster.tell(WorkerJoined(worker, "n1", offer))
    assert not cluster.told(WorkerQuarantined)
    assert cluster.started_on[job] == worker


def requeued(cluster: Cluster) -> list[int]:
    return [job for action in cluster.told(JobsRequeued) for job in action.jobs]


@pytest.mark.parametrize("code", [Code.CRASHED, Code.STOPPED, Code.FAILED, Code.RETURNED])
def test_what_ran_and_is_to_run_again_is_told_of_before_it_does(code: Code) -> None:
    cluster, job = running(retries=1)
    assert not requeued(cluster)
    end(cluster, job, code)
    assert requeued(cluster) == [job]
    kinds = [type(action) for action in cluster.actions]
    assert kinds.index(JobsRequeued) < len(kinds) - 1 - kinds[::-1].index(AssignJobs)


def test_of_a_lost_workers_jobs_those_that_had_begun_are_told_of() -> None:
    cluster = Cluster(Cores(2))
    cluster.tell(FunctionDefined(1))
    begun, planned = cluster.submit(Cores(1), 1, n=2)
    _, _, worker, cls, attempt = cluster.take_running(begun)
    cluster.tell(WorkerReported(worker, [LeaseStart(1, cls, "", [begun], [attempt], 0.0)], [], []))
    waits = cluster.submit(Cores(1), 1)
    cluster.tell(WorkerLost(1, "it was killed"))
    assert requeued(cluster) == [begun]
    assert {begun, planned, waits} <= cluster.head.jobs.keys()


def test_one_that_was_cancelled_or_waits_for_later_is_not() -> None:
    cluster, job = running(retries=1)
    cluster.tell(JobsCancelled([job]))
    end(cluster, job, Code.CRASHED)
    assert not requeued(cluster)
    cluster, job = running(retries=1, backoff=(1.0, 1.0, 1.0))
    end(cluster, job, Code.FAILED)
    wait(cluster)
    assert not requeued(cluster)


@pytest.mark.parametrize("closed", [False, True])
def test_a_job_that_its_process_had_not_begun_runs_again_whatever_losses_says_but_not_for_ever(closed: bool) -> None:
    cluster, job = running(closed=closed, losses=0)
    for _ in range(2):
        end(cluster, job, Code.UNBEGUN)
        assert job in cluster.begun
    end(cluster, job, Code.UNBEGUN)
    assert [action.losses for action in cluster.told(JobsLost)] == [3]
    assert not cluster.head.jobs


def test_once_begun_it_does_not_run_again() -> None:
    cluster, job = running(losses=0)
    end(cluster, job, Code.UNBEGUN)
    end(cluster, job, Code.CRASHED)
    assert len(cluster.told(JobsLost)) == 1
    assert not cluster.head.jobs


def test_where_losses_are_forgiven_they_count_whether_the_job_had_begun_or_not() -> None:
    cluster, job = running(losses=1)
    end(cluster, job, Code.UNBEGUN)
    end(cluster, job, Code.UNBEGUN)
    assert [action.losses for action in cluster.told(JobsLost)] == [2]
