"""What a worker tells its head of jobs that begin and end, and when."""

from __future__ import annotations

import anyio
import pytest

from grainlike import Cores, Executor, delayed
from grainlike.executor._head import Head
from grainlike.wire import Report
from grainlike_worker import _daemon


@delayed
async def same(x: int) -> int:
    return x


@delayed
async def asks(x: int) -> int:
    value: int = await (same @ Cores(1))(x)
    return value


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[Report]:
    """What the head is told, where beginnings are never told for their own sake."""
    monkeypatch.setattr(_daemon, "LATE_S", 3600.0)
    told: list[Report] = []
    hear = Head.hear

    def hearing(self, peer, frames):
        told.extend(message for message, _ in frames if isinstance(message, Report))
        hear(self, peer, frames)

    monkeypatch.setattr(Head, "hear", hearing)
    return told


@pytest.mark.asyncio
async def test_that_a_quick_job_has_begun_is_told_with_its_end(reports: list[Report]) -> None:
    async with Executor(local=Cores(1)):
        await (same @ Cores(1))(0)
        reports.clear()
        assert await (same @ Cores(1))(1) == 1
        assert [(len(told.started), len(told.completed), len(told.ended)) for told in reports] == [(1, 1, 1)]


@pytest.mark.asyncio
async def test_what_a_job_asks_for_is_heard_after_its_beginning(reports: list[Report]) -> None:
    with anyio.fail_after(30):
        async with Executor(local=Cores(2)):
            assert await (asks @ Cores(1))(2) == 2
    assert reports
