"""Jobs that jobs submit, in the head's scheduler: whose they are, who may have lent cores, who waits in a circle."""

from itertools import count

import pytest

from grainlike.resources import Cores, GPUs, Limit, Memory, Resource, offer_of
from grainlike.scheduler import (
    AssignJobs,
    CancelJobs,
    FunctionDefined,
    HeadScheduler,
    JobsCancelled,
    JobsDeadlocked,
    JobsLost,
    JobsMoved,
    JobsOrphaned,
    JobsSettled,
    JobsSubmitted,
    JobsUnsatisfiable,
    Ticked,
    WakeAt,
    WorkerHeard,
    WorkerJoined,
    WorkerLost,
    WorkerReported,
    WorkerSuspected,
)
from grainlike.wire import Code, Completed, LeaseStart, LeaseWait, Wait

UNKNOWN, QUICK, SLOW = 1, 2, 3


class Town:
    """A head, and workers that grant at once whatever they are sent, each job in a lease of its own number; but for
    those that are `silent`.
    """

    def __init__(self, *offers, closed=True):
        self.now, self.numbers, self.place, self.actions = 0.0, count(1), {}, []
        self.silent = set()
        self.head = HeadScheduler(closed=closed)
        for fn in (UNKNOWN, QUICK, SLOW):
            self.tell(FunctionDefined(fn))
        self.head._functions[QUICK].times.add([0.5] * 8)
        self.head._functions[SLOW].times.add([3.0] * 8)
        for worker, offer in enumerate(offers, 1):
            self.tell(WorkerJoined(worker, f"n{worker}", offer_of(offer, own_cores=range(16))))

    def tell(self, event):
        new = self.head.handle(event, self.now)
        self.head.check()
        self.actions += new
        for action in new:
            if isinstance(action, AssignJobs) and action.worker not in self.silent:
                for job, attempt in zip(action.jobs, action.attempts, strict=True):
                    self.place[job] = action.worker
                    start = LeaseStart(job, action.cls, "", [job], [attempt], self.now)
                    self.tell(WorkerReported(action.worker, [start], [], []))
        return new

    def submit(self, request, n=1, *, fn=UNKNOWN, parent=0, attempt=1, priority=0):
        jobs = [next(self.numbers) for _ in range(n)]
        of = (parent, attempt) if parent else (0, 0)
        self.tell(JobsSubmitted(request, jobs, [fn] * n, priority, parent=of))
        return jobs if n > 1 else jobs[0]

    def waits(self, job, *, heard=0, lent=True, waits=Wait.CHILDREN, attempt=1):
        wait = LeaseWait(job, job, attempt, waits, heard, lent, "cores=[7]")
        return self.tell(WorkerReported(self.place[job], [], [], [], [wait]))

    def goes_on(self, job):
        return self.waits(job, lent=False, waits=Wait.NOTHING)

    def ends(self, job, code=Code.SUCCEEDED, attempt=1):
        done = Completed(job, [job], [attempt], [int(code)], [0.0], [0.1], [0.0], [0], [b""], [], 0.0)
        return self.tell(WorkerReported(self.place[job], [], [done], [job]))

    def crash(self, *jobs):
        """Processes die together, and the worker says so in one report."""
        how = [int(Code.CRASHED)]
        ends = [Completed(job, [job], [1], how, [0.0], [0.0], [0.0], [0], [b""], [], 0.0) for job in jobs]
        return self.tell(WorkerReported(self.place[jobs[0]], [], ends, [*jobs]))

    def told(self, kind):
        return [action for action in self.actions if isinstance(action, kind)]


def test_what_a_job_submitted_ends_with_its_attempt():
    town = Town(Cores(2))
    parent = town.submit(Cores(1))
    child, waiting = town.submit(Cores(1), parent=parent), town.submit(Cores(1), parent=parent)
    assert child in town.place
    assert waiting not in town.place
    ended = town.ends(parent)
    assert [a.jobs for a in ended if isinstance(a, CancelJobs)] == [[child]]
    assert [a.jobs for a in ended if isinstance(a, JobsOrphaned)] == [[child, waiting]]
    assert list(town.head.jobs) == [child], "its slots are its own until it has ended"
    town.ends(child, Code.CANCELLED)
    assert not town.head.jobs


