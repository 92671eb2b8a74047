"""Workers that fail again and again get nothing new for a while; one that can start no process costs no job all it
has."""

from __future__ import annotations

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores, offer_of
from grainlike.scheduler import (
    FunctionDefined,
    JobsLost,
    Ticked,
    WakeAt,
    WorkerHeard,
    WorkerJoined,
    WorkerLost,
    WorkerQuarantined,
    WorkerReleased,
    WorkerReported,
    WorkerSuspected,
    _quarantine,
)
from grainlike.scheduler._quarantine import MOST_S, STRIKES, WINDOW_S, Quarantine
from grainlike.wire import Code, Completed, LeaseStart


def cluster_of(workers: int = 1, *, closed: bool = False) -> Cluster:
    cluster = Cluster(*[Cores(1)] * workers, closed=closed)
    cluster.tell(FunctionDefined(1))
    return cluster


def fail_to_start(cluster: Cluster, job: int) -> None:
    _, _, worker, cls, attempt = cluster.take_running(job)
    cluster.finish(job, worker, cls, attempt, Code.UNSTARTED)


def wait(cluster: Cluster) -> float:
    at = min(action.at for action in cluster.told(WakeAt) if action.at > cluster.now)
    seconds, cluster.now = at - cluster.now, at
    cluster.tell(Ticked())
    return seconds


def blink(cluster: Cluster, worker: int = 1) -> None:
    cluster.tell(WorkerSuspected(worker, broke=True))
    cluster.tell(WorkerHeard(worker))


@pytest.mark.parametrize("closed", [False, True])
def test_a_worker_that_cannot_start_processes_does_not_burn_a_jobs_attempts(closed: bool) -> None:
    """Where others may come, the job waits for them; where nobody can, it fails after the third time."""
    cluster = cluster_of(closed=closed)
    job = cluster.submit(Cores(1), 1)
    fail_to_start(cluster, job)
    found = cluster.head.explain(job, cluster.now)
    assert found is not None
    assert (found.reason, found.nearest) == ("quarantine", "n1")
    assert "a job could not be started there: no process could be started" in str(found)
    assert "in quarantine for 1 s" in cluster.head.why_shut(1)
    assert wait(cluster) == 1.0
    assert cluster.told(WorkerReleased)
    fail_to_start(cluster, job)
    assert wait(cluster) == 2.0
    fail_to_start(cluster, job)
    assert [action.losses for action in cluster.told(JobsLost)] == ([3] if closed else [])
    assert (job in cluster.head.jobs) is not closed


def test_others_run_meanwhile_what_it_could_not_start() -> None:
    cluster = cluster_of(2)
    job = cluster.submit(Cores(1), 1)
    first = cluster.started_on[job]
    fail_to_start(cluster, job)
    assert cluster.started_on[job] != first


def test_a_success_is_the_end_of_the_matter() -> None:
    cluster = cluster_of()
    job = cluster.submit(Cores(1), 1)
    fail_to_start(cluster, job)
    wait(cluster)
    cluster.run()
    again = cluster.submit(Cores(1), 1)
    fail_to_start(cluster, again)
    assert "in quarantine for 1 s" in cluster.head.why_shut(1)


def test_what_a_failed_start_costs_is_no_loss_to_one_that_forgives_none() -> None:
    cluster = cluster_of()
    cluster.tell(FunctionDefined(2, losses=0))
    job = cluster.submit(Cores(1), 1, fn=2)
    fail_to_start(cluster, job)
    assert job in cluster.head.jobs


def test_a_link_that_breaks_again_and_again_is_a_reason() -> None:
    cluster = cluster_of()
    for count in range(1, STRIKES + 1):
        assert not cluster.told(WorkerQuarantined)
        cluster.now = count * 1.0
        blink(cluster)
    (action,) = cluster.told(WorkerQuarantined)
    assert f"its link has broken {STRIKES} times" in action.why
    job = cluster.submit(Cores(1), 1)
    assert job not in cluster.begun
    cluster.now += 10.0
    cluster.tell(Ticked())
    assert cluster.begun[job] == cluster.now


def test_the_same_over_a_long_time_is_none() -> None:
    cluster = cluster_of()
    for count in range(3 * STRIKES):
        cluster.now = count * WINDOW_S / (STRIKES - 2)
        blink(cluster)
    assert not cluster.told(WorkerQuarantined)


def test_one_that_dies_with_jobs_and_comes_back_is_the_same_machine() -> None:
    cluster = cluster_of()
    cluster.submit(Cores(1), 1, n=STRIKES + 1)
    for number in range(STRIKES):
        worker = max(cluster.head.workers)
        job = next(iter(cluster.head.workers[worker].held))
        start(cluster, job)
        cluster.tell(WorkerLost(worker, "gone"))
        join_as(cluster, "n1", worker + 1)
        assert bool(cluster.told(WorkerQuarantined)) is (number == STRIKES - 1)


def start(cluster: Cluster, job: int) -> None:
    """Its worker says that the job has begun."""
    _, _, worker, cls, attempt = cluster.take_running(job)
    cluster.tell(WorkerReported(worker, [LeaseStart(job, cls, "", [job], [attempt], cluster.now)], [], []))


