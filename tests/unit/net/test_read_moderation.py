"""Small reads that come one upon the other are let gather, and no others."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from grainlike.eventloop._fairness import CROWD, TURN_S, fairness_of
from grainlike.net import ProtocolLink, _protocol
from grainlike.net._protocol import _ROW, _ROW_S, _SMALL
from grainlike.wire import Beat, Frame, Output, OutputStream, encode_frame

pytestmark = pytest.mark.anyio

TOO_OFTEN_S = _ROW_S / _ROW / 2


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Far:
    """A link, with a transport that reads when `read` says so, at a time that goes on when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reading = True
        self.writes = 0
        self.now = 1000.0
        self.heard: list[Frame] = []
        self.timers: list[Any] = []
        monkeypatch.setattr(_protocol, "time", self)
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda _, call: self.timers.append(call))
        self.link = ProtocolLink("far")
        self.link.connection_made(self)  # type: ignore[arg-type]
        self.link.trust()

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.now

    def set_write_buffer_limits(self, high: int) -> None:
        """Nothing waits here."""

    def write(self, data: bytes) -> None:
        self.writes += 1

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.reading = False

    def read(self, times: int, *, data: bytes = b"".join(encode_frame(Beat(1))), every: float = TOO_OFTEN_S) -> int:
        """Bring so many reads, or as many as the link takes; return how many."""
        for taken in range(times):
            if not self.reading:
                return taken
            self.now += every
            self.link.get_buffer(-1)[: len(data)] = data
            self.link.buffer_updated(len(data))
        return times

    def rest(self) -> None:
        """Let the moments pass for which the link lets reads gather."""
        timers, self.timers = self.timers, []
        for call in timers:
            call()


@pytest.fixture
async def far(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Far]:
    far = Far(monkeypatch)
    running = asyncio.create_task(far.link.run(far.heard.extend))
    await asyncio.sleep(0)
    yield far
    far.link.close()
    far.link.connection_lost(None)
    await running


async def test_small_reads_that_come_too_often_gather(far: Far) -> None:
    # The first row says when it began, the second how long it took.
    assert far.read(100) == 2 * _ROW
    assert len(far.heard) == 2 * _ROW
    for _ in range(20):
        assert not far.reading
        far.rest()
        assert far.read(100) == 1  # what has gathered comes at once


async def test_reads_that_come_seldom_are_taken_as_they_come(far: Far) -> None:
    assert far.read(100, every=3 * TOO_OFTEN_S) == 100


async def test_after_a_pause_reads_are_taken_as_they_come_again(far: Far) -> None:
    far.read(100)
    far.rest()
    far.now += 2 * _ROW_S
    assert far.read(_ROW) == _ROW


async def test_answers_are_taken_as_they_come_however_often(far: Far) -> None:
    taken = 0
    for _ in range(100):
        far.link.post(Beat(1))
        taken += far.read(2)
    assert taken == 200


async def test_what_gathered_is_read_before_something_is_written(far: Far) -> None:
    # A write to a peer that said its last and went would end the link without what it said.
    far.read(100)
    assert not far.reading
    far.link.post(Beat(1))
    asyncio.get_running_loop().call_soon(far.read, 1)  # as a loop does: sockets after the calls of a turn
    assert far.reading
    heard = len(far.heard)
    await asyncio.sleep(0)
    assert (far.writes, len(far.heard)) == (1, heard + 1)


async def test_a_message_is_written_where_nothing_gathered(far: Far) -> None:
    far.read(100)
    far.link.post(Beat(1))
    await asyncio.sleep(0)
    assert not far.writes
    await asyncio.sleep(0)
    assert far.writes == 1


async def test_large_reads_are_taken_as_they_come(far: Far) -> None:
    large = b"".join(encode_frame(Output(1, 1, [OutputStream.STDOUT], [b"x" * _SMALL])))
    assert far.read(100, data=large) == 100


async def test_a_link_that_ends_while_reads_gather_stays_ended(far: Far) -> None:
    far.read(100)
    far.link.close()
    far.rest()
    assert not far.reading


async def test_nothing_more_is_read_while_a_read_waits_for_its_turn(far: Far) -> None:
    # Else it would pass that read, if it is the rest of something large, or be the end of the link.
    fairness = fairness_of(asyncio.get_running_loop())
    fairness.enter(CROWD)
    far.read(2 * _ROW - 1)
    fairness.spend(TURN_S)
    assert far.read(1) == 1
    assert len(far.heard) == 2 * _ROW - 1
    far.rest()
    assert not far.reading
    for _ in range(8):
        await asyncio.sleep(0)
    assert far.reading
    assert len(far.heard) == 2 * _ROW
    fairness.enter(-CROWD)
