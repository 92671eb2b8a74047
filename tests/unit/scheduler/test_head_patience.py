"""A worker is kept for a narrow job once it was passed over for long. To wait for a turn is not to be passed over."""

from __future__ import annotations

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores, Memory, Request
from grainlike.scheduler import JobsCancelled
from grainlike.scheduler.planning import _patience
from grainlike.scheduler.planning._reservation import PATIENCE_S

GIB = 1 << 30


def own(i: int) -> Request:
    """A request that no other job has."""
    return Cores(1) & Memory(GIB + i, grow=2)


@pytest.fixture(params=[1_000, 1], ids=["few classes", "many classes"])
def _few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("planning._waiting", "planning._planner"):
        monkeypatch.setattr(f"grainlike.scheduler.{module}.FEW", request.param)


@pytest.mark.usefixtures("_few")
def test_another_client_does_not_wait_until_all_requests_of_the_first_were_served() -> None:
    """Each asks for another amount of memory, of which there is enough: the oldest starts whenever one ends."""
    cluster = Cluster(Cores(2) & Memory(8 * GIB))
    cluster.function(1)
    for i in range(300):
        cluster.submit(own(i), 0.1, client=1)
    cluster.run(until=2 * PATIENCE_S)
    assert not cluster.head._planner.reserving.by_class
    late = cluster.submit(Cores(1), 0.1, client=2)
    cluster.run()
    assert cluster.begun[late] <= 2 * PATIENCE_S + 0.1


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize("client", [1, 2], ids=["its own client's", "another client's"])
def test_who_is_passed_over_by_narrow_jobs_gets_a_worker_kept(client: int) -> None:
    cluster = Cluster(Cores(8))
    cluster.function(1)
    for tenth in range(3, 11):
        cluster.submit(Cores(1), tenth / 100, client=client)
    medium = cluster.submit(Cores(3), 0.1, client=1)

    def stream() -> None:
        if cluster.now < 20:
            cluster.submit(Cores(1), 0.07 + 0.01 * (len(cluster.length) % 7), client=client)

    cluster.run(until=100, arrivals=stream)
    assert PATIENCE_S <= cluster.begun[medium] < PATIENCE_S + 0.4


@pytest.mark.usefixtures("_few")
def test_a_first_job_that_took_the_place_of_another_has_a_patience_of_its_own() -> None:
    cluster = Cluster(Cores(8))
    cluster.function(1)
    for tenth in range(3, 11):
        cluster.submit(Cores(1), tenth / 100)
    first, second = cluster.submit(Cores(3), 0.1), cluster.submit(Cores(3), 0.1)

    def stream() -> None:
        if cluster.now < 20:
            cluster.submit(Cores(1), 0.07 + 0.01 * (len(cluster.length) % 7))
        if first in cluster.head.jobs and cluster.now > PATIENCE_S / 2:
            cluster.tell(JobsCancelled([first]))

    cluster.run(until=100, arrivals=stream)
    assert first not in cluster.begun
    assert 1.5 * PATIENCE_S <= cluster.begun[second] < 1.5 * PATIENCE_S + 0.5


def test_what_waits_no_more_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_patience, "_STALE_MOST", 10)
    cluster = Cluster(Cores(2) & Memory(8 * GIB))
    cluster.function(1)
    patience = cluster.head._planner.waiting.patience
    cluster.submit(Cores(1), 1.0, n=2, client=1)
    for client in range(1, 50):
        jobs = [cluster.submit(own(100 * client + i), 1.0, client=client) for i in range(20)]
        cluster.tell(JobsCancelled(jobs))
    assert sum(map(len, patience.unpassed.values())) < 150
    assert len(patience._due) < 150
