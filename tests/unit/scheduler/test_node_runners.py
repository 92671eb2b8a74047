"""Which runner a node's scheduler gives a job to, and which idle ones it ends before that."""

from __future__ import annotations

import pytest

from grainlike.resources import Allocation, Cores, GPUs, Request
from grainlike.scheduler import (
    KillRunner,
    NodeScheduler,
    RunnerCompleted,
    RunnerGone,
    SpawnRunner,
    StartLease,
    TerminateRunner,
    Ticked,
    WakeAt,
)
from grainlike.scheduler.node._runners import GRACE_S
from grainlike.wire import Assign, Cancel, ClassSpec, Code, Completed, Define, FunctionSpec

OFFER = Allocation(ids={"cores": [0, 1], "gpus": [0, 1]})


@pytest.mark.parametrize(
    ("request_", "is_async", "isolate", "kind"),
    [
        (Cores(1), True, False, "shared"),
        (Cores(1), True, True, "own"),
        (Cores(1), False, False, "own"),
        (Cores(1) & GPUs(1), True, False, "own"),
    ],
    ids=["coroutine", "isolated", "plain", "gpus"],
)
def test_coroutines_share_a_runner_unless_the_environment_must_be_theirs(
    request_: Request, is_async: bool, isolate: bool, kind: str
) -> None:
    scheduler = NodeScheduler(OFFER)
    function = FunctionSpec(fn=1, digest=b"", name="f", is_async=is_async, timeout=None)
    scheduler.handle(Define([function], [ClassSpec(1, str(request_), isolate)]), 0.0)
    actions = scheduler.handle(Assign(1, False, [1], [1], [1], [b""], [0]), 0.0)
    assert [action.kind for action in actions if isinstance(action, SpawnRunner)] == [kind]


# --- processes that may hold memory of devices -----------------------------------------------------------------------

CPU, ONE, TWO, HALF, MOST, BOTH_AND_CORE = 1, 2, 3, 4, 5, 6
REQUESTS = {
    CPU: "cores=1",
    ONE: "gpus=1",
    TWO: "gpus=2",
    HALF: "gpus=500m",
    MOST: "gpus=600m",
    BOTH_AND_CORE: str(Cores(1) & GPUs(2)),
}


class Node:
    """A node with two devices. `begun` are the leases that have begun, by job."""

    def __init__(self, offer: Allocation = OFFER) -> None:
        self.scheduler = NodeScheduler(offer)
        self.begun: dict[int, StartLease] = {}
        self.now = 0.0
        self._jobs = 0
        function = FunctionSpec(fn=1, digest=b"", name="f", is_async=False, timeout=None)
        self._tell(Define([function], [ClassSpec(cls, text, False) for cls, text in REQUESTS.items()]))

    def _tell(self, event: object) -> list[object]:
        actions: list[object] = list(self.scheduler.handle(event, self.now))  # type: ignore[arg-type]
        self.scheduler.check()
        self.begun.update((action.jobs[0], action) for action in actions if isinstance(action, StartLease))
        return actions

    def assign(self, cls: int, *, ahead: bool = False) -> tuple[int, list[int]]:
        """Send a job; return its number, and the runners that are told to end."""
        self._jobs += 1
        actions = self._tell(Assign(cls, ahead, [self._jobs], [1], [1], [b""], [0]))
        return self._jobs, [action.runner for action in actions if isinstance(action, TerminateRunner)]

    def run(self, *classes: int) -> list[int]:
        """Have jobs begin together, and end in their order; return their runners."""
        jobs = [self.assign(cls)[0] for cls in classes]
        for job in jobs:
            self.finish(job)
        return [self.begun[job].runner for job in jobs]

    def finish(self, job: int) -> None:
        """Have a job end."""
        lease, ok = self.begun[job], [int(Code.SUCCEEDED)]
        done = Completed(lease.lease, [job], [1], ok, [0.0], [1.0], [0.0], [0], [b""], [], 0.0)
        self._tell(RunnerCompleted(lease.runner, done))

    def gone(self, runner: int) -> None:
        """Have a process end."""
        self._tell(RunnerGone(runner, "", -1))

    def cancel(self, job: int) -> None:
        """Take a job back."""
        self._tell(Cancel([job], [1]))

    def tick(self, now: float) -> list[object]:
        """Return what is done at a moment."""
        self.now = now
        return self._tell(Ticked())


def test_jobs_on_a_device_one_after_another_have_one_process_and_others_leave_it_alone() -> None:
    node = Node()
    (first,) = node.run(ONE)
    (other,) = node.run(CPU)
    assert other != first
    assert node.run(ONE, CPU, ONE) == [first, other, 3]  # the third is on the other device
    assert node.run(ONE) == [first]
    assert not any(lease.fresh for lease in node.begun.values())


def test_one_that_may_hold_memory_is_taken_before_the_process_that_came_free_last() -> None:
    node = Node()
    held, _ = node.assign(CPU)
    (first,) = node.run(ONE)
    node.finish(held)
    assert node.run(ONE) == [first]


