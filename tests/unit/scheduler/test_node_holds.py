"""Slots that a node holds for gangs: granted first, started where the job is assigned, and let go of when told."""

from __future__ import annotations

import pytest

from grainlike.resources import Cores, GPUs, offer_of
from grainlike.scheduler import (
    NodeScheduler,
    NodeStopped,
    RunnerCompleted,
    RunnerGone,
    SpawnRunner,
    StartLease,
    TellCompleted,
    TellEnded,
    TellHeld,
    TellStarted,
    TerminateRunner,
)
from grainlike.wire import Assign, Cancel, ClassSpec, Code, Completed, Define, FunctionSpec, Hold

REQUESTS = {1: "cores=1", 2: "cores=2", 3: "cores=4", 4: "gpus=600m", 5: "cores=2:pack=numa"}


class Node:
    def __init__(self, offer):
        self.scheduler = NodeScheduler(offer_of(offer, own_cores=range(8)))
        self.told = []
        functions = [FunctionSpec(1, b"", "f", False, None), FunctionSpec(2, b"", "g", True, None)]
        self.tell(Define(functions, [ClassSpec(cls, text, False) for cls, text in REQUESTS.items()]))

    def tell(self, event):
        actions = self.scheduler.handle(event, 0.0)
        self.told += actions
        self.scheduler.check()
        return actions

    def hold(self, cls, job, attempt=1):
        return self.tell(Hold(cls, [job], [attempt]))

    def assign(self, cls, job, *, fn=1, ahead=False, attempt=1):
        return self.tell(Assign(cls, ahead, [job], [attempt], [fn], [b""], []))

    def cancel(self, job, attempt=1):
        return self.tell(Cancel([job], [attempt]))

    def finish(self, lease):
        code = [int(Code.SUCCEEDED)]
        completed = Completed(lease.lease, lease.jobs, lease.attempts, code, [0.0], [1.0], [0.0], [0], [b""], [], 0.0)
        return self.tell(RunnerCompleted(lease.runner, completed))

    def leases(self):
        return [action for action in self.told if isinstance(action, StartLease)]


def kinds(actions):
    return [type(action).__name__ for action in actions]


def test_slots_are_held_without_a_runner_until_they_are_let_go():
    node = Node(Cores(2))
    (held,) = node.hold(2, 7)
    assert isinstance(held, TellHeld)
    assert (held.start.jobs, held.start.attempts, held.start.allocation) == ([7], [1], "cores=[0,1]")
    assert not node.scheduler.idle
    assert node.assign(1, 8) == []
    told, ended, *started = node.cancel(7)
    assert isinstance(told, TellCompleted)
    assert (told.completed.jobs, told.completed.codes) == ([7], [Code.CANCELLED])
    assert ended == TellEnded(held.start.lease)
    assert kinds(started) == ["SpawnRunner", "StartLease", "TellStarted"]


def test_the_leading_job_starts_on_what_is_held_in_a_process_of_its_own():
    node = Node(Cores(2))
    (held,) = node.hold(2, 7)
    actions = node.assign(2, 7, fn=2)
    assert [action.kind for action in actions if isinstance(action, SpawnRunner)] == ["own"]
    (lease,) = node.leases()
    assert (lease.lease, lease.allocation) == (held.start.lease, "cores=[0,1]")
    assert [action.start.lease for action in actions if isinstance(action, TellStarted)] == [lease.lease]
    assert [action.lease for action in node.finish(lease) if isinstance(action, TellEnded)] == [lease.lease]
    assert node.scheduler.idle


def test_cancelling_a_leading_job_stops_it_and_its_slots_wait_for_its_end():
    node = Node(Cores(2))
    node.hold(2, 7)
    node.assign(2, 7)
    assert kinds(node.cancel(7)) == ["TerminateRunner", "WakeAt"]


