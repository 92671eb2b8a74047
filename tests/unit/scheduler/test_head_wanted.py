"""How many more workers would help: no more than there is work for, and none that would come too late."""

from __future__ import annotations

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores, Limit, Memory, Nodes, Request, Token, offer_of
from grainlike.scheduler import FunctionDefined, JobsCancelled
from grainlike.wire import Code


def wanted(cluster: Cluster, offer: Request, most: int = 100, within_s: float = 60.0) -> int:
    return cluster.head.wanted(offer_of(offer, own_cores=range(64)), most, within_s)


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
