"""What a node's scheduler does with the cores of jobs that await jobs of their own."""

from grainlike.resources import Cores, GPUs, Memory, offer_of
from grainlike.scheduler import (
    JobAwaits,
    JobGoesOn,
    NodeScheduler,
    ResumeJob,
    RunnerCompleted,
    StartLease,
    TellEnded,
    TellWaits,
)
from grainlike.wire import Assign, ClassSpec, Code, Completed, Define, FunctionSpec, Wait

REQUESTS = {1: Cores(1), 2: Cores(2), 3: Cores(1) & Memory("1G"), 4: GPUs(1), 5: Cores(3)}
LENDS, KEEPS = 1, 2


class Node:
    """A node's scheduler whose runners do as they are told. Jobs go by their numbers, and are leases of their own."""

    def __init__(self, offer):
        self.scheduler = NodeScheduler(offer_of(offer, own_cores=range(16)))
        self.actions, self.lease_of = [], {}
        functions = [FunctionSpec(fn, b"", "f", True, None, keep=fn == KEEPS) for fn in (LENDS, KEEPS)]
        self.tell(Define(functions, [ClassSpec(n, str(request), False) for n, request in REQUESTS.items()]))

    def tell(self, event):
        new = self.scheduler.handle(event, 0.0)
        self.scheduler.check()
        self.actions += new
        for action in new:
            if isinstance(action, StartLease):
                self.lease_of[action.jobs[0]] = action
        return new

    def assign(self, cls, *jobs, fn=LENDS, ahead=False):
        n = len(jobs)
        return self.tell(Assign(cls, ahead, list(jobs), [1] * n, [fn] * n, [b""] * n, []))

    def awaits(self, job, heard=0, attempt=1):
        return self.tell(JobAwaits(1, job, attempt, heard))

    def goes_on(self, job, heard=1):
        return self.tell(JobGoesOn(1, job, 1, heard))

    def ends(self, job):
        lease = self.lease_of[job]
        done = Completed(lease.lease, [job], [1], [int(Code.SUCCEEDED)], [0.0], [1.0], [0.0], [0], [b""], [], 0.0)
        return self.tell(RunnerCompleted(lease.runner, done))

    @property
    def begun(self):
        return list(self.lease_of)


def waits_in(actions):
    return [(w.job, Wait(w.waits), w.lent, w.allocation) for a in actions if isinstance(a, TellWaits) for w in [a.wait]]


def resumed_in(actions):
    return [(a.job, a.allocation) for a in actions if isinstance(a, ResumeJob)]


def test_cores_are_lent_and_nothing_else():
    node = Node(Cores(1) & Memory("1G"))
    node.assign(3, 1)
    assert waits_in(node.awaits(1)) == [(1, Wait.CHILDREN, True, "memory=1000000000")]
    node.assign(3, 2)
    node.assign(1, 3)
    assert node.begun == [1], "the first in line needs the memory, which is held"
    node.ends(1)
    assert node.begun == [1, 2]


def test_the_next_in_line_starts_on_what_is_lent_and_the_lender_goes_on_after_it():
    node = Node(Cores(1))
    node.assign(1, 1)
    node.awaits(1)
    node.assign(1, 2)
    assert node.lease_of[2].allocation == "cores=[0]"
    assert waits_in(node.goes_on(1)) == [(1, Wait.CORES, True, "")]
    node.assign(1, 3)
    ended = node.ends(2)
    assert resumed_in(ended) == [(1, "cores=[0]")], "it comes before what is queued"
    assert waits_in(ended) == [(1, Wait.NOTHING, False, "cores=[0]")]
    assert node.begun == [1, 2]
    node.ends(1)
    assert node.begun == [1, 2, 3]


def test_it_goes_on_on_other_cores_where_its_own_are_taken():
    node = Node(Cores(2))
    node.assign(1, 1, 2)
    node.awaits(1)
    node.assign(1, 3)
    node.ends(2)
    assert resumed_in(node.goes_on(1)) == [(1, "cores=[1]")]


