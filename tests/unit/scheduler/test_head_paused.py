"""A head that must not start anything for now: what runs goes on, nothing begins, and afterwards all is as before."""

from gang_cluster import PAIR, GangCluster
from scheduler_cluster import Cluster

from grainlike.resources import Cores
from grainlike.scheduler import AssignJobs, FunctionDefined, JobsCancelled, StartsPaused, Ticked, WakeAt


def test_nothing_is_assigned_while_starts_are_paused_whatever_happens():
    cluster = Cluster(Cores(2))
    cluster.tell(FunctionDefined(1))
    runs, waits = cluster.submit(Cores(2), 10, n=2)
    cluster.tell(StartsPaused("the disk refuses"))
    cluster.actions.clear()
    later = cluster.submit(Cores(1), 1)
    cluster.run(until=20.0)
    cluster.join(Cores(2))
    cluster.tell(Ticked())
    assert runs not in cluster.head.jobs, "what ran has ended"
    assert cluster.told(AssignJobs) == []
    assert not cluster.told(WakeAt), "nobody is woken in vain"
    said = cluster.head.explain(waits, cluster.now)
    assert (said.reason, said.why) == ("paused", "the disk refuses")
    assert str(said) == f"Job {waits} is not started for now: the disk refuses."
    cluster.tell(StartsPaused(""))
    assert {job for action in cluster.told(AssignJobs) for job in action.jobs} == {waits, later}


def a_paused_gang():
    """Both of its workers hold their slots, and its job was not assigned."""
    cluster = GangCluster(Cores(2), Cores(2), answering=False)
    cluster.tell(FunctionDefined(1))
    job = cluster.submit(PAIR, 1)
    cluster.tell(StartsPaused("the disk refuses"))
    for worker in (1, 2):
        cluster.answer(worker)
    assert cluster.told(AssignJobs) == []
    return cluster, job


def test_a_gang_that_is_assembled_meanwhile_starts_afterwards():
    cluster, job = a_paused_gang()
    cluster.tell(StartsPaused(""))
    (assigned,) = cluster.told(AssignJobs)
    assert (assigned.jobs, len(assigned.gang)) == ([job], 2)


def test_a_gang_that_is_cancelled_meanwhile_never_starts():
    cluster, job = a_paused_gang()
    cluster.tell(JobsCancelled([job]))
    cluster.tell(StartsPaused(""))
    assert cluster.told(AssignJobs) == []
    assert job not in cluster.head.jobs
