"""Ends of workers: no job starts where less time is left than it has declared or is known to take."""

from scheduler_cluster import Cluster

from grainlike.resources import Cores, WallTime, offer_of
from grainlike.scheduler import AssignJobs, JobsUnsatisfiable, WorkerJoined, WorkerTimed

OFFER = offer_of(Cores(1), own_cores=range(64))


def cluster_with(left_s, known_s=None, *, closed=False):
    """A worker that offers no walltime, and says how much time it has left."""
    cluster = Cluster(closed=closed)
    cluster.function(1, known_s=known_s)
    cluster.free_at_work[1] = dict(OFFER.units)
    cluster.tell(WorkerJoined(1, "n1", OFFER, left_s))
    return cluster


def test_a_job_starts_where_its_declared_time_is_left():
    cluster = cluster_with(100.0)
    short = cluster.submit(Cores(1) & WallTime(100), 1)
    assert cluster.started_on == {short: 1}


def test_a_job_does_not_start_where_less_is_left_than_it_declares():
    cluster = cluster_with(100.0)
    cluster.now = 60.0
    long = cluster.submit(Cores(1) & WallTime(50), 1)
    assert cluster.started_on == {}
    assert cluster.head.explain(long, cluster.now).reason == "walltime"


def test_a_job_does_not_start_where_less_is_left_than_its_function_takes():
    cluster = cluster_with(100.0, known_s=50.0)
    cluster.now = 60.0
    long = cluster.submit(Cores(1), 50)
    assert cluster.started_on == {}
    assert cluster.head.explain(long, cluster.now).reason == "walltime"


def test_a_function_that_takes_longer_than_any_worker_lasts_is_tried_all_the_same():
    cluster = cluster_with(100.0, known_s=500.0)
    job = cluster.submit(Cores(1), 500)
    assert cluster.started_on == {job: 1}


def test_jobs_start_when_an_operator_gives_a_worker_more_time():
    cluster = cluster_with(100.0)
    long = cluster.submit(Cores(1) & WallTime(300), 1)
    found = cluster.head.explain(long, 0.0)
    assert found.reason == "never"
    assert found.missing.why == "too little walltime (asked 0:05:00, at most 0:01:40); nearest is n1, short of walltime"
    cluster.now = 10.0
    cluster.tell(WorkerTimed(1, 300.0))
    assert cluster.started_on == {long: 1}


def test_no_job_starts_when_an_operator_has_cut_the_time():
    cluster = cluster_with(1000.0)
    first = cluster.submit(Cores(1) & WallTime(300), 20)
    second = cluster.submit(Cores(1) & WallTime(300), 20)
    cluster.tell(WorkerTimed(1, 100.0))
    cluster.run()
    assert cluster.started_on == {first: 1}
    assert second not in cluster.ended


def test_a_time_that_is_as_was_known_changes_nothing():
    cluster = cluster_with(100.0)
    cluster.now = 40.0
    before = cluster.head.workers[1].version
    cluster.tell(WorkerTimed(1, 60.4))
    cluster.tell(WorkerTimed(2, 60.0))
    assert cluster.head.workers[1].version == before


def test_a_closed_head_refuses_what_no_worker_has_time_for_after_a_cut():
    cluster = cluster_with(100.0, closed=True)
    cluster.submit(Cores(1) & WallTime(10), 5)
    long = cluster.submit(Cores(1) & WallTime(90), 1)
    cluster.tell(WorkerTimed(1, 50.0))
    assert [action.jobs for action in cluster.actions if isinstance(action, JobsUnsatisfiable)] == [[long]]
    assert len([action for action in cluster.actions if isinstance(action, AssignJobs) and not action.ahead]) == 1