def test_a_function_that_keeps_its_cores_lends_none():
    node = Node(Cores(1))
    node.assign(1, 1, fn=KEEPS)
    assert waits_in(node.awaits(1)) == [(1, Wait.CHILDREN, False, "cores=[0]")]
    node.assign(1, 2)
    assert node.begun == [1]
    assert resumed_in(node.goes_on(1)) == [(1, "cores=[0]")]


def test_who_wants_cores_back_holds_up_only_those_who_ask_for_cores():
    node = Node(Cores(2) & GPUs(1))
    node.assign(2, 1)
    node.awaits(1)
    node.assign(1, 2, 3)
    node.goes_on(1)
    node.ends(2)
    node.assign(4, 4)
    assert 4 in node.begun
    node.assign(1, 5)
    assert 5 not in node.begun, "a core is free, but somebody wants two back"
    assert resumed_in(node.ends(3)) == [(1, "cores=[0,1]")]


def test_who_asked_first_goes_on_first_even_if_it_needs_more():
    node = Node(Cores(3))
    node.assign(2, 1)
    node.assign(1, 2)
    node.awaits(1)
    node.awaits(2)
    node.assign(1, 3, 4, 5)
    node.goes_on(1)
    node.goes_on(2)
    assert resumed_in(node.ends(3)) == []
    assert resumed_in(node.ends(4)) == [(1, "cores=[0,1]")]
    assert resumed_in(node.ends(5)) == [(2, "cores=[2]")]


def test_nobody_goes_on_past_one_who_waits_for_cores_while_somebody_runs():
    node = Node(Cores(3))
    node.assign(2, 1)
    node.assign(1, 2)
    node.awaits(1)
    node.assign(2, 3)
    node.awaits(2)
    node.goes_on(1)
    assert resumed_in(node.goes_on(2)) == [], "its core is free, but so is only half of what the first one needs"
    assert resumed_in(node.ends(3)) == [(1, "cores=[0,1]"), (2, "cores=[2]")]


def test_where_nobody_runs_whoever_fits_goes_on():
    node = Node(Cores(3))
    node.assign(2, 1)
    node.assign(1, 2)
    node.awaits(1)
    node.awaits(2)
    node.assign(2, 3, fn=KEEPS)
    node.assign(1, 4)
    node.goes_on(1)
    node.goes_on(2)
    node.awaits(3)
    assert resumed_in(node.ends(4)) == [(2, "cores=[2]")], "what it needs is free, and nobody else can have it"


def test_a_queued_job_starts_past_one_that_cannot_go_on_where_nobody_runs():
    node = Node(Cores(3))
    node.assign(2, 1)
    node.awaits(1)
    node.assign(2, 3, fn=KEEPS)
    node.goes_on(1)
    node.assign(1, 4)
    assert 4 not in node.begun
    node.awaits(3)
    assert 4 in node.begun, "the one that keeps two cores may be waiting for it"


def test_what_was_sent_ahead_gets_no_cores_that_are_lent():
    node = Node(Cores(2))
    node.assign(1, 1, 2)
    node.assign(1, 3, 4, ahead=True)
    node.awaits(1)
    assert node.begun == [1, 2]
    node.ends(2)
    assert node.begun == [1, 2, 3]


def test_a_job_that_ends_while_its_cores_are_lent_gives_back_the_rest():
    node = Node(Cores(1) & Memory("1G"))
    node.assign(3, 1)
    node.awaits(1)
    node.assign(1, 2)
    node.goes_on(1)
    assert [a for a in node.ends(1) if isinstance(a, TellEnded)]
    node.ends(2)
    assert node.scheduler.idle
    node.assign(3, 3)
    assert node.begun == [1, 2, 3]


def test_what_a_late_word_says_changes_nothing():
    node = Node(Cores(1))
    node.assign(1, 1)
    assert node.awaits(1, attempt=2) == []
    assert node.awaits(9) == []
    assert node.goes_on(1) == []
    node.awaits(1)
    assert waits_in(node.awaits(1, heard=3)) == [(1, Wait.CHILDREN, True, "")], "how much it has heard is told again"
    node.ends(1)
    assert node.goes_on(1) == []
