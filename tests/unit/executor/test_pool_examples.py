"""The examples in the pool's docstrings: the short ones as they stand, the others inside a program."""

import doctest
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from limits import LIMIT_S

import grainlike
from grainlike import ResourcePool
from grainlike.pool import _pool, _timeline
from grainlike.pool._timeline import Timeline


@pytest.mark.parametrize("module", [_pool, _timeline])
def test_short_examples_say_what_happens(module: Any) -> None:
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)


class Jobs:
    """What the programs of the examples have around them."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    async def work(self, what: Any = None, device: Any = None) -> None:
        self.done.append((what, device))

    def launch(self) -> None:
        self.done.append("launched")

    async def list_jobs(self) -> list[str]:
        return ["one", "two"]


def snippet(what: Callable[..., Any]) -> str:
    """The indented block after `Example::`."""
    text = inspect.getdoc(what) or ""
    return textwrap.dedent(text.partition("Example::\n")[2])


LONG = [
    ResourcePool.acquire,
    ResourcePool.hold,
    ResourcePool.reserve,
    ResourcePool.relinquish,
    ResourcePool.register,
    ResourcePool.flush,
    Timeline.record,
]


@pytest.mark.parametrize("method", LONG, ids=lambda method: method.__name__)
@pytest.mark.anyio
async def test_long_examples_run(method: Callable[..., Any]) -> None:
    jobs = Jobs()
    pool = ResourcePool({"cores": 4, "gpus": 1, "cpu": 2, "launches": 2})
    if method is ResourcePool.relinquish:
        await pool.reserve({"launches": 1})
    around = {**vars(grainlike), "Cores": grainlike.Cores, "GPUs": grainlike.GPUs, "pool": pool}
    around |= {"work": jobs.work, "train": jobs.work, "launch": jobs.launch, "cluster": jobs}
    code = snippet(method)
    assert code.strip()
    exec("async def example():\n" + textwrap.indent(code, "    "), around)
    with anyio.fail_after(LIMIT_S):
        await around["example"]()
        if method is ResourcePool.register:
            await pool.flush()
            assert pool.allocated["launches"] == 2
    if method in (ResourcePool.acquire, ResourcePool.hold, ResourcePool.reserve):
        assert len(jobs.done) == 1
        assert any(pool.timeline.peak_utilization().values())
