"""Who is blamed when a runner that many share has died."""

import pytest

from grainlike.resources import Allocation
from grainlike.scheduler import NodeScheduler, RunnerGone, StartLease, TellCompleted
from grainlike.wire import Assign, ClassSpec, Code, Define, FunctionSpec

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
    told = [action.completed for action in ended if isinstance(action, TellCompleted)]
    assert {job: code for message in told for job, code in zip(message.jobs, message.codes, strict=True)} == codes
    assert scheduler.idle
