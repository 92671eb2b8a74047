"""Large arguments: how many bytes are sent ahead of free slots, and that they travel once."""

from collections import Counter

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores
from grainlike.scheduler import AssignJobs, JobsSubmitted, RetractJobs, WorkerReported
from grainlike.simulation import Delay, FunctionPlan, JobPlan, Network, Workload
from grainlike.simulation._witness import Witness
from grainlike.wire import LeaseStart
from simtest import Trial, equal_nodes

MIB = 1 << 20


def submit(cluster, *sizes):
    jobs = [next(cluster._number) for _ in sizes]
    cluster.length.update(dict.fromkeys(jobs, 0.001))
    cluster.tell(JobsSubmitted(Cores(1), jobs, [1] * len(jobs), sizes=list(sizes)))
    return jobs


def a_busy_worker():
    """A worker of two cores with a job that runs, and one that is about to."""
    cluster = Cluster(Cores(2))
    cluster.function(1, 0.001)
    cluster.submit(Cores(1), 0.001, n=2)
    return cluster, cluster.head.workers[1]


def test_so_many_bytes_are_sent_ahead_and_not_more():
    cluster, worker = a_busy_worker()
    jobs = submit(cluster, *[20 * MIB] * 10)
    assert list(worker.ahead) == jobs[:3]
    assert worker.ahead_bytes == 60 * MIB


def test_small_arguments_count_nothing():
    cluster, worker = a_busy_worker()
    jobs = submit(cluster, *[0] * 10)
    assert list(worker.ahead) == jobs
    assert worker.ahead_bytes == 0


def test_what_is_larger_alone_waits_at_the_head_and_so_does_what_comes_after_it():
    cluster, worker = a_busy_worker()
    submit(cluster, 65 * MIB, 0)
    assert not worker.ahead
    cluster.run(until=0.001)
    assert cluster.begun[3] == 0.001
    assert list(worker.ahead) == [4]


def test_bytes_that_begin_make_room_for_others():
    cluster, worker = a_busy_worker()
    jobs = submit(cluster, *[30 * MIB] * 4)
    assert list(worker.ahead) == jobs[:2]
    start = LeaseStart(99, cluster.head.jobs[jobs[0]].shape.id, "", [jobs[0]], [1], 0.0)
    cluster.tell(WorkerReported(1, [start], [], []))
    assert list(worker.ahead) == jobs[1:3]
    assert worker.ahead_bytes == 60 * MIB


@pytest.mark.parametrize(("sizes", "back"), [([0] * 4, [2]), ([10 * MIB] * 4, []), ([0, 0, 10 * MIB, 0], [1])])
def test_what_was_slow_to_send_is_not_taken_back_for_an_idle_worker(sizes, back):
    cluster, worker = a_busy_worker()
    submit(cluster, *sizes)
    assert len(worker.ahead) == 4
    cluster.join(Cores(2))
    assert [len(action.jobs) for action in cluster.told(RetractJobs)] == back
    assert not [job for action in cluster.told(RetractJobs) for job in action.jobs if cluster.head.jobs[job].size]


class Shipments(Witness):
    """Counts how often each job is sent to a worker."""

    def __init__(self, clock):
        super().__init__(clock)
        self.sent = Counter()

    def assigned(self, action: AssignJobs) -> None:
        super().assigned(action)
        self.sent.update(action.jobs)


@pytest.mark.parametrize(("size", "most"), [(50 * MIB, 8), (0, None)])
def test_eight_jobs_with_large_arguments_on_two_nodes_are_eight_shipments(size, most):
    """Without sizes, some of them are sent ahead to a node and taken back for the other."""
    shipments = []
    for seed in range(20):
        jobs = [JobPlan(0, Cores(1), 0.02) for _ in range(20)]
        jobs += [JobPlan(0, Cores(1), 0.02 if at % 2 else 0.3, at=3.0, sends=size) for at in range(8)]
        workload = Workload("readers", (FunctionPlan("reads"),), tuple(jobs))
        trial = Trial(seed, workload, equal_nodes(2, Cores(1)), network=Network(spawn=Delay(0.05, 0.05)), judged=False)
        trial.witness = trial.head.witness = counts = Shipments(trial.clock)
        trial.run()
        shipments.append(sum(count for job, count in counts.sent.items() if job > 20))
    assert max(shipments) == most or (most is None and max(shipments) > 8)
