"""Which runner a node's scheduler gives a job to."""

import pytest

from grainlike.resources import Allocation, Cores, GPUs, Request
from grainlike.scheduler import NodeScheduler, SpawnRunner
from grainlike.wire import Assign, ClassSpec, Define, FunctionSpec

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
