"""A job is as old as its oldest input, at the head and at the worker: so a graph is drained as it is filled."""

from itertools import chain, count

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores, Memory, Request, offer_of
from grainlike.scheduler import (
    AssignJobs,
    FunctionDefined,
    HeadScheduler,
    JobsCancelled,
    JobsSettled,
    JobsSubmitted,
    NodeScheduler,
    RetractJobs,
    RunnerCompleted,
    StartLease,
    WorkerJoined,
    WorkerReported,
)
from grainlike.wire import Assign, ClassSpec, Code, Completed, Define, FunctionSpec, LeaseStart

LEAF, SUM = 1, 2


class Tree:
    """A program on a cluster that sums leaves by eights, those sums again, and so on; it counts values."""

    def __init__(self, cluster: Cluster, leaves: int, of_sums: Request) -> None:
        self.cluster, self.of_sums = cluster, of_sums
        self.age: dict[int, int] = {}
        self.inputs: dict[int, list[int]] = {}
        self.levels: list[list[int]] = [[]]
        self.values = self.most = 0
        self._told = 0
        for job in cluster.submit(Cores(1), 0.5, fn=LEAF, n=leaves):
            self.age[job] = job

    def look(self) -> None:
        """Take the outcomes that are new, and submit the sums whose inputs are there."""
        for action in self.cluster.actions[self._told :]:
            for job in action.completed.jobs if isinstance(action, JobsSettled) else ():
                self.values += 1 - len(self.inputs.get(job, ()))
                self.most = max(self.most, self.values)
                level = self.inputs_above(job)
                self.levels[level].append(job)
                if len(self.levels[level]) == 8:
                    self.submit(self.levels[level], level + 1)
        self._told = len(self.cluster.actions)

    def inputs_above(self, job: int) -> int:
        level = 0
        while job in self.inputs:
            job, level = self.inputs[job][0], level + 1
        return level

    def submit(self, inputs: list[int], level: int) -> None:
        if level == len(self.levels):
            self.levels.append([])
        (job,) = numbers = [next(self.cluster._number)]
        self.age[job], self.inputs[job] = min(self.age[each] for each in inputs), list(inputs)
        inputs.clear()
        self.cluster.length[job] = 0.5
        self.cluster.tell(JobsSubmitted(self.of_sums, numbers, [SUM], ages=[self.age[job]]))


@pytest.mark.parametrize("of_sums", [Cores(1), Cores(1) & Memory("1G")])
@pytest.mark.parametrize(("leaf_s", "sum_s"), [(None, None), (0.5, None), (0.5, 0.5)])
def test_v15_of_128_leaves_that_are_summed_by_eights_few_wait_at_once(of_sums, leaf_s, sum_s):
    cluster = Cluster(Cores(2) & Memory("4G"))
    cluster.function(LEAF, leaf_s)
    cluster.function(SUM, sum_s)
    tree = Tree(cluster, 128, of_sums)
    cluster.run(arrivals=tree.look)
    assert len(cluster.ended) == 128 + 16 + 2
    assert tree.most <= 24


def begun_after(cluster):
    cluster.run()
    return sorted(cluster.begun, key=cluster.begun.__getitem__)


def submit(cluster, request, *, ages, fn=1, priority=0, client=0):
    jobs = [next(cluster._number) for _ in ages]
    cluster.length.update(dict.fromkeys(jobs, 1.0))
    cluster.tell(JobsSubmitted(request, jobs, [fn] * len(jobs), priority, client=client, ages=ages))
    return jobs


def test_of_a_class_the_job_with_the_oldest_input_goes_first():
    cluster = Cluster(Cores(1))
    cluster.function(1)
    assert cluster.submit(Cores(1), 1, n=4) == [1, 2, 3, 4]
    assert submit(cluster, Cores(1), ages=[3, 0, 2, 1, 3]) == [5, 6, 7, 8, 9]
    assert begun_after(cluster) == [1, 8, 2, 7, 3, 5, 9, 4, 6]


def test_jobs_that_come_in_the_order_of_their_ages_go_to_the_end_of_the_queue():
    cluster = Cluster(Cores(1))
    cluster.function(1)
    cluster.submit(Cores(1), 1)
    submit(cluster, Cores(1), ages=[1, 1])
    submit(cluster, Cores(1), ages=[2, 0])
    (cls,) = cluster.head.classes.values()
    assert [job.id for job in cls.queue] == [2, 3, 4, 5]
    assert not cls.early


def test_an_age_that_no_job_before_has_is_its_own():
    cluster = Cluster(Cores(1))
    cluster.function(1)
    cluster.submit(Cores(1), 1, n=2)
    submit(cluster, Cores(1), ages=[99, 2**70])
    assert {job.age for job in cluster.head.jobs.values()} == {1, 2, 3, 4}


