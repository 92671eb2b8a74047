"""From when the time of a job is reckoned that may run for so long only: not before its process can begin it."""

import pytest

from grainlike.resources import Cores, offer_of
from grainlike.scheduler import (
    CoresTaken,
    KillRunner,
    NodeAction,
    NodeScheduler,
    RunnerCompleted,
    RunnerReady,
    RunnerRenewed,
    StartLease,
    StopJobs,
    TerminateRunner,
    Ticked,
    WakeAt,
)
from grainlike.scheduler.node._runners import START_S
from grainlike.wire import Assign, ClassSpec, Code, Completed, Define, FunctionSpec

LIMIT_S = 0.1
LIMITED, FREE = 1, 2


@pytest.fixture(params=["plain", "coroutine"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return request.param == "coroutine"


@pytest.fixture
def scheduler(is_async: bool) -> NodeScheduler:
    scheduler = NodeScheduler(offer_of(Cores(2), own_cores=range(2)))
    functions = [
        FunctionSpec(LIMITED, b"", "limited", is_async, LIMIT_S),
        FunctionSpec(FREE, b"", "free", is_async, None),
    ]
    scheduler.handle(Define(functions, [ClassSpec(1, "cores=1", False)]), 0.0)
    return scheduler


def assign(scheduler: NodeScheduler, job: int, fn: int, now: float) -> StartLease:
    actions = scheduler.handle(Assign(1, False, [job], [1], [fn], [b""], [0]), now)
    return next(action for action in actions if isinstance(action, StartLease))


def ends(actions: list[NodeAction]) -> bool:
    return any(isinstance(action, StopJobs | TerminateRunner | KillRunner) for action in actions)


def test_the_start_of_a_process_is_no_time_of_its_job(scheduler: NodeScheduler) -> None:
    start = assign(scheduler, 1, LIMITED, 0.0)
    assert start.limit == LIMIT_S
    assert not ends(scheduler.handle(Ticked(), 5.0))
    woken = scheduler.handle(RunnerReady(start.runner), 6.0)
    assert [action.at for action in woken if isinstance(action, WakeAt)] == [6.0 + LIMIT_S]
    assert not ends(scheduler.handle(Ticked(), 6.0 + LIMIT_S / 2))
    assert ends(scheduler.handle(Ticked(), 6.0 + LIMIT_S))


def test_a_process_that_never_says_that_it_is_ready_is_ended_all_the_same(scheduler: NodeScheduler) -> None:
    assign(scheduler, 1, LIMITED, 0.0)
    assert not ends(scheduler.handle(Ticked(), START_S))
    assert ends(scheduler.handle(Ticked(), START_S + LIMIT_S))


def test_a_process_that_has_run_something_needs_to_say_nothing(scheduler: NodeScheduler) -> None:
    start = assign(scheduler, 1, FREE, 0.0)
    assert start.limit is None
    told = Completed(start.lease, [1], [1], [Code.SUCCEEDED], [0.0], [9.0], [0.0], [0], [b""], [], 0.0)
    scheduler.handle(RunnerCompleted(start.runner, told), 10.0)
    assert assign(scheduler, 2, LIMITED, 20.0).runner == start.runner
    assert not ends(scheduler.handle(Ticked(), 20.0 + LIMIT_S / 2))
    assert ends(scheduler.handle(Ticked(), 20.0 + LIMIT_S))


def test_nor_is_the_start_of_a_successor(scheduler: NodeScheduler) -> None:
    first = assign(scheduler, 1, LIMITED, 0.0)
    scheduler.handle(RunnerReady(first.runner), 0.0)
    scheduler.handle(RunnerRenewed(first.runner), 0.05)
    assert not ends(scheduler.handle(Ticked(), 1.0))
    scheduler.handle(RunnerReady(first.runner), 2.0)
    assert not ends(scheduler.handle(Ticked(), 2.0 + LIMIT_S / 2))
    assert ends(scheduler.handle(Ticked(), 2.0 + LIMIT_S))


def test_a_word_of_a_process_that_is_gone_is_nothing(scheduler: NodeScheduler) -> None:
    assert scheduler.handle(RunnerReady(77), 1.0) == []


def test_leases_get_cores_that_others_on_the_machine_do_not_use() -> None:
    scheduler = NodeScheduler(offer_of(Cores(2), own_cores=range(2)))
    scheduler.handle(Define([FunctionSpec(FREE, b"", "free", True, None)], [ClassSpec(1, "cores=1", False)]), 0.0)
    assert scheduler.handle(CoresTaken(0b01), 0.0) == []
    assert [assign(scheduler, job, FREE, 0.0).allocation for job in (1, 2)] == ["cores=[1]", "cores=[0]"]
    assert scheduler.busy_cores == 0b11
