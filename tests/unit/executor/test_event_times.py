"""Events of reports that took different times on their way."""

import time

import pytest

from grainlike.graph import delayed, node_of
from grainlike.jobs._events import Events, WorkersFeed
from grainlike.jobs._job import Job
from grainlike.resources import Cores, as_allocation
from grainlike.wire import Completed, LeaseStart, Report


class Listened:
    """What events are asked of: it knows one job."""

    def __init__(self) -> None:
        self.job = Job(7, 1, node_of((delayed(print) @ Cores(1))()), (b"", ()))

    def assembles(self, number: int) -> bool:
        return False

    def live_job(self, number: int, attempt: int) -> Job | None:
        return self.job if (number, attempt) == (7, 1) else None


class Peer:
    name = "n1"
    number = 1


@pytest.mark.asyncio
async def test_an_end_is_never_before_its_beginning() -> None:
    now = time.monotonic()
    listened = Listened()
    feed = WorkersFeed(listened)  # type: ignore[arg-type]
    events = Events(feed, lambda fed: None)
    start = LeaseStart(1, 1, "cores=[0]", [7], [1], 100.0)
    ended = Completed(1, [7], [1], [0], [100.5], [0.25], [0.2], [1], [b""], [1], 101.0)
    feed.reported(Peer, Report(100.0, [start], [], []))  # told at 100.0 there, heard now
    feed.reported(Peer, Report(now + 50.0, [], [ended], []))  # as if it had come before it was sent
    first, last = await anext(events), await anext(events)
    assert (first.kind, last.kind, last.outcome) == ("job_started", "job_ended", "succeeded")
    assert now - 1e-6 <= first.at <= time.monotonic() + 1e-6  # but for rounding
    assert last.at == first.at
    assert first.allocation == last.allocation == as_allocation(Cores([0]))
