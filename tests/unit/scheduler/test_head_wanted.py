"""How many more workers would help: no more than there is work for, and none that would come too late."""

from __future__ import annotations

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores, GPUs, Limit, Memory, Nodes, Request, Token, WallTime, offer_of
from grainlike.scheduler import (
    FunctionDefined,
    JobsCancelled,
    PoolOffer,
    Trials,
    WorkerDrained,
    WorkerReported,
    lacks,
    wanted_in_pools,
)
from grainlike.wire import Code, LeaseStart


def wanted(cluster: Cluster, offer: Request, most: int = 100, within_s: float = 60.0) -> int:
    pool = PoolOffer(offer_of(offer, own_cores=range(64)), most)
    return wanted_in_pools(cluster.head, [pool], within_s)[0][0]


def waiting(request: Request, n: int, *, offers: tuple[Request, ...] = (), known_s: float | None = None) -> Cluster:
    cluster = Cluster(*offers)
    cluster.function(1, known_s)
    cluster.submit(request, 1.0, n=n)
    return cluster


@pytest.mark.parametrize(
    ("request_", "n", "offer", "count"),
    [
        (Cores(1), 0, Cores(4), 0),
        (Cores(1), 9, Cores(4), 3),
        (Cores(3), 5, Cores(4), 5),
        (Cores(5), 5, Cores(4), 0),
        (Cores(1) & Memory("3G"), 4, Cores(4) & Memory("8G"), 2),
        (Cores(1) & Token("big"), 4, Cores(4), 0),
        (Cores(8) | Cores(2), 4, Cores(4), 2),
        (Cores(1) & Limit("db", 3), 50, Cores(1), 3),
        (Nodes(3, each=Cores(4)), 1, Cores(4), 3),
        (Nodes(3, each=Cores(1)), 1, Cores(4), 3),
        (Nodes(200, each=Cores(1)), 1, Cores(4), 0),
        (Cores(1), 1000, Cores(4), 100),
    ],
)
def test_as_many_as_what_waits_has_room_on(request_: Request, n: int, offer: Request, count: int) -> None:
    cluster = waiting(request_, n or 1)
    if not n:
        cluster.tell(JobsCancelled(list(cluster.head.jobs)))
    assert wanted(cluster, offer) == count


def test_different_jobs_share_a_worker() -> None:
    cluster = waiting(Cores(3), 2)
    cluster.submit(Cores(1), 1.0, n=3)
    assert wanted(cluster, Cores(4)) == 3