def test_so_it_does_when_the_worker_of_the_parent_is_lost():
    town = Town(Cores(1), Cores(1))
    parent = town.submit(Cores(1))
    child = town.submit(Cores(1), parent=parent)
    assert town.place[child] != town.place[parent]
    town.tell(WorkerLost(town.place[parent], "gone"))
    assert [a.jobs for a in town.told(JobsOrphaned)] == [[child]]


@pytest.mark.parametrize(("number", "attempt"), [(1, 2), (9, 1)])
def test_what_comes_from_an_attempt_that_is_over_is_nobodys(number, attempt):
    town = Town(Cores(2))
    town.submit(Cores(1))
    late = town.submit(Cores(1), parent=number, attempt=attempt)
    assert [a.jobs for a in town.told(JobsOrphaned)] == [[late]]
    assert late not in town.head.jobs


def test_nobody_is_told_of_a_loss_after_the_loss_of_the_job_that_waited():
    town = Town(Cores(2))
    town.tell(FunctionDefined(4, losses=0))
    parent = town.submit(Cores(1), fn=4)
    child = town.submit(Cores(1), fn=4, parent=parent)
    town.crash(parent, child)
    assert [said.jobs for said in town.told(JobsLost)] == [[parent]]
    assert [said.jobs for said in town.told(JobsOrphaned)] == [[child]]


def test_those_who_are_lost_with_a_worker_are_told_of_before_those_who_wait_for_them():
    town = Town(Cores(2))
    town.tell(FunctionDefined(4, losses=0))
    parent = town.submit(Cores(1), fn=4)
    child = town.submit(Cores(1), fn=4, parent=parent)
    town.tell(WorkerLost(1, "gone"))
    assert [said.jobs for said in town.told(JobsLost)] == [[child], [parent]]


def test_lent_cores_go_to_its_own_and_to_those_that_end_soon():
    town = Town(Cores(1), GPUs(1))
    town.submit(GPUs(1))  # somebody runs all the time
    parent = town.submit(Cores(1), fn=SLOW)
    strangers = [town.submit(Cores(1), fn=fn, priority=-fn) for fn in (UNKNOWN, SLOW)]
    town.waits(parent)
    assert not any(job in town.place for job in strangers), "they may take long, and the parent wants its core back"
    quick = town.submit(Cores(1), fn=QUICK, priority=1)
    assert quick in town.place
    town.ends(quick)
    child = town.submit(Cores(1), parent=parent)
    assert child in town.place
    town.waits(child)
    grandchild = town.submit(Cores(1), parent=child)
    assert grandchild in town.place, "the cores of its parents are open to it, whichever of them lent them"


def test_its_own_go_before_strangers_that_end_soon():
    town = Town(Cores(1))
    parent = town.submit(Cores(1))
    children = town.submit(Cores(1), 2, parent=parent)
    town.waits(parent)
    assert children[0] in town.place
    quick = town.submit(Cores(1), fn=QUICK, priority=1)
    town.ends(children[0])
    assert children[1] in town.place
    assert quick not in town.place


def test_what_ends_while_it_lends_leaves_the_records_even():
    town = Town(Cores(2))
    parent = town.submit(Cores(2))
    town.waits(parent)
    town.ends(parent)
    assert (town.head.workers[1].free, town.head.workers[1].lent) == (town.head.workers[1].capacity, 0)


def test_who_goes_on_has_its_cores_again_and_the_head_knows_which():
    town = Town(Cores(1))
    parent = town.submit(Cores(1))
    town.waits(parent)
    town.goes_on(parent)
    assert [(a.job, a.allocation) for a in town.told(JobsMoved)] == [(parent, "cores=[7]")]
    quick = town.submit(Cores(1), fn=QUICK)
    assert quick not in town.place
    town.ends(parent)
    assert quick in town.place


def test_a_tree_goes_down_before_it_goes_wide():
    town = Town(Cores(1))
    top = town.submit(Cores(1))
    first, second = town.submit(Cores(1), 2, parent=top)
    town.waits(top)
    assert first in town.place
    below = town.submit(Cores(1), 2, parent=first)
    town.waits(first)
    assert list(town.place)[-1] == below[0]
    town.ends(below[0])
    assert list(town.place)[-1] == below[1]
    assert second not in town.place


def test_a_reservation_does_not_keep_from_a_job_what_holds_the_reserved_one_up():
    town = Town(Cores(4))
    urgent_and_wide = [town.submit(Cores(2), fn=SLOW), town.submit(Cores(4), priority=5)]
    assert urgent_and_wide[1] not in town.place
    child = town.submit(Cores(2), parent=urgent_and_wide[0])
    assert child in town.place


