"""A node that has heard of very many requests: a step costs what waits there, not what it has heard of."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from grainlike.resources import Cores, Memory, offer_of
from grainlike.scheduler import NodeScheduler, StartLease
from grainlike.wire import Assign, ClassSpec, Define, FunctionSpec


def lines_of(do: Callable[[], object]) -> int:
    """How many lines of the schedulers something takes."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        nonlocal count
        if "grainlike/scheduler" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(before)
    return count


def lines_of_a_start(heard_of: int) -> int:
    scheduler = NodeScheduler(offer_of(Cores(2) & Memory("8Gi"), own_cores=range(2)))
    scheduler.handle(Define([FunctionSpec(1, b"", "f", is_async=True, timeout=None)], []), 0.0)
    for cls in range(1, heard_of + 1):
        scheduler.handle(Define([], [ClassSpec(cls, str(Cores(1) & Memory((1 << 20) + cls)), isolate=False)]), 0.0)
    told = []
    lines = lines_of(
        lambda: told.extend(scheduler.handle(Assign(1, True, [1, 2, 3], [1, 1, 1], [1, 1, 1], [], []), 0.0))
    )
    scheduler.check()
    assert sum(isinstance(action, StartLease) for action in told) == 2
    return lines


def test_a_start_costs_as_much_however_many_requests_it_has_heard_of() -> None:
    assert lines_of_a_start(1_000) <= lines_of_a_start(10)