@pytest.mark.parametrize(("offers", "count"), [((), 5), ((Cores(8),), 3), ((Cores(20),), 0), ((Cores(20),) * 9, 0)])
def test_short_jobs_want_as_many_as_get_them_done_in_time_beside_who_is_here(
    offers: tuple[Request, ...], count: int
) -> None:
    """3000 jobs of 0.4 s are 1200 s of work: twenty slots for a minute."""
    busy = sum(int(offer.units["cores"]) // 10**9 for offer in offers)
    cluster = waiting(Cores(1), 3000 + busy, offers=offers, known_s=0.4)
    left = sum(cls.live() != [] for cls in cluster.head.classes.values())
    assert left or not count
    assert wanted(cluster, Cores(4)) == pytest.approx(count, abs=1 if offers else 0)


def test_jobs_that_die_early_and_wait_for_their_next_attempt_drive_nothing_up() -> None:
    cluster = Cluster(Cores(1))
    cluster.tell(FunctionDefined(1, retries=5, backoff=(100.0, 1.0, 100.0)))
    job = cluster.submit(Cores(1), 1.0)
    _, _, worker, cls, attempt = cluster.take_running(job)
    cluster.finish(job, worker, cls, attempt, Code.FAILED)
    assert job in cluster.head.jobs
    assert wanted(cluster, Cores(1)) == 0


def test_asking_changes_nothing() -> None:
    cluster = waiting(Cores(1), 5)
    assert [wanted(cluster, Cores(2)) for _ in range(3)] == [3, 3, 3]
    cluster.head.check()


# --- several kinds at a time -----------------------------------------------------------------------------------------


def in_pools(cluster, *pools):
    """Workers wanted of each pool, given as (offer, most), and the workers kept for a gang."""
    offers = [PoolOffer(None if offer is None else offer_of(offer, own_cores=range(64)), most) for offer, most in pools]
    return wanted_in_pools(cluster.head, offers, 60.0)


def test_each_job_counts_for_the_first_pool_that_can_run_it() -> None:
    cluster = waiting(Cores(1), 3)
    cluster.submit(GPUs(1), 1.0, n=2)
    assert in_pools(cluster, (Cores(1), 9), (Cores(4) & GPUs(1), 9)) == ([3, 2], frozenset())


def test_what_is_too_much_for_one_pool_goes_to_the_next() -> None:
    cluster = waiting(Cores(1), 10)
    assert in_pools(cluster, (Cores(1), 4), (Cores(2), 2), (Cores(1), 9)) == ([4, 2, 2], frozenset())


def test_a_pool_whose_offer_is_not_known_wants_one_worker_to_learn_it() -> None:
    cluster = waiting(Cores(1), 10)
    assert in_pools(cluster, (None, 4), (Cores(1), 9)) == ([1, 0], frozenset())
    assert in_pools(cluster, (None, 0), (Cores(1), 9)) == ([0, 9], frozenset())


def test_of_a_gang_those_that_are_free_count_as_there_and_are_kept() -> None:
    cluster = waiting(Nodes(4, each=Cores(4)), 1, offers=(Cores(4), Cores(4)))
    counts, kept = in_pools(cluster, (Cores(4), 9))
    assert counts == [2]
    assert kept == frozenset(cluster.head.workers)


def test_a_gang_that_is_wider_than_a_pool_may_be_wants_nothing_of_it() -> None:
    cluster = waiting(Nodes(4, each=Cores(1)), 1)
    assert in_pools(cluster, (Cores(1), 3), (Cores(1), 4)) == ([0, 4], frozenset())


def test_what_an_offer_lacks_for_a_job_is_told() -> None:
    cluster = waiting(Cores(8) & Memory("8G") & WallTime(600) & Token("big"), 1)
    [job] = cluster.head.jobs.values()
    told = lacks(job.cls, offer_of(Cores(4) & Memory("16G") & WallTime(300), own_cores=range(64)), 1)
    assert told == ("cores (asked 8, offers 4)", "walltime (asked 0:10:00, leaves 0:05:00)", "token big")
    assert lacks(job.cls, offer_of(Cores(8) & Memory("16G") & Token("big"), own_cores=range(64)), 1) == ()


def test_a_gang_lacks_nodes_where_a_pool_may_have_fewer() -> None:
    cluster = waiting(Nodes(8, each=Cores(1)), 1)
    [job] = cluster.head.jobs.values()
    assert lacks(job.cls, offer_of(Cores(1), own_cores=range(64)), 4) == ("nodes (asked 8, at most 4)",)


# --- functions that nobody has tried yet -----------------------------------------------------------------------------


def wanted_in_trial(cluster, trials, *pools):
    """Workers wanted of each pool of one core by somebody who asks again and again."""
    offers = [PoolOffer(offer_of(offer, own_cores=range(64)), most) for offer, most in pools]
    return wanted_in_pools(cluster.head, offers, 60.0, trials.look(cluster.head, cluster.now))[0]


def test_jobs_that_nobody_has_tried_want_one_worker_at_first_and_soon_as_many_as_ever() -> None:
    cluster = waiting(Cores(1), 10_000)
    trials = Trials()
    wanted = []
    for cluster.now in (100.0, 101.0, 109.9, 110.0, 200.0):
        wanted.append(wanted_in_trial(cluster, trials, (Cores(4), 100)))
    assert wanted == [[1], [1], [1], [100], [100]]


def test_jobs_that_are_tried_want_no_worker_beside_one_that_is_here_until_one_of_them_runs_for_long() -> None:
    cluster = waiting(Cores(1), 10, offers=(Cores(1),))
    _, job, worker, cls, attempt = cluster.take_running(min(cluster.head.jobs))
    trials = Trials()
    cluster.now = 5.0
    assert wanted_in_trial(cluster, trials, (Cores(1), 100)) == [0], "it was sent, and does not run yet"
    trials, cluster.now = Trials(), 0.0
    cluster.tell(WorkerReported(worker, [LeaseStart(job, cls, "", [job], [attempt], 0.0)], [], []))
    wanted = []
    for cluster.now in (0.0, 2.9, 3.0):
        wanted.append(wanted_in_trial(cluster, trials, (Cores(1), 100)))
    assert wanted == [[0], [0], [9]]


def test_few_quick_ends_prolong_a_trial_and_one_that_was_long_ends_it() -> None:
    for walls, count in (([0.001] * 7, 0), ([0.001] * 8, 0), ([30.0], 9)):
        cluster = waiting(Cores(1), 10, offers=(Cores(1),))
        cluster.head._functions[1].times.add(walls)
        assert wanted_in_trial(cluster, Trials(), (Cores(1), 100)) == [count]


def test_a_trial_begins_when_jobs_of_a_function_wait_and_anew_when_they_wait_again() -> None:
    cluster = waiting(Cores(1), 10)
    trials = Trials()
    assert wanted_in_trial(cluster, trials, (Cores(1), 9)) == [1]
    cluster.now = 20.0
    assert wanted_in_trial(cluster, trials, (Cores(1), 9)) == [9]
    cluster.function(2)
    cluster.submit(Cores(1), 1.0, fn=2, n=5, priority=1)
    assert wanted_in_trial(cluster, trials, (Cores(1), 99)) == [11], "those of the other one have waited for long"
    cluster.tell(JobsCancelled([job.id for job in cluster.head.jobs.values() if job.fn.id == 1]))
    assert wanted_in_trial(cluster, trials, (Cores(1), 99)) == [1]
    cluster.submit(Cores(1), 1.0, fn=1, n=5)
    cluster.now = 31.0
    assert wanted_in_trial(cluster, trials, (Cores(1), 99)) == [6], "five, and one for those that are tried again"


def test_a_gang_that_is_tried_gets_its_workers() -> None:
    cluster = waiting(Nodes(3, each=Cores(4)), 5)
    assert wanted_in_trial(cluster, Trials(), (Cores(4), 100)) == [3]
    assert wanted_in_trial(cluster, Trials(), (Cores(8), 100)) == [3], "two fit side by side"


def test_a_worker_that_is_to_leave_is_none_on_which_jobs_are_tried() -> None:
    cluster = waiting(Cores(1), 10, offers=(Cores(1),))
    cluster.tell(WorkerDrained(1))
    assert wanted_in_trial(cluster, Trials(), (Cores(1), 100)) == [1]


def test_of_jobs_in_one_queue_each_counts_by_its_own_function() -> None:
    cluster = waiting(Cores(1), 2)
    cluster.function(2, 0.4)
    cluster.submit(Cores(1), 1.0, fn=2, n=3000)
    assert in_pools(cluster, (Cores(1), 99)) == ([22], frozenset())
