"""Question of tests after a fault: whether all slots of an executor with two cores are free again."""

from __future__ import annotations

from fault_calls import one

from grainlike import Cores, Executor, gather

__all__ = ["slots_are_free"]


async def slots_are_free(executor: Executor) -> None:
    """Two jobs of one core each have to get through: nothing holds on to either."""
    assert await gather((one @ Cores(2))(), (one @ Cores(1))(), (one @ Cores(1))()) == [1, 1, 1]
