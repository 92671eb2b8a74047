"""Grace of jobs when their worker stops: as it is told, else the common one; and the reason that they see."""

import pytest

from grainlike.resources import Allocation, Cores
from grainlike.scheduler import (
    GRACE_S,
    KillRunner,
    NodeScheduler,
    NodeStopped,
    RunnerCompleted,
    StopJobs,
    TellCompleted,
    TerminateRunner,
    Ticked,
)
from grainlike.wire import Assign, Cancel, ClassSpec, Code, Completed, Define, FunctionSpec, StopReason


@pytest.mark.parametrize(("told", "grace_s"), [(None, GRACE_S), (30.0, 30.0), (0.5, 0.5)])
def test_a_job_is_killed_when_its_grace_is_over(told: float | None, grace_s: float) -> None:
    scheduler = NodeScheduler(Allocation(ids={"cores": [0]}))
    function = FunctionSpec(fn=1, digest=b"", name="f", is_async=False, timeout=None)
    scheduler.handle(Define([function], [ClassSpec(1, str(Cores(1)), False)]), 0.0)
    scheduler.handle(Assign(1, False, [1], [1], [1], [b""], [0]), 0.0)
    actions = scheduler.handle(NodeStopped(told), 100.0)
    assert any(isinstance(action, TerminateRunner) for action in actions)
    before = scheduler.handle(Ticked(), 100.0 + grace_s - 0.01)
    assert not any(isinstance(action, KillRunner) for action in before)
    after = scheduler.handle(Ticked(), 100.0 + grace_s)
    assert any(isinstance(action, KillRunner) for action in after)


def _with_two_jobs() -> NodeScheduler:
    """Return the scheduler of a node that runs a plain function as job 1, and a coroutine as job 2."""
    scheduler = NodeScheduler(Allocation(ids={"cores": [0, 1]}))
    functions = [FunctionSpec(fn, b"", "f", is_async, None) for fn, is_async in ((1, False), (2, True))]
    scheduler.handle(Define(functions, [ClassSpec(1, str(Cores(1)), False)]), 0.0)
    scheduler.handle(Assign(1, False, [1, 2], [1, 1], [1, 2], [b"", b""], [0, 0]), 0.0)
    return scheduler


@pytest.mark.parametrize("reason", StopReason)
def test_jobs_are_stopped_for_the_reason_of_the_stop(reason: StopReason) -> None:
    actions = _with_two_jobs().handle(NodeStopped(30.0, reason), 100.0)
    said = [action for action in actions if isinstance(action, TerminateRunner | StopJobs)]
    assert [action.reason for action in said] == [reason, reason]
    assert {type(action) for action in said} == {TerminateRunner, StopJobs}


def test_what_fails_once_its_node_stops_was_stopped() -> None:
    """A program of its may have ended by the signal that ends the node, or its clean-up fails."""
    scheduler = _with_two_jobs()
    scheduler.handle(NodeStopped(30.0), 100.0)
    done = Completed(2, [2], [1], [Code.FAILED], [0.0], [1.0], [0.0], [1], [b"error"], [], 101.0)
    (told,) = [each for each in scheduler.handle(RunnerCompleted(2, done), 101.0) if isinstance(each, TellCompleted)]
    assert told.completed.codes == [Code.STOPPED]


def test_what_fails_though_somebody_cancelled_it_has_failed() -> None:
    scheduler = _with_two_jobs()
    scheduler.handle(Cancel([2], [1]), 100.0)
    done = Completed(2, [2], [1], [Code.FAILED], [0.0], [1.0], [0.0], [1], [b"error"], [], 101.0)
    (told,) = [each for each in scheduler.handle(RunnerCompleted(2, done), 101.0) if isinstance(each, TellCompleted)]
    assert told.completed.codes == [Code.FAILED]


def test_a_job_that_was_cancelled_has_no_reason_of_its_node() -> None:
    actions = _with_two_jobs().handle(Cancel([1, 2], [1, 1]), 100.0)
    said = [action for action in actions if isinstance(action, TerminateRunner | StopJobs)]
    assert [action.reason for action in said] == [StopReason.UNSAID, StopReason.UNSAID]
