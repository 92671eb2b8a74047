"""Grace of jobs when their worker stops: as it is told, else the common one."""

import pytest

from grainlike.resources import Allocation, Cores
from grainlike.scheduler import GRACE_S, KillRunner, NodeScheduler, NodeStopped, TerminateRunner, Ticked
from grainlike.wire import Assign, ClassSpec, Define, FunctionSpec


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