def test_a_hold_is_granted_before_jobs_that_came_earlier_and_nothing_passes_it():
    node = Node(Cores(2))
    node.assign(1, 1)
    node.assign(1, 2)
    node.assign(1, 3, ahead=True)
    node.assign(2, 4)
    assert node.hold(2, 7) == []
    first, second = node.leases()
    node.finish(first)
    assert len(node.leases()) == 2  # nothing took what came back
    assert [action.start.jobs for action in node.finish(second) if isinstance(action, TellHeld)] == [[7]]
    assert len(node.leases()) == 2
    node.cancel(7)
    assert [lease.jobs for lease in node.leases()[2:]] == [[4]]


def test_what_was_sent_ahead_does_not_pass_a_hold_that_waits():
    node = Node(Cores(2))
    for job in (1, 2):
        node.assign(1, job)
    for job in (3, 4):
        node.assign(1, job, ahead=True)
    assert node.hold(2, 7) == []
    first, second = node.leases()
    assert kinds(node.finish(first)) == ["TellCompleted", "TellEnded"]
    assert "TellHeld" in kinds(node.finish(second))


def test_a_hold_that_waits_for_a_layout_keeps_no_other_waiting():
    node = Node(Cores(4) & GPUs(2))
    for job in (1, 2):
        node.assign(4, job)
    assert node.hold(4, 7) == []  # 0.8 of a device is free, but on two of them
    assert kinds(node.hold(2, 8)) == ["TellHeld"]
    (told,) = [action for action in node.finish(node.leases()[0]) if isinstance(action, TerminateRunner)]
    held = node.tell(RunnerGone(told.runner, "it had memory of the device", -1))
    assert [action.start.jobs for action in held if isinstance(action, TellHeld)] == [[7]]


def test_a_hold_waits_for_idle_processes_that_may_hold_memory_of_its_devices():
    node = Node(Cores(4) & GPUs(1))
    node.assign(4, 1)
    node.finish(node.leases()[0])
    assert kinds(node.hold(4, 7)) == ["TerminateRunner", "WakeAt"]
    assert node.assign(1, 2) == []  # nothing passes it
    (runner,) = {lease.runner for lease in node.leases()}
    actions = node.tell(RunnerGone(runner, "", -1))
    assert kinds(actions) == ["TellHeld", "SpawnRunner", "StartLease", "TellStarted"]
    started = node.assign(4, 7)
    assert [(action.runner, action.fresh) for action in started if isinstance(action, StartLease)] == [(3, False)]


def test_one_that_waits_is_answered_when_it_is_let_go():
    node = Node(Cores(1))
    node.assign(1, 1)
    node.hold(1, 7)
    (told,) = node.cancel(7)
    assert (told.completed.lease, told.completed.codes) == (0, [Code.CANCELLED])
    node.finish(node.leases()[0])
    assert node.scheduler.idle


def test_what_can_never_be_held_is_told_of_at_once():
    node = Node(Cores(2))
    (told,) = node.hold(3, 7)
    assert (told.completed.lease, told.completed.codes) == (0, [Code.UNFIT])
    assert node.scheduler.idle


@pytest.mark.parametrize("granted", [True, False])
def test_a_node_that_stops_lets_go_of_all_and_holds_no_more(granted):
    node = Node(Cores(2))
    if not granted:
        node.assign(1, 1)
    node.hold(2, 7)
    told, *rest = node.tell(NodeStopped())
    assert (told.completed.jobs, told.completed.codes) == ([7], [Code.RETURNED])
    assert ("TellEnded" in kinds(rest)) == granted
    (late,) = node.hold(1, 8)
    assert late.completed.codes == [Code.RETURNED]


def test_words_about_another_attempt_change_nothing():
    node = Node(Cores(4))
    node.hold(2, 7, attempt=2)
    assert node.cancel(7, attempt=1) == []
    assert kinds(node.assign(2, 7, attempt=1)) == ["SpawnRunner", "StartLease", "TellStarted"]
    assert node.leases()[0].allocation == "cores=[2,3]"
    assert kinds(node.cancel(7, attempt=2)) == ["TellCompleted", "TellEnded"]