def test_two_that_wait_for_what_they_hold_are_told_at_once_where_no_worker_can_join():
    town = Town(Cores(2))
    first, second = town.submit(Cores(1), 2)
    a, b = town.submit(Cores(1), parent=first), town.submit(Cores(1), parent=second)
    town.waits(first, lent=False)
    assert not town.told(JobsDeadlocked)
    town.waits(second, lent=False)
    [said] = town.told(JobsDeadlocked)
    assert (said.failed, said.deadlock.job) == (True, b)
    assert [(h.job, h.worker, h.held, h.waits_for) for h in said.deadlock.holders] == [
        (first, "n1", "cores=1", (a,)),
        (second, "n1", "cores=1", (b,)),
    ]
    town.goes_on(second)
    town.ends(second)
    assert a in town.place


def test_where_a_worker_may_join_they_are_warned_of_and_told_later():
    town = Town(Cores(1), closed=False)
    parent = town.submit(Cores(1))
    child = town.submit(Cores(1), parent=parent)
    warned = town.waits(parent, lent=False)
    assert [a.failed for a in warned if isinstance(a, JobsDeadlocked)] == [False]
    assert WakeAt(5.0) in warned
    town.now = 4.9
    town.tell(Ticked())
    assert len(town.told(JobsDeadlocked)) == 1
    town.now = 5.0
    assert [a.failed for a in town.tell(Ticked()) if isinstance(a, JobsDeadlocked)] == [True]
    assert child not in town.head.jobs


def test_a_worker_that_joins_in_time_ends_the_circle():
    town = Town(Cores(1), closed=False)
    parent = town.submit(Cores(1))
    child = town.submit(Cores(1), parent=parent)
    town.waits(parent, lent=False)
    town.tell(WorkerJoined(2, "n2", offer_of(Cores(1), own_cores=range(16))))
    assert town.place[child] == 2
    town.now = 60.0
    town.tell(Ticked())
    assert not any(said.failed for said in town.told(JobsDeadlocked))


@pytest.mark.parametrize(
    ("offer", "parents", "childs"),
    [
        (Cores(2) & Memory("1G"), Cores(1) & Memory("1G"), Cores(1) & Memory("1G")),
        (Cores(2) & GPUs(1), Cores(1) & GPUs(1), GPUs(1)),
        (Cores(2) & Resource("lic", 1), Cores(1) & Resource("lic", 1), Resource("lic", 1)),
        (Cores(2), Cores(1) & Limit("db", 1), Cores(1) & Limit("db", 1)),
    ],
    ids=["memory", "device", "named", "limit"],
)
def test_what_is_held_while_a_job_waits_may_close_a_circle(offer, parents, childs):
    town = Town(offer)
    parent = town.submit(parents)
    child = town.submit(childs, parent=parent)
    town.waits(parent)
    assert [said.deadlock.job for said in town.told(JobsDeadlocked)] == [child]


def test_nobody_is_given_up_while_an_outcome_is_on_its_way():
    town = Town(Cores(2))
    parent = town.submit(Cores(1))
    first, second = town.submit(Cores(1), parent=parent), town.submit(Cores(2), parent=parent)
    town.waits(parent, lent=False)
    town.ends(first)
    assert not town.told(JobsDeadlocked), "it may go on with the outcome of the first, and end"
    town.waits(parent, lent=False, heard=1)
    assert [said.deadlock.job for said in town.told(JobsDeadlocked)] == [second]


def test_nobody_is_given_up_for_a_worker_that_may_be_silent():
    town = Town(Cores(1), Cores(2))
    town.silent.add(2)
    parent = town.submit(Cores(1))
    late, child = town.submit(Cores(2)), town.submit(Cores(2), parent=parent)
    town.waits(parent)
    town.now = 15.0
    town.tell(Ticked())
    assert not town.told(JobsDeadlocked), "the worker may have heard of nothing"
    town.tell(WorkerSuspected(2))
    town.now = 25.0
    town.tell(WorkerHeard(2))
    town.now = 40.0
    town.tell(Ticked())
    assert not town.told(JobsDeadlocked), "it has heard of what it was sent not long ago"
    town.now = 45.0
    town.tell(Ticked())
    [said] = town.told(JobsDeadlocked)
    assert said.deadlock.job == child
    assert late in town.head.jobs


