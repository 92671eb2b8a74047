"""From when the time of a job is reckoned that may run for so long only: not before its process can begin it."""

import pytest

from grainlike.resources import Cores, offer_of
from grainlike.scheduler import (
    CoresTaken,
    KillRunner,
    NodeAction,
    NodeMind,
    RunnerCompleted,
    RunnerReady,
    RunnerRenewed,
    StartLease,
    StopJobs,
    TerminateRunner,
    Ticked,
    WakeAt,
)
from grainlike.scheduler._node_runners import BIRTH_S
from grainlike.wire import Assign, ClassSpec, Code, Completed, Define, FunctionSpec

LIMIT_S = 0.1
LIMITED, FREE = 1, 2


@pytest.fixture(params=["plain", "coroutine"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return request.param == "coroutine"


@pytest.fixture
def mind(is_async: bool) -> NodeMind:
    mind = NodeMind(offer_of(Cores(2), own_cores=range(2)))
    functions = [
        FunctionSpec(LIMITED, b"", "limited", is_async, LIMIT_S),
        FunctionSpec(FREE, b"", "free", is_async, None),
    ]
    mind.handle(Define(functions, [ClassSpec(1, "cores=1", False)]), 0.0)
    return mind


def assign(mind: NodeMind, job: int, fn: int, now: float) -> StartLease:
    actions = mind.handle(Assign(1, False, [job], [1], [fn], [b""], [0]), now)
    return next(action for action in actions if isinstance(action, StartLease))


def ends(actions: list[NodeAction]) -> bool:
    return any(isinstance(action, StopJobs | TerminateRunner | KillRunner) for action in actions)


def test_the_start_of_a_process_is_no_time_of_its_job(mind: NodeMind) -> None:
    start = assign(mind, 1, LIMITED, 0.0)
    assert start.limit == LIMIT_S
    assert not ends(mind.handle(Ticked(), 5.0))
    woken = mind.handle(RunnerReady(start.runner), 6.0)
    assert [action.at for action in woken if isinstance(action, WakeAt)] == [6.0 + LIMIT_S]
    assert not ends(mind.handle(Ticked(), 6.0 + LIMIT_S / 2))
    assert ends(mind.handle(Ticked(), 6.0 + LIMIT_S))


def test_a_process_that_never_says_that_it_is_ready_is_ended_all_the_same(mind: NodeMind) -> None:
    assign(mind, 1, LIMITED, 0.0)
    assert not ends(mind.handle(Ticked(), BIRTH_S))
    assert ends(mind.handle(Ticked(), BIRTH_S + LIMIT_S))


def test_a_process_that_has_run_something_needs_to_say_nothing(mind: NodeMind) -> None:
    start = assign(mind, 1, FREE, 0.0)
    assert start.limit is None
    told = Completed(start.lease, [1], [1], [Code.SUCCEEDED], [0.0], [9.0], [0.0], [0], [b""], [], 0.0)
    mind.handle(RunnerCompleted(start.runner, told), 10.0)
    assert assign(mind, 2, LIMITED, 20.0).runner == start.runner
    assert not ends(mind.handle(Ticked(), 20.0 + LIMIT_S / 2))
    assert ends(mind.handle(Ticked(), 20.0 + LIMIT_S))


def test_nor_is_the_start_of_a_successor(mind: NodeMind) -> None:
    first = assign(mind, 1, LIMITED, 0.0)
    mind.handle(RunnerReady(first.runner), 0.0)
    mind.handle(RunnerRenewed(first.runner), 0.05)
    assert not ends(mind.handle(Ticked(), 1.0))
    mind.handle(RunnerReady(first.runner), 2.0)
    assert not ends(mind.handle(Ticked(), 2.0 + LIMIT_S / 2))
    assert ends(mind.handle(Ticked(), 2.0 + LIMIT_S))


def test_a_word_of_a_process_that_is_gone_is_nothing(mind: NodeMind) -> None:
    assert mind.handle(RunnerReady(77), 1.0) == []


def test_leases_get_cores_that_others_on_the_machine_do_not_use() -> None:
    mind = NodeMind(offer_of(Cores(2), own_cores=range(2)))
    mind.handle(Define([FunctionSpec(FREE, b"", "free", True, None)], [ClassSpec(1, "cores=1", False)]), 0.0)
    assert mind.handle(CoresTaken(0b01), 0.0) == []
    assert [assign(mind, job, FREE, 0.0).allocation for job in (1, 2)] == ["cores=[1]", "cores=[0]"]
    assert mind.busy_cores == 0b11