def test_a_process_without_devices_may_become_one_with_some() -> None:
    node = Node()
    (first,) = node.run(CPU)
    assert node.run(ONE) == [first]
    assert not node.begun[2].fresh
    assert node.run(CPU) == [2]


def test_the_only_process_with_memory_of_a_part_of_its_devices_is_replaced_where_it_is() -> None:
    node = Node()
    (first,) = node.run(ONE)
    job, told = node.assign(TWO)
    assert told == []
    assert (node.begun[job].runner, node.begun[job].fresh) == (first, True)
    node.finish(job)
    job, _ = node.assign(TWO)
    assert (node.begun[job].runner, node.begun[job].fresh) == (first, False)


def test_one_with_memory_of_other_devices_too_is_gone_before_any_job_begins_on_one_of_them() -> None:
    node = Node()
    (first,) = node.run(TWO)
    job, told = node.assign(ONE)
    other, no_more = node.assign(ONE)
    assert (told, no_more) == ([first], [])
    assert not {job, other}.intersection(node.begun)
    node.gone(first)
    assert {node.begun[one].runner for one in (job, other)} == {2, 3}


def test_a_job_waits_until_all_others_with_memory_of_its_devices_are_gone() -> None:
    node = Node()
    first, second = node.run(ONE, ONE)
    job, told = node.assign(TWO)
    assert (told, job in node.begun) == ([first], False)
    node.gone(first)
    assert (node.begun[job].runner, node.begun[job].fresh) == (second, True)


@pytest.mark.parametrize("ahead", [False, True])
def test_jobs_pass_one_that_waits_for_memory_and_get_none_of_its_slots(ahead: bool) -> None:
    node = Node()
    first, _ = node.run(ONE, ONE)
    waits, _ = node.assign(BOTH_AND_CORE)
    other, _ = node.assign(CPU, ahead=ahead)
    last, _ = node.assign(CPU, ahead=ahead)
    assert other in node.begun
    assert not {waits, last}.intersection(node.begun), "the second core is kept"
    node.gone(first)
    assert waits in node.begun
    node.finish(other)
    assert last in node.begun


def test_one_that_is_sent_ahead_waits_and_others_pass_it() -> None:
    node = Node()
    first, _ = node.run(ONE, ONE)
    job, told = node.assign(TWO, ahead=True)
    assert (told, job in node.begun) == ([first], False)
    other, _ = node.assign(CPU, ahead=True)
    assert other in node.begun
    node.gone(first)
    assert job in node.begun


def test_a_job_that_is_taken_back_meanwhile_keeps_nobody_waiting() -> None:
    node = Node()
    first, second = node.run(ONE, ONE)
    job, _ = node.assign(TWO)
    later, told = node.assign(ONE)
    assert told == []
    node.cancel(job)
    # The first device's memory is not free yet, and it is the device that is given.
    assert later not in node.begun
    node.gone(first)
    assert node.begun[later].runner not in (first, second)
    assert node.run(ONE) == [second]


def test_shares_are_counted_as_far_as_they_exceed_the_device() -> None:
    node = Node(Allocation(ids={"cores": [0, 1], "gpus": [0]}))
    first, second = node.run(HALF, HALF)
    assert node.run(HALF) == [second], "the other holds the other half"
    job, told = node.assign(MOST)
    assert (told, job in node.begun) == ([first], False)
    node.gone(first)
    assert (node.begun[job].runner, node.begun[job].fresh) == (second, True)


def test_shares_wait_for_the_end_of_a_process_that_had_the_whole_device() -> None:
    node = Node(Allocation(ids={"cores": [0, 1], "gpus": [0]}))
    (first,) = node.run(ONE)
    job, told = node.assign(HALF)
    other, no_more = node.assign(HALF)
    assert (told, no_more) == ([first], [])
    assert not {job, other}.intersection(node.begun)
    node.gone(first)
    assert {node.begun[one].runner for one in (job, other)} == {2, 3}


def test_one_that_does_not_end_is_killed_and_not_when_it_has_ended() -> None:
    node = Node()
    first, _ = node.run(ONE, ONE)
    node.assign(TWO)
    assert node.tick(GRACE_S - 1.0) == [WakeAt(GRACE_S)]
    assert node.tick(GRACE_S) == [KillRunner(first)]
    node.gone(first)

    node = Node()
    first, _ = node.run(ONE, ONE)
    node.assign(TWO)
    node.gone(first)
    assert not any(isinstance(action, (KillRunner, WakeAt)) for action in node.tick(GRACE_S))


def test_processes_do_not_become_more_than_devices_can_be_given() -> None:
    node = Node()
    ended = 0
    for turn in range(20):
        jobs = []
        for cls in ((ONE, ONE), (HALF, HALF, HALF, HALF), (ONE, CPU), (CPU, CPU))[turn % 4]:
            job, told = node.assign(cls)
            jobs.append(job)
            for runner in told:
                node.gone(runner)
            ended += len(told)
        for job in jobs:
            node.finish(job)
        spawned = max(lease.runner for lease in node.begun.values())
        assert spawned - ended <= 4 + 2
    assert ended
