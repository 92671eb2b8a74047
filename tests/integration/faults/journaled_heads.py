"""Heads with a journal in the process of a test, one after another, and what one has of the one before."""

import asyncio
import contextlib
from collections import Counter

import numpy as np
import pytest
from limits import LIMIT_S
from marking_calls import fails, grows, parent, plain, second, waits
from waiting import until_files

from grainlike import Cores
from grainlike.head.durable import HeadDaemon
from grainlike.head.durable._clients import DurableClients
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._snapshot import began_here
from grainlike.head.durable._store import HeadStore

TLS = "tcp://127.0.0.1:0"
EAGER = (64 * 1024, 1, 0.05)
"""An image at every turn."""
NEVER = (64 * 1024 * 1024, 4, 3600.0)
"""None, however long a test takes."""


KINDS = (plain, waits, parent, second)


async def one_of_each(path, number):
    """A call of some kind, and what it must come to."""
    if number % 6 == 4:
        with pytest.raises(KeyError):
            await (fails @ Cores(1))(path, number)
    elif number % 6 == 5:
        assert (await (grows @ Cores(1))(path, number, np.zeros(30_000)))[-1] == number
    else:
        assert await (KINDS[number % 6] @ Cores(1))(path, number) == number


async def ended(jobs, count):
    """Return when so many of the jobs have ended: the others are then in the middle of something."""
    async with asyncio.timeout(LIMIT_S):
        while sum(job.done() for job in jobs) < count:
            await asyncio.wait([job for job in jobs if not job.done()], return_when=asyncio.FIRST_COMPLETED)


def check(path, numbers):
    """Every job of `numbers` has begun once and ended once, and so have the jobs of jobs."""
    parts = [
        number + part
        for number in numbers
        if KINDS[number % 6 % 4] is parent and number % 6 < 4
        for part in (0.25, 0.5, 0.75)
    ]
    marks = Counter(path.read_text().splitlines())
    assert marks == Counter(f"{number} {what}" for number in [*numbers, *parts] for what in ("begin", "end"))


@contextlib.asynccontextmanager
async def a_head(journal, *, record=False):
    """A head that leaves its work as it is when it is closed."""
    async with HeadDaemon(TLS, journal=journal, record=record) as daemon:
        daemon.leaves = True
        yield daemon


async def drawn(journal, images):
    """Check that images are drawn, by processes that take their time, or none is."""
    if images is EAGER:
        await until_files(journal, lambda: list(journal.glob("*.image")))
    else:
        assert not list(journal.glob("*.image"))


class Nobody:
    """Hears of no outcomes: a head daemon has no graph."""

    def succeeded(self, node, value):
        raise AssertionError(f"{node} is nobody's here")

    def failed(self, node, error):
        raise AssertionError(f"{node} is nobody's here")


def made_again(journal, tmp_path, seed):
    """Return the head that would come next, if this one were killed now."""
    copy = tmp_path / f"copy{seed}"
    copy.mkdir(mode=0o700)
    for file in [*journal.glob("*.log"), *journal.glob("*.image")]:  # another process renames what it has written
        (copy / file.name).write_bytes(file.read_bytes())
        (copy / file.name).chmod(0o600)
    keeping = HeadStore(copy, began_here(seed))
    head = DurableHead(Nobody(), keeping.began, keeping.clock, lambda at: None)
    clients = DurableClients(head, "c1", bool, bool, bool)
    keeping.restore(head, clients)
    keeping.close()
    return head, clients


def told(head, clients):
    """Frames that both sides have sent, and those to be sent again: by number, from the first that is kept."""
    parties = [*head.peers.values(), *clients.here.values()]
    said = {}
    for party in parties:
        transcript = party.session._transcript
        first = transcript.sent_in_all - len(transcript)
        frames = {first + at: b"".join(map(bytes, pieces)) for at, (pieces, _) in enumerate(transcript._kept)}
        said[party.number] = (transcript.received, transcript.sent_in_all, frames)
    return said, sorted(head.state.scheduler.jobs), head.state.last_job, head.state.scheduler.wakes_at


def same(now, again):
    """Acknowledgements alone are not written down, so the one that was made again may keep more."""
    (said, *state), (said_again, *records_again) = now, again
    assert state == records_again
    assert said.keys() == said_again.keys()
    for number, (received, sent, frames) in said.items():
        assert (received, sent) == said_again[number][:2]
        assert frames.items() <= said_again[number][2].items()


class Heads:
    """Heads with one journal, one after another, in a task of its own: the program beside it has another executor."""

    def __init__(self, journal, *, record=False):
        self._journal, self._record = journal, record
        self._opened = asyncio.Queue()
        self._close = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def next(self):
        """Close the present head, if any, leaving its work; return the address of the next one."""
        self._close.set()
        return await self._opened.get()

    async def end(self):
        self._last = True
        self._close.set()
        await self._task

    async def _run(self):
        self._last = False
        await self._close.wait()
        while not self._last:
            self._close.clear()
            async with a_head(self._journal, record=self._record) as daemon:
                self._opened.put_nowait(daemon.address)
                await self._close.wait()
                daemon.leaves = not self._last