def join_as(cluster: Cluster, name: str, worker: int) -> None:
    offer = offer_of(Cores(1), own_cores=range(64))
    cluster.free_at_work[worker] = dict(offer.units)
    cluster.tell(WorkerJoined(worker, name, offer))


@pytest.mark.parametrize("kind", ["links", "losses", "starts"])
def test_it_lasts_twice_as_long_each_time_up_to_a_limit(kind: str) -> None:
    quarantine, now, lasted = Quarantine(), 0.0, []
    for _ in range(12):
        while not quarantine.strike("n1", kind, now):  # type: ignore[arg-type]
            pass
        lasted.append(quarantine.until("n1") - now)
        now = quarantine.until("n1")
    assert lasted[1] == 2 * lasted[0]
    assert lasted[-1] == MOST_S


def test_what_is_long_past_is_forgotten() -> None:
    quarantine = Quarantine()
    quarantine.strike("n1", "starts", 0.0)
    quarantine.forget_old(WINDOW_S)
    assert quarantine.records
    quarantine.forget_old(WINDOW_S + 2.0)
    assert not quarantine.records


def test_records_are_looked_at_when_one_may_be_old_and_not_with_each_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand links that broke at once would else be looked at a thousand times each."""
    looks = 0

    class Counting(_quarantine._Record):
        @property
        def old_at(self) -> float:
            nonlocal looks
            looks += 1
            return super().old_at

    monkeypatch.setattr(_quarantine, "_Record", Counting)
    cluster = cluster_of(20)
    for worker in cluster.head.workers:
        blink(cluster, worker)
    looks_while_they_came = looks
    cluster.submit(Cores(1), 1, n=100)
    cluster.run(WINDOW_S / 2)
    assert (looks_while_they_came, looks) == (0, 0)
    cluster.now = WINDOW_S + 1.0
    cluster.tell(Ticked())
    assert looks == 20
    assert not cluster.head._attempts.quarantine.records


def test_a_success_between_the_end_of_a_quarantine_and_its_tick_shuts_nobody_out() -> None:
    cluster = Cluster(Cores(2))
    cluster.tell(FunctionDefined(1))
    good, bad = cluster.submit(Cores(1), 5, n=2)
    fail_to_start(cluster, bad)
    assert cluster.head.why_shut(1)
    cluster.now = 1.0
    _, _, worker, cls, attempt = cluster.take_running(good)
    cluster.finish(good, worker, cls, attempt)
    assert not cluster.head.why_shut(1)
    assert bad in cluster.begun


def test_a_process_that_dies_before_it_began_anything_counts_against_the_worker_and_makes_its_job_a_suspect() -> None:
    """It may be either's fault: the job runs alone from now on, and is given up after the third time."""
    cluster = cluster_of()
    job = cluster.submit(Cores(1), 1)
    for number in range(1, 4):
        _, _, worker, cls, attempt = cluster.take_running(job)
        cluster.free_at_work[worker]["cores"] += 10**9
        begun = LeaseStart(number, cls, "", [job], [attempt], cluster.now)
        died = Completed(
            number, [job], [attempt], [int(Code.CRASHED)], [0.0], [0.0], [0.0], [0], [b""], [], 0.0, never_ran=True
        )
        cluster.tell(WorkerReported(worker, [begun], [died], [number]))
        assert len(cluster.told(WorkerQuarantined)) == number
        if number < 3:
            assert cluster.head.jobs[job].cls.isolate
            wait(cluster)
    assert [action.losses for action in cluster.told(JobsLost)] == [3]


def full_cluster() -> tuple[Cluster, dict[int, list[int]]]:
    """Two workers of two cores, each with two jobs; which jobs run where."""
    cluster = Cluster(Cores(2), Cores(2))
    cluster.tell(FunctionDefined(1))
    jobs = cluster.submit(Cores(1), 100, n=4)
    return cluster, {worker: [job for job in jobs if cluster.started_on[job] == worker] for worker in (1, 2)}


def end_one(cluster: Cluster, job: int) -> None:
    cluster.now += 1.0
    _, _, worker, cls, attempt = cluster.take_running(job)
    cluster.finish(job, worker, cls, attempt)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("worker", [1, 2])
def test_no_place_is_kept_for_a_wide_job_where_nobody_may_start(when: str, worker: int) -> None:
    """Whether the worker is shut before or after the job came: its place is at the other, where it starts."""
    cluster, running = full_cluster()
    other = 3 - worker
    if when == "before":
        cluster.tell(WorkerSuspected(worker, broke=False))
    wide = cluster.submit(Cores(2), 1)
    if when == "after":
        cluster.tell(WorkerSuspected(worker, broke=False))
    narrow = cluster.submit(Cores(1), 100)
    end_one(cluster, running[other][0])
    assert narrow not in cluster.begun
    end_one(cluster, running[other][1])
    assert cluster.started_on[wide] == other
    assert narrow not in cluster.begun


def test_one_that_is_heard_again_is_kept_free_as_any_other() -> None:
    cluster, running = full_cluster()
    for worker in (1, 2):
        cluster.tell(WorkerSuspected(worker, broke=False))
    wide = cluster.submit(Cores(2), 1)
    narrow = cluster.submit(Cores(1), 100)
    end_one(cluster, running[1][0])
    cluster.tell(WorkerHeard(1))
    assert narrow not in cluster.begun
    end_one(cluster, running[1][1])
    assert cluster.started_on[wide] == 1