def test_a_cancelled_job_that_shields_its_wait_is_part_of_the_circle_after_a_while():
    town = Town(Cores(2))
    shields, waits = town.submit(Cores(1), 2)
    town.submit(Cores(1), parent=shields), town.submit(Cores(1), parent=waits)
    town.waits(shields, lent=False)
    town.tell(JobsCancelled([shields]))
    town.waits(waits, lent=False)
    while town.now < 10.0:
        assert not town.told(JobsDeadlocked), "it may be about to end"
        wake = town.told(WakeAt)[-1].at
        assert wake > town.now
        town.now = wake
        town.tell(Ticked())
    [said] = town.told(JobsDeadlocked)
    assert [holder.job for holder in said.deadlock.holders] == [shields, waits]


def test_a_cancelled_job_that_ends_in_time_is_part_of_no_circle():
    town = Town(Cores(2))
    ends, waits = town.submit(Cores(1), 2)
    town.submit(Cores(1), parent=ends)
    child = town.submit(Cores(1), parent=waits)
    town.waits(ends, lent=False)
    town.tell(JobsCancelled([ends]))
    town.waits(waits, lent=False)
    town.now = 9.9
    town.tell(Ticked())
    town.ends(ends, Code.CANCELLED)
    assert child in town.place
    assert not town.told(JobsDeadlocked)


def test_a_circle_is_found_while_others_run_for_ever():
    town = Town(Cores(1), GPUs(1))
    town.submit(GPUs(1))
    parent = town.submit(Cores(1))
    town.submit(Cores(1), parent=parent)
    waits = town.waits(parent, lent=False)
    assert not town.told(JobsDeadlocked)
    assert WakeAt(5.0) in waits
    town.now = 5.0
    town.tell(Ticked())
    assert [said.failed for said in town.told(JobsDeadlocked)] == [True]


def test_lent_cores_are_open_to_every_nested_job_where_nothing_else_can_go_on():
    town = Town(Cores(1) & Resource("lic", 1), Cores(1) & GPUs(1))
    one, other = town.submit(Cores(1) & Resource("lic", 1)), town.submit(Cores(1) & GPUs(1))
    town.submit(GPUs(1), parent=one)  # which `other` holds
    town.waits(one)
    town.submit(Resource("lic", 0.5), parent=other)  # which `one` holds
    stranger = town.submit(Cores(1), parent=other)
    town.waits(other, lent=False)
    assert town.place[stranger] == 1


def test_what_can_never_run_is_told_to_its_parent():
    town = Town(Cores(1))
    parent = town.submit(Cores(1))
    town.submit(Cores(9), parent=parent)
    assert len(town.told(JobsUnsatisfiable)) == 1
    town.submit(Cores(1), parent=parent)
    town.waits(parent, lent=False, heard=1)
    assert len(town.told(JobsDeadlocked)) == 1, "it has heard of all that it was told"


def test_withdrawn_jobs_are_no_reason_to_wait():
    town = Town(Cores(1))
    parent = town.submit(Cores(1))
    child = town.submit(Cores(1), parent=parent)
    town.tell(JobsCancelled([child]))
    town.waits(parent, lent=False)
    assert not town.told(JobsDeadlocked)
    assert [a for a in town.ends(parent) if isinstance(a, JobsSettled)]


def test_trees_that_have_ended_leave_nothing_behind():
    town = Town(Cores(1))
    for _ in range(100):
        parent = town.submit(Cores(1))
        child = town.submit(Cores(1), parent=parent)
        town.waits(parent)
        town.ends(child)
        town.goes_on(parent)
        town.ends(parent)
    assert not town.head.jobs
    assert len(town.head.classes) < 20


def test_it_is_told_why_a_stranger_does_not_get_lent_cores():
    town = Town(Cores(1))
    parent = town.submit(Cores(1))
    child = town.submit(Resource("absent", 1), parent=parent)
    child = town.submit(Cores(1), parent=parent)
    town.waits(parent, heard=1)
    town.waits(child)
    stranger = town.submit(Cores(1))
    said = town.head.explain(stranger, 0.0)
    assert (said.reason, said.nearest, said.holders) == ("lent", "n1", (parent, child))
    assert "have lent" in str(said)
    assert town.head.explain(parent, 0.0).reason == "jobs"
    town.waits(child, waits=Wait.CORES)
    assert "goes on as soon as n1 has room" in str(town.head.explain(child, 0.0))