def one_core_of_four():
    """A worker on which no job of one core is wide, with one core to give."""
    cluster = Cluster(Cores(4) & Memory("16G"))
    cluster.function(1)
    cluster._number = count(1000)
    cluster.submit(Cores(3), 10**6)
    cluster._number = count(1)
    return cluster


def begun_here(cluster):
    cluster.run(until=1000)
    return [job for job in sorted(cluster.begun, key=cluster.begun.__getitem__) if job < 1000]


def test_classes_go_by_the_age_of_their_first_job_and_priority_comes_first():
    cluster = one_core_of_four()
    cluster.submit(Cores(1), 1, n=3)
    submit(cluster, Cores(1) & Memory("1G"), ages=[2])
    submit(cluster, Cores(1) & Memory("2G"), ages=[0], priority=1)
    submit(cluster, Cores(1) & Memory("3G"), ages=[2], priority=-1)
    assert begun_here(cluster) == [1, 5, 2, 4, 3, 6]


def test_where_many_classes_wait_they_go_by_age_too():
    cluster = one_core_of_four()
    cluster.submit(Cores(1), 1)
    for at in range(100):
        cluster.submit(Cores(1) & Memory(2**21 * (1 + at)), 1)
    assert not cluster.head._planner.waiting.are_few
    submit(cluster, Cores(1) & Memory(2**21 * 100), ages=[3])
    assert begun_here(cluster)[:5] == [1, 2, 3, 102, 4]


@pytest.mark.parametrize(
    ("request_", "most_s"), [(Cores(3), 2.0), (Cores(2) & Memory("1G"), 28.0)], ids=["wide", "narrow"]
)
def test_a_chain_without_end_does_not_keep_what_came_later_from_starting(request_, most_s):
    """A wide job is reserved for by when it came, at once; another one when it was passed over for 25 runs."""
    cluster = Cluster(Cores(4) & Memory("4G"))
    cluster.function(1)
    taken = set(submit(cluster, Cores(2), ages=[0] * 4))  # one of these always waits
    late = cluster.submit(request_, 1)

    def goes_on():
        for job in [job for job in taken if job in cluster.ended]:
            taken.remove(job)
            taken.update(submit(cluster, Cores(2), ages=[1]))

    cluster.run(until=40, arrivals=goes_on)
    assert cluster.begun[late] <= most_s


def test_a_cancelled_job_is_passed_over_wherever_it_waits():
    cluster = Cluster(Cores(1))
    cluster.function(1)
    cluster.submit(Cores(1), 1, n=3)
    submit(cluster, Cores(1), ages=[2, 2, 3])
    cluster.tell(JobsCancelled([2, 5]))
    assert begun_after(cluster) == [1, 4, 3, 6]


def test_what_comes_back_goes_to_its_place_among_older_ones():
    cluster = Cluster(Cores(2))
    cluster.tell(FunctionDefined(1, retries=1))
    cluster.submit(Cores(1), 1, n=5)
    submit(cluster, Cores(1), ages=[1])
    _, job, worker, cls, attempt = cluster.take_running(2)
    cluster.finish(job, worker, cls, attempt, Code.FAILED)
    assert list(cluster.begun) == [1, 2, 6]
    (waiting,) = cluster.head.classes.values()
    assert [job.id for job in waiting.live()] == [2, 3, 4, 5]
    assert cluster.head.explain(4, cluster.now).before == 2


# --- what was sent ahead ---------------------------------------------------------------------------------------------


def a_head_that_sends_leaves_ahead(*, quick_sums, cores=1):
    head = HeadScheduler(closed=False)
    for fn in (LEAF, SUM):
        head.handle(FunctionDefined(fn), 0.0)
    head._functions[LEAF].times.add([0.001] * 8)
    if quick_sums:
        head._functions[SUM].times.add([0.001] * 8)
    head.handle(WorkerJoined(1, "n1", offer_of(Cores(cores), own_cores=range(cores))), 0.0)
    if cores > 1:
        head.handle(JobsSubmitted(Cores(cores - 1), [1000], [LEAF]), 0.0)
    head.handle(JobsSubmitted(Cores(1), list(range(1, 101)), [LEAF] * 100), 0.0)
    head.handle(report(LeaseStart(1, 1 + (cores > 1), "", [1], [1], 0.0)), 0.0)
    assert len(head.workers[1].ahead) == 25
    return head


def report(*starts, ended=()):
    n = len(ended)
    done = Completed(1, list(ended), [1] * n, [0] * n, [0.0] * n, [0.001] * n, [0.0] * n, [0] * n, [b""] * n, [], 0.0)
    return WorkerReported(1, list(starts), [done] if ended else [], [])


