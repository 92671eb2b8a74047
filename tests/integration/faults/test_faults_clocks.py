"""The machine's clock is set while jobs run: nothing here goes by it."""

import asyncio
import time

import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import Cores, JobTimeoutError, Rate, Retry, WallTime, connect, delayed, gather, info, start
from grainlike.head.durable import HeadDaemon

pytestmark = pytest.mark.asyncio

HOUR_S = 3600
CHANGE_CLOCK = """
import time
told, set_by = time.time, open({path!r})
def now():
    set_by.seek(0)
    return told() + float(set_by.read() or 0)
time.time = now
"""
"""Let what a process takes for the time of day be set from outside."""


@delayed(retries=Retry(1, backoff=0.05))
def second():
    from grainlike import GVAR

    if GVAR.job.attempt == 1:
        raise OSError("not now")
    return GVAR.job.attempt


@delayed(timeout=0.3)
async def endless():
    await asyncio.sleep(1000)


@delayed
def stands(visit):
    visit("here")
    return True


@pytest.mark.parametrize("by", [-HOUR_S, HOUR_S], ids=["back", "forth"])
async def test_a_clock_that_is_set_ends_nothing_and_begins_nothing(by, start_worker, gates, tmp_path, monkeypatch):
    told, shift, path = time.time, 0.0, tmp_path / "shift"
    path.touch()
    monkeypatch.setattr(time, "time", lambda: told() + shift)
    head_here = HeadDaemon("tcp://127.0.0.1:0", journal=tmp_path / "journal")
    async with asyncio.timeout(LIMIT_S), gates() as gate, head_here as head:
        first = CHANGE_CLOCK.format(path=str(path))
        worker = start_worker(head.address, resources="cores=3", first=first, more=("--log-level", "error"))
        async with connect() as client:
            await client.wait_for_workers(1)
            runs = start((stands @ (Cores(1) & WallTime(HOUR_S // 2)))(gate.visit))
            ends = start((endless @ Cores(1))())
            await gate.arrival()
            shift = float(by)
            path.write_text(str(by))
            assert await (second @ Cores(1))() == 2
            paced = delayed(abs) @ (Cores(1) & Rate("paced", 100))
            assert await gather(paced(-number) for number in range(5)) == [*range(5)]
            with pytest.raises(JobTimeoutError):
                await ends
            await until(lambda: info(runs).state == "running")
            gate.release_all()
            assert await runs
            assert info(runs).attempt == 1
            assert info(runs).usage.wall_s < HOUR_S // 2
            assert client.workers()[0].silent_s < HOUR_S // 2
    code, said = await worker.exit()
    assert (code, said) == (0, "")
