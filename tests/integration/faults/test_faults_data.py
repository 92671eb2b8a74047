"""Large values go from worker to worker by their data servers, and through the head where they cannot."""

from __future__ import annotations

import os

import pytest
from far import books, far_workers, head_of, replicas
from waiting import until

from grainlike import GVAR, Cores, delayed, gather, info, start, wait

pytestmark = pytest.mark.asyncio

LARGE = 20_000_000


@delayed
def make(size: int) -> bytearray:
    return bytearray(os.urandom(1000) * (size // 1000))


@delayed
def checked(value: bytearray) -> int:
    return hash(bytes(value)) if isinstance(value, bytearray) else int(value.sum())


async def on_all(executor, value_, gate, visit, slots):
    """Have a value used on all slots at once."""

    @delayed
    def use(value):
        visit(GVAR.instance)
        return GVAR.instance, len(value)

    jobs = [start((use @ Cores(1))(value_)) for _ in range(slots)]
    for _ in range(slots):
        await gate.arrival()
    gate.release_all()
    return await gather(jobs)


async def test_a_value_goes_from_worker_to_worker_and_not_through_the_head(start_worker, gates):
    async with gates() as gate, far_workers(start_worker, "n1", "n2") as (executor, _):
        a_ = (make @ Cores(1))(LARGE)
        await wait(a_)
        used = await on_all(executor, a_, gate, gate.visit, 4)
        assert {name for name, _ in used} == {"n1", "n2"}
        assert {size for _, size in used} == {LARGE}
        report = executor.report()
        assert (report.moved, report.relayed, report.fetched) == (info(a_).size, 0, 0)
        assert info(a_).where == ("n1", "n2")
        assert all(worker.data.startswith("tcp://127.0.0.1:") for worker in executor.workers())
        first, second = (peer.hello.replicas for peer in head_of(executor).peers.values())
        (name,) = set(replicas(executor))
        with open(f"{first}/{name}", "rb") as one, open(f"{second}/{name}", "rb") as other:  # noqa: ASYNC230, PTH123
            assert one.read() == other.read()
        del a_
        await until(lambda: not books(executor) and not replicas(executor))