def test_a_quick_job_that_is_older_is_sent_ahead_of_what_was_sent_ahead():
    head = a_head_that_sends_leaves_ahead(quick_sums=True)
    (sent,) = head.handle(JobsSubmitted(Cores(1), [101], [SUM], ages=[1]), 0.0)
    head.check()
    assert isinstance(sent, AssignJobs)
    assert (sent.ahead, sent.jobs, sent.ages) == (True, [101], (1,))


def test_older_quick_jobs_fill_a_worker_twice_at_the_most():
    head = a_head_that_sends_leaves_ahead(quick_sums=True)
    head.handle(JobsSubmitted(Cores(1), list(range(101, 201)), [SUM] * 100, ages=[1] * 100), 0.0)
    head.check()
    assert len(head.workers[1].ahead) == 50


@pytest.mark.parametrize("cores", [1, 8], ids=["wide", "narrow"])
def test_for_an_older_job_that_is_not_known_to_be_quick_what_was_sent_ahead_is_taken_back(cores):
    head = a_head_that_sends_leaves_ahead(quick_sums=False, cores=cores)
    (back,) = head.handle(JobsSubmitted(Cores(1), [101], [SUM], ages=[1]), 0.0)
    assert isinstance(back, RetractJobs)
    assert back.jobs == list(range(2, 27))
    n = len(back.jobs)
    returned = Completed(
        0, back.jobs, back.attempts, [int(Code.RETURNED)] * n, *[[0.0] * n] * 3, [0] * n, [b""] * n, [], 0.0
    )
    head.handle(WorkerReported(1, [], [returned], []), 0.0)
    out = head.handle(WorkerReported(1, [], report(ended=[1]).completed, [1]), 0.0)
    head.check()
    first, *rest = [action.jobs for action in out if isinstance(action, AssignJobs)]
    assert first == [101]
    waiting = [job.id for job in head.jobs[101].cls.live()]
    assert [*chain(*rest), *waiting][:3] == [2, 3, 4]


def test_of_two_jobs_that_are_as_old_as_one_input_neither_is_taken_back_for_the_other():
    head = HeadScheduler(closed=False)
    for fn in (LEAF, SUM):
        head.handle(FunctionDefined(fn), 0.0)
    head._functions[LEAF].times.add([0.001] * 8)
    head.handle(WorkerJoined(1, "n1", offer_of(Cores(1), own_cores=(0,))), 0.0)
    head.handle(JobsSubmitted(Cores(1), [1], [LEAF]), 0.0)
    head.handle(report(LeaseStart(1, 1, "", [1], [1], 0.0)), 0.0)
    head.handle(JobsSubmitted(Cores(1), [2, 3], [LEAF] * 2, ages=[1, 1]), 0.0)
    assert list(head.workers[1].ahead) == [2, 3]
    assert not head.handle(JobsSubmitted(Cores(1), [4], [SUM], ages=[1]), 0.0)


# --- at the worker ---------------------------------------------------------------------------------------------------


def a_node():
    node = NodeScheduler(offer_of(Cores(1), own_cores=(0,)))
    functions = [FunctionSpec(fn, b"", "f", True, None) for fn in (LEAF, SUM)]
    classes = [ClassSpec(1, "cores=1", False), ClassSpec(2, "cores=1", False)]
    node.handle(Define(functions, classes), 0.0)
    return node


def send(node, *jobs, fn=LEAF, cls=1, ages=(), ahead=True):
    n = len(jobs)
    actions = node.handle(Assign(cls, ahead, list(jobs), [1] * n, [fn] * n, [b""] * n, [], None, (), ages), 0.0)
    node.check()
    return [action.jobs for action in actions if isinstance(action, StartLease)]


def end(node, lease, job):
    done = Completed(lease, [job], [1], [0], [0.0], [1.0], [0.0], [0], [b""], [], 0.0)
    actions = node.handle(RunnerCompleted(1, done), 0.0)
    node.check()
    return [action.jobs for action in actions if isinstance(action, StartLease)]


def test_a_worker_starts_what_waits_there_by_age():
    node = a_node()
    assert send(node, 1, ahead=False) == [[1]]
    send(node, 2, 3, 4)
    send(node, 5, 6, fn=SUM, ages=(3, 1))
    started = [end(node, lease, job) for lease, job in ((1, 1), (2, 6), (3, 2), (4, 3), (5, 5))]
    assert started == [[[6]], [[2]], [[3]], [[5]], [[4]]]


def test_a_worker_starts_the_class_with_the_oldest_job_first():
    node = a_node()
    send(node, 1, ahead=False)
    send(node, 2, 3)
    send(node, 4, fn=SUM, cls=2, ages=(1,))
    assert end(node, 1, 1) == [[4]]
