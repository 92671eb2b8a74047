"""A worker that said that it stops: it gets nothing more, in whatever way, and nobody waits for it."""

from scheduler_cluster import Cluster

from grainlike.resources import Cores, offer_of
from grainlike.scheduler import AssignJobs, WorkerJoined, WorkerLeaving


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
    assert [held.job.job for held in planner.reservations[1]] == [wide]
    cluster.tell(WorkerLeaving(1))
    assert 1 not in planner.reservations
    assert [held.job.job for held in planner.reservations[2]] == [wide]
