"""Who is blamed when a runner that many share has died."""

import pytest

from grainlike.resources import Allocation
from grainlike.scheduler import NodeAction, NodeScheduler, RunnerCompleted, RunnerGone, StartLease, TellCompleted
from grainlike.wire import Assign, Cancel, ClassSpec, Code, Completed, Define, FunctionSpec

JOBS = [1, 2, 3]


@pytest.mark.parametrize(
    ("stepping", "codes"),
    [
        (2, {1: Code.STOPPED, 2: Code.CRASHED, 3: Code.STOPPED}),
        (0, dict.fromkeys(JOBS, Code.CRASHED)),
    ],
    ids=["the one that was stepped", "all where nobody knows"],
)
def test_in_a_shared_runner_that_died_the_suspect_is(stepping: int, codes: dict[int, Code]) -> None:
    scheduler = NodeScheduler(Allocation(ids={"cores": [0, 1, 2]}))
    function = FunctionSpec(fn=1, digest=b"", name="f", is_async=True, timeout=None)
    scheduler.handle(Define([function], [ClassSpec(1, "cores=1", False)]), 0.0)
    actions = scheduler.handle(Assign(1, False, JOBS, [1] * 3, [1] * 3, [b""] * 3, [0] * 3), 0.0)
    runners = {action.runner for action in actions if isinstance(action, StartLease)}
    ended = scheduler.handle(RunnerGone(runners.pop(), "killed by SIGKILL", -1, stepping), 1.0)
    assert codes_of(ended) == codes
    assert scheduler.idle


def codes_of(actions: list[NodeAction]) -> dict[int, Code]:
    told = [action.completed for action in actions if isinstance(action, TellCompleted)]
    return {job: Code(code) for message in told for job, code in zip(message.jobs, message.codes, strict=True)}


def busy_node(*, is_async: bool) -> tuple[NodeScheduler, dict[int, StartLease]]:
    """Return a node on which jobs 1 to 3, 4 to 6 and 7 to 9 have a lease each, by the first of them."""
    scheduler = NodeScheduler(Allocation(ids={"cores": [0, 1, 2]}))
    function = FunctionSpec(fn=1, digest=b"", name="f", is_async=is_async, timeout=None)
    scheduler.handle(Define([function], [ClassSpec(1, "cores=1", False)]), 0.0)
    for practice in range(100, 120):
        [start] = leases(assigned(scheduler, [practice]))
        columns = start.lease, start.jobs, start.attempts, [int(Code.SUCCEEDED)]
        done = Completed(*columns, [0.0], [0.0006], [0.0], [0], [b""], [], 0.0)
        scheduler.handle(RunnerCompleted(start.runner, done), 0.0)
    blocker = assigned(scheduler, [200, 201, 202])
    assigned(scheduler, list(range(1, 10)), ahead=True)
    starts: list[StartLease] = []
    for lease in leases(blocker):
        columns = lease.lease, lease.jobs, lease.attempts, [int(Code.SUCCEEDED)]
        done = Completed(*columns, [0.0], [0.0006], [0.0], [0], [b""], [], 0.0)
        starts += leases(scheduler.handle(RunnerCompleted(lease.runner, done), 0.0))
    assert [start.jobs for start in starts] == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    return scheduler, {start.jobs[0]: start for start in starts}


def assigned(scheduler: NodeScheduler, jobs: list[int], *, ahead: bool = False) -> list[NodeAction]:
    count = len(jobs)
    return scheduler.handle(Assign(1, ahead, jobs, [1] * count, [1] * count, [b""] * count, [0] * count), 0.0)


def leases(actions: list[NodeAction]) -> list[StartLease]:
    return [action for action in actions if isinstance(action, StartLease)]


@pytest.mark.parametrize(
    ("stepping", "called", "codes"),
    [
        pytest.param(5, {1: 0, 4: 1}, {1: Code.STOPPED, 4: Code.STOPPED, 5: Code.CRASHED}, id="a step"),
        pytest.param(5, {1: 0, 4: 0}, {1: Code.STOPPED, 4: Code.STOPPED, 5: Code.UNBEGUN}, id="before its first step"),
        pytest.param(7, {1: 0}, {1: Code.STOPPED, 7: Code.UNBEGUN}, id="its function is loaded"),
        pytest.param(0, {1: 0, 4: 1}, dict.fromkeys((1, 4, 5), Code.CRASHED), id="between two steps"),
        pytest.param(0, {}, {1: Code.UNBEGUN}, id="before all"),
        pytest.param(1, {1: 2}, {1: Code.CRASHED, 2: Code.STOPPED, 3: Code.STOPPED}, id="not the last of its list"),
    ],
)
def test_of_leases_that_shared_a_runner_those_that_had_not_begun_go_on(
    stepping: int, called: dict[int, int], codes: dict[int, Code]
) -> None:
    scheduler, starts = busy_node(is_async=True)
    by_lease = {starts[first].lease: position for first, position in called.items()}
    actions = scheduler.handle(RunnerGone(starts[1].runner, "SIGKILL", -1, stepping, called=by_lease), 1.0)
    assert codes_of(actions) == codes
    again = [
        (job, attempt) for start in leases(actions) for job, attempt in zip(start.jobs, start.attempts, strict=True)
    ]
    assert sorted(again) == [(job, 1) for job in range(1, 10) if job not in codes], "as the same attempts"
    assert {start.runner for start in leases(actions)}.isdisjoint({starts[1].runner})


@pytest.mark.parametrize(
    ("claimed", "called", "codes"),
    [
        pytest.param(1, 1, {1: Code.CRASHED, 2: Code.CRASHED}, id="called"),
        pytest.param(1, 0, {1: Code.CRASHED, 2: Code.UNBEGUN}, id="claimed alone"),
        pytest.param(-1, -1, {1: Code.UNBEGUN}, id="nothing"),
    ],
)
def test_in_a_process_of_one_lease_the_suspect_may_not_have_begun(
    claimed: int, called: int, codes: dict[int, Code]
) -> None:
    scheduler, starts = busy_node(is_async=False)
    by_lease = {starts[1].lease: called} if called >= 0 else {}
    actions = scheduler.handle(RunnerGone(starts[1].runner, "SIGKILL", claimed, called=by_lease), 1.0)
    assert codes_of(actions) == codes
    assert [job for start in leases(actions) for job in start.jobs] == [job for job in (1, 2, 3) if job not in codes]


def test_a_job_that_has_not_begun_runs_elsewhere_and_one_that_was_cancelled_ends() -> None:
    scheduler, starts = busy_node(is_async=True)
    scheduler.handle(Cancel([6], [1]), 0.5)
    actions = scheduler.handle(RunnerGone(starts[1].runner, "SIGKILL", -1, 4, called={starts[4].lease: 0}), 1.0)
    assert codes_of(actions) == {4: Code.CRASHED, 6: Code.CANCELLED}
