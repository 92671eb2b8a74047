"""A pass gives out so much and no more, and the next one goes on where it ended."""

from __future__ import annotations

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores
from grainlike.scheduler import AssignJobs, JobsSubmitted, Ticked, WakeAt, WorkerReported
from grainlike.scheduler.planning import _ahead, _planner
from grainlike.wire import LeaseStart

WORKERS, CORES = 6, 2

Given = list[tuple[int, bool, list[int]]]


def cluster_of(known_s: float | None = None) -> Cluster:
    cluster = Cluster(*[Cores(CORES)] * WORKERS)
    cluster.function(1, known_s)
    return cluster


def given(cluster: Cluster, at: int) -> Given:
    return [(a.worker, a.ahead, a.jobs) for a in cluster.actions[at:] if isinstance(a, AssignJobs)]


def passes(cluster: Cluster, first: object) -> list[Given]:
    """What each pass gives out, from an event on until none asks to be woken at once."""
    told: list[Given] = []
    event = first
    while True:
        at = len(cluster.actions)
        cluster.tell(event)
        told.append(given(cluster, at))
        if not any(isinstance(action, WakeAt) and action.at <= cluster.now for action in cluster.actions[at:]):
            return told
        event = Ticked()


def jobs_in(given: Given) -> list[int]:
    return [job for _, _, jobs in given for job in jobs]


def submitted(count: int) -> JobsSubmitted:
    return JobsSubmitted(Cores(1), list(range(1, count + 1)), [1] * count)


def start_all(cluster: Cluster) -> WorkerReported:
    """All workers say that what they were given first has begun; return what the last one has yet to say."""
    reports = []
    for worker, _, jobs in given(cluster, 0):
        cls = cluster.head.jobs[jobs[0]].shape.id
        starts = [LeaseStart(job, cls, "", [job], [1], cluster.now) for job in jobs]
        reports.append(WorkerReported(worker, starts, [], []))
    for report in reports[:-1]:
        cluster.tell(report)
    return reports[-1]


def length_of(cluster: Cluster, count: int) -> None:
    cluster.length.update(dict.fromkeys(range(1, count + 1), 1.0))


def test_a_pass_places_so_many_jobs_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cluster_of()
    length_of(whole, 20)
    (all_at_once,) = passes(whole, submitted(20))
    monkeypatch.setattr(_planner, "PLACED_MOST", 5)
    cluster = cluster_of()
    length_of(cluster, 20)
    told = passes(cluster, submitted(20))
    assert [len(jobs_in(given)) for given in told] == [5, 5, 2]
    assert cluster.started_on == whole.started_on
    assert sorted(jobs_in(all_at_once)) == list(range(1, WORKERS * CORES + 1))


def test_as_many_as_there_is_room_for_are_placed_where_they_are_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_planner, "PLACED_MOST", WORKERS * CORES + 1)
    cluster = cluster_of()
    length_of(cluster, 20)
    (told,) = passes(cluster, submitted(20))
    assert len(jobs_in(told)) == WORKERS * CORES


def test_what_comes_between_two_passes_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A more urgent job that comes after the first pass is placed by the second, before what was there first."""
    monkeypatch.setattr(_planner, "PLACED_MOST", 5)
    cluster = cluster_of()
    length_of(cluster, 41)
    cluster.tell(submitted(40))
    at = len(cluster.actions)
    cluster.tell(JobsSubmitted(Cores(1), [41], [1], 1))
    assert jobs_in(given(cluster, at))[0] == 41


@pytest.mark.parametrize("most", [1, 7, 30])
def test_a_pass_sends_so_many_jobs_ahead_and_the_next_goes_on(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker may get more than that, for it is filled up at once; the next pass goes on with the next worker."""
    each = 20  # 25 ms of work for each of two jobs, of 2.5 ms each
    monkeypatch.setattr(_ahead, "SENT_MOST", most)
    cluster = cluster_of(known_s=0.0025)
    length_of(cluster, 1000)
    count = WORKERS * CORES
    first = passes(cluster, JobsSubmitted(Cores(1), list(range(1, count + 1)), [1] * count))
    assert not any(ahead for told in first for _, ahead, _ in told)
    cluster.tell(start_all(cluster))
    more = list(range(count + 1, 1001))
    told = passes(cluster, JobsSubmitted(Cores(1), more, [1] * len(more)))
    assert all(ahead for given in told for _, ahead, _ in given)
    at_once = -(-most // each)
    assert [len(given) for given in told] == [at_once] * (WORKERS // at_once)
    assert sorted(worker for given in told for worker, _, _ in given) == sorted(cluster.head.workers)
    assert [job for given in told for job in jobs_in(given)] == more[: each * WORKERS]
