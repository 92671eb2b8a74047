"""Picture of the dashboard that the site shows: a real cluster of six small nodes, in a real Chromium."""

import anyio
import pytest
from kept_pictures import check_kept, with_words
from limits import LIMIT_S
from pages_here import browsing

from grainlike import Cores, GPUs, cancel, delayed, gather, start
from grainlike.client import call
from grainlike.dashboard import Dashboard
from grainlike.testing import Cluster

pytestmark = pytest.mark.anyio

_PARTS = ("nav", ".top", "main")
"""All but what is said of the head, which has the name of its machine."""
_SIZE = {"width": 1200, "height": 640}


@delayed
async def load(part):
    if part % 8 == 7:
        raise ValueError(f"part {part} has no header")


@delayed
async def simulate(seed):
    await anyio.sleep_forever()


@delayed
async def fit(seed):
    await anyio.sleep_forever()


@delayed
async def render(frame):
    await anyio.sleep_forever()


def begun():
    """Placeholder of jobs that go on as long as it does, some on all nodes, and of more that wait."""
    calls = [(render @ (Cores(4) & GPUs(1)))(frame) for frame in range(6)]
    for number in range(24):
        calls += [(simulate @ Cores(1))(number), (simulate @ Cores(2))(number), (fit @ Cores(4))(number)]
    return start(gather(calls))


async def test_the_picture_of_the_dashboard(chromium):
    nodes = [Cores(8) & GPUs(2)] * 2 + [Cores(16)] * 4
    with anyio.fail_after(LIMIT_S):
        async with Cluster(nodes=nodes) as cluster, anyio.create_task_group() as tasks:
            dashboard = Dashboard(lambda: call(cluster.client_json))
            await tasks.start(dashboard.serve)
            await gather([(load @ Cores(1))(part) for part in range(48)], return_exceptions=True)
            runs_ = begun()
            async with browsing(chromium, color_scheme="light") as browser:
                page = await browser.open(dashboard.link())
                await page.set_viewport_size(_SIZE)
                for text in ("n6", "render", "simulate", "fit", "of 80"):
                    await page.wait_for_selector(f"text={text}")
                seen = [await page.inner_text(part) for part in _PARTS]
                check_kept("dashboard.png", with_words(await page.screenshot(), "\n".join(seen)))
            cancel(runs_)
            tasks.cancel_scope.cancel()
